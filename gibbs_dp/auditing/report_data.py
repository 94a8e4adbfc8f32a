"""What a report holds: rows and columns, as far as tables, pictures and pages look at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from gibbs_dp.engine.quantity import RowTable
from gibbs_dp.quantities.registry import COLUMNS
from gibbs_dp.results.table import Column, with_error

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class ReportData:
    """The data of a report; see :class:`gibbs_dp.Report`."""

    rows: tuple[dict[str, Any], ...]
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    per_dataset: tuple[dict[str, Float[np.ndarray, " _datasets"]], ...] = field(
        default=(), compare=False
    )
    curves: tuple[dict[str, dict[str, Float[np.ndarray, " _points"]]], ...] = field(
        default=(), compare=False
    )
    row_tables: tuple[RowTable, ...] = field(default=(), compare=False)
    own_columns: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> np.ndarray:
        """One column over gamma, NaN where absent."""
        if column not in self.columns:
            raise KeyError(f"{column!r} is not in the report; it has {', '.join(self.columns)}")
        return np.array([row.get(column, np.nan) for row in self.rows])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that were computed, in order."""
        names: dict[str, None] = {}
        for row in self.rows:
            names |= dict.fromkeys(row)
        return tuple(names)

    @property
    def _known_columns(self) -> dict[str, Column]:
        """Every column that it may have, by name: the library's, and one's own."""
        return COLUMNS | {column.name: column for column in self.own_columns}

    def _texts(self, most: int | None = None) -> dict[str, list[str]]:
        """Return the columns of the printed table, by their names: a text a gamma."""
        rows, present = self.rows[:most], set(chain.from_iterable(self.rows[:most]))
        found = {"gamma": [f"{row['gamma']:g}" for row in rows]}
        for column in self._known_columns.values():
            if column.title is not None and column.name in present:
                found[column.name] = [_cell(row, column.name) for row in rows]
        return found

    def to_dataframe(self) -> pd.DataFrame:
        """All columns, indexed by gamma."""
        import pandas as pd  # slow to import

        return pd.DataFrame(list(self.rows), columns=list(self.columns)).set_index("gamma")


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return "-"
    value = row[name]
    if f"{name}_se" in row:
        return with_error(value, row[f"{name}_se"])
    return f"{value:.3g}" if isinstance(value, float) else str(value)
