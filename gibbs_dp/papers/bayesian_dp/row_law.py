"""Laws of dependent rows: what the lemmas on Bayesian DP need, and tables over a few rows."""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from gibbs_dp.exact.types import require_cells
from gibbs_dp.information import checks


@dataclass(frozen=True, eq=False)
class Factor:
    """A table of nonnegative weights of the values of some rows."""

    scope: tuple[int, ...]
    table: Float[np.ndarray, ...]

    def given(self, known: Mapping[int, int]) -> Factor:
        """Fix the values of some rows."""
        index = tuple(known.get(v, slice(None)) for v in self.scope)
        left = tuple(v for v in self.scope if v not in known)
        return Factor(left, np.asarray(self.table[index]))

    def spreads(self) -> Float[np.ndarray, " members"]:
        r"""Projective diameter for each member, nats."""
        return np.array([_spread(np.moveaxis(self.table, k, 0)) for k in range(self.table.ndim)])


def product(factors: Sequence[Factor], scope: Sequence[int]) -> Factor:
    """Multiply factors and sum out what is not in ``scope``."""
    sizes = {v: size for f in factors for v, size in zip(f.scope, f.table.shape, strict=True)}
    require_cells("cells of a table", int(np.prod([float(s) for s in sizes.values()])))
    labels = {v: k for k, v in enumerate(sizes)}
    operands: list[Any] = []
    for factor in factors:
        operands += [factor.table, [labels[v] for v in factor.scope]]
    table = np.einsum(*operands, [labels[v] for v in scope], optimize=len(factors) > 2)
    return Factor(tuple(scope), np.asarray(table))


def absorbed(factors: Iterable[Factor]) -> list[Factor]:
    """Multiply each factor into one that has all its rows, where there is one."""
    kept: list[Factor] = []
    having: dict[int, list[int]] = {}  # row -> which of the kept have it
    for factor in sorted(factors, key=lambda f: -len(f.scope)):
        near = having.get(factor.scope[0], ())
        home = next((k for k in near if set(factor.scope) <= set(kept[k].scope)), None)
        if home is None:
            for v in factor.scope:
                having.setdefault(v, []).append(len(kept))
            kept.append(factor)
        else:
            parts = [Factor(f.scope, _rescaled(f.table)) for f in (kept[home], factor)]
            kept[home] = product(parts, kept[home].scope)
    return kept


def eliminate(factors: Iterable[Factor], keep: Sequence[int]) -> Float[np.ndarray, ...]:
    """Law of some rows under the product of factors, all others summed out.

    Rows leave in the order of fewest neighbours. Weights are rescaled on the way, so that
    thousands of rows neither overflow nor vanish.

    Examples
    --------
    >>> pair = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> chain = [Factor((i, i + 1), pair) for i in range(2000)]
    >>> eliminate(chain, [0, 2]).round(4)
    array([[0.41, 0.09],
           [0.09, 0.41]])
    """
    live = dict(enumerate(factors))
    homes: dict[int, set[int]] = {}
    for key, factor in live.items():
        for v in factor.scope:
            homes.setdefault(v, set()).add(key)

    def around(v: int) -> set[int]:
        return {u for key in homes[v] for u in live[key].scope}

    queue = [(len(around(v)), v) for v in homes if v not in set(keep)]
    heapq.heapify(queue)
    fresh = len(live)
    while queue:
        degree, v = heapq.heappop(queue)
        near = around(v)
        if len(near) > degree:  # it has more neighbours by now
            heapq.heappush(queue, (len(near), v))
            continue
        joined = product([live[key] for key in homes[v]], sorted(near - {v}))
        for key in homes.pop(v):
            for u in live.pop(key).scope:
                if u != v:
                    homes[u].discard(key)
        live[fresh] = Factor(joined.scope, _rescaled(joined.table))
        for u in joined.scope:
            homes[u].add(fresh)
        fresh += 1
    table = product(list(live.values()), keep).table
    return np.asarray(table / _total(table))


def _spread(table: Float[np.ndarray, ...]) -> float:
    flat = table.reshape(table.shape[0], -1)
    allowed = flat > 0
    if np.any(allowed.any(axis=0) != allowed.all(axis=0)):
        return float("inf")
    logs = np.log(flat[:, allowed.all(axis=0)])
    if logs.size == 0:
        return 0.0
    return max(float(np.ptp(logs - logs[k], axis=1).max()) for k in range(logs.shape[0]))


def _rescaled(table: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    _total(table)
    return np.asarray(table / table.max())


def _total(table: Float[np.ndarray, ...]) -> float:
    total = float(table.sum())
    if not (0 < total < np.inf):
        raise ValueError(
            "potentials: no dataset has a positive and finite weight; let some values be possible."
        )
    return total


NodeSet = frozenset[int]


class RowLaw(ABC):
    """A law of ``length`` rows whose Markov quilts are known."""

    if TYPE_CHECKING:  # a field of some, computed by others

        @property
        def length(self) -> int:
            """Number of rows."""

    @abstractmethod
    def blanket(self, row: int) -> NodeSet:
        """Markov blanket of a row."""

    @abstractmethod
    def quilts(self, row: int) -> dict[NodeSet, NodeSet]:
        """Quilts of a row and their nearby sets, the trivial one (empty quilt) among them."""

    @abstractmethod
    def joint(self) -> Float[np.ndarray, ...]:
        """Law of all rows, an axis each, by enumeration."""


class FactorLaw(RowLaw):
    """A product of tables over few rows each."""

    @cached_property
    @abstractmethod
    def factors(self) -> list[Factor]:
        """Tables whose product is the law, up to a constant; none inside another."""


class ChainLaw(RowLaw):
    """A homogeneous Markov chain on a few states."""

    @property
    @abstractmethod
    def matrix(self) -> Float[np.ndarray, "states states"]:
        """Transition matrix."""

    @property
    @abstractmethod
    def num_states(self) -> int:
        """Number of states."""

    @property
    @abstractmethod
    def stationary(self) -> Float[np.ndarray, " states"]:
        """The law that a step leaves unchanged."""

    @property
    @abstractmethod
    def is_stationary(self) -> bool:
        """Whether every row has the stationary law."""

    @property
    @abstractmethod
    def absolute_gap(self) -> float:
        """Absolute spectral gap, of a reversible chain."""

    @abstractmethod
    def marginal(self, row: int) -> Float[np.ndarray, " states"]:
        """Law of a row."""


# Bayesian differential privacy of tiny problems, exactly: every adversary, every dataset.
#
# ``joint`` is the law of the ``n`` rows, an axis each. An adversary ``(i, K)`` knows the rows ``K``
# and attacks row ``i`` (Yang, Sato & Nakagawa 2015).


Joint = Float[np.ndarray, "..."]
MAX_ROWS = 10


def adversaries(n: int) -> Iterator[tuple[int, NodeSet]]:
    """Yield every pair ``(i, K)``."""
    if checks.count("n", n) > MAX_ROWS:
        raise ValueError(f"n: {n} rows have too many adversaries; enumerate at most {MAX_ROWS}.")
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for known in itertools.combinations(others, size):
                yield i, frozenset(known)


def max_influence(joint: ArrayLike, row: int, quilt: Iterable[int], known: Iterable[int]) -> float:
    """``sup log P(x_Q | x_i, x_K) / P(x_Q | x_i', x_K)`` by enumeration, in nats."""
    law = checks.joint_law("joint", joint)
    q, k = frozenset(quilt), frozenset(known)
    if row in q | k or q & k or not (q | k | {row}) <= set(range(law.ndim)):
        raise ValueError("row, quilt and known must be disjoint rows of the joint law.")
    if not q:
        return 0.0
    table = grouped(law, row, k, q)  # [x_K, x_i, x_Q]
    total = table.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(table) - np.log(total)
    return worst_ratio(logs, total[:, :, 0] > 0)


def exact_bdp_leakage(mechanism: ArrayLike, joint: ArrayLike) -> float:
    """Bayesian leakage of a mechanism, ``sup log P(Y | x_i, x_K) / P(Y | x_i', x_K)``, in nats."""
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
    return max(_leakage(table, law, i, k) for i, k in adversaries(law.ndim))


def _leakage(table: Joint, law: Joint, row: int, known: NodeSet) -> float:
    both = grouped(law[..., None] * table, row, known, frozenset({law.ndim}))  # [x_K, x_i, Y]
    total = both.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(both) - np.log(total)
    return worst_ratio(logs, total[:, :, 0] > 0)


def grouped(
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


def worst_ratio(logs: Float[np.ndarray, "known row outcomes"], possible: np.ndarray) -> float:
    """Largest difference between two possible values of the row, at the same outcome."""
    usable = possible[:, :, None]
    high = np.where(usable, logs, -np.inf).max(axis=1)
    low = np.where(usable, logs, np.inf).min(axis=1)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isneginf(high) | np.isposinf(low), -np.inf, high - low)
    return max(0.0, float(gap.max()))
