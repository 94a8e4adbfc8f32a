"""Colour where a terminal shows it: by the variables that Python's own tools go by."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

BOLD, RED, YELLOW, RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[0m"
# Words at the beginning of a line that say how bad it is.
_MARKS = (
    (re.compile(r"^(?:gibbs-dp: )?error:", re.MULTILINE), RED),
    (re.compile(r"^FAILS\b", re.MULTILINE), RED),
    (re.compile(r"^(?:gibbs-dp: )?(?:warning|interrupted):", re.MULTILINE), YELLOW),
    (re.compile(r"^(?:WARNING|IDEALIZED)\b:?", re.MULTILINE), YELLOW),
)
_HEADING = re.compile(r"^(?:usage:|(?=\S)[^\n]*:$)", re.MULTILINE)


@runtime_checkable
class Stream(Protocol):
    """What is asked of a stream: whether a terminal is behind it."""

    def isatty(self) -> bool:
        """Whether there is."""
        ...


def is_colored(stream: Stream, environment: Mapping[str, str] | None = None) -> bool:
    """Decide whether what is written to a stream may have colours.

    As Python 3.14's argparse does: ``PYTHON_COLORS`` 0 or 1 decides; else a ``NO_COLOR`` that is
    not empty means no, a ``FORCE_COLOR`` that is not empty yes; else a terminal that is not dumb.

    Returns
    -------
    bool
        False for files and pipes, unless forced.

    Examples
    --------
    >>> import io
    >>> is_colored(io.StringIO(), {}), is_colored(io.StringIO(), {"FORCE_COLOR": "1"})
    (False, True)
    """
    environment = os.environ if environment is None else environment
    wanted = environment.get("PYTHON_COLORS")
    if wanted in ("0", "1"):
        return wanted == "1"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    if environment.get("TERM") == "dumb":
        return False
    if sys.platform == "win32" and not environment.get("WT_SESSION"):
        return False  # old consoles show the codes
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def marked(text: str, stream: Stream) -> str:
    """Colour the words of errors and warnings that begin a line, if the stream shows colours."""
    if is_colored(stream):
        for pattern, code in _MARKS:
            text = pattern.sub(rf"{code}\g<0>{RESET}", text)
    return text


def headed(text: str, stream: Stream) -> str:
    """Make the headings of a help text bold, if the stream shows colours."""
    return _HEADING.sub(rf"{BOLD}\g<0>{RESET}", text) if is_colored(stream) else text
