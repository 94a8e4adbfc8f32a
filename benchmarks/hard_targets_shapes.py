"""Hard targets with one mode: heavy tails, bent and narrow ones, walls, plateaus."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from hard_targets_truth import (
    NUM_EXACT,
    ROW,
    Moments,
    Target,
    coordinate,
    ends,
    first,
    flat,
    of_points,
    on_line,
    robust,
    wide,
    with_density,
)
from scipy import stats

import gibbs_dp as gdp


def funnel(dim: int) -> Target:
    """Neal's funnel: the first number is the log variance of all others."""

    def log_density(theta: Any) -> Any:
        v, x = theta[0], theta[1:]
        return -(v**2) / 18 - 0.5 * jnp.sum(x**2) * jnp.exp(-v) - 0.5 * (dim - 1) * v

    truth = {"first": Moments(0.0, 3.0)}
    return Target(with_density(log_density, flat(dim)), ROW, first, truth)


def twisted(dim: int, bend: float) -> Target:
    """Bend a Gaussian of sd 10: the second number follows the first's square."""

    def log_density(theta: Any) -> Any:
        y = theta[1] + bend * (theta[0] ** 2 - 100.0)
        return -(theta[0] ** 2) / 200 - 0.5 * y**2 - 0.5 * jnp.sum(theta[2:] ** 2)

    def read(theta: Any) -> dict[str, Any]:
        return {"first": coordinate(0)(theta), "second": coordinate(1)(theta)}

    second = Moments(0.0, float(np.sqrt(1.0 + 2 * (bend * 100) ** 2)))
    truth = {"first": Moments(0.0, 10.0), "second": second}
    return Target(with_density(log_density, flat(dim)), ROW, read, truth)


def rosenbrock() -> Target:
    """Take a banana: N(1, 10) and, around its square, N(., 0.1)."""

    def log_density(theta: Any) -> Any:
        return -((theta[0] - 1) ** 2) / 20 - 5 * (theta[1] - theta[0] ** 2) ** 2

    truth = {"first": Moments(1.0, 10**0.5), "last": Moments(11.0, 240.1**0.5)}
    return Target(with_density(log_density, flat(2)), ROW, ends, truth)


def student(freedom: float, dim: int = 1) -> Target:
    """Student's t: round, in several dimensions."""

    def log_density(theta: Any) -> Any:
        return -0.5 * (freedom + dim) * jnp.log1p(jnp.sum(theta**2) / freedom)

    probability = (np.arange(NUM_EXACT) + 0.5) / NUM_EXACT
    points = stats.t(freedom).ppf(probability)[:, None]  # of every coordinate alone
    return Target(with_density(log_density, flat(dim)), ROW, robust, of_points(robust, points))


def two_sided(dim: int) -> Target:
    """Take Laplace's law: a kink at the mode of every coordinate."""
    posterior = gdp.GibbsPosterior(lambda theta, z: jnp.sum(jnp.abs(theta - z)), flat(dim))
    return Target(posterior, jnp.ones((1, 1)), first, {"first": Moments(1.0, 2**0.5)})


def ridge(condition: float, dim: int = 2, turned: bool = True) -> Target:
    """Take a Gaussian whose precisions reach from 1 to ``condition``, turned or along the axes."""
    precision = np.geomspace(1.0, condition, dim)
    normals = np.random.default_rng(dim).standard_normal((dim, dim))
    axes = np.linalg.qr(normals)[0] if turned else np.eye(dim)
    rows = jnp.asarray(np.sqrt(precision)[:, None] * axes)

    def log_density(theta: Any) -> Any:
        return -0.5 * jnp.sum((rows * (theta - 1.0)).sum(1) ** 2)

    # As float32 has the rows, not as they were meant.
    exact = np.asarray(rows, np.float64)
    sds = np.sqrt(np.diagonal(np.linalg.inv(exact.T @ exact)))
    truth = {"first": Moments(1.0, sds[0]), "last": Moments(1.0, sds[-1])}
    return Target(with_density(log_density, flat(dim)), ROW, ends, truth)


def along_axes(scales: tuple[float, ...]) -> Target:
    """Take a Gaussian with very different units."""
    units = np.asarray(scales, np.float32)

    def log_density(theta: Any) -> Any:
        return -0.5 * jnp.sum((theta / units - 1.0) ** 2)

    truth = {
        "first": Moments(float(units[0]), float(units[0])),
        "last": Moments(float(units[-1]), float(units[-1])),
    }
    return Target(with_density(log_density, flat(len(scales))), ROW, ends, truth)


def wall(dim: int, rate: float) -> Target:
    """Flat on a box, falling from its corner."""
    prior = gdp.Flat(gdp.supports.box(0.0, 1.0, dim))
    posterior = gdp.GibbsPosterior(lambda theta, z: z * jnp.sum(theta), prior)
    truth = on_line(lambda x: -rate * x, 0.0, 1.0, first)
    return Target(posterior, jnp.full(1, rate), first, truth)


def beyond(low: float, center: float, scale: float) -> Target:
    """Cut a Gaussian off by the positive half line, or by a box."""
    support = gdp.supports.positive(1) if low == 0 else gdp.supports.box(low, -low, 1)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2) / scale**2, gdp.Flat(support)
    )
    high = scale * 10 if low == 0 else -low
    truth = on_line(lambda x: -0.5 * (x - center) ** 2 / scale**2, low, high, first)
    return Target(posterior, jnp.full(1, center), first, truth)


def ball(dim: int, center: float, scale: float) -> Target:
    """Cut a Gaussian off by the unit ball, its centre outside of it on the first axis."""
    middle = center * np.eye(dim)[0]
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 0.5 * jnp.sum((theta - z) ** 2) / scale**2,
        gdp.Flat(gdp.supports.l2_ball(dim, 1.0)),
    )

    def log_density(x: Any) -> Any:  # of the first coordinate: the others' are integrated
        room = 1 - x**2
        inner = stats.chi2(dim - 1).logcdf(room / scale**2)
        return -0.5 * (x - center) ** 2 / scale**2 + inner

    return Target(
        posterior, jnp.asarray(middle)[None], first, on_line(log_density, -1, 1, first, 200_001)
    )


def plateau(dim: int) -> Target:
    """Take a loss that saturates: a Gaussian pit of 20 nats in a wide normal prior."""

    def loss(theta: Any, z: Any) -> Any:
        return -20.0 * jnp.exp(-0.5 * jnp.sum((theta - z) ** 2))

    truth = on_line(
        lambda x: 20 * np.exp(-0.5 * (x - 1) ** 2) - x**2 / 200, -80, 80, robust, 400_001
    )
    return Target(gdp.GibbsPosterior(loss, wide(dim)), jnp.ones(1), robust, truth)


def shallow() -> Target:
    """Take a loss that saturates at 3 nats on a box ten thousand times as wide as its pit."""
    prior = gdp.Flat(gdp.supports.box(-50.0, 50.0, 1))

    def loss(theta: Any, z: Any) -> Any:
        return -3.0 * jnp.exp(-0.5 * jnp.sum((theta - z) ** 2) / 0.01**2)

    def read(theta: Any) -> dict[str, Any]:
        x = coordinate(0)(theta)
        return {"first": x, "far": 1.0 * (np.abs(x) > 25)}

    truth = on_line(lambda x: 3 * np.exp(-0.5 * x**2 / 1e-4), -50, 50, read)
    return Target(gdp.GibbsPosterior(loss, prior), ROW, read, truth)


def zero_one(num: int) -> Target:
    """Count numbers on the wrong side of a threshold: steps without slopes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=num).astype(np.float32)
    label = (x + 0.5 * rng.normal(size=num) > 0.3).astype(np.float32)
    edges = np.concatenate([[-40.0], np.sort(x), [40.0]]).astype(np.float64)
    wrong = np.array([((x > (a + b) / 2) != label).sum() for a, b in itertools.pairwise(edges)])
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 1.0 * ((z[0] > theta[0]) != (z[1] > 0)), wide(1, 2.0)
    )
    logs = lambda t: -wrong[np.searchsorted(edges[1:-1], t)] - t**2 / 8  # noqa: E731
    truth = on_line(logs, -20, 20, first)
    return Target(posterior, jnp.stack([x, label], axis=1), first, truth)


def hinge(num: int) -> Target:
    """Take hinge losses of separated classes: flat beyond the margin, but for the prior."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=num).astype(np.float32)
    y = np.sign(x)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.maximum(0.0, 1.0 - z[1] * z[0] * theta[0]), wide(1, 100.0)
    )

    def logs(t: Any) -> Any:
        losses = sum(np.maximum(0.0, 1.0 - abs(float(v)) * t) for v in x)
        return -losses - t**2 / 2e4

    truth = on_line(logs, -100, 600, first, 700_001)
    return Target(posterior, jnp.stack([x, y], axis=1), first, truth)


def exponential_of_normal() -> Target:
    """Take a lognormal of sigma 2: a long tail, a steep rise."""

    def read(theta: Any) -> dict[str, Any]:
        return {"log": np.log(coordinate(0)(theta))}

    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.sum(jnp.log(theta) ** 2 / 8 + jnp.log(theta)) + 0.0 * z,
        gdp.Flat(gdp.supports.positive(1)),
    )
    return Target(posterior, ROW, read, {"log": Moments(0.0, 2.0)})


def quartic() -> Target:
    """Leave no curvature at the mode: ``exp(-theta^4)``."""
    posterior = gdp.GibbsPosterior(lambda theta, z: jnp.sum((theta - z) ** 4), flat(1))
    return Target(posterior, ROW, first, on_line(lambda x: -(x**4), -5, 5, first))


def cigar() -> Target:
    """Take two heavy-tailed numbers whose difference is known to 1%."""

    def loss(theta: Any, z: Any) -> Any:
        return 2 * jnp.log1p(theta[0] ** 2) + 5e3 * (theta[1] - theta[0]) ** 2 + 0.0 * z

    def read(theta: Any) -> dict[str, Any]:
        gap = coordinate(1)(theta) - coordinate(0)(theta)
        return robust(theta) | {"gap": gap}

    truth = on_line(lambda x: -2 * np.log1p(x**2), -3000, 3000, robust, 6_000_001)
    return Target(gdp.GibbsPosterior(loss, flat(2)), ROW, read, truth | {"gap": Moments(0.0, 0.01)})


SHAPES = {
    "funnel, d = 2": partial(funnel, 2),
    "funnel, d = 10": partial(funnel, 10),
    "twisted, 0.03, d = 2": partial(twisted, 2, 0.03),
    "twisted, 0.1, d = 2": partial(twisted, 2, 0.1),
    "twisted, 0.1, d = 10": partial(twisted, 10, 0.1),
    "Rosenbrock, d = 2": rosenbrock,
    **{f"Student t, {k} degrees of freedom": partial(student, k) for k in (1, 2, 3, 5, 10)},
    "Student t, 2 degrees of freedom, d = 5": partial(student, 2, 5),
    "Laplace, d = 1": partial(two_sided, 1),
    "Laplace, d = 20": partial(two_sided, 20),
    "condition 1e4, d = 2": partial(ridge, 1e4),
    "condition 1e6, d = 2": partial(ridge, 1e6),
    "condition 1e8, d = 2": partial(ridge, 1e8),
    "condition 1e6, d = 10": partial(ridge, 1e6, 10),
    "condition 1e8, d = 10": partial(ridge, 1e8, 10),
    "condition 1e8 along the axes, d = 10": partial(ridge, 1e8, 10, False),
    "scales 1e-6 and 1e6": partial(along_axes, (1e-6, 1e6)),
    "wall, d = 1": partial(wall, 1, 50.0),
    "corner, d = 5": partial(wall, 5, 50.0),
    "corner, steep, d = 5": partial(wall, 5, 1e4),
    "centre 3 sd beyond a half line": partial(beyond, 0.0, -3.0, 1.0),
    "centre 10 sd beyond a box": partial(beyond, -1.0, 2.0, 0.1),
    "centre beyond a ball, d = 3": partial(ball, 3, 1.5, 0.1),
    "centre beyond a ball, d = 10": partial(ball, 10, 1.5, 0.1),
    "pit of 20 nats": partial(plateau, 1),
    "pit of 3 nats in a wide box": shallow,
    "0-1 loss, n = 20": partial(zero_one, 20),
    "0-1 loss, n = 200": partial(zero_one, 200),
    "hinge of separated classes": partial(hinge, 30),
    "lognormal, sigma 2": exponential_of_normal,
    "quartic": quartic,
    "heavy-tailed ridge": cigar,
}
