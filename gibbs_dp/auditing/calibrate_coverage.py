"""The gamma at which posterior predictive intervals cover fresh examples as often as they say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.auditing.calibrate_by_audits import SECANT, CurvePoint, PurposeCalibration, interval
from gibbs_dp.auditing.report_data import FLAT_CURVE
from gibbs_dp.information import checks
from gibbs_dp.model.check import as_key, check_posterior, positive_count
from gibbs_dp.model.populations import as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.sampling.sample import sample

GAMMAS = tuple(float(g) for g in np.geomspace(1e-3, 1e3, 7))
MAX_STEPS = 10
# Below so many standard errors the slope of a curve is called none.
LEAST_SLOPE = 2.0

PredictiveCDF = Callable[[Any, Any], Any]
Known = dict[float, Float[np.ndarray, " datasets"]]


class Setting(NamedTuple):
    """What predictive intervals are measured on; the same at every gamma."""

    posterior: GibbsPosterior
    predictive_cdf: PredictiveCDF
    train: PyTree
    fresh: PyTree
    key: PRNGKeyArray
    sampling: dict[str, Any]


def _datasets_of(
    population: Any, n: int, num_fresh: int, keys: Key[Array, " datasets"]
) -> tuple[PyTree, PyTree]:
    return jax.vmap(lambda key: population.sample(key, n, num_fresh))(keys)


def _levels_of(
    cdf: PredictiveCDF, theta: PyTree, fresh: PyTree
) -> Float[Array, "datasets examples"]:
    """Predictive CDF at fresh examples: the model's, averaged over draws."""

    def of_dataset(pair: tuple[PyTree, PyTree]) -> Float[Array, " examples"]:
        draws, examples = pair
        of_example = jax.vmap(cdf, in_axes=(0, None))
        return jax.vmap(lambda z: jnp.mean(of_example(draws, z)))(examples)

    return jax.lax.map(of_dataset, (theta, fresh))


_datasets = on_default_backend(_datasets_of, "population", "n", "num_fresh")
_levels = on_default_backend(_levels_of, "cdf")


def calibrate_coverage(
    posterior: GibbsPosterior,
    population: Any,
    n: int,
    *,
    coverage: float,
    predictive_cdf: PredictiveCDF,
    gammas: Any = None,
    num_datasets: int = 256,
    num_ghosts: int = 16,
    key: int | PRNGKeyArray = 0,
    **sampling: Any,
) -> PurposeCalibration:
    """Find the largest gamma whose predictive intervals cover fresh examples with a probability.

    The predictive law is the model's, averaged over the posterior's draws; its central interval
    covers an example whose predictive CDF lies within ``coverage / 2`` of one half. Datasets,
    fresh examples and the chains' keys are the same at every gamma.
    """
    check_posterior(posterior)
    goal = checks.unit_interval("coverage", coverage, open_left=True)
    num_datasets = positive_count("num_datasets", num_datasets, least=8)
    num_ghosts = positive_count("num_ghosts", num_ghosts)
    grid = sorted({float(g) for g in (GAMMAS if gammas is None else gammas)})
    if len(grid) < 2 or not grid[0] > 0:
        raise ValueError("gammas: give at least two different ones above 0, to look between.")
    data_key, chain_key = jax.random.split(as_key(key))
    law = as_population(population)
    train, fresh = _datasets(law, n, num_ghosts, jax.random.split(data_key, num_datasets))
    defaults: dict[str, Any] = {"num_warmup": 50, "num_samples": 64}
    setting = Setting(posterior, predictive_cdf, train, fresh, chain_key, defaults | sampling)
    known: Known = {}
    warnings: dict[str, None] = {}

    def look(gamma: float) -> float:
        if gamma not in known:
            known[gamma], told = covered(setting, gamma, goal)
            warnings.update(dict.fromkeys(told))
        return float(known[gamma].mean()) - goal

    for gamma in grid:
        look(gamma)
    gamma = _crossing(look, known, goal)
    value, se = _mean(known[gamma])
    slope, slope_se = _slope(look, known, gamma)
    told: tuple[str, ...] = ()
    if abs(slope) > LEAST_SLOPE * slope_se:
        gamma_se = gamma * se / abs(slope)
        ends = interval(gamma, gamma_se)
    else:
        gamma_se, ends = math.nan, (gamma / SECANT, gamma * SECANT)
        what = "coverage of predictive intervals"
        told = (FLAT_CURVE(what=what, gamma=gamma, low=ends[0], high=ends[1]),)
    curve = tuple(CurvePoint(g, *_mean(known[g])) for g in sorted(known))
    return PurposeCalibration(
        "coverage", gamma, gamma_se, *ends, value, se, curve, (*told, *warnings)
    )


def covered(
    setting: Setting, gamma: float, goal: float
) -> tuple[Float[np.ndarray, " datasets"], tuple[str, ...]]:
    """Share of fresh examples of each dataset inside its predictive interval, and warnings."""
    draws = sample(
        setting.posterior,
        setting.train,
        gamma=gamma,
        key=setting.key,
        is_batch=True,
        **setting.sampling,
    )
    theta = jax.tree.map(
        lambda a: jnp.asarray(a.reshape(a.shape[0], -1, *a.shape[3:])), draws.theta
    )
    levels = np.asarray(_levels(setting.predictive_cdf, theta, setting.fresh), np.float64)
    if not ((levels > -1e-5) & (levels < 1 + 1e-5)).all():
        raise ValueError(
            "predictive_cdf: its mean over draws is not within [0, 1]; return the model's "
            "distribution function at the example."
        )
    return (np.abs(levels - 0.5) <= 0.5 * goal).mean(axis=1), tuple(draws.warnings)


def _crossing(look: Callable[[float], float], known: Known, goal: float) -> float:
    """Return where the curve crosses the goal, at the largest gamma if it does so several times."""
    ordered = sorted(known)
    pairs = [p for p in itertools.pairwise(ordered) if look(p[0]) * look(p[1]) <= 0]
    if not pairs:
        means = [known[g].mean() for g in ordered]
        raise ValueError(
            f"coverage: {goal:g} is not reached (gamma from {ordered[0]:g} to {ordered[-1]:g} "
            f"gives {min(means):.3g} to {max(means):.3g}); look further with gammas=(...), or "
            "check predictive_cdf."
        )
    low, high = pairs[-1]
    for _ in range(MAX_STEPS):
        rise = look(high) - look(low)
        share = -look(low) / rise if rise else 0.5
        gamma = low * (high / low) ** min(max(share, 0.05), 0.95)
        excess = look(gamma)
        if abs(excess) <= 0.1 * _mean(known[gamma])[1]:
            return gamma
        low, high = (gamma, high) if look(low) * excess > 0 else (low, gamma)
    return min((low, high), key=lambda g: abs(look(g)))


def _slope(look: Callable[[float], float], known: Known, gamma: float) -> tuple[float, float]:
    """Change of the coverage with log gamma around a gamma, and its standard error (paired)."""
    low, high = gamma / SECANT, gamma * SECANT
    look(low)
    look(high)
    change = (known[high] - known[low]) / math.log(high / low)
    return _mean(change)


def _mean(values: Float[np.ndarray, " datasets"]) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size))
