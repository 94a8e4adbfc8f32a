"""A population made of the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree
from numpy.typing import ArrayLike

from gibbs_dp.information.checks import refuse_masked, refuse_missing_labels
from gibbs_dp.model.examples import as_examples, num_examples

# Walker's alias method: weighted rows in constant time.


def alias_table(weights: ArrayLike) -> tuple[Float[np.ndarray, " rows"], Int[np.ndarray, " rows"]]:
    """Split weights into cells of equal probability (Walker 1977, Vose 1991).

    Draw a row uniformly; keep it with probability ``share``, else take ``other``. Cumulative sums
    cannot tell a million rows apart in single precision; shares, each rounded alone, can.
    """
    given = np.asarray(weights, dtype=np.float64)
    total = given.sum()
    if not (np.isfinite(total) and total > 0 and given.min() >= 0):
        raise ValueError("weights: must be finite, at least 0, and not 0 everywhere.")
    scaled = given * (given.size / total)
    share, other = np.ones(given.size), np.arange(given.size)
    small = np.flatnonzero(scaled < 1).tolist()
    large = np.flatnonzero(scaled >= 1).tolist()
    rest = scaled.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        share[low], other[low] = rest[low], high
        rest[high] -= 1.0 - rest[low]
        if rest[high] < 1:
            small.append(large.pop())
    return share, other


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table as the population.

    Parameters
    ----------
    data
        Pytree whose leaves have leading axis ``num_rows``.
    replace
        True (default): datasets are drawn from the table's rows with replacement; the table *is*
        the population, and every identity holds exactly for it. False (split mode): the
        ``n`` training rows and the ghosts of each dataset are disjoint rows, as in
        cross-validation; errors are then conditional on the table.
    weights
        With replacement: ``[num_rows]`` numbers >= 0; a row is drawn with probability
        proportional to its weight, as if it were in the table that many times.
    groups
        In split mode: ``[num_rows]`` labels, none of them missing; rows of one group stay on one
        side. Training sets
        are then whole groups in random order (the last one cut to fit), whose rows depend on each
        other: only the whole dataset can be replaced, and audits need ``group_size = n``.
    row_numbers
        ``[num_rows]`` whole numbers that reports call the rows by, such as those of a file that
        some rows were left out of; by default 0, 1, ... Nothing is computed from them.

    Raises
    ------
    ValueError
        If the table is empty, ragged, or holds NaN, or weights, groups or row numbers do not fit
        it.

    Examples
    --------
    >>> table = Table(np.arange(6.0), replace=False, groups=np.array([0, 0, 1, 1, 2, 2]))
    >>> train, ghosts = table.sample(jax.random.key(0), 2, 2)
    >>> bool((train // 2 == train[0] // 2).all() & (ghosts // 2 != train[0] // 2).all())
    True
    """

    data: Any
    replace: bool = True
    weights: Any = None
    groups: Any = None
    row_numbers: Any = None

    def __post_init__(self) -> None:
        if np.ndim(self.replace) != 0:
            raise ValueError(
                "Table(replace): must be True or False; examples and labels are one table: "
                "Table((x, y))."
            )
        object.__setattr__(self, "data", as_examples(self.data, "table", is_copied=True))
        if self.weights is not None:
            if not self.replace:
                raise ValueError(
                    "Table(weights): weighted rows are drawn with replacement; drop the split."
                )
            weights = self._column(self.weights, "weights")
            object.__setattr__(self, "weights", tuple(map(jnp.asarray, alias_table(weights))))
        if self.groups is not None:
            if self.replace:
                raise ValueError(
                    "Table(groups): rows drawn with replacement may be on both sides anyway; "
                    "use split mode (replace=False, --split)."
                )
            refuse_missing_labels("Table(groups)", self.groups)
            codes = _codes(self._column(self.groups, "groups"))
            object.__setattr__(self, "groups", jnp.asarray(codes))
            object.__setattr__(self, "_group_sizes", _sizes(codes))
        if self.row_numbers is not None:
            numbers = self._column(self.row_numbers, "row_numbers")
            if numbers.dtype.kind not in "iu":
                raise ValueError("Table(row_numbers): they must be whole numbers.")
            object.__setattr__(self, "row_numbers", numbers.astype(np.int64))

    _group_sizes: tuple[int, int] = (0, 0)  # number of groups, rows of the largest

    def _column(self, values: Any, name: str) -> np.ndarray:
        refuse_masked(f"Table({name})", values)
        column = np.asarray(values)
        if column.shape != (self.num_rows,):
            raise ValueError(
                f"Table({name}): shape {column.shape} for {self.num_rows} rows; give one number "
                "per row."
            )
        return column

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return num_examples(self.data)

    def with_data(self, data: PyTree) -> Table:
        """Return a table of other rows, one for each, with weights, groups and numbers of these.

        Raises
        ------
        ValueError
            If there are more or fewer rows, or they are ragged or hold NaN.
        """
        examples = as_examples(data, "table", is_copied=True)
        if num_examples(examples) != self.num_rows:
            raise ValueError(
                f"data: {num_examples(examples)} rows for {self.num_rows}; give one for each."
            )
        static = self.replace, self._group_sizes
        new = _unflatten(static, (examples, self.weights, self.groups))
        object.__setattr__(new, "row_numbers", self.row_numbers)
        return new

    @property
    def is_conditional(self) -> bool:
        """Whether standard errors are conditional on the table."""
        return not self.replace

    @property
    def is_dependent(self) -> bool:
        """Whether only whole datasets may be replaced."""
        return self.groups is not None

    def check_size(self, n: int, num_ghosts: int) -> None:
        """Raise a ValueError when split mode asks for more rows than there are."""
        if self.replace:
            return
        num_datasets = 1 + -(-num_ghosts // n)
        lost = (num_datasets - 1) * (self._group_sizes[1] - 1) if self.is_dependent else 0
        if n + num_ghosts + lost > self.num_rows:
            cut = f", and up to {lost} of cut groups," if lost else ""
            raise ValueError(
                f"n: {n} training rows and {num_ghosts} ghosts{cut} need {n + num_ghosts + lost} "
                f"disjoint rows, but the table has {self.num_rows}; lower n or num_ghosts, or "
                "sample with replacement."
            )

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training rows and ``num_ghosts`` ghost rows."""
        rows = self.draw_rows(key, n, num_ghosts)
        return (
            jax.tree.map(lambda a: a[rows[:n]], self.data),
            jax.tree.map(lambda a: a[rows[n:]], self.data),
        )

    def draw_rows(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> Int[Array, " total"]:
        """Draw which rows :meth:`sample` takes: the ``n`` of training, then those of ghosts.

        Examples
        --------
        >>> table, key = Table(np.arange(6.0) ** 2), jax.random.key(0)
        >>> rows = table.draw_rows(key, 2, 2)
        >>> bool((table.sample(key, 2, 2)[0] == table.data[rows[:2]]).all())
        True
        """
        total = n + num_ghosts
        if self.weights is not None:
            share, other = self.weights
            return _weighted_rows(key, share, other, total)
        if self.groups is not None:
            return self._grouped_rows(key, n, num_ghosts)
        if self.replace:
            return jax.random.randint(key, (total,), 0, self.num_rows)
        return jax.random.choice(key, self.num_rows, (total,), replace=False)

    def _grouped_rows(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> Int[Array, " total"]:
        """Datasets of ``n`` rows, one after the other, each beginning with a group of its own."""
        group_key, row_key = jax.random.split(key)
        mixed = jax.random.permutation(row_key, self.num_rows)
        rank = jax.random.permutation(group_key, self._group_sizes[0])[self.groups[mixed]]
        order = jnp.argsort(rank, stable=True)
        rank = rank[order]
        parts, begin = [], jnp.zeros((), int)
        for _ in range(1 + -(-num_ghosts // n)):
            parts.append(mixed[jax.lax.dynamic_slice(order, (begin,), (n,))])
            begin = jnp.searchsorted(rank, rank[begin + n - 1], side="right")
        return jnp.concatenate(parts)[: n + num_ghosts]


def _codes(labels: np.ndarray) -> Int[np.ndarray, " rows"]:
    """Give groups numbers; labels of several types are compared as texts."""
    held = labels.astype(str) if labels.dtype.kind == "O" else labels
    return np.asarray(np.unique(held, return_inverse=True)[1])


def _sizes(codes: Int[np.ndarray, " rows"]) -> tuple[int, int]:
    counts = np.bincount(codes)
    return len(counts), int(counts.max())


def _weighted_rows(
    key: PRNGKeyArray, share: Float[Array, " rows"], other: Int[Array, " rows"], count: int
) -> Int[Array, " count"]:
    row_key, share_key = jax.random.split(key)
    rows = jax.random.randint(row_key, (count,), 0, share.shape[0])
    stays = jax.random.uniform(share_key, (count,), share.dtype) < share[rows]
    return jnp.where(stays, rows, other[rows])


def _flatten(table: Table) -> tuple[tuple[Any, Any, Any], tuple[bool, tuple[int, int]]]:
    return (table.data, table.weights, table.groups), (table.replace, table._group_sizes)


def _unflatten(static: tuple[bool, tuple[int, int]], children: tuple[Any, Any, Any]) -> Table:
    new = object.__new__(Table)  # leaves may be tracers: validated when first built
    for name, value in zip(("data", "weights", "groups"), children, strict=True):
        object.__setattr__(new, name, value)
    object.__setattr__(new, "row_numbers", None)  # of reports, which see tables as they were made
    object.__setattr__(new, "replace", static[0])
    object.__setattr__(new, "_group_sizes", static[1])
    return new


jax.tree_util.register_pytree_node(Table, _flatten, _unflatten)
