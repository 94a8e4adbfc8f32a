"""Guarantees from files: what ``gibbs-dp release`` wrote, or anybody's ``to_dict``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gibbs_dp.privacy.guarantee import Guarantee

REQUIRED = ("adjacency", "mechanism", "num_draws", "gamma", "epsilon", "delta")
TEXTS, LISTS = ("adjacency", "mechanism"), ("assumptions", "caveats")


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
        except ValueError:
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
        If something is missing or is no number.

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
        value = found[name]
        try:
            if name in LISTS:
                values[name] = tuple(map(str, value))
            elif name in TEXTS:
                values[name] = str(value)
            else:
                values[name] = int(value) if name == "num_draws" else float(value)
        except (TypeError, ValueError):
            raise ValueError(f"guarantee: its {name!r} is {value!r}, which is no number.") from None
    return Guarantee(**{"caveats": ()} | values)
