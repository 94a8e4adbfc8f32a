"""What a case may come to, and the signs of one that came to something else."""

from __future__ import annotations

import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

# Longest sentence that tells a user what is wrong.
LONGEST = 1000
# What no file may set off; opening it is not among them, as files are opened.
FORBIDDEN = frozenset(
    {
        *("pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.spawn"),
        *("subprocess.Popen", "socket.connect", "socket.bind", "urllib.Request"),
        *("webbrowser.open", "ftplib.connect", "smtplib.connect"),
    }
)


class Failure(AssertionError):  # noqa: N818
    """A case that came to what no case may come to."""


@dataclass(frozen=True)
class Case:
    """One hostile input.

    Parameters
    ----------
    content
        Bytes of the file; for command lines, words.
    name
        Of the file.
    options
        How it is read.
    expected
        What the judge compares with.
    """

    content: Any
    name: str = ""
    options: Any = None
    expected: Any = None


@dataclass(frozen=True)
class Format:
    """One kind of input.

    Parameters
    ----------
    prepare
        From a folder, and whether cases are to be small, to whatever they are made of; once.
    make
        From a generator of random numbers and that to a case.
    judge
        From a case and a folder for its files to whether it was accepted; raises a ``ValueError``
        or ``OSError`` where the library does, and a `Failure` for what is wrong.
    share
        Of the cases of all formats.
    """

    prepare: Callable[[Path, bool], Any]
    make: Callable[[Random, Any], Case]
    judge: Callable[[Case, Path], bool]
    share: float


def verdict(format_: Format, case: Case, folder: Path) -> str:
    """Judge a case: "accepted", "refused", or why it failed.

    Parameters
    ----------
    format_, case
        What and how.
    folder
        Empty, for the files of the case.

    Returns
    -------
    str
        One line.
    """
    try:
        with watched(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            return "accepted" if format_.judge(case, folder) else "refused"
    except Failure as failure:
        return f"failed: {failure}"
    except (ValueError, OSError) as error:
        wrong = not_a_sentence(str(error))
        return f"failed: {type(error).__name__} {wrong}" if wrong else "refused"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"


def not_a_sentence(text: str) -> str:
    r"""Say what keeps a message from being one sentence for a terminal; empty if nothing does.

    >>> not_a_sentence("data: it is empty."), not_a_sentence("a\x1b[31m")
    ('', "would send a terminal '\\x1b': 'a\\x1b[31m'")
    """
    if not text.strip():
        return "says nothing"
    odd = next((c for c in text if _is_command(c)), None)
    if odd is not None:
        return f"would send a terminal {odd!r}: {text[:200]!r}"
    return f"says {len(text)} characters: {text[:200]!r}" if len(text) > LONGEST else ""


def _is_command(character: str) -> bool:
    """Whether a terminal may do something else than show it in its place."""
    kind = unicodedata.category(character)
    return kind in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in _TURNS


_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
_seen: list[str] = []
_watching: list[bool] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in FORBIDDEN:
        _seen.append(f"{event} {arguments!r:.200}")


@contextmanager
def watched() -> Iterator[None]:
    """Fail if anything runs that a file may not set off: a pickle, a program, a connection."""
    if not hasattr(sys, "_fuzzing_watches"):
        sys._fuzzing_watches = True  # type: ignore[attr-defined]
        sys.addaudithook(_hook)
    _seen.clear()
    _watching.append(True)
    try:
        yield
    finally:
        _watching.pop()
    if _seen:
        raise Failure(f"it set off {_seen[0]}")
