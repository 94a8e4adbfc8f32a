"""The ladder of privacy notions, from the neighbouring pairs of a finite problem.

Every function takes an iterable of `Neighbours` and is a supremum, or an average, over it. The
pairs set the adjacency: replacements (which hold both orders of every pair) or removals (of which
both directions are taken here).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar

from gibbs_dp.exact import laws
from gibbs_dp.exact.types import Neighbours
from gibbs_dp.information.divergences import batched

Pairs = Iterable[Neighbours]
MAX_STACKED = 1 << 16  # entries of a law: larger tables gain nothing from stacking


def worst(pairs: Pairs, divergence: batched.Divergence) -> float:
    """Supremum over the pairs, both directions of removals, of a divergence.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> worst(table.replacements(), batched.total_variation)
    0.5
    """
    value = -math.inf
    for pair in pairs:
        value = max(value, float(divergence(pair.log_p, pair.log_q).max()))
        if pair.other is None:
            value = max(value, float(divergence(pair.log_q, pair.log_p).max()))
    return value


def _stacked(pairs: Pairs) -> list[Neighbours]:
    """Stack small tables, for suprema that are taken many times."""
    held = list(pairs)
    size = sum(pair.log_p.size for pair in held)
    if size > MAX_STACKED or len({pair.other is None for pair in held}) != 1:
        return held
    parts = zip(*(pair[2:] for pair in held), strict=True)
    return [Neighbours(*held[0][:2], *map(np.concatenate, parts))]


def privacy_loss(pair: Neighbours) -> Float[np.ndarray, " bases"]:
    """``sup |log p/q|`` over outputs, one number per pair of datasets, in nats.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> privacy_loss(next(table.replacements())).round(6)
    array([1.098612])
    """
    forward = batched.max_divergence(pair.log_p, pair.log_q)
    return np.asarray(np.maximum(forward, batched.max_divergence(pair.log_q, pair.log_p)))


def privacy_curve(pairs: Pairs, epsilons: Sequence[float]) -> Float[np.ndarray, " epsilons"]:
    """``delta(epsilon) = sup E_{e^epsilon}(p || p')`` for every ``epsilon``.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> privacy_curve(table.replacements(), [0.0, 2.0])
    array([0.5, 0. ])
    """
    held = _stacked(pairs)

    def stick(g: float) -> batched.Divergence:
        return lambda log_p, log_q: batched.hockey_stick(log_p, log_q, g)

    return np.array([worst(held, stick(math.exp(eps))) for eps in epsilons])


def _renyi(alpha: float) -> batched.Divergence:
    return lambda log_p, log_q: batched.renyi(log_p, log_q, alpha)


def renyi_curve(pairs: Pairs, orders: Sequence[float]) -> Float[np.ndarray, " orders"]:
    """Rényi DP: ``sup D_alpha(p || p')`` for every order, in nats.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> renyi_curve(table.replacements(), [1.0, math.inf]).round(6)
    array([0.549306, 1.098612])
    """
    held = _stacked(pairs)
    return np.array([worst(held, _renyi(alpha)) for alpha in orders])


def zcdp(pairs: Pairs) -> float:
    """Zero-concentrated DP: ``rho = sup_{alpha > 1} sup D_alpha(p || p') / alpha``.

    The orders are searched on a grid from 1 to 1000 and refined around its best point. ``inf``
    where any order is infinite.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> round(zcdp(table.replacements()), 6)
    0.549306
    """
    held = _stacked(pairs)
    orders = np.concatenate([[1.0], 1 + np.geomspace(1e-3, 999, 40)])
    rates = np.array([worst(held, _renyi(float(a))) / float(a) for a in orders])
    best = int(np.argmax(rates))
    if not math.isfinite(rates[best]):
        return math.inf
    low, high = float(orders[max(best - 1, 0)]), float(orders[min(best + 1, orders.size - 1)])

    def negative(alpha: float) -> float:
        return -worst(held, _renyi(alpha)) / alpha

    found = minimize_scalar(negative, bounds=(low, high), method="bounded")
    return max(float(rates[best]), -float(found.fun))


def random_dp(pairs: Pairs) -> Callable[[float], float]:
    """Law of the privacy loss of a random pair ``(Z, z')``: the function ``epsilon -> omega``.

    ``omega(epsilon)`` is the probability that the pair is *not* ``epsilon``-indistinguishable
    (Hall, Rinaldo & Wasserman 2013).

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> omega = random_dp(table.replacements())
    >>> omega(1.0), omega(1.1)
    (0.5, 0.0)
    """
    loss, mass = random_dp_law(pairs)

    def omega(epsilon: float) -> float:
        # A loss equal to epsilon up to rounding is within epsilon.
        return float(mass[loss > epsilon * (1 + 1e-12) + 1e-14].sum())

    return omega


def random_dp_law(
    pairs: Pairs,
) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """Privacy loss of every pair of datasets, ascending, and its probability.

    Pairs whose ghost equals the example it replaces, of loss 0, carry the rest of the probability.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> loss, mass = random_dp_law(table.replacements())
    >>> mass
    array([0.25, 0.25])
    """
    held = _stacked(pairs)
    loss = np.concatenate([privacy_loss(pair) for pair in held])
    mass = np.concatenate([np.exp(pair.log_weight) for pair in held])
    order = np.argsort(loss, kind="stable")
    return loss[order], mass[order]


def random_dp_epsilon(pairs: Pairs, omega: float) -> float:
    """Least ``epsilon`` that holds for a ``1 - omega`` fraction of pairs.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> random_dp_epsilon(table.replacements(), omega=0.5)
    0.0
    """
    loss, mass = random_dp_law(pairs)
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    # The first position from which at most omega lies beyond; the loss before it is the answer.
    first = int(np.argmax(beyond <= omega + 1e-14))
    return 0.0 if first == 0 else float(loss[first - 1])


def personalized_dp(pairs: Pairs, num_values: int) -> Float[np.ndarray, " values"]:
    """``epsilon(z)``: the largest privacy loss over datasets that contain the person ``z``.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> personalized_dp(table.replacements(), 2).round(6)
    array([1.098612, 1.098612])
    """
    values = np.zeros(num_values)
    for pair in pairs:
        values[pair.value] = max(values[pair.value], float(privacy_loss(pair).max()))
    return values


def average_removal_kl(pairs: Pairs) -> float:
    """``E KL(P_s || P_{s^-i})`` over removals, in nats: the average KL stability.

    Examples
    --------
    >>> from gibbs_dp.exact.types import TypeTable
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> round(average_removal_kl(table.removals(np.log([[0.5, 0.5]]))), 6)
    0.130812
    """
    return sum(laws.average(pair.log_weight, batched.kl(pair.log_p, pair.log_q)) for pair in pairs)
