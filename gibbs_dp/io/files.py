"""Files that appear whole or not at all, rows in them, and what is said of damaged ones."""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, is_first_kept: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the same folder; on success it is flushed and renamed to ``path``.

    On any error (a full disk, Ctrl-C) the temporary file is removed and ``path`` keeps what it
    held before. With ``is_first_kept``, a file that another process has put there meanwhile stays
    and this one is dropped: exactly one of several writers wins.
    """
    target = Path(path)
    with _named(target):
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
    os.close(handle)
    temporary = Path(name)
    try:
        with _named(target, temporary):
            yield temporary
            _finish(temporary, target, is_first_kept)
    finally:
        temporary.unlink(missing_ok=True)


def _finish(temporary: Path, target: Path, is_first_kept: bool) -> None:
    with temporary.open("rb+") as written:
        os.fsync(written.fileno())
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)  # mkstemp's 0600 would keep results from being shared
    if is_first_kept:
        _link(temporary, target)
    else:
        temporary.replace(target)


@contextmanager
def _named(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Let errors of the system name the file that was to be written: writing itself names none."""
    try:
        yield
    except OSError as error:
        if temporary is None or error.filename in (None, os.fspath(temporary)):
            error.filename = os.fspath(target)
        raise


def _link(temporary: Path, target: Path) -> None:
    """Give a finished file its name unless the name is taken."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links: the last writer wins
        temporary.replace(target)


# Rows of results as JSON and CSV can hold them.


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is None or not a number; write infinite numbers as ``"inf"``.

    >>> json_row({"gamma": 1.0, "dp_epsilon": math.inf, "rhat": math.nan, "note": None})
    {'gamma': 1.0, 'dp_epsilon': 'inf'}
    """
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, float) and math.isinf(value):
            plain[name] = "inf" if value > 0 else "-inf"
        elif value is not None and not (isinstance(value, float) and math.isnan(value)):
            plain[name] = value
    return plain


def save_rows(path: str | os.PathLike[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a CSV file, whole or not at all; infinite values as ``inf``, absent ones empty."""
    import pandas as pd  # slow to import

    with atomic_write(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False)


# Damaged files, and messages about them.

# Longest part of an error shown: names in a file can be of any length.
SHOWN = 200
# What a terminal may take for a command, or show in another order; and halves of characters.
_COMMANDS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", re.DOTALL
)


class DamagedFileError(ValueError):
    """A file that is truncated, corrupt, or holds the wrong contents."""


def printable(text: str) -> str:
    """Spell out the characters that would change a terminal; line ends and tabs stay."""
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], text)


def shown(text: str, most: int = SHOWN) -> str:
    """Return a text from a file as a message may have it: one line, not long, no commands."""
    cut = text if len(text) <= most else text[:most] + "..."
    return printable(cut).replace("\n", "\\n").replace("\t", "\\t")


def reason(error: BaseException) -> str:
    """Return an error's first line, or its type if it has no text."""
    lines = str(error).strip().splitlines()
    return shown(lines[0] if lines else type(error).__name__)


def parse_json(text: Any, kind: type[Any]) -> Any:
    """Parse JSON text from a file, and check that it is a list, or an object with names (dict).

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


# Progress of long computations, as lines of text.


Say = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""
