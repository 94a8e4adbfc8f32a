"""Kinds of information that an audit can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

InformationName = Literal["mutual", "alpha", "leakage", "tv", "conditional", "membership"]
NAMES: tuple[str, ...] = get_args(InformationName)
DEFAULT: tuple[InformationName, ...] = ("mutual",)
# Found without comparing datasets, at least in part.
ALONE = ("conditional",)


def check_names(names: Sequence[str]) -> tuple[str, ...]:
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
    >>> check_names(["tv", "mutual"])
    ('mutual', 'tv')
    """
    given: Any = names
    if isinstance(given, str):
        raise ValueError(f"information: give a list of names, such as ({given!r},), not a text.")
    for name in given:
        if name not in NAMES:
            known = ", ".join(map(repr, NAMES[:-1]))
            raise ValueError(f"information: {name!r} is not {known} or {NAMES[-1]!r}.")
    return tuple(name for name in NAMES if name in given)
