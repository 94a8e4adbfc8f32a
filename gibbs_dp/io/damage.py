"""Damaged files, and messages about them."""

from __future__ import annotations

import json
from typing import Any

# Longest part of an error shown: names in a file can be of any length.
SHOWN = 200


class DamagedFileError(ValueError):
    """A file that is truncated, corrupt, or holds the wrong contents."""


def reason(error: BaseException) -> str:
    """Return an error's first line, or its type if it has no text."""
    lines = str(error).splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if len(first) <= SHOWN else first[:SHOWN] + "..."


def parse_json(text: Any, kind: type[Any]) -> Any:
    """Parse JSON text from a file, and check that it is a list, or an object with names (dict).

    Returns
    -------
    list or dict
        Its contents.

    Raises
    ------
    ValueError
        If it is not JSON text, is nested too deep, or is of another kind.

    Examples
    --------
    >>> parse_json('{"n": 10}', dict)
    {'n': 10}
    >>> parse_json("5", list)
    Traceback (most recent call last):
        ...
    ValueError: its JSON is an int where a list should be
    """
    if not isinstance(text, str):
        raise ValueError(f"{type(text).__name__} where JSON text should be")
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    if not isinstance(found, kind):
        article = "an" if type(found).__name__[0] in "aeiou" else "a"
        raise ValueError(
            f"its JSON is {article} {type(found).__name__} where a {kind.__name__} should be"
        )
    return found
