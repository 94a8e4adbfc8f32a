"""On-average and per-example figures of one posterior, by weights that remove an example."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from gibbs_dp.estimators.interval import mean_interval
from gibbs_dp.one_dataset.passes import (
    Heavier,
    Removed,
    Scores,
    Table,
    centre,
    remove_each,
    seen_by_all,
)
from gibbs_dp.one_dataset.pieces import Jackknifed, jackknife, split, whole

# Half a 95% interval, in standard errors.
NORMAL = 1.96
PerExample = Float[np.ndarray, " examples"]
Selected = Float[np.ndarray, "examples _selections"]


class Examples(NamedTuple):
    """What is learnt of every example; divergences in nats, ``_mcse`` Monte Carlo errors.

    Attributes
    ----------
    exposure
        Mean over the others ``i`` of ``KL(p_-i || p_-j)``: what a draw tells of example ``j``
        against the same dataset with another example in its place.
    remove_one_kl, add_one_kl
        ``KL(p || p_-j)`` and ``KL(p_-j || p)``.
    advantage
        Mean over partners of the total variation distance of ``p_-i`` and ``p_-j``.
    remove_one_advantage
        Total variation distance of ``p`` and ``p_-j``.
    first_half, second_half
        The exposure by half of the draws each.
    contribution
        To on-average KL, which is the mean of these.
    """

    exposure: PerExample
    exposure_mcse: PerExample
    remove_one_kl: PerExample
    remove_one_kl_mcse: PerExample
    add_one_kl: PerExample
    add_one_kl_mcse: PerExample
    advantage: PerExample
    remove_one_advantage: PerExample
    first_half: PerExample
    second_half: PerExample
    contribution: PerExample


class Mean(NamedTuple):
    """A mean over examples, with its standard error and its Monte Carlo error.

    Attributes
    ----------
    se
        Of the spread over examples and of Monte Carlo together.
    """

    value: float
    se: float
    mcse: float


class Estimates(NamedTuple):
    """Everything that the log-likelihoods of one posterior's draws tell.

    Attributes
    ----------
    interval
        Ends of a 95% interval of on-average KL over examples and Monte Carlo together, which
        allows for the skewness of the examples.
    shortcut
        On-average KL of ``n`` examples to second order in gamma.
    route_gap
        Shortcut less on-average KL, both for ``n - 1`` examples.
    """

    on_average_kl: Mean
    interval: tuple[float, float]
    shortcut: Mean
    route_gap: Mean
    remove_one_kl: Mean
    add_one_kl: Mean
    advantage: Mean
    remove_one_advantage: Mean
    examples: Examples
    scores: Scores


def estimate(
    table: Table, gamma: float, num_chains: int, relative_efficiency: float = 1.0
) -> Estimates:
    """Estimate what one example changes, on average and for each, from one posterior's draws.

    Let ``x_i`` be ``-gamma`` times the log-likelihood of example ``i``, and ``p_-i`` the posterior
    without it, whose weights over draws of ``p`` are ``e^x_i``, Pareto-smoothed. On the dataset of
    ``n - 1`` examples with another one in the place of one, the mean of ``KL(p_-j || p_-i)`` over
    ordered pairs is exactly ``n / (n - 1)`` times the mean over ``j`` of ``E_-j [x_j - xbar]``,
    ``xbar`` being the mean over all examples: normalizers cancel.

    Parameters
    ----------
    table
        Log-likelihoods, the draws of one chain after those of another.
    gamma
        Inverse temperature that the draws are of.
    num_chains
        Chains, of equal length.
    relative_efficiency
        Effective draws over draws.

    Returns
    -------
    Estimates
        Corrected by a jackknife over pieces of chains, whose errors are joined by what weights
        with heavier tails would change.

    Examples
    --------
    A Gaussian mean under a flat prior: the exact figure is ``var(z) / (n - 1)``.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=40)
    >>> theta = rng.normal(z.mean(), 40**-0.5, size=4000)
    >>> found = estimate(-0.5 * (theta[:, None] - z) ** 2, 1.0, 4).on_average_kl
    >>> bool(abs(found.value / (z.var(ddof=1) / 39) - 1) < 0.05)
    True
    """
    n = table.shape[1]
    pieces = split(num_chains, table.shape[0] // num_chains)
    about = centre(table, gamma)
    removed, scores, sums, heavier = remove_each(table, gamma, about, pieces, relative_efficiency)
    shortcut = removed.pair_variance.sum(axis=0) / (n - 1)
    by_draws = _divergences(removed, seen_by_all(table, gamma, about, sums))
    tails = _divergences(heavier, seen_by_all(table, gamma, about, heavier.sums))
    # What heavier tails would change, which no jackknife sees.
    missed = Divergences(*(b - a[:, :1] for a, b in zip(by_draws, tails, strict=True)))
    contribution = by_draws.contribution
    kl = contribution.mean(axis=0)

    def of(values: Selected, tail: Selected | None = None, times: float = 1.0) -> Mean:
        """Mean over examples; the spread counts ``times``."""
        spread = times * float(jackknife(values, pieces).value.std(ddof=1)) / math.sqrt(n)
        found = plain(values.mean(axis=0), None if tail is None else tail.mean(axis=0))
        return Mean(found.value, math.hypot(spread, found.mcse), found.mcse)

    def plain(values: Float[np.ndarray, " selections"], tail: np.ndarray | None = None) -> Mean:
        found = jackknife(values, pieces)
        mcse = math.hypot(found.mcse, 0.0 if tail is None else tail.item())
        return Mean(float(found.value), mcse, mcse)

    def each(values: Selected, tail: Selected) -> Jackknifed:
        found = jackknife(values, pieces)
        return Jackknifed(found.value, np.hypot(found.mcse, tail[:, 0]))

    exposed, removing, adding = (
        each(getattr(by_draws, name), getattr(missed, name))
        for name in ("exposure", "remove", "add")
    )
    examples = Examples(
        exposure=exposed.value,
        exposure_mcse=exposed.mcse,
        remove_one_kl=removing.value,
        remove_one_kl_mcse=removing.mcse,
        add_one_kl=adding.value,
        add_one_kl_mcse=adding.mcse,
        advantage=jackknife(removed.pair_advantage, pieces).value,
        remove_one_advantage=jackknife(removed.advantage, pieces).value,
        first_half=_exposure_alone(table[: pieces.halfway], gamma, relative_efficiency),
        second_half=_exposure_alone(table[pieces.halfway :], gamma, relative_efficiency),
        contribution=jackknife(contribution, pieces).value,
    )
    average = of(contribution, missed.contribution)
    return Estimates(
        on_average_kl=average,
        interval=_interval(examples.contribution, average),
        shortcut=plain(shortcut),
        route_gap=plain(n / (n - 1) * shortcut - kl, missed.contribution.mean(axis=0)),
        remove_one_kl=of(by_draws.remove, missed.remove),
        add_one_kl=of(by_draws.add, missed.add),
        # Each example is in its own pairs and in those of its partners.
        advantage=of(removed.pair_advantage, times=2.0),
        remove_one_advantage=of(removed.advantage),
        examples=examples,
        scores=scores,
    )


def _interval(contribution: PerExample, average: Mean) -> tuple[float, float]:
    """Add Monte Carlo error to the ends of an interval over examples."""
    ends = mean_interval(contribution)
    error = NORMAL * average.mcse
    low = average.value - math.hypot(average.value - ends.low, error)
    return low, average.value + math.hypot(ends.high - average.value, error)


def _exposure_alone(table: Table, gamma: float, relative_efficiency: float) -> PerExample:
    """Exposure by some of the draws, of which the others know nothing."""
    about, every = centre(table, gamma), whole(len(table))
    removed, _, sums, _ = remove_each(table, gamma, about, every, relative_efficiency, 1)
    return _divergences(removed, seen_by_all(table, gamma, about, sums)).exposure[:, 0]


class Divergences(NamedTuple):
    """Of every example, for selections of draws: contributions to on-average KL, and KLs."""

    contribution: Selected
    exposure: Selected
    remove: Selected
    add: Selected


def _divergences(removed: Removed | Heavier, all_others: Selected) -> Divergences:
    """Make divergences of means; exposure: over ``i != j`` of ``E_-i [x_i - x_j] - A_i + A_j``."""
    n = len(all_others)
    add = removed.own - removed.log_mean
    others = (add.sum(axis=0) - add) / (n - 1)
    seen = (all_others - removed.own) / (n - 1)
    return Divergences(
        # Of x less its mean over draws: E_p [x_j - xbar], which has mean zero over j, is taken
        # away, and with it most of the noise.
        contribution=n / (n - 1) * (removed.own - removed.common),
        exposure=others + removed.log_mean - seen,
        remove=removed.log_mean - removed.mean_own,
        add=add,
    )
