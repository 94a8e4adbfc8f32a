"""What private means and medians share."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import validate_data

from gibbs_dp.privacy.private_data import unobserved
from gibbs_dp.sklearn.base import PrivateEstimator
from gibbs_dp.sklearn.cells import private_rows
from gibbs_dp.sklearn.features import declared_pair, refuse_other_types
from gibbs_dp.sklearn.leaks import leak
from gibbs_dp.sklearn.plan import Facts

Rows = Float[np.ndarray, "rows columns"]
Columns = Float[np.ndarray, " columns"]


class PrivateLocation(PrivateEstimator):
    """What both share: bounds, and rows moved into them and mapped to [0, 1]."""

    bounds: Any

    def __init__(
        self,
        epsilon: Any = 1.0,
        delta: Any = 0.0,
        *,
        bounds: Any = None,
        adjacency: Any = "replace-one",
        ledger: Any = None,
        accept: Any = ("float-arithmetic",),
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.adjacency = adjacency
        self.ledger = ledger
        self.accept = accept
        self.random_state = random_state

    n = None

    def _mapped(self, X: Any, kept: list[str]) -> tuple[Rows, Columns, Columns]:
        """Return rows in the unit cube, and the bounds that map there."""
        if self.adjacency != "replace-one":
            raise ValueError("adjacency: means and medians are for replace-one neighbours; use it.")
        refuse_other_types("X", X)
        if self.bounds is None:
            rows = validate_data(self, X, dtype=np.float64)
        else:
            rows = private_rows(self, X)
        self._check_target(len(rows))
        if self.bounds is None:
            leak(
                "bounds: taken from the data, which no guarantee covers; declare "
                "bounds=(low, high) of the columns without looking at them.",
                kept,
            )
            low, high = rows.min(axis=0), rows.max(axis=0)
            high = np.where(high > low, high, low + 1.0)
        else:
            low, high = declared_pair("bounds", self.bounds, rows.shape[1], self._columns)
        with unobserved():
            rows = (np.clip(rows, low, high) - low) / (high - low)
            return np.where(np.isnan(rows), 0.5, rows), low, high

    def _facts(self, rows: Rows) -> Facts:
        return Facts(len(rows), rows.shape[1], float(self.epsilon), float(self.delta))

    def _listed(self, values: Columns) -> str:
        names = self._columns or [f"column {i}" for i in range(len(values))]
        return ", ".join(f"{name} {value:.6g}" for name, value in zip(names, values, strict=True))
