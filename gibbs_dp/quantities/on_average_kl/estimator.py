"""The contract of estimators of on-average KL."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Array, Bool, Float

from gibbs_dp.engine.quantity import Column
from gibbs_dp.engine.view import PairView, View


class Estimator:
    """One way to estimate the on-average KL of a dataset; its methods are those of quantities.

    Attributes
    ----------
    name
        What users call it.
    Values
        Named tuple of arrays that a dataset leaves behind.
    column
        Of its mean, where reports always show it; None: only where it is chosen.
    note
        What a reader of rows that use it must know; None: nothing.
    """

    name: ClassVar[str]
    Values: ClassVar[type]
    column: ClassVar[Column | None] = None
    note: ClassVar[str | None] = None

    @property
    def field(self) -> str:
        """Name as an identifier."""
        return self.name.replace("-", "_")

    def of_pair(self, pair: PairView) -> Float[Array, ""] | None:
        """Compare a dataset with one of its replaced versions, which are then sampled too."""

    def per_dataset(self, view: View) -> Any:
        """Reduce the draws of one dataset to ``Values``."""
        raise NotImplementedError

    def fitted(self, values: Any, is_kept: Bool[np.ndarray, " datasets"]) -> Any:
        """``Values`` of many datasets after what is fitted over them."""
        del is_kept
        return values

    def value_of(self, values: Any) -> Float[np.ndarray, " datasets"]:
        """Every dataset's estimate, nats."""
        raise NotImplementedError
