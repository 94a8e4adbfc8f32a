"""Labels of classes: losses of two of them, and how labels are shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses.base import LinearLoss
from gibbs_dp.model.spread import distinct_values


@dataclass(frozen=True)
class TwoClassLoss(LinearLoss):
    """A linear loss of labels 0 and 1."""

    def clip(self, data: Any, domain: Domain) -> Any:
        """Project onto the domain, and labels onto [0, 1], where the constants hold."""
        x, y = super().clip(data, domain)
        return x, np.clip(y, 0.0, 1.0)

    def check_examples(self, data: Any) -> None:
        """Raise a ValueError unless the labels are 0 and 1."""
        super().check_examples(data)
        loss, found = type(self).__name__.lower(), distinct_values(data[1], limit=6)
        if not np.isin(found, (0, 1)).all():
            raise ValueError(
                f"data: the {loss} loss needs labels 0 and 1, got {shown(found)}; recode them."
            )

    def check_data(self, data: Any) -> None:
        """Raise a ValueError unless the labels are 0 and 1, both present."""
        super().check_data(data)
        loss, found = type(self).__name__.lower(), distinct_values(data[1], limit=6)
        if found.size < 2:
            raise ValueError(
                f"data: every label is {found[0]:g}; the {loss} loss needs both classes."
            )


def shown(values: Shaped[np.ndarray, " k"]) -> str:
    """Write out the first few of some numbers.

    >>> shown(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    '1, 2, 3, 4, ...'
    """
    return ", ".join(f"{v:g}" for v in values[:4]) + (", ..." if values.size > 4 else "")
