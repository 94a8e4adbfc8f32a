"""One checked statement: both sides, the relation between them, and whether it holds."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

Relation = Literal["=", "<=", "not <="]


class Record(NamedTuple):
    """A statement with numbers on both sides.

    ``relation`` "not <=" marks a counterexample: a statement in print that is false, and holds
    here when its left side exceeds the right.
    """

    name: str
    source: str
    relation: Relation
    left: float
    right: float
    tolerance: float
    holds: bool


def equality(name: str, source: str, left: float, right: float, tolerance: float = 1e-9) -> Record:
    """State ``left = right``, to a relative tolerance (absolute near 0).

    Examples
    --------
    >>> equality("Theorem 4", "Wang et al. 2016", 0.5, 0.5).holds
    True
    """
    if math.isfinite(left) and math.isfinite(right):
        holds = abs(left - right) <= tolerance * max(1e-3, abs(left), abs(right))
    else:
        holds = left == right
    return Record(name, source, "=", float(left), float(right), tolerance, bool(holds))


def inequality(
    name: str, source: str, left: float, right: float, tolerance: float = 1e-9
) -> Record:
    """State ``left <= right``, with room for rounding.

    Examples
    --------
    >>> inequality("Pinsker", "", 0.2, 0.1).holds
    False
    """
    scale = max(1e-3, abs(left)) if math.isfinite(left) else 1.0
    holds = left <= right + tolerance * scale
    return Record(name, source, "<=", float(left), float(right), tolerance, bool(holds))


def counterexample(
    name: str, source: str, left: float, right: float, tolerance: float = 1e-9
) -> Record:
    """State that ``left <= right``, as printed somewhere, is false.

    Examples
    --------
    >>> counterexample("too good", "a lecture", 2.0, 1.0).holds
    True
    """
    holds = left > right + tolerance * max(1e-3, abs(right))
    return Record(name, source, "not <=", float(left), float(right), tolerance, bool(holds))
