"""Hard targets with several modes, or with scales inside each other."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from hard_targets_truth import (
    NUM_EXACT,
    ROW,
    Moments,
    Target,
    coordinate,
    first,
    flat,
    of_points,
    on_plane,
    wide,
    with_density,
)

import gibbs_dp as gdp


def mixture(dim, centers, weights, scales=None, prior=flat, axis_only=False) -> Target:
    """Mix round Gaussians; centers on the first axis alone, or on the diagonal."""
    scales = np.ones(len(weights)) if scales is None else np.asarray(scales)
    direction = np.eye(dim)[0] if axis_only else np.ones(dim)
    middles = np.asarray(centers)[:, None] * direction
    logs = np.log(weights) - dim * np.log(scales)

    def log_density(theta: Any) -> Any:
        squares = jnp.sum((theta - jnp.asarray(middles)) ** 2, axis=-1)
        return jax.scipy.special.logsumexp(logs - 0.5 * squares / scales**2)

    rng = np.random.default_rng(0)
    which = rng.choice(len(weights), NUM_EXACT, p=weights)
    points = middles[which] + scales[which, None] * rng.standard_normal((NUM_EXACT, dim))
    cut = (centers[-1] + centers[-2]) / 2

    def read(theta: Any) -> dict[str, Any]:
        x = coordinate(0)(theta)
        return {"first": x, "last mode": 1.0 * (x > cut)}

    return Target(with_density(log_density, prior(dim)), ROW, read, of_points(read, points))


def spike(dim: int, beside: float = 0.0, width: float = 0.01, weight: float = 0.5) -> Target:
    """Put a narrow Gaussian in a broad one, at its centre or beside it."""
    log_norms = np.log([weight, 1 - weight]) - dim * np.log([width, 1.0])

    def log_density(theta: Any) -> Any:
        narrow, broad = jnp.sum((theta - beside) ** 2) / width**2, jnp.sum(theta**2)
        return jnp.logaddexp(log_norms[0] - 0.5 * narrow, log_norms[1] - 0.5 * broad)

    def read(theta: Any) -> dict[str, Any]:
        theta = np.asarray(theta, np.float64)
        inside = np.sqrt(np.mean((theta - beside) ** 2, axis=-1)) < 4 * width
        return {"first": theta[..., 0], "in the spike": 1.0 * inside}

    rng = np.random.default_rng(0)
    is_narrow = rng.random(NUM_EXACT // 4) < weight
    scale, center = np.where(is_narrow, width, 1.0), np.where(is_narrow, beside, 0.0)
    points = center[:, None] + scale[:, None] * rng.standard_normal((len(scale), dim))
    return Target(with_density(log_density, wide(dim, 3.0)), ROW, read, of_points(read, points))


def labels(k: int) -> Target:
    """Find the means of a mixture, which have ``k!`` orders; exact draws by Gibbs."""
    rng = np.random.default_rng(k)
    data = 4.0 * (rng.integers(k, size=60) - (k - 1) / 2) + rng.standard_normal(60)

    def loss(theta: Any, z: Any) -> Any:
        return -jax.scipy.special.logsumexp(-0.5 * (z - theta) ** 2)

    def read(theta: Any) -> dict[str, Any]:
        theta = np.asarray(theta, np.float64)
        return {"sum": theta.sum(-1), "largest": theta.max(-1), "squares": (theta**2).sum(-1)}

    theta, kept = np.quantile(data, (np.arange(k) + 0.5) / k), []
    for step in range(41_000):
        logs = -0.5 * (data[:, None] - theta) ** 2
        noise = rng.gumbel(size=logs.shape)
        member = np.argmax(logs + noise, axis=1)[:, None] == np.arange(k)
        precision = member.sum(0) + 1 / 25
        theta = (data @ member) / precision + rng.standard_normal(k) / np.sqrt(precision)
        if step >= 1000:
            kept.append(theta)
    posterior = gdp.GibbsPosterior(loss, wide(k, 5.0))
    return Target(posterior, jnp.asarray(data), read, of_points(read, np.array(kept)))


def product() -> Target:
    """Find two numbers of which the product alone is seen: two branches of a hyperbola."""

    def read(theta: Any) -> dict[str, Any]:
        x, y = coordinate(0)(theta), coordinate(1)(theta)
        return {"first": x, "positive": 1.0 * (x > 0), "product": x * y}

    posterior = gdp.GibbsPosterior(lambda t, z: 50 * (t[0] * t[1] - z) ** 2, wide(2, 1.0))
    logs = lambda t: -50 * (t[:, 0] * t[:, 1] - 1) ** 2 - 0.5 * (t**2).sum(1)  # noqa: E731
    return Target(posterior, jnp.ones(1), read, on_plane(logs, (-6, -6), (6, 6), read, 4000))


def ring() -> Target:
    """Take points at distance 5 from the origin: no mode has curvature along the ring."""

    def read(theta: Any) -> dict[str, Any]:
        return first(theta) | {"radius": np.linalg.norm(np.asarray(theta, np.float64), axis=-1)}

    def logs(theta: Any) -> Any:
        return -50.0 * (np.linalg.norm(theta, axis=-1) - 5) ** 2

    posterior = gdp.GibbsPosterior(lambda t, z: 50 * (jnp.linalg.norm(t) - z) ** 2, flat(2))
    data = jnp.full(1, 5.0)
    return Target(posterior, data, read, on_plane(logs, (-6.5, -6.5), (6.5, 6.5), read, 4000))


def ends_of_interval(concentration: float) -> Target:
    """Take a Beta law whose mass is at both ends of its interval."""
    law = dist.Beta(jnp.full(1, concentration), concentration).to_event(1)
    variance = 0.25 / (2 * concentration + 1)
    posterior = gdp.GibbsPosterior(lambda theta, z: 0.0 * z * theta[0], law)
    return Target(posterior, ROW, first, {"first": Moments(0.5, variance**0.5)})


EVEN = (0.5, 0.5)
ONE_SD = partial(wide, scale=10.0)
MODES = {
    "modes at -2, 2, d = 1": partial(mixture, 1, (-2, 2), EVEN),
    "modes at 0, 12, d = 1": partial(mixture, 1, (0, 12), EVEN),
    "modes at 0, 12, proper, d = 1": partial(mixture, 1, (0, 12), EVEN, prior=ONE_SD),
    "modes at 0, 12, 0.6, proper, d = 2": partial(mixture, 2, (0, 12), (0.6, 0.4), prior=ONE_SD),
    "modes at 0, 12, 0.6, d = 5": partial(mixture, 5, (0, 12), (0.6, 0.4)),
    "modes at 0, 12, 0.6, proper, d = 5": partial(mixture, 5, (0, 12), (0.6, 0.4), prior=ONE_SD),
    "modes at 0, 12, 0.99 near, d = 1": partial(mixture, 1, (0, 12), (0.99, 0.01)),
    "modes at 0, 12, 0.99 far, d = 1": partial(mixture, 1, (0, 12), (0.01, 0.99)),
    "modes at 0, 12, 0.99 far, d = 5": partial(mixture, 5, (0, 12), (0.01, 0.99)),
    "modes at 15, 25, d = 1": partial(mixture, 1, (15, 25), EVEN),
    "modes at 15, 25, proper, d = 1": partial(mixture, 1, (15, 25), EVEN, prior=ONE_SD),
    "modes at 15, 25, proper, d = 2": partial(mixture, 2, (15, 25), EVEN, prior=ONE_SD),
    "modes at 15, 25, d = 5": partial(mixture, 5, (15, 25), EVEN),
    "modes at 15, 25, proper, d = 5": partial(mixture, 5, (15, 25), EVEN, prior=ONE_SD),
    "modes at -8, 0, 8 of sd 0.1, 1, 3, d = 1": partial(
        mixture, 1, (-8, 0, 8), (0.3, 0.3, 0.4), (0.1, 1.0, 3.0), prior=ONE_SD
    ),
    "modes at -6, 6 of one of five": partial(
        mixture, 5, (-6, 6), EVEN, prior=ONE_SD, axis_only=True
    ),
    "spike in slab, d = 1": partial(spike, 1),
    "spike in slab, d = 5": partial(spike, 5),
    "spike in slab, d = 20": partial(spike, 20),
    "spike beside the centre, d = 1": partial(spike, 1, 1.5),
    "spike beside the centre, d = 5": partial(spike, 5, 1.5),
    "labels of 2 means": partial(labels, 2),
    "labels of 3 means": partial(labels, 3),
    "labels of 4 means": partial(labels, 4),
    "labels of 5 means": partial(labels, 5),
    "product of two numbers": product,
    "ring": ring,
    "Beta(0.5, 0.5)": partial(ends_of_interval, 0.5),
    "Beta(0.05, 0.05)": partial(ends_of_interval, 0.05),
}
