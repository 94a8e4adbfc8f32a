"""Group privacy: what ``k`` people learn or lose together, for every ``k``, by types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from gibbs_dp.exact.laws import mixture
from gibbs_dp.exact.types import (
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
    values: Float[np.ndarray, "types outputs"],
    size: int,
    data_probs: Float[np.ndarray, " values"],
) -> Float[np.ndarray, "bases outputs"]:
    """Average over one example of a function of ``size`` examples; zero weights silence ``inf``."""
    index = with_one_more(size, data_probs.size)
    seen = data_probs > 0
    return np.asarray(np.einsum("bvo,v->bo", values[index[:, seen]], data_probs[seen]))


def averages_given_rest(
    table: TypeTable, values: Float[np.ndarray, "types outputs"]
) -> list[Float[np.ndarray, "_ outputs"]]:
    """Means of ``values`` over the last ``k`` examples, given the others, for ``k = 0..n``.

    Returns
    -------
    means
        Entry ``k`` is ``[types of n - k, outputs]``.

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> averages_given_rest(table, np.exp(table.log_laws))[1]
    array([[0.5, 0.5]])
    """
    means = [values]
    for size in range(table.n, 0, -1):
        means.append(_down(means[-1], size, table.data_probs))
    return means


def group_privacy(table: TypeTable) -> GroupPrivacy:
    """DP and on-average KL of groups of every size, from one pass down the sizes.

    ``E KL = E sum_w p log p - E sum_w E[p | rest] E[log p | rest]``, since given the rest the
    two groups are independent and alike; logs are taken against the mean law, which cancels.
    Output laws must be positive where the mixture is (Gibbs posteriors are).

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> group_privacy(table).on_average_kl.round(6)
    array([0.274653])
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
    """Supremum of a divergence over datasets that differ in at most ``group_size`` examples.

    Parameters
    ----------
    table
        Output laws by type.
    group_size
        ``k``, from 1 to ``n``.
    divergence
        Such as `batched.kl` or `batched.total_variation`.

    Returns
    -------
    float
        The supremum, in the unit of the divergence.

    Raises
    ------
    ValueError
        If ``k > n``, or ``types(n - k) types(k)^2 outputs`` is too large to go through.

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> worst_group_divergence(table, 1, batched.total_variation)
    0.5
    """
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
    """``E [L(W, Z~) - L(W, Z)]``, ``Z~`` having ``group_size`` ghosts, for any loss of the type.

    Examples
    --------
    >>> table = TypeTable(1, np.array([0.5, 0.5]), np.log([[0.25, 0.75], [0.75, 0.25]]))
    >>> expected_gap(table, np.array([[1.0, 0.0], [0.0, 1.0]]), 1)
    0.25
    """
    law = np.exp(table.log_laws)
    # A function of the output alone cancels; taking the mean loss away keeps digits.
    loss = total_loss - np.exp(table.log_weight) @ total_loss
    rest = averages_given_rest(table, law)[group_size]
    fresh = averages_given_rest(table, loss)[group_size]
    counts = enumerate_types(table.n - group_size, table.data_probs.size)
    weight = np.exp(log_type_probabilities(counts, table.data_probs))
    seen = np.exp(table.log_weight) @ (law * loss).sum(axis=1)
    return float(weight @ (rest * fresh).sum(axis=1) - seen)
