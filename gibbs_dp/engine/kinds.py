"""Named tuples of what quantities leave behind, by the quantities' names."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.engine.summary import Health


@cache
def values_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Values``, by name."""
    return NamedTuple("Values", [(q.name, q.Values) for q in quantities if q.Values])


@cache
def kept_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Kept``, by name."""
    fields = [(q.name, q.Kept) for q in quantities if q.Kept and q.num_kept]
    return NamedTuple("Kept", fields)


@cache
def block_kind(quantities: tuple[Quantity, ...]) -> Any:
    """:class:`Block` with the fields of these quantities, for reading it back from a file."""
    kept = kept_kind(quantities)
    fields = [("health", Health), ("values", values_kind(quantities)), ("kept", kept | None)]
    return NamedTuple("Block", fields)
