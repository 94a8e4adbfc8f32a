"""Wasserstein-1 distances from draws, between two estimates whose biases have opposite signs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog
from scipy.sparse import diags_array, vstack
from scipy.stats import wasserstein_distance

from gibbs_dp.estimators import average
from gibbs_dp.information import checks
from gibbs_dp.papers.capacity.adversaries import Adversary, Map
from gibbs_dp.papers.capacity.bound import CapacityBound
from gibbs_dp.papers.capacity.line import Line

# Lipschitz critics on the line: Wasserstein distances as integral probability metrics.
#
# With critics of Lipschitz constant 1 the metric is the Wasserstein-1 distance, on the line
# ``int |F_P - F_Q| dx``. **Noise does not lower it**: a critic may be ``h(x) = x``, so that of two
# laws that differ by a shift it is the shift. Such critics are unbounded and Theorem 7 (metric at
# most ``8 sqrt(KL^H)``) is false of them: as the noise grows the KL vanishes and the metric stays.
# Critics that also move by at most ``oscillation`` in all have a range of ``[-1, 1]`` up to
# constants if that is at most 2; there it applies. Where outputs lie within a distance ``D``, the
# oscillation is at most ``D`` times the constant.

# Panels of each law's chart and nodes of each, for integrals and for linear programs.
_FINE, _COARSE = (256, 8), (128, 3)


@dataclass(frozen=True)
class Lipschitz:
    """Functions with ``|h(x) - h(y)| <= min(constant |x - y|, oscillation)``, and constants.

    Parameters
    ----------
    constant
        Lipschitz constant.
    oscillation
        Largest difference of two values; by default any.

    Raises
    ------
    ValueError
        If a number is not positive.

    Examples
    --------
    >>> Lipschitz(1.0).is_unit_range, Lipschitz(1.0, 2.0).is_unit_range
    (False, True)
    """

    constant: float = 1.0
    oscillation: float = math.inf
    is_convex = True
    is_translation_invariant = True
    is_negation_closed = True

    def __post_init__(self) -> None:
        checks.positive("constant", self.constant)
        if not self.oscillation > 0:
            raise ValueError(
                f"oscillation: must be positive, got {self.oscillation}; pass 2.0 for a range of "
                "[-1, 1]."
            )

    @property
    def is_unit_range(self) -> bool:
        """Whether values lie in ``[-1, 1]`` up to constants."""
        return self.oscillation <= 2

    def before(self, mapping: Map) -> Adversary:
        """Refuse: how much a map stretches distances is not known here."""
        raise ValueError(
            "mapping: how far it moves points apart is not known; after a map of constant m "
            "a critic has m times its own: bound Lipschitz(m * constant) first."
        )


def lipschitz_ipm(p: Line, q: Line, adversary: Lipschitz | None = None) -> CapacityBound:
    """Integral probability metric of Lipschitz critics between two laws on the line.

    Without a limit on the oscillation, the constant times the Wasserstein-1 distance
    ``int |F_P - F_Q| dx``, by quadrature. With one, the best critic that is linear between nodes,
    by a linear program; it falls short of the supremum, or exceeds it by the
    rule's own error, by about 1e-5 of it.

    Parameters
    ----------
    p, q
        The two laws, both with a mean.
    adversary
        The class; by default ``Lipschitz(1.0)``: Wasserstein-1.

    Returns
    -------
    CapacityBound
        The metric, in the unit of the output times the constant.

    Examples
    --------
    >>> from gibbs_dp.papers.capacity.line import laplace_line
    >>> laws = laplace_line(1.0, 5.0), laplace_line(0.0, 5.0)
    >>> round(lipschitz_ipm(*laws).value, 6)  # the shift, whatever the noise
    1.0
    """
    adversary = adversary or Lipschitz()
    if math.isinf(adversary.oscillation):
        _, mass_p, mass_q, widths = _common_rule(p, q, *_FINE)
        gap = mass_p - mass_q
        before = np.concatenate([[0.0], np.cumsum(gap.sum(axis=1))[:-1]])
        value = float(np.sum(np.abs(before[:, None] + _within(gap)) * widths))
        return CapacityBound(adversary.constant * value, "ipm", adversary, source="quadrature")
    x, mass_p, mass_q, _ = _common_rule(p, q, *_COARSE)
    value = _best_critic(x.ravel(), (mass_p - mass_q).ravel(), adversary)
    return CapacityBound(value, "ipm", adversary, source="linear program on nodes")


def _best_critic(
    x: Float[np.ndarray, " atoms"], mass: Float[np.ndarray, " atoms"], adversary: Lipschitz
) -> float:
    """Maximize ``sum_i mass_i h(x_i)`` over sorted places; mass sums to 0."""
    if math.isinf(adversary.oscillation):
        return adversary.constant * float(np.abs(np.cumsum(mass)[:-1]) @ np.diff(x))
    reach = adversary.constant * np.diff(x)
    if reach.size == 0:
        return 0.0
    steps = diags_array([-1.0, 1.0], offsets=[0, 1], shape=(x.size - 1, x.size))
    half = adversary.oscillation / 2
    # -reach <= h_{i+1} - h_i <= reach, as two halves.
    found = linprog(  # type: ignore[call-overload]
        -mass,
        A_ub=vstack([steps, -steps]).tocsr(),
        b_ub=np.concatenate([reach, reach]),
        bounds=(-half, half),
        method="highs",
    )
    return max(0.0, -float(found.fun))


def _common_rule(
    p: Line, q: Line, num_panels: int, num_nodes: int
) -> tuple[
    Float[np.ndarray, "panels nodes"],
    Float[np.ndarray, "panels nodes"],
    Float[np.ndarray, "panels nodes"],
    Float[np.ndarray, "panels nodes"],
]:
    """Nodes, the masses of both laws there, and the widths that nodes stand for."""
    edges = np.unique(np.concatenate([p.edges(num_panels), q.edges(num_panels)]))
    v, z = np.polynomial.legendre.leggauss(num_nodes)
    half = np.diff(edges)[:, None] / 2
    x, widths = edges[:-1, None] + half * (1 + v), half * z
    masses = []
    for law in (p, q):
        inside = (x > law.lower) & (x < law.upper)
        values = np.full(x.shape, -np.inf)
        values[inside] = law.log_density(x[inside])
        density = np.exp(values - values.max()) * widths
        masses.append(density / density.sum())
    return x, masses[0], masses[1], widths


def _within(mass: Float[np.ndarray, "panels nodes"]) -> Float[np.ndarray, "panels nodes"]:
    """Mass from the start of each panel to each of its nodes, by the interpolating polynomial."""
    count = mass.shape[1]
    v, z = np.polynomial.legendre.leggauss(count)
    values = np.polynomial.legendre.legvander(v, count - 1)
    sums = np.stack(
        [
            np.polynomial.legendre.legval(v, np.polynomial.legendre.legint(row, lbnd=-1))
            for row in np.eye(count)
        ],
        axis=1,
    )
    return (mass / z) @ np.linalg.solve(values.T, sums.T)


class WassersteinEstimate(NamedTuple):
    """Mean Wasserstein-1 distance of pairs of laws, between two estimates.

    Attributes
    ----------
    upper, upper_se
        Distance of the draws: in expectation at least that of the laws, most of all where they are
        close. An estimate, no guarantee.
    lower, lower_se
        What a critic fitted to one half of the draws attains on the other, averaged over both ways:
        in expectation at most the distance of the laws.
    num_pairs
        Independent pairs, the units of the errors.
    """

    upper: CapacityBound
    upper_se: float
    lower: CapacityBound
    lower_se: float
    num_pairs: int


def wasserstein_of_draws(
    draws_p: Float[np.ndarray, "pairs draws"], draws_q: Float[np.ndarray, "pairs others"]
) -> WassersteinEstimate:
    """Mean Wasserstein-1 distance of pairs of laws on the line, with errors over pairs.

    A pair is two posteriors of a number, say: of a dataset, and of the same with one example
    replaced. For a linear function of several parameters pass its values.

    Parameters
    ----------
    draws_p, draws_q
        Draws of each law, one row a pair of datasets; at least 2 independent pairs and 4 draws.
        Draws of Markov chains must be ordered by chain, so that halves are independent.

    Returns
    -------
    WassersteinEstimate
        In the unit of the draws.

    Raises
    ------
    ValueError
        If there are too few pairs or draws, or one is not finite.

    References
    ----------
    Ramdas, Garcia Trillos & Cuturi (2017) for the distance on the line.

    Examples
    --------
    >>> p, q = np.random.default_rng(0).normal(size=(2, 20, 400))
    >>> found = wasserstein_of_draws(p + 1.0, q)
    >>> found.lower.value < found.upper.value, bool(abs(found.lower.value - 1.0) < 0.05)
    (True, True)
    """
    if draws_p.shape[0] != draws_q.shape[0] or draws_p.shape[0] < 2:
        raise ValueError(
            "draws_p and draws_q must have one row per pair, equally many and at least 2, got "
            f"{draws_p.shape[0]} and {draws_q.shape[0]}."
        )
    if min(draws_p.shape[1], draws_q.shape[1]) < 4:
        raise ValueError(
            "draws_p and draws_q must have at least 4 draws a row, got "
            f"{draws_p.shape[1]} and {draws_q.shape[1]}; give some hundreds."
        )
    for name, draws in (("draws_p", draws_p), ("draws_q", draws_q)):
        if not np.isfinite(draws).all():
            raise ValueError(f"{name} must be finite; drop pairs with NaN and infinite draws.")
    p, q = draws_p.astype(np.float64), draws_q.astype(np.float64)
    plugged = np.array([wasserstein_distance(a, b) for a, b in zip(p, q, strict=True)])
    judged = np.array([_judged(a, b) for a, b in zip(p, q, strict=True)])
    kept = np.ones(len(p), bool)
    upper, lower = average(plugged, kept), average(judged, kept)
    critics = Lipschitz(1.0, math.inf)
    bounds = [
        CapacityBound(found.value, "ipm", critics, status="estimate", source=source)
        for found, source in ((upper, "distance of draws"), (lower, "fitted critic, fresh draws"))
    ]
    return WassersteinEstimate(bounds[0], upper.se, bounds[1], lower.se, len(p))


def _judged(p: Float[np.ndarray, " draws"], q: Float[np.ndarray, " others"]) -> float:
    halves = [(x[: x.size // 2], x[x.size // 2 :]) for x in (p, q)]
    (p_first, p_second), (q_first, q_second) = halves
    there = _attained(p_first, q_first, p_second, q_second)
    return (there + _attained(p_second, q_second, p_first, q_first)) / 2


def _attained(
    p: Float[np.ndarray, " draws"],
    q: Float[np.ndarray, " others"],
    fresh_p: Float[np.ndarray, " fresh"],
    fresh_q: Float[np.ndarray, " rest"],
) -> float:
    """Fit the best critic to some draws, slope ``sign(F_q - F_p)``, and judge it on others."""
    knots = np.sort(np.concatenate([p, q]))
    below = [np.searchsorted(np.sort(x), knots[:-1], side="right") / x.size for x in (p, q)]
    slopes = np.sign(below[1] - below[0])
    values = np.concatenate([[0.0], np.cumsum(slopes * np.diff(knots))])
    # Flat beyond the draws it was fitted to: still of Lipschitz constant 1.
    mean_p, mean_q = (float(np.mean(np.interp(x, knots, values))) for x in (fresh_p, fresh_q))
    return mean_p - mean_q
