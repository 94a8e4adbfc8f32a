"""Hard targets of data: collinear columns, odd scales and temperatures, and improper posteriors."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hard_targets_truth import (
    ROW,
    Moments,
    Target,
    coordinate,
    ends,
    first,
    flat,
    of_points,
    on_line,
    on_plane,
    wide,
)

import gibbs_dp as gdp


def regression(
    x: Any, y: Any, gamma: float = 1.0, scale: float | None = None, ours: bool = False
) -> Target:
    """Fit by half squared errors, or by the library's loss; the data as float32 has them."""
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    dim = x.shape[1]
    prior = flat(dim) if scale is None else wide(dim, scale)

    def loss(theta: Any, z: Any) -> Any:
        return 0.5 * (z[1] - jnp.dot(z[0], theta, precision="highest")) ** 2

    posterior = gdp.GibbsPosterior(gdp.losses.squared if ours else loss, prior)
    exact = x.astype(np.float64)
    precision = gamma * exact.T @ exact + (0.0 if scale is None else np.eye(dim) / scale**2)
    root = np.linalg.inv(np.linalg.qr(np.linalg.cholesky(precision).T)[1])
    mean = root @ root.T @ (gamma * exact.T @ y.astype(np.float64))
    sds = np.sqrt((root**2).sum(1))
    # What is sharply known lies in predictions, not in single coefficients.
    rows = exact[:: len(exact) // 2][:2]
    centers, spread = rows @ mean, np.sqrt(((rows @ root) ** 2).sum(1))

    def read(theta: Any) -> dict[str, Any]:
        shift = np.asarray(theta, np.float64) @ rows.T
        seen = {f"prediction {i}": shift[..., i] for i in range(2)}
        return ends(theta) | seen

    names = "first", "last", "prediction 0", "prediction 1"
    each = zip([*mean[[0, -1]], *centers], [*sds[[0, -1]], *spread], strict=True)
    truth = {name: Moments(float(m), float(s)) for name, (m, s) in zip(names, each, strict=True)}
    data = jnp.asarray(x), jnp.asarray(y)
    return Target(posterior, data, read, truth, gamma / 2 if ours else gamma)


def collinear(gap: float, ours: bool = False, num: int = 200) -> Target:
    """Fit two columns that differ by ``gap``, and one more."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num, 3))
    x[:, 1] = x[:, 0] + gap * x[:, 1]
    return regression(x, x @ [1.0, 1.0, -1.0] + rng.standard_normal(num), ours=ours)


def years(low: int = 1990, high: int = 2020, ours: bool = False) -> Target:
    """Fit a trend over calendar years, not centred."""
    rng = np.random.default_rng(0)
    year = np.repeat(np.arange(low, high + 1), 5)
    x = np.stack([np.ones(len(year)), year], axis=1)
    return regression(x, 0.1 * (year - low) + rng.standard_normal(len(year)), ours=ours)


def offset_columns(dim: int) -> Target:
    """Fit columns around 2000, no intercept among them."""
    rng = np.random.default_rng(0)
    x = 2000 + rng.standard_normal((300, dim))
    return regression(x, x.sum(1) - 2000 * dim + rng.standard_normal(300))


def mixed_units() -> Target:
    """Fit columns in units of 1e-6, 1 and 1e6."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 3)) * [1e-6, 1.0, 1e6]
    return regression(x, rng.standard_normal(100))


def many(dim: int, num: int) -> Target:
    """Fit many coefficients."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((num, dim))
    return regression(x, x[:, 0] + rng.standard_normal(num), scale=1.0)


def tempered(gamma: float) -> Target:
    """Fit three coefficients under a normal prior, very hot or very cold."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    return regression(x, x @ [1.0, 2.0, 3.0] + rng.standard_normal(50), gamma, 1.0)


def years_logistic() -> Target:
    """Fit a logistic trend over calendar years, not centred, under a wide prior."""
    rng = np.random.default_rng(0)
    year = np.repeat(np.arange(1990, 2021), 10)
    label = (rng.random(len(year)) < 1 / (1 + np.exp(-0.2 * (year - 2005)))).astype(np.float32)
    data = jnp.stack([jnp.asarray(year, jnp.float32), jnp.asarray(label)], axis=1)

    def loss(theta: Any, z: Any) -> Any:
        score = theta[0] + theta[1] * z[0]
        return jnp.logaddexp(0.0, score) - z[1] * score

    def read(theta: Any) -> dict[str, Any]:
        at_2005 = coordinate(0)(theta) + 2005 * coordinate(1)(theta)
        return {"slope": coordinate(1)(theta), "at 2005": at_2005}

    slope, middle = np.meshgrid(np.linspace(0.0, 0.5, 801), np.linspace(-2, 2, 801), indexing="ij")
    slope, middle = slope.ravel(), middle.ravel()
    start = middle - 2005 * slope
    logs = -(start**2) / 2e6 - slope**2 / 2e6
    for each in np.unique(year):
        score = middle + (each - 2005) * slope
        ones, total = label[year == each].sum(), (year == each).sum()
        logs += float(ones) * score - total * np.logaddexp(0.0, score)
    points = np.stack([start, slope], axis=1)
    truth = of_points(read, points, np.exp(logs - logs.max()))
    return Target(gdp.GibbsPosterior(loss, wide(2, 1e3)), data, read, truth)


def center(scale: float, num: int = 20) -> Target:
    """Find the centre of numbers of any size, their sd known."""
    data = (scale * np.random.default_rng(0).normal(3.0, 1.0, num)).astype(np.float32)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: 0.5 * jnp.sum(((theta - z) / scale) ** 2), flat(1)
    )
    truth = {"first": Moments(float(data.mean(dtype=np.float64)), scale / num**0.5)}
    return Target(posterior, jnp.asarray(data)[:, None], first, truth)


def location_scale(data: Any) -> Target:
    """Fit centre and sd of a normal model, flat in the centre and in the log sd."""
    data = np.asarray(data, np.float32)
    exact = data.astype(np.float64)
    num, freedom = len(data), len(data) - 1
    squares = ((exact - exact.mean()) ** 2).sum()
    rng = np.random.default_rng(0)
    variance = squares / rng.chisquare(freedom, 2**20)
    middle = exact.mean() + np.sqrt(variance / num) * rng.standard_normal(2**20)
    points = np.stack([middle, 0.5 * np.log(variance)], axis=1)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: theta[1] + 0.5 * ((z - theta[0]) * jnp.exp(-theta[1])) ** 2, flat(2)
    )

    def read(theta: Any) -> dict[str, Any]:  # the centre's t has no variance where data are few
        gap = coordinate(0)(theta) - exact.mean()
        return {
            "tanh": np.tanh(gap / np.sqrt(squares / num / freedom)),
            "log sd": ends(theta)["last"],
        }

    return Target(posterior, jnp.asarray(data), read, of_points(read, points))


def skewed(sigma: float, num: int) -> Target:
    """Fit a normal model to lognormal data."""
    return location_scale(np.random.default_rng(0).lognormal(0.0, sigma, num))


def median(num: int, quantile: float) -> Target:
    """Find a quantile of lognormal data by pinball losses: kinks at every number."""
    data = np.sort(np.random.default_rng(0).lognormal(0.0, 1.0, num)).astype(np.float32)
    posterior = gdp.GibbsPosterior(
        lambda theta, z: jnp.maximum(quantile * (z - theta[0]), (quantile - 1) * (z - theta[0])),
        wide(1),
    )

    def logs(t: Any) -> Any:
        gaps = (float(z) - t for z in data)
        return -sum(np.maximum(quantile * g, (quantile - 1) * g) for g in gaps) - t**2 / 200

    return Target(posterior, jnp.asarray(data), first, on_line(logs, -60, 60, first, 400_001))


def separated() -> Target:
    """Fit logistic regression to separated classes under a wide prior."""
    x = np.linspace(-1, 1, 21).astype(np.float32)
    x = x[np.abs(x) > 0.05]
    label = (x > 0).astype(np.float32)

    def loss(theta: Any, z: Any) -> Any:
        score = theta[0] + theta[1] * z[0]
        return jnp.logaddexp(0.0, score) - z[1] * score

    def logs(t: Any) -> Any:
        total = -(t**2).sum(1) / 2e4
        for v, one in zip(x, label, strict=True):
            score = t[:, 0] + t[:, 1] * float(v)
            total += one * score - np.logaddexp(0.0, score)
        return total

    truth = on_plane(logs, (-120, -10), (120, 600), ends, 1500)
    return Target(
        gdp.GibbsPosterior(loss, wide(2, 100.0)), jnp.stack([x, label], axis=1), ends, truth
    )


def counts() -> Target:
    """Fit Poisson counts of a million under a log link."""
    data = np.random.default_rng(0).poisson(1e6, 10)
    total = float(data.sum())
    posterior = gdp.GibbsPosterior(lambda theta, z: jnp.exp(theta[0]) - z * theta[0], wide(1))
    middle = np.log(total / 10)
    logs = lambda t: total * (t - middle) - 10 * np.exp(t) - t**2 / 200  # noqa: E731
    truth = on_line(logs, middle - 0.005, middle + 0.005, first, 100_001)
    return Target(posterior, jnp.asarray(data, jnp.float32), first, truth)


def improper(loss: Any, dim: int, data: Any = ROW, support: Any = None, gamma=1.0) -> Target:
    """Leave a posterior without normalizer."""
    prior = flat(dim) if support is None else gdp.Flat(support)
    return Target(gdp.GibbsPosterior(loss, prior), data, first, None, gamma)


def _separable() -> Target:
    x = jnp.linspace(-1.0, 1.0, 10)
    loss = lambda t, z: jax.nn.softplus(-jnp.sign(z) * z * t[0])  # noqa: E731
    return improper(loss, 1, x)


def _equal_columns() -> Target:
    x = jnp.asarray(np.random.default_rng(0).standard_normal(30), jnp.float32)
    return improper(lambda t, z: 0.5 * (z * t[0] + z * t[1] - z) ** 2, 2, x)


IMPROPER = {
    "improper: no loss at all": lambda: improper(lambda t, z: 0.0 * z * t[0], 1),
    "improper: a loss that saturates": lambda: improper(
        lambda t, z: 5 * jnp.tanh((t[0] - z) ** 2), 1
    ),
    "improper: separable classes": _separable,
    "improper: equal columns": _equal_columns,
    "improper: a tail of 1/t": lambda: improper(lambda t, z: 0.5 * jnp.log1p((t[0] - z) ** 2), 1),
    "improper: 1/theta at zero": lambda: improper(
        lambda t, z: jnp.log(t[0]) + 0 * z, 1, support=gdp.supports.box(0.0, 1.0, 1)
    ),
    "improper: a difference alone": lambda: improper(lambda t, z: 0.5 * (t[0] - t[1] - z) ** 2, 2),
}
MODELS = {
    "collinear, 1e-2": partial(collinear, 1e-2),
    "collinear, 1e-3": partial(collinear, 1e-3),
    "collinear, 1e-4": partial(collinear, 1e-4),
    "collinear, 1e-5": partial(collinear, 1e-5),
    "collinear, 1e-3, squared loss": partial(collinear, 1e-3, True),
    "collinear, 1e-4, squared loss": partial(collinear, 1e-4, True),
    "years 1990 to 2020": years,
    "years 1990 to 2020, squared loss": partial(years, ours=True),
    "years 2000 to 2005": partial(years, 2000, 2005),
    "years, logistic": years_logistic,
    "columns around 2000, d = 5": partial(offset_columns, 5),
    "columns in units of 1e-6, 1, 1e6": mixed_units,
    "d = 300": partial(many, 300, 1000),
    "d = 600": partial(many, 600, 2000),
    **{f"gamma = {g:g}": partial(tempered, g) for g in (1e-10, 1e-5, 1e5, 1e10)},
    "data of size 1e-6": partial(center, 1e-6),
    "data of size 1e6": partial(center, 1e6),
    "normal model of lognormal data, sigma 1": partial(skewed, 1.0, 50),
    "normal model of lognormal data, sigma 3": partial(skewed, 3.0, 50),
    "normal model of three numbers": lambda: location_scale([0.0, 1.0, 3.0]),
    "median of lognormal data": partial(median, 101, 0.5),
    "0.99 quantile of lognormal data": partial(median, 101, 0.99),
    "separated classes, logistic": separated,
    "Poisson counts of a million": counts,
    **IMPROPER,
}
