"""``gdp.calibrate``: gamma for a worst-case target, for one on average, or for a purpose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from gibbs_dp._cautions import warns
from gibbs_dp._jaxlib.compile import on_default_backend
from gibbs_dp.auditing.audit import audit
from gibbs_dp.auditing.calibrate_by_audits import (
    SECANT,
    AverageCalibration,
    CurvePoint,
    PurposeCalibration,
    calibrate_attack_advantage,
    calibrate_lowest,
    calibrate_on_average_kl,
    interval,
)
from gibbs_dp.auditing.certify import certify, find_range
from gibbs_dp.auditing.report_data import FLAT_CURVE
from gibbs_dp.auditing.summary import kind_of
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.model.check import as_key, check_posterior, positive_count
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.examples import num_examples
from gibbs_dp.model.populations import as_population
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.calibrate import Calibration, Target, calibrate_gamma
from gibbs_dp.privacy.dependent_rows import DependentRows
from gibbs_dp.quantities.attacker import Attacker
from gibbs_dp.quantities.mutual_information import MutualInformation
from gibbs_dp.quantities.registry import DEFAULT
from gibbs_dp.sampling.as_sampler import Chains
from gibbs_dp.sampling.kernels.hmc import HMC
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


LOWEST = ("population_risk", "certificate")
# Times one over the range of the loss; fixed, as a grid must not depend on the data.
CERTIFIED_GAMMAS = np.geomspace(0.01, 10.0, 13)


@warns(kind_of)
def calibrate(
    posterior: GibbsPosterior,
    *,
    n: int | None = None,
    num_draws: int = 1,
    pure_epsilon: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    zcdp: float | None = None,
    gdp: float | None = None,
    bayesian_epsilon: float | None = None,
    on_average_kl: float | None = None,
    attack_advantage: float | None = None,
    lowest: Literal["population_risk", "certificate"] | None = None,
    coverage: float | None = None,
    predictive_cdf: PredictiveCDF | None = None,
    adjacency: Adjacency | None = None,
    domain: Domain | None = None,
    population: Any = None,
    data: PyTree | None = None,
    rows: DependentRows | Any | None = None,
    **settings: Any,
) -> Calibration | AverageCalibration | PurposeCalibration:
    """Find the gamma that meets one target or serves one purpose.

    A worst-case target (pure, ``(epsilon, delta)``, zCDP, Gaussian or Bayesian DP) is for exact
    draws and needs ``adjacency`` and a ``domain``; the gamma is the largest. On average over a
    ``population``, with the same datasets at every gamma: a target on-average KL or advantage of
    the best attacker (root finding on audits), the least population risk (audits), or the coverage
    of predictive intervals (draws). From one dataset, ``data``: the least PAC-Bayes certificate.
    For a chain that is private without convergence see `gibbs_dp.privacy.calibrate_chain`.

    Parameters
    ----------
    posterior
        Loss and prior.
    n
        Examples per dataset; under add/remove, the most that one may have. A certificate takes it
        from its data.
    num_draws
        Independent draws that are released together; for worst-case targets and on-average KL.
    pure_epsilon, epsilon, delta, zcdp, gdp, bayesian_epsilon
        Worst-case targets, one of them (``epsilon`` with ``delta``, ``bayesian_epsilon`` with
        ``rows``); nats. Of a certificate, ``delta`` is the probability that it may fail.
    on_average_kl
        Target for on-average KL-privacy of all draws together, nats; replace-one.
    attack_advantage
        Target, in (0, 1), for the on-average advantage of the best attacker on one draw: how much
        more often somebody who knows all but one example recognizes it than not (mean total
        variation, the column ``on_average_tv``).
    lowest
        "population_risk": the gamma at which the mean loss on fresh examples is least.
        "certificate": at which the bound of `gibbs_dp.certify` on it is, which needs ``data``.
    coverage
        Target, in (0, 1), for how often central predictive intervals of that level cover fresh
        examples; needs ``predictive_cdf``. The largest such gamma.
    predictive_cdf
        ``(theta, z) -> [0, 1]``: the model's distribution function at the example ``z`` (for
        ``(x, y)``, at ``y`` given ``x``). Intervals are of its mean over draws.
    adjacency, domain
        For a worst-case target; ``domain`` also for a certificate, and for audits on the way.
    population
        For what is on average: as in `gibbs_dp.audit`.
    data
        For a certificate: the examples.
    rows
        Law of examples that depend on each other, as in `gibbs_dp.privacy.account`; for a
        worst-case target, which other than ``bayesian_epsilon`` stays one of DP.
    settings
        Anything else that `gibbs_dp.audit` takes, such as ``num_datasets``, ``key``, ``sampler``
        (HMC where it is left out, also where an audit would go on with SMC: see its warnings), and
        ``gammas`` to look for the least risk between; with ``coverage`` what
        `gibbs_dp.auditing.calibrate.calibrate_coverage` takes, with a certificate
        ``gammas`` and what `gibbs_dp.certify` takes.

    Returns
    -------
    Calibration, AverageCalibration or PurposeCalibration
        The gamma with its error bar, and what it was found from.

    Raises
    ------
    ValueError
        If the target cannot be met or something that it needs is missing.

    Examples
    --------
    >>> import gibbs_dp as gdp
    >>> p = gdp.GibbsPosterior(gdp.losses.squared, gdp.Flat(gdp.supports.box(-2.0, 2.0, 1)))
    >>> gdp.calibrate(p, n=100, pure_epsilon=1.0, adjacency="replace-one",
    ...               domain=gdp.Domain(x_bound=1.0, y_range=(-2.0, 2.0))).gamma
    0.03125
    """
    worst = {
        "pure_epsilon": pure_epsilon,
        "epsilon": epsilon,
        "zcdp": zcdp,
        "gdp": gdp,
        "bayesian_epsilon": bayesian_epsilon,
    }
    purposes = {
        "on_average_kl": on_average_kl,
        "attack_advantage": attack_advantage,
        "lowest": lowest,
        "coverage": coverage,
    }
    asked = [name for name, value in purposes.items() if value is not None]
    if len(asked) > 1:
        raise ValueError(f"{asked[0]}: give one target, not {asked[1]} beside it.")
    if predictive_cdf is not None and coverage is None:
        raise ValueError("predictive_cdf: it belongs to coverage; leave it out.")
    if lowest == "certificate":
        _refuse(asked[0], worst, rows, adjacency, num_draws, population=population)
        if data is None:
            raise ValueError("data: a certificate is of one dataset; give it.")
        if n not in (None, num_examples(data)):
            raise ValueError(f"n: the data have {num_examples(data)} examples; leave it out.")
        by_delta: dict[str, Any] = {} if delta is None else {"delta": delta}
        return calibrate_certificate(posterior, data, domain=domain, **by_delta, **settings)
    if data is not None:
        raise ValueError("data: for lowest='certificate' only; leave it out.")
    if n is None:
        raise ValueError("n: how many examples a dataset has is missing; give it.")
    if not asked:
        if adjacency is None:
            raise ValueError("adjacency: a worst-case target needs 'replace-one' or 'add-remove'.")
        if population is not None or settings:
            extra = ", ".join(["population"] * (population is not None) + list(settings))
            raise ValueError(f"{extra}: for a target on_average_kl only; leave it out.")
        target = Target(**worst, delta=delta)
        return calibrate_gamma(
            posterior,
            target,
            n=n,
            adjacency=adjacency,
            domain=domain,
            num_draws=num_draws,
            rows=rows,
        )
    name = asked[0]
    num_asked = num_draws if on_average_kl is None else 1
    _refuse(name, worst | {"delta": delta}, rows, adjacency, num_asked)
    if population is None:
        raise ValueError(f"population: {_called(name)} is an average over it; give one.")
    if coverage is not None:
        if predictive_cdf is None:
            raise ValueError(
                "predictive_cdf: coverage needs the model's distribution function; give "
                "(theta, z) -> its value at the example z."
            )
        if domain is not None:
            raise ValueError("domain: coverage needs no declared bounds; leave it out.")
        return calibrate_coverage(
            posterior, population, n, coverage=coverage, predictive_cdf=predictive_cdf, **settings
        )
    if lowest is not None and lowest not in LOWEST:
        raise ValueError(f"lowest: {lowest!r} is none of {', '.join(LOWEST)}; give one of them.")
    gammas = settings.pop("gammas", None) if lowest else None
    learn = [*DEFAULT, MutualInformation(0)]
    if attack_advantage is not None:
        learn.append(Attacker(num_datasets=None))
    found = {"learn": learn, "domain": domain} | settings
    # One sampler for the whole curve, whatever pilots find.
    sampler = found.get("sampler") or HMC()
    if isinstance(sampler, Chains) and sampler.kernel is None:
        sampler = replace(sampler, kernel=HMC())
    found["sampler"] = sampler
    run = partial(audit, posterior, population, n, **found)
    if attack_advantage is not None:
        return calibrate_attack_advantage(run, attack_advantage)
    if lowest is not None:
        return calibrate_lowest(run, gammas)
    assert on_average_kl is not None
    return calibrate_on_average_kl(run, on_average_kl, num_draws=num_draws)


def _called(name: str) -> str:
    """Return what a purpose is called in messages."""
    names = {
        "on_average_kl": "on-average KL",
        "attack_advantage": "an attacker's advantage",
        "lowest": "population risk",
        "coverage": "coverage",
    }
    return names[name]


def _refuse(
    name: str,
    worst: dict[str, float | None],
    rows: Any,
    adjacency: Adjacency | None,
    num_draws: int,
    population: Any = None,
) -> None:
    """Refuse what only worst-case targets take."""
    if any(value is not None for value in worst.values()):
        raise ValueError(f"{name}: give one target, not a worst-case one beside it.")
    if rows is not None:
        raise ValueError(
            f"rows: for a worst-case target only; for {_called(name)} the population says how "
            "examples depend on each other."
        )
    if adjacency not in (None, "replace-one"):
        raise ValueError(f"adjacency: {_called(name)} is a replace-one notion; leave it out.")
    if num_draws != 1:
        raise ValueError(f"num_draws: {name} is of one draw; leave it out.")
    if population is not None:
        raise ValueError("population: a certificate is of one dataset, data; leave it out.")


def calibrate_certificate(
    posterior: GibbsPosterior,
    data: PyTree,
    *,
    domain: Domain | None = None,
    loss_range: tuple[float, float] | None = None,
    gammas: Any = None,
    **settings: Any,
) -> PurposeCalibration:
    """Find the gamma of the least certificate on a grid, for which `gibbs_dp.certify` pays."""
    if gammas is None:
        low, high = find_range(posterior, data, domain, loss_range)
        gammas = CERTIFIED_GAMMAS / (high - low)
    found = certify(posterior, data, gammas, domain=domain, loss_range=loss_range, **settings)
    name = found.settings["bound"]
    curve = tuple(CurvePoint(row["gamma"], row[name], 0.0) for row in found.rows)
    grid = [point.gamma for point in curve]
    place = grid.index(found.gamma)
    return PurposeCalibration(
        "certificate",
        found.gamma,
        0.0,
        grid[max(0, place - 1)],
        grid[min(len(grid) - 1, place + 1)],
        found.bound,
        0.0,
        curve,
        found.warnings,
        found,
    )
