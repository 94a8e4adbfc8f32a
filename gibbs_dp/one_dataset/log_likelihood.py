"""The audit of one posterior from an array of log-likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpyro import diagnostics

from gibbs_dp._cautions import AuditWarning, Warned, warns
from gibbs_dp.estimators.pareto import k_hat_limit
from gibbs_dp.information.checks import refuse_masked, refuse_missing_labels
from gibbs_dp.one_dataset.estimates import Estimates, Mean, estimate
from gibbs_dp.one_dataset.report import (
    CHAINS_DISAGREE,
    FEW_EFFECTIVE,
    HIGH_K_HAT,
    ROUTES_DISAGREE,
    OneDatasetReport,
)
from gibbs_dp.results.table import plain
from gibbs_dp.sampling.as_draws import chains_of
from gibbs_dp.sampling.diagnostics import effective_draws, refuse_copies
from gibbs_dp.sampling.draws import Draws

# Draws of all chains, and of each, below which nothing is said.
LEAST_DRAWS, LEAST_SAMPLES = 100, 10
# At larger sizes double precision has steps above a hundredth.
LARGEST = 1e14


def checked(given: Any) -> Float[np.ndarray, "chain draw example"]:
    """Return a table of finite numbers."""
    refuse_masked("log_likelihood", given)
    values = chains_of("log_likelihood", given)
    if values.dtype.kind not in "fiu":
        raise ValueError(
            f"log_likelihood: must be an array of numbers [chain, draw, example], got "
            f"{type(given).__name__} of {values.dtype}."
        )
    if values.ndim != 3:
        raise ValueError(
            f"log_likelihood: must have the three axes [chain, draw, example], got shape "
            f"{values.shape}; {_to_three_axes(values.shape)}."
        )
    if values.dtype.kind != "f" or values.dtype.itemsize < 4 or values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    chains, draws, _ = values.shape
    if draws < LEAST_SAMPLES or chains * draws < LEAST_DRAWS:
        raise ValueError(
            f"log_likelihood: {chains} chains of {draws} draws are too few (at least "
            f"{LEAST_SAMPLES} a chain and {LEAST_DRAWS} in all); its axes are [chain, draw, "
            f"example], got shape {values.shape}."
        )
    if not np.isfinite(values.sum(dtype=np.float64)):
        bad = np.argwhere(~np.isfinite(values))
        where = ", ".join(map(str, bad[0].tolist()))
        raise ValueError(
            f"log_likelihood: {len(bad)} numbers are NaN or infinite, the first at [{where}]; "
            "leave examples out that were not observed, and find out which draws gave the others."
        )
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > LARGEST:
        raise ValueError(
            f"log_likelihood: {largest:.3g} is its largest size, of which no differences are left "
            "in double precision; find out which draws gave it."
        )
    refuse_copies("log_likelihood", values)
    return np.asarray(values)


def _to_three_axes(shape: tuple[int, ...]) -> str:
    """Say what to do about another number of axes."""
    if len(shape) < 3:
        return "add the axis of chains as array[None], and give one column an example"
    if shape[0] == 1 and len(shape) > 3 and shape[1] < shape[2]:
        return "leave out the first axis, of length 1, as array[0]"
    reshaped = f"array.reshape({shape[0]}, {shape[1]}, -1)"
    if math.prod(shape[2:]) == max(shape[2:]):
        return f"its examples have an axis of length 1 too many: {reshaped}"
    return f"give one column an example, as {reshaped}, or add up what belongs to one example"


def checked_gamma(gamma: Any) -> float:
    """Return a positive number."""
    values = np.asarray(gamma)
    if values.shape == () and values.dtype.kind in "fiu" and values == 0:
        raise ValueError("gamma: 0 leaves the prior, which no example changes; give draws of more.")
    if values.shape != () or values.dtype.kind not in "fiu" or not 0 < values < np.inf:
        raise ValueError(f"gamma: must be a positive number, got {gamma!r}.")
    return float(values)


def checked_labels(argument: str, given: Sequence[Any] | np.ndarray, count: int) -> np.ndarray:
    """Return one whole number or one text for each example."""
    refuse_masked(argument, given)
    labels = np.asarray(given)
    if labels.shape != (count,):
        raise ValueError(
            f"{argument}: give one label for each of the {count} examples, got shape "
            f"{labels.shape}."
        )
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels.astype(str)


def add_groups(
    values: Float[np.ndarray, "chain draw example"], labels: np.ndarray
) -> tuple[Float[np.ndarray, "chain draw group"], np.ndarray]:
    """Add the log-likelihoods of examples with one label.

    >>> sums, labels = add_groups(np.array([[[1.0, 2.0, 4.0]]]), np.array(["b", "a", "b"]))
    >>> sums.tolist(), labels.tolist()
    ([[[5.0, 2.0]]], ['b', 'a'])
    """
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    place = rank[group]
    sums = np.zeros((*values.shape[:2], first.size))
    for column, into in enumerate(place):
        sums[:, :, into] += values[:, :, column]
    return sums, labels[np.sort(first)]


# How well the log-likelihoods of draws mix.

# Examples that are looked at, evenly spaced.
NUM_EXAMPLES = 50


class LikelihoodMixing(NamedTuple):
    """Convergence of log-likelihoods."""

    # Largest split R-hat, of their sum over examples and of 50 examples; infinite where a chain
    # never moved.
    r_hat: float
    ess_min: float  # fewest effective draws of these
    # Mean effective draws over draws, of the examples' likelihoods; at most 1.
    relative_efficiency: float


def mixing(log_likelihood: Float[np.ndarray, "chain draw example"]) -> LikelihoodMixing:
    """Look at the sum over examples, and at some examples."""
    chains, draws, examples = log_likelihood.shape
    places = np.unique(np.linspace(0, examples - 1, NUM_EXAMPLES).round().astype(int))
    some = np.asarray(log_likelihood[:, :, places], np.float64)
    total = log_likelihood.sum(axis=2, dtype=np.float64)[:, :, None]
    if (np.ptp(total, axis=1) == 0).any() and np.ptp(total) > 0:
        return LikelihoodMixing(np.inf, 0.0, 1.0)  # a chain is stuck
    looked_at = _varying(np.concatenate([total, some], axis=2))
    if not looked_at.shape[2]:
        return LikelihoodMixing(1.0, float(chains * draws), 1.0)
    likelihood = _varying(np.exp(some - some.max(axis=(0, 1))))
    ess = effective_draws(looked_at)
    efficiency = (
        float(np.mean(effective_draws(likelihood))) / (chains * draws) if likelihood.size else 1.0
    )
    return LikelihoodMixing(
        r_hat=float(np.max(diagnostics.split_gelman_rubin(looked_at))),
        ess_min=float(np.min(ess)),
        relative_efficiency=min(1.0, efficiency),
    )


def _varying(
    values: Float[np.ndarray, "chain draw column"],
) -> Float[np.ndarray, "chain draw varying"]:
    """Leave out what is the same in all draws of a chain: it has no effective number."""
    return np.asarray(values[:, :, (np.ptp(values, axis=1) > 0).all(axis=0)])


LEAST_EXAMPLES = 3
RHAT_LIMIT, ESS_LIMIT = 1.01, 100.0
# Below this KL the two routes agree within this share, and 4 Monte Carlo errors.
SMALL_KL, ROUTE_SHARE, ROUTE_ERRORS = 0.05, 0.25, 4.0
# Examples that a warning names, and letters of each.
NAMED, WIDTH = 5, 40


@warns(lambda _: AuditWarning)
def audit_log_likelihood(
    log_likelihood: Any,
    gamma: float = 1.0,
    groups: Sequence[Any] | np.ndarray | None = None,
    names: Sequence[Any] | np.ndarray | None = None,
) -> OneDatasetReport:
    """Measure what one example changes in a posterior, from the log-likelihoods of its draws.

    For draws of any origin, of any model whose likelihood is a product over examples: PyTorch,
    Stan, PyMC, NumPyro, one's own sampler. Nothing is sampled again: the posterior without an
    example is reached by Pareto-smoothed weights (Vehtari et al. 2024). ``on_average_kl`` is exact
    for this dataset, up to the draws: a mean over all ways of replacing one of ``n - 1`` examples
    by the one left out. No worst-case guarantee follows from it.

    Parameters
    ----------
    log_likelihood
        ``[chain, draw, example]``, of the examples that the posterior was fitted to, natural
        logarithms, without gamma. NumPy, JAX, or anything that NumPy reads. Losses with the sign
        turned are one too; a loss with its own sign cannot be told from it, and gives wrong
        numbers. Or `gibbs_dp.Draws`, which know theirs, and their gamma.
    gamma
        Inverse temperature of the posterior that was sampled: the power of its likelihood.
    groups
        A label for every example, none missing: whole groups are removed, as when a person has
        several rows. Log-likelihoods of a group are added; ``n`` is the number of groups.
    names
        What the examples are called; by default 0, 1, ... With ``groups`` they are called by
        their labels.

    Returns
    -------
    OneDatasetReport
        Averages with errors, a row an example, warnings.

    Raises
    ------
    ValueError
        If it is no table of finite numbers over chains, draws and examples, if draws or examples
        are too few, if chains are copies of each other, and for labels that are missing or of a
        wrong number.

    Notes
    -----
    ``on_average_kl_se`` joins Monte Carlo error and the spread over examples, as if these were
    independent draws of a population; the 95% interval allows for the spread's skewness.
    ``on_average_kl_mcse`` is the Monte Carlo error alone: that of the figure of this dataset.
    Where ``k_hat``, with its error, is above 0.45, and fully from 0.65 on, the errors of KLs allow
    for what smoothing takes off: for what changes if tails of weights are that much heavier. So
    they do where an example's log-likelihood has so wide a spread ``s`` over draws that fewer than
    80 (fully: 8) of them are expected beyond ``2 s``, where a log-normal weight has its square.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=50)
    >>> theta = rng.normal(z.mean(), 50**-0.5, size=(4, 1000, 1))
    >>> report = audit_log_likelihood(-0.5 * (theta - z) ** 2)
    >>> exact = z.var(ddof=1) / 49
    >>> bool(abs(report["on_average_kl"] - exact) < 4 * report["on_average_kl_mcse"])
    True
    """
    if isinstance(log_likelihood, Draws):
        log_likelihood, gamma = _of_draws(log_likelihood, gamma)
    power = checked_gamma(gamma)
    values = checked(log_likelihood)
    count = values.shape[2]
    if groups is not None and names is not None:
        raise ValueError("names: groups are called by their labels; leave names out.")
    if groups is not None:
        refuse_missing_labels("groups", groups)
        values, labels = add_groups(values, checked_labels("groups", groups, count))
        return audit_table(values, power, labels, "group")
    called = np.arange(count) if names is None else checked_labels("names", names, count)
    return audit_table(values, power, called, "example")


def _of_draws(draws: Draws, gamma: float) -> tuple[Any, float]:
    """Return log-likelihoods without gamma, and gamma."""
    if gamma not in (1.0, draws.gamma):
        raise ValueError(f"gamma: these draws are of gamma {draws.gamma:g}, got {gamma:g}.")
    if draws.is_batch:
        count = draws.log_density.shape[0]
        raise ValueError(
            f"log_likelihood: these are draws of {count} datasets; audit one at a time."
        )
    return draws.log_likelihood() / checked_gamma(draws.gamma), draws.gamma


def audit_table(
    values: Float[np.ndarray, "chain draw example"], gamma: float, names: np.ndarray, unit: str
) -> OneDatasetReport:
    """Audit log-likelihoods that were checked."""
    chains, draws, n = values.shape
    if n < LEAST_EXAMPLES:
        raise ValueError(
            f"log_likelihood: there are {n} {unit}s, and at least {LEAST_EXAMPLES} are needed; its "
            "axes are [chain, draw, example], examples last."
        )
    mixed = mixing(values)
    found = estimate(values.reshape(-1, n), gamma, chains, mixed.relative_efficiency)
    limit = k_hat_limit(chains * draws)
    settings: dict[str, Any] = {
        "gamma": gamma,
        "n": n,
        "unit": unit,
        "num_chains": chains,
        "num_samples": draws,
        "k_hat_limit": limit,
        **mixed._asdict(),
    }
    return OneDatasetReport(
        averages=_averages(found, gamma, limit),
        examples=_columns(found),
        names=names,
        settings=settings,
        warnings=tuple(_warnings(found, mixed, limit, names, unit, chains * draws)),
    )


def _averages(found: Estimates, gamma: float, limit: float) -> dict[str, float]:
    averages: dict[str, float] = {}

    def put(name: str, mean: Mean, scale: float = 1.0) -> None:
        averages[name] = mean.value * scale
        averages[f"{name}_se"] = mean.se * scale
        averages[f"{name}_mcse"] = mean.mcse * scale

    put("on_average_kl", found.on_average_kl)
    averages["on_average_kl_low"], averages["on_average_kl_high"] = found.interval
    put("generalization_error", found.on_average_kl, 1.0 / gamma)
    averages["on_average_kl_shortcut"] = found.shortcut.value
    averages["on_average_kl_shortcut_mcse"] = found.shortcut.mcse
    for name in ("remove_one_kl", "add_one_kl", "advantage", "remove_one_advantage"):
        put(name, getattr(found, name))
    scores = found.scores
    n = scores.elpd_loo.size
    averages["elpd_loo"] = float(scores.elpd_loo.sum())
    averages["elpd_loo_se"] = float(np.sqrt(n * scores.elpd_loo.var(ddof=1)))
    averages["p_loo"] = float(scores.p_loo.sum())
    averages["p_waic"] = float(scores.p_waic.sum())
    averages["k_hat_max"] = float(scores.k_hat.max())
    averages["num_high_k_hat"] = float((scores.k_hat > limit).sum())
    return averages


def _columns(found: Estimates) -> dict[str, np.ndarray]:
    columns = found.examples._asdict() | found.scores._asdict()
    del columns["contribution"]
    renamed = {"first_half": "exposure_first_half", "second_half": "exposure_second_half"}
    return {renamed.get(name, name): values for name, values in columns.items()}


def _warnings(
    found: Estimates,
    mixed: LikelihoodMixing,
    limit: float,
    names: np.ndarray,
    unit: str,
    draws: int,
) -> list[Warned]:
    told = []
    k_hat = found.scores.k_hat
    high = np.flatnonzero(k_hat > limit)
    if high.size:
        worst = high[np.argsort(-k_hat[high], kind="stable")]
        which = ", ".join(plain(str(names[i]), WIDTH) for i in worst[:NAMED])
        which += ", ..." if high.size > NAMED else ""
        total = f"{k_hat.size:,} {unit}s"
        told.append(HIGH_K_HAT(limit=limit, count=high.size, total=total, which=which))
    if not mixed.r_hat <= RHAT_LIMIT:
        told.append(CHAINS_DISAGREE(worst=mixed.r_hat))
    if not mixed.ess_min >= ESS_LIMIT:
        told.append(FEW_EFFECTIVE(fewest=mixed.ess_min, total=draws))
    kl, gap = found.on_average_kl.value, found.route_gap
    slack = ROUTE_SHARE * abs(kl) + ROUTE_ERRORS * gap.mcse
    if kl < SMALL_KL and not abs(gap.value) <= slack:
        told.append(ROUTES_DISAGREE(weights=kl, shortcut=kl + gap.value))
    return told
