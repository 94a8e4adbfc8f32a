"""Bayesian differential privacy of tiny problems, exactly: every adversary, every dataset.

``joint`` is the law of the ``n`` rows, an axis each. An adversary ``(i, K)`` knows the rows ``K``
and attacks row ``i`` (Yang, Sato & Nakagawa 2015).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks

Joint = Float[np.ndarray, "..."]
NodeSet = frozenset[int]
MAX_ROWS = 10


def adversaries(n: int) -> Iterator[tuple[int, NodeSet]]:
    """Yield every pair ``(i, K)``.

    >>> len(list(adversaries(3)))
    12
    """
    if checks.count("n", n) > MAX_ROWS:
        raise ValueError(f"n: {n} rows have too many adversaries; enumerate at most {MAX_ROWS}.")
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for known in itertools.combinations(others, size):
                yield i, frozenset(known)


def max_influence(joint: ArrayLike, row: int, quilt: Iterable[int], known: Iterable[int]) -> float:
    """``sup log P(x_Q | x_i, x_K) / P(x_Q | x_i', x_K)`` by enumeration, in nats.

    Over all values that have positive probability; 0 if and only if conditionally independent.

    Parameters
    ----------
    joint
        Law of the rows, an axis each.
    row
        ``i``.
    quilt, known
        ``Q`` and ``K``; disjoint, and without ``i``.

    Returns
    -------
    float
        ``inf`` where a value of ``x_i`` excludes a value of ``x_Q``.

    Raises
    ------
    ValueError
        If the sets overlap or ``joint`` is not a law.

    Examples
    --------
    >>> round(max_influence([[0.4, 0.1], [0.1, 0.4]], 0, [1], []), 6)  # log 4
    1.386294
    """
    law = checks.joint_law("joint", joint)
    q, k = frozenset(quilt), frozenset(known)
    if row in q | k or q & k or not (q | k | {row}) <= set(range(law.ndim)):
        raise ValueError("row, quilt and known must be disjoint rows of the joint law.")
    if not q:
        return 0.0
    table = _grouped(law, row, k, q)  # [x_K, x_i, x_Q]
    total = table.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table) - np.log(total)
    return _worst_ratio(logs, total[:, :, 0] > 0)


def exact_bdp_leakage(
    mechanism: ArrayLike,
    joint: ArrayLike,
    row: int | None = None,
    known: Iterable[int] | None = None,
) -> float:
    """Bayesian leakage of a mechanism, ``sup log P(Y | x_i, x_K) / P(Y | x_i', x_K)``, in nats.

    Parameters
    ----------
    mechanism
        ``P(Y | x)``, ``[values, ..., values, outputs]``: an axis per row, then the outputs.
    joint
        Law of the rows, an axis each.
    row, known
        One adversary; by default the supremum over all.

    Returns
    -------
    float
        Nats.

    Raises
    ------
    ValueError
        If shapes disagree, something is not a law, or there are too many adversaries.

    Examples
    --------
    >>> response = np.array([[0.75, 0.25], [0.25, 0.75]])  # log 3 of DP, about row 0 alone
    >>> mechanism = np.stack([response, response], axis=1)
    >>> round(exact_bdp_leakage(mechanism, np.full((2, 2), 0.25)), 6)
    1.098612
    """
    law = checks.joint_law("joint", joint)
    table = np.asarray(mechanism, dtype=np.float64)
    if table.shape[:-1] != law.shape:
        raise ValueError(
            f"mechanism must have shape {[*law.shape, 'outputs']}, got {list(table.shape)}; give "
            "an axis per row, then the outputs."
        )
    if not np.allclose(table.sum(axis=-1), 1) or np.any(table < 0):
        raise ValueError("mechanism: each last axis must be a law; divide it by its sum.")
    require_cells("datasets x outputs", table.size)
    if (row is None) != (known is None):
        raise ValueError("row and known: give both for one adversary, or neither for all.")
    if row is not None and known is not None:
        return _leakage(table, law, row, frozenset(known))
    return max(_leakage(table, law, i, k) for i, k in adversaries(law.ndim))


def _leakage(table: Joint, law: Joint, row: int, known: NodeSet) -> float:
    both = _grouped(law[..., None] * table, row, known, frozenset({law.ndim}))  # [x_K, x_i, Y]
    total = both.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(both) - np.log(total)
    return _worst_ratio(logs, total[:, :, 0] > 0)


def _grouped(
    law: Joint, row: int, known: NodeSet, kept: NodeSet
) -> Float[np.ndarray, "known row kept"]:
    """Sum out all other axes, and flatten to ``[x_K, x_i, x_kept]``."""
    gone = tuple(a for a in range(law.ndim) if a != row and a not in known and a not in kept)
    order = [*sorted(known), row, *sorted(kept)]
    left = [a for a in range(law.ndim) if a not in gone]
    small = law.sum(axis=gone).transpose([left.index(a) for a in order])
    return np.asarray(small.reshape(-1, law.shape[row], _size(law, kept)))


def _size(law: Joint, axes: NodeSet) -> int:
    return int(np.prod([law.shape[a] for a in axes], dtype=np.int64))


def _worst_ratio(logs: Float[np.ndarray, "known row outcomes"], possible: np.ndarray) -> float:
    """Largest difference between two possible values of the row, at the same outcome."""
    usable = possible[:, :, None]
    high = np.where(usable, logs, -np.inf).max(axis=1)
    low = np.where(usable, logs, np.inf).min(axis=1)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(high) | np.isposinf(low), -np.inf, high - low)
    return max(0.0, float(gap.max()))
