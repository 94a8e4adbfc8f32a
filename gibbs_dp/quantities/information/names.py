"""Kinds of information that an audit can be asked for beside the mutual one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

InformationName = Literal["alpha", "leakage", "tv", "conditional", "membership"]
NAMES: tuple[InformationName, ...] = get_args(InformationName)


def check_names(names: Sequence[str]) -> tuple[InformationName, ...]:
    """Check kinds of information.

    Returns
    -------
    tuple[str, ...]
        Each once, in the order of :data:`NAMES`.

    Raises
    ------
    ValueError
        If there is no such kind.

    Examples
    --------
    >>> check_names(["tv", "alpha"])
    ('alpha', 'tv')
    """
    given: Any = names
    if isinstance(given, str):
        raise ValueError(f"names: give a list of names, such as ({given!r},), not a text.")
    for name in given:
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES[:-1]))
            raise ValueError(f"names: {name!r} is not {known} or {NAMES[-1]!r}.")
    return tuple(name for name in NAMES if name in given)
