"""Named tuples of what quantities leave behind, by the quantities' names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from gibbs_dp.engine.quantity import Quantity
from gibbs_dp.engine.summary import Health


@cache
def values_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Values``, by name."""
    fields = [(q.name, q.Values) for q in quantities if q.Values]
    return _picklable(NamedTuple("Values", fields), values_kind, quantities)


@cache
def kept_kind(quantities: tuple[Quantity, ...]) -> Any:
    """Named tuple of the quantities' ``Kept``, by name."""
    fields = [(q.name, q.Kept) for q in quantities if q.Kept and q.num_kept]
    return _picklable(NamedTuple("Kept", fields), kept_kind, quantities)


@cache
def block_kind(quantities: tuple[Quantity, ...]) -> Any:
    """:class:`Block` with the fields of these quantities, for reading it back from a file."""
    kept = kept_kind(quantities)
    fields = [("health", Health), ("values", values_kind(quantities)), ("kept", kept | None)]
    return NamedTuple("Block", fields)


def _picklable(kind: Any, make: Callable[..., Any], quantities: tuple[Quantity, ...]) -> Any:
    """Let values of a named tuple that no module has go to other processes and come back."""
    kind.__reduce__ = lambda self: (_made, (make, quantities, tuple(self)))
    return kind


def _made(
    make: Callable[..., Any], quantities: tuple[Quantity, ...], values: tuple[Any, ...]
) -> Any:
    return make(quantities)(*values)
