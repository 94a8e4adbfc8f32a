"""A population made of the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import PRNGKeyArray, PyTree

from gibbs_dp.model.populations.base import as_examples, num_examples


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

    Raises
    ------
    ValueError
        If the table is empty, ragged, or holds NaN.
    """

    data: Any
    replace: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", as_examples(self.data, "table"))

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return num_examples(self.data)

    @property
    def conditional(self) -> bool:
        """Whether standard errors are conditional on the table."""
        return not self.replace

    def check_size(self, n: int, num_ghosts: int) -> None:
        """Raise a ValueError when split mode asks for more rows than there are."""
        if not self.replace and n + num_ghosts > self.num_rows:
            raise ValueError(
                f"n: {n} training rows and {num_ghosts} ghosts need {n + num_ghosts} disjoint "
                f"rows, but the table has {self.num_rows}; lower n or num_ghosts, or sample with "
                "replacement."
            )

    def sample(self, key: PRNGKeyArray, n: int, num_ghosts: int) -> tuple[PyTree, PyTree]:
        """Draw ``n`` training rows and ``num_ghosts`` ghost rows."""
        total = n + num_ghosts
        if self.replace:
            rows = jax.random.randint(key, (total,), 0, self.num_rows)
        else:
            rows = jax.random.choice(key, self.num_rows, (total,), replace=False)
        return (
            jax.tree.map(lambda a: a[rows[:n]], self.data),
            jax.tree.map(lambda a: a[rows[n:]], self.data),
        )


def _unflatten(replace: bool, children: tuple[Any]) -> Table:
    new = object.__new__(Table)  # leaves may be tracers: validated when first built
    object.__setattr__(new, "data", children[0])
    object.__setattr__(new, "replace", replace)
    return new


jax.tree_util.register_pytree_node(Table, lambda p: ((p.data,), p.replace), _unflatten)
