"""A sweep: what to sample, and what to learn from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gibbs_dp._source import own_code
from gibbs_dp.engine.jobs import Asked
from gibbs_dp.engine.quantity import LeadingQuantity, Quantity


@dataclass(frozen=True, kw_only=True)
class Settings(Asked):
    """What is asked for, and the quantities that are learnt.

    ``leading`` is the quantity that steers the sweep; ``others`` are learnt beside it.
    """

    leading: LeadingQuantity
    others: tuple[Quantity, ...] = ()

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """All quantities, the leading one first."""
        return (self.leading, *self.others)

    @property
    def traced(self) -> tuple[Quantity, ...]:
        """What of the quantities a program is compiled for."""
        asked = (q for q in self.quantities if q.Values or q.num_kept)
        return tuple(q.traced() for q in asked)

    @property
    def num_kept(self) -> int:
        """Datasets of which quantities want what only the first ones keep."""
        return max(q.num_kept for q in self.quantities)

    @property
    def num_stored(self) -> int:
        """Datasets of which that is worth storing."""
        return max(q.num_stored for q in self.quantities)

    def describe(self) -> dict[str, Any]:
        """Plain numbers and strings, for the saved report."""
        found = super().describe()
        for quantity in self.quantities:
            found |= quantity.settings()
        return found


def identities(quantities: Sequence[Quantity]) -> dict[str, Any]:
    """Return what blocks of these quantities depend on, by name, where that is anything.

    Of a user's own, its settings and code too.
    """
    found = {}
    for quantity in quantities:
        value, code = quantity.identity(), own_code(type(quantity))
        is_own = not type(quantity).__module__.startswith("gibbs_dp.")
        found[quantity.name] = [repr(quantity), code, value] if is_own else value
    return {name: value for name, value in found.items() if value is not None}
