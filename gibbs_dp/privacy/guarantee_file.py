"""Guarantees from files: what ``gibbs-dp release`` wrote, or anybody's ``to_dict``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gibbs_dp.information import checks
from gibbs_dp.io.files import printable, shown
from gibbs_dp.privacy.guarantee import Guarantee

REQUIRED = ("adjacency", "mechanism", "num_draws", "epsilon", "delta")
TEXTS, LISTS = ("adjacency", "mechanism", "holds"), ("assumptions", "caveats")
# Characters of one text.
LONGEST = 1000
# Beyond these floating-point numbers skip whole ones.
MOST_DRAWS = 2**53


def load_guarantee(path: str | os.PathLike[str]) -> Guarantee:
    """Read the guarantee in a JSON file.

    Parameters
    ----------
    path
        ``release.json`` of ``gibbs-dp release --out``, the lines of its ``--json``, or
        ``Guarantee.to_dict()`` as JSON.

    Returns
    -------
    Guarantee
        As it was; a Rényi curve is not kept in files.

    Raises
    ------
    ValueError
        If there is no guarantee in the file.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import json, tempfile
    >>> g = Guarantee("replace-one", "exact draw", 1, 1.0, epsilon=1.0, delta=0.0, pure_epsilon=1.0)
    >>> path = Path(tempfile.mkdtemp()) / "guarantee.json"
    >>> _ = path.write_text(json.dumps(g.to_dict()))
    >>> load_guarantee(path) == g
    True
    """
    text = Path(path).read_text(encoding="utf-8")
    for words in (text, *text.splitlines()):
        try:
            found = json.loads(words)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and set(REQUIRED) <= found.keys():
            return guarantee_from_dict(found)
    raise ValueError(
        f"guarantee: {os.fspath(path)!r} holds none; give release.json of 'gibbs-dp release', or "
        "Guarantee.to_dict() as JSON."
    )


def guarantee_from_dict(found: Mapping[str, Any]) -> Guarantee:
    """Make a guarantee of what `Guarantee.to_dict` returned; other entries are left alone.

    Parameters
    ----------
    found
        Plain numbers and strings.

    Returns
    -------
    Guarantee
        The same, without its Rényi curve.

    Raises
    ------
    ValueError
        If something is missing or is no number, and for figures that contradict each other.

    Examples
    --------
    >>> g = Guarantee("add-remove", "chain", 2, 1.0, epsilon=float("inf"), delta=0.0, zcdp=0.5)
    >>> guarantee_from_dict(g.to_dict()) == g
    True
    """
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        raise ValueError(f"guarantee: it has no {missing[0]!r}; give all of {', '.join(REQUIRED)}.")
    values: dict[str, Any] = {}
    for name in (f.name for f in fields(Guarantee)):
        if name not in found or name == "renyi":
            continue
        if name in LISTS:
            values[name] = _texts(name, found[name])
        elif name in TEXTS:
            (values[name],) = _texts(name, [found[name]])
        else:
            values[name] = _number(name, found[name])
    try:
        checks.adjacency(values["adjacency"])
        return Guarantee(**{"caveats": (), "gamma": None} | values)
    except ValueError as error:
        raise ValueError(f"guarantee: {error}") from None


def _texts(name: str, value: Any) -> tuple[str, ...]:
    is_list = isinstance(value, (list, tuple)) and all(isinstance(text, str) for text in value)
    if not is_list or any(len(text) > LONGEST or printable(text) != text for text in value):
        raise ValueError(
            f"guarantee: its {name!r} is {shown(repr(value), 60)}, which is no text as "
            "Guarantee.to_dict() has it."
        )
    return tuple(value)


def _number(name: str, value: Any) -> int | float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    is_count = name == "num_draws"
    if math.isnan(number) or (is_count and not (number.is_integer() and number < MOST_DRAWS)):
        what = "whole number" if is_count else "number"
        raise ValueError(
            f"guarantee: its {name!r} is {shown(repr(value), 60)}, which is no {what}."
        )
    return int(number) if is_count else number
