"""The ladder of privacy notions, from the neighbouring pairs of a finite problem.

Every function takes an iterable of `Neighbours` and is a supremum, or an average, over it. The
pairs set the adjacency: replacements (which hold both orders of every pair) or removals (of which
both directions are taken here).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

from gibbs_dp.exact import laws
from gibbs_dp.exact.laws import mixture
from gibbs_dp.exact.types import (
    Neighbours,
    TypeTable,
    enumerate_types,
    log_type_probabilities,
    num_types,
    require_cells,
    type_index,
    with_one_more,
)
from gibbs_dp.information import checks
from gibbs_dp.information.divergences import batched

Pairs = Iterable[Neighbours]
MAX_STACKED = 1 << 16  # entries of a law: larger tables gain nothing from stacking


def worst(pairs: Pairs, divergence: batched.Divergence) -> float:
    """Supremum over the pairs, both directions of removals, of a divergence."""
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
    """``sup |log p/q|`` over outputs, one number per pair of datasets, in nats."""
    forward = batched.max_divergence(pair.log_p, pair.log_q)
    return np.asarray(np.maximum(forward, batched.max_divergence(pair.log_q, pair.log_p)))


def privacy_curve(pairs: Pairs, epsilons: Sequence[float]) -> Float[np.ndarray, " epsilons"]:
    """``delta(epsilon) = sup E_{e^epsilon}(p || p')`` for every ``epsilon``."""
    held = _stacked(pairs)

    def stick(g: float) -> batched.Divergence:
        return lambda log_p, log_q: batched.hockey_stick(log_p, log_q, g)

    return np.array([worst(held, stick(math.exp(eps))) for eps in epsilons])


def _renyi(alpha: float) -> batched.Divergence:
    return lambda log_p, log_q: batched.renyi(log_p, log_q, alpha)


def renyi_curve(pairs: Pairs, orders: Sequence[float]) -> Float[np.ndarray, " orders"]:
    """Rényi DP: ``sup D_alpha(p || p')`` for every order, in nats."""
    held = _stacked(pairs)
    return np.array([worst(held, _renyi(alpha)) for alpha in orders])


def zcdp(pairs: Pairs) -> float:
    """Zero-concentrated DP: ``rho = sup_{alpha > 1} sup D_alpha(p || p') / alpha``.

    The orders are searched on a grid from 1 to 1000 and refined around its best point. ``inf``
    where any order is infinite.
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


def random_dp_law(pairs: Pairs) -> tuple[Float[np.ndarray, " pairs"], Float[np.ndarray, " pairs"]]:
    """Privacy loss of every pair of datasets, ascending, and its probability."""
    held = _stacked(pairs)
    loss = np.concatenate([privacy_loss(pair) for pair in held])
    mass = np.concatenate([np.exp(pair.log_weight) for pair in held])
    order = np.argsort(loss, kind="stable")
    return loss[order], mass[order]


def random_dp_epsilon(pairs: Pairs, omega: float) -> float:
    """Least ``epsilon`` that holds for a ``1 - omega`` fraction of pairs."""
    loss, mass = random_dp_law(pairs)
    beyond = np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]])
    # The first position from which at most omega lies beyond; the loss before it is the answer.
    first = int(np.argmax(beyond <= omega + 1e-14))
    return 0.0 if first == 0 else float(loss[first - 1])


def personalized_dp(pairs: Pairs, num_values: int) -> Float[np.ndarray, " values"]:
    """``epsilon(z)``: the largest privacy loss over datasets that contain the person ``z``."""
    values = np.zeros(num_values)
    for pair in pairs:
        values[pair.value] = max(values[pair.value], float(privacy_loss(pair).max()))
    return values


def average_removal_kl(pairs: Pairs) -> float:
    """``E KL(P_s || P_{s^-i})`` over removals, in nats: the average KL stability."""
    return sum(laws.average(pair.log_weight, batched.kl(pair.log_p, pair.log_q)) for pair in pairs)


# Group privacy: what ``k`` people learn or lose together, for every ``k``, by types.


MAX_PAIR_CELLS = 500_000_000


class GroupPrivacy(NamedTuple):
    """Privacy of groups of size ``k = 1..n``, replace-one, nats; arrays ``[n]``.

    ``dp_epsilon`` is the supremum over datasets that differ in at most ``k`` examples;
    ``on_average_kl`` the average over ``k`` ghosts.
    """

    group_size: Int[np.ndarray, " n"]
    dp_epsilon: Float[np.ndarray, " n"]
    on_average_kl: Float[np.ndarray, " n"]


def _down(
    values: Float[np.ndarray, "types outputs"], size: int, data_probs: Float[np.ndarray, " values"]
) -> Float[np.ndarray, "bases outputs"]:
    """Average over one example of a function of ``size`` examples; zero weights silence ``inf``."""
    index = with_one_more(size, data_probs.size)
    seen = data_probs > 0
    return np.asarray(np.einsum("bvo,v->bo", values[index[:, seen]], data_probs[seen]))


def averages_given_rest(
    table: TypeTable, values: Float[np.ndarray, "types outputs"]
) -> list[Float[np.ndarray, "_ outputs"]]:
    """Means of ``values`` over the last ``k`` examples, given the others, for ``k = 0..n``."""
    means = [values]
    for size in range(table.n, 0, -1):
        means.append(_down(means[-1], size, table.data_probs))
    return means


def group_privacy(table: TypeTable) -> GroupPrivacy:
    """DP and on-average KL of groups of every size, from one pass down the sizes.

    ``E KL = E sum_w p log p - E sum_w E[p | rest] E[log p | rest]``, since given the rest the
    two groups are independent and alike; logs are taken against the mean law, which cancels.
    Output laws must be positive where the mixture is (Gibbs posteriors are).
    """
    m, n = table.data_probs.size, table.n
    law = np.exp(table.log_laws)
    tilt = table.log_laws - mixture(table.log_weight, table.log_laws)
    probability = averages_given_rest(table, law)
    tilts = averages_given_rest(table, tilt)
    weights = [
        np.exp(log_type_probabilities(enumerate_types(n - k, m), table.data_probs))
        for k in range(n + 1)
    ]
    start = float(weights[0] @ (law * tilt).sum(axis=1))
    kl = [
        start - float(weights[k] @ (probability[k] * tilts[k]).sum(axis=1)) for k in range(1, n + 1)
    ]
    highest = lowest = table.log_laws
    epsilon = []
    for size in range(n, 0, -1):
        index = with_one_more(size, m)
        highest, lowest = highest[index].max(axis=1), lowest[index].min(axis=1)
        epsilon.append(float((highest - lowest).max()))
    return GroupPrivacy(np.arange(1, n + 1), np.array(epsilon), np.array(kl))


def worst_group_divergence(
    table: TypeTable, group_size: int, divergence: batched.Divergence
) -> float:
    """Supremum of a divergence over datasets that differ in at most ``group_size`` examples."""
    m = table.data_probs.size
    checks.count("group_size", group_size)
    if group_size > table.n:
        raise ValueError(f"group_size must be at most n = {table.n}, got {group_size}; lower it.")
    cells = num_types(table.n - group_size, m) * num_types(group_size, m) ** 2
    require_cells("pairs of groups x hypotheses", cells * table.log_laws.shape[1], MAX_PAIR_CELLS)
    bases = enumerate_types(table.n - group_size, m)
    groups = enumerate_types(group_size, m)
    rows = [type_index(bases + group) for group in groups]
    return max(
        float(divergence(table.log_laws[a], table.log_laws[b]).max()) for a in rows for b in rows
    )


def expected_gap(
    table: TypeTable, total_loss: Float[np.ndarray, "types outputs"], group_size: int
) -> float:
    """``E [L(W, Z~) - L(W, Z)]``, ``Z~`` having ``group_size`` ghosts, for any loss of the type."""
    law = np.exp(table.log_laws)
    # A function of the output alone cancels; taking the mean loss away keeps digits.
    loss = total_loss - np.exp(table.log_weight) @ total_loss
    rest = averages_given_rest(table, law)[group_size]
    fresh = averages_given_rest(table, loss)[group_size]
    counts = enumerate_types(table.n - group_size, table.data_probs.size)
    weight = np.exp(log_type_probabilities(counts, table.data_probs))
    seen = np.exp(table.log_weight) @ (law * loss).sum(axis=1)
    return float(weight @ (rest * fresh).sum(axis=1) - seen)
