"""What plots need of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from gibbs_dp.results.table import Column


@runtime_checkable
class Plotted(Protocol):
    """A report, as far as plots look at it; see :class:`gibbs_dp.Report`."""

    @property
    def rows(self) -> Sequence[dict[str, Any]]:
        """One dict per gamma."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked for."""
        ...

    @property
    def per_dataset(self) -> Sequence[dict[str, Float[np.ndarray, " _datasets"]]]:
        """Values of single datasets."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns that were computed."""
        ...

    @property
    def own_columns(self) -> Sequence[Column]:
        """Columns of quantities that are not the library's."""
        ...

    def __len__(self) -> int:
        """Rows."""
        ...

    def __getitem__(self, column: str) -> np.ndarray:
        """One column over gamma, NaN where absent."""
        ...
