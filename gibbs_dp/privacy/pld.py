"""Privacy-loss distributions, where one pair of laws is known to dominate all neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from gibbs_dp._extras import require
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.information.divergences import batched

LogDensity = Callable[[Float[np.ndarray, " points"]], Float[np.ndarray, " points"]]
LogLaw = Float[np.ndarray, " outcomes"]

INTERVAL = 1e-4
# Log-density below its maximum at which the tails are cut; their mass counts as a sure breach.
TAIL = 60.0
NUM_CELLS = 40_000


@runtime_checkable
class HasNeighbours(Protocol):
    """A problem that lists its pairs of neighbouring datasets."""

    def neighbours(self, gamma: float, n: int, *, adjacency: Adjacency) -> Iterable[Any]:
        """Pairs with ``log_p`` and ``log_q``; ``other`` is None where only one order is given."""
        ...


@dataclass(frozen=True)
class PrivacyLoss:
    """A pessimistic, discretized privacy-loss distribution of one release.

    Parameters
    ----------
    distribution
        dp-accounting's object; losses are rounded up.
    assumption
        Why one pair of laws stands for all neighbours.
    """

    distribution: Any
    assumption: str

    def epsilon(self, delta: float) -> float:
        """``epsilon`` of ``(epsilon, delta)``-DP, in nats."""
        checks.unit_interval("delta", delta)
        return float(self.distribution.get_epsilon_for_delta(delta))

    def delta(self, epsilon: float) -> float:
        """``delta`` of ``(epsilon, delta)``-DP."""
        checks.nonnegative("epsilon", epsilon)
        return float(self.distribution.get_delta_for_epsilon(epsilon))

    def repeated(self, num_draws: int) -> PrivacyLoss:
        """Distribution of ``num_draws`` independent releases."""
        count = checks.count("num_draws", num_draws)
        return PrivacyLoss(self.distribution.self_compose(count), self.assumption)


def location_family_pld(log_density: LogDensity, *, shift: float) -> PrivacyLoss:
    """Distribution for a log-concave location family on the line.

    Neighbours are shifts of one density by at most ``shift``. For a log-concave density the
    privacy loss is monotone, and the largest shift dominates the others.

    Parameters
    ----------
    log_density
        Log density of the noise, vectorized, up to a constant; it must be log-concave.
    shift
        Largest move of the location between neighbours.

    Returns
    -------
    PrivacyLoss
        Of one draw.

    Raises
    ------
    ValueError
        If the density is not log-concave on the grid, or does not decay.

    Examples
    --------
    >>> pld = location_family_pld(lambda x: -10.0 * np.abs(x), shift=0.04)
    >>> round(pld.epsilon(1e-9), 3)                            # the Laplace mechanism
    0.4
    """
    checks.positive("shift", shift)
    span = _span(log_density)
    grid = np.linspace(-span - shift, span + shift, NUM_CELLS + 1)
    _require_log_concave(log_density(grid))
    build = require("dp_accounting.pld.privacy_loss_distribution")
    masses = [
        _rounded_losses(log_density, grid, shift),
        _rounded_losses(lambda x: log_density(-x), -grid[::-1], shift),
    ]
    distribution = build.PrivacyLossDistribution.create_from_rounded_probability(
        masses[0][0], masses[0][1], INTERVAL, True, masses[1][0], masses[1][1], symmetric=False
    )
    return PrivacyLoss(
        distribution, f"log-concave location family; neighbours move it by at most {shift:g}"
    )


def enumerated_pld(
    problem: HasNeighbours, *, gamma: float, n: int, adjacency: Adjacency
) -> PrivacyLoss:
    """Distribution for a finite problem, whose neighbours can all be listed.

    Parameters
    ----------
    problem
        Such as `gibbs_dp.exact.FiniteProblem`.
    gamma, n
        Inverse temperature and dataset size.
    adjacency
        Which datasets count as neighbours.

    Returns
    -------
    PrivacyLoss
        Of one draw.

    Raises
    ------
    ValueError
        If no pair of datasets dominates all others.

    Examples
    --------
    >>> from gibbs_dp.exact import FiniteProblem
    >>> problem = FiniteProblem([[0.0, 1.0], [1.0, 0.0]], [0.5, 0.5], [0.5, 0.5])
    >>> pld = enumerated_pld(problem, gamma=1.0, n=1, adjacency="replace-one")
    >>> round(pld.epsilon(0.0), 3)
    1.0
    """
    pairs = []
    for pair in problem.neighbours(gamma, n, adjacency=adjacency):
        pairs += list(zip(pair.log_p, pair.log_q, strict=True))
        if pair.other is None:
            pairs += list(zip(pair.log_q, pair.log_p, strict=True))
    return dominating_pair_pld(pairs, are_all_neighbours=True)


def dominating_pair_pld(
    pairs: Sequence[tuple[LogLaw, LogLaw]], *, are_all_neighbours: bool
) -> PrivacyLoss:
    """Distribution of the pair of laws that dominates a complete list of neighbours.

    Parameters
    ----------
    pairs
        Log-probabilities ``(log_p, log_q)``, both orders of every pair of neighbouring datasets.
    are_all_neighbours
        Whether the list is complete. A pair picked from a larger set shows how bad things are
        for two datasets, which is no guarantee for the others, so False is refused.

    Returns
    -------
    PrivacyLoss
        Of one draw.

    Raises
    ------
    ValueError
        If the list is not complete, or no pair in it dominates the others.
    """
    if not are_all_neighbours:
        raise ValueError(
            "pairs: a pair of datasets that was picked is no differential-privacy guarantee; list "
            "all neighbours (enumerated_pld), or use a location family or `compose`."
        )
    if not pairs:
        raise ValueError("pairs: the list is empty; give every pair of neighbours.")
    worst = _dominating(pairs)
    if worst is None:
        raise ValueError(
            "pairs: no pair of datasets dominates all others, so no single privacy-loss "
            "distribution is a guarantee; use gibbs_dp.privacy.account and compose."
        )
    build = require("dp_accounting.pld.privacy_loss_distribution")
    upper, lower = ({i: float(v) for i, v in enumerate(law)} for law in worst)
    distribution = build.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=INTERVAL, symmetric=False
    )
    return PrivacyLoss(distribution, "all neighbours were enumerated and this pair dominates them")


def _dominating(pairs: Sequence[tuple[LogLaw, LogLaw]]) -> tuple[LogLaw, LogLaw] | None:
    """Find the pair whose hockey-stick curve is nowhere below another's.

    Between kinks of its own curve, which are its likelihood ratios, a candidate is linear and the
    others convex, so comparing at its kinks is enough.
    """
    tvs = [float(batched.total_variation(p[None], q[None])[0]) for p, q in pairs]
    for index in np.argsort(tvs)[::-1]:
        p, q = pairs[int(index)]
        finite = np.isfinite(p) & np.isfinite(q)
        if not np.all(finite == (np.isfinite(p) | np.isfinite(q))):
            continue
        kinks = np.exp(np.unique(p[finite] - q[finite]))
        mine = _curve(p, q, kinks)
        if all(np.all(_curve(a, b, kinks) <= mine + 1e-12) for a, b in pairs):
            return p, q
    return None


def _curve(p: LogLaw, q: LogLaw, factors: np.ndarray) -> Float[np.ndarray, " factors"]:
    gap = np.exp(p)[None, :] - factors[:, None] * np.exp(q)[None, :]
    return np.asarray(np.maximum(gap, 0.0).sum(axis=1))


def _span(log_density: LogDensity) -> float:
    """Half-width beyond which the density is below ``e^-60`` of its value at 0."""
    span = 1e-6
    top = float(log_density(np.zeros(1))[0])
    while not np.all(log_density(np.array([-span, span])) < top - TAIL):
        span *= 1.5
        if span > 1e12:
            raise ValueError(
                "log_density: it does not decay on both sides of 0; centre it, and check its sign."
            )
    return span


def _require_log_concave(values: Float[np.ndarray, " points"]) -> None:
    bend = np.diff(values, 2)
    if not np.all(bend <= 1e-9 * (1 + np.abs(values[1:-1]))):
        raise ValueError(
            "log_density: it is not log-concave, so the largest shift need not be the worst; "
            "no distribution of one pair is a guarantee."
        )


def _rounded_losses(
    log_density: LogDensity, grid: Float[np.ndarray, " points"], shift: float
) -> tuple[dict[int, float], float]:
    """Mass of the density in every cell, at the largest loss in it, rounded up.

    The loss ``log f(x) - log f(x - shift)`` falls with ``x``: its largest value is on the left.
    """
    middle = 0.5 * (grid[1:] + grid[:-1])
    left, centre, right = (np.exp(log_density(x)) for x in (grid[:-1], middle, grid[1:]))
    mass = (left + 4 * centre + right) / 6  # Simpson
    mass = mass / mass.sum()
    loss = log_density(grid[:-1]) - log_density(grid[:-1] - shift)
    index = np.ceil(loss / INTERVAL - 1e-9).astype(int)
    # Where the loss is constant, rounding of the density must not open a new index.
    out: dict[int, float] = {}
    for i, m in zip(index.tolist(), mass.tolist(), strict=True):
        out[i] = out.get(i, 0.0) + m
    return out, 2 * float(np.exp(-TAIL))
