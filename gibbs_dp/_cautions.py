"""Warnings as declared kinds: a name, a sentence with gaps, what it means and what to do.

Results hold them as sentences; what a person calls issues them as Python's warnings, too.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

# What a reader may do with the numbers that a warning is about, in the order of severity.
VERDICTS = OK, LOOK, REFUSE = "ok", "look", "do not use"


class Warned(str):
    """A sentence that a :class:`Caution` wrote; nothing else may become a warning."""

    __slots__ = ()


@dataclass(frozen=True)
class Caution:
    """A kind of warning."""

    name: str  # ends the sentence in brackets; the page on troubleshooting has it as a heading
    text: str  # the sentence, with a gap for every number, as ``str.format`` has them
    meaning: str  # what is wrong with the numbers, for somebody who sees this for the first time
    remedy: str  # what to try, the likeliest first
    verdict: str = LOOK  # OK: the numbers stand; REFUSE: they are wrong, or of another law

    def __call__(self, **gaps: object) -> Warned:
        """Fill the gaps.

        >>> Caution("cold", "only {degrees:.0f} degrees.", "It is cold.", "Heat.")(degrees=12.3)
        'only 12 degrees. [cold]'
        """
        return Warned(f"{self.text.format(**gaps)} [{self.name}]")

    @property
    def example(self) -> str:
        """The sentence with dots in its gaps."""
        return self.text.format_map(_Dots())


class _Dots(dict[str, "_Dot"]):
    def __missing__(self, name: str) -> _Dot:
        return _Dot()


class _Dot:
    def __format__(self, spec: str) -> str:
        return "..."


# As Python's warnings.


class AuditWarning(UserWarning):
    r"""What `gibbs_dp.audit` and its like find: a number is less than it seems.

    The message is a sentence of the result's ``warnings`` and ends with its name in brackets, by
    which one kind is silenced: ``warnings.filterwarnings("ignore", r".*\[skewed-datasets\]")``.
    Every kind is issued once a call.
    """


class DoNotUseWarning(AuditWarning):
    """A number of an audit is wrong: the verdict on its row is "do not use"."""


class DrawsWarning(AuditWarning):
    """What `gibbs_dp.sample` finds of its draws: R-hat, effective draws, stuck chains, modes."""


Arguments = ParamSpec("Arguments")
Found = TypeVar("Found")
_NAME = re.compile(r"\[([a-z0-9-]+)\]$")
_is_told_elsewhere: ContextVar[bool] = ContextVar("is_told_elsewhere", default=False)


def names_of(sentences: Sequence[str]) -> list[str]:
    """Names of warnings, each once, in order.

    >>> names_of(["a. [one]", "b. [two]", "c. [one]", "without."])
    ['one', 'two']
    """
    found = (_NAME.search(text) for text in sentences)
    return list(dict.fromkeys(match[1] for match in found if match))


def last_of_each(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the last sentence of each name, in order: of a search, that nearest to its end.

    >>> last_of_each(["far. [one]", "b. [two]", "near. [one]", "without."])
    ('b. [two]', 'near. [one]', 'without.')
    """
    found: dict[str, str] = {}
    for text in sentences:
        match = _NAME.search(text)
        name = match[1] if match else text
        found.pop(name, None)
        found[name] = text
    return tuple(found.values())


@contextmanager
def told_elsewhere() -> Iterator[None]:
    """Issue no Python warnings in the body, whose caller tells what it must of the results."""
    token = _is_told_elsewhere.set(True)
    try:
        yield
    finally:
        _is_told_elsewhere.reset(token)


def _all_of(found: Any) -> Sequence[str]:
    return getattr(found, "warnings", ())


def warns(
    kind: Callable[[str], type[AuditWarning]], told: Callable[[Any], Sequence[str]] = _all_of
) -> Callable[[Callable[Arguments, Found]], Callable[Arguments, Found]]:
    """Make a function issue its result's warnings, each name once, and nothing that it calls."""

    def decorate(function: Callable[Arguments, Found]) -> Callable[Arguments, Found]:
        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Found:
            with told_elsewhere():
                found = function(*args, **kwargs)
            if not _is_told_elsewhere.get():
                _issue(told(found), kind)
            return found

        return call

    return decorate


def _issue(sentences: Sequence[str], kind: Callable[[str], type[AuditWarning]]) -> None:
    """Warn at the line that called the library."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("gibbs_dp."):
        level, frame = level + 1, frame.f_back
    groups: dict[str, list[str]] = {}
    for text in sentences:
        (name,) = names_of([text]) or [text]
        groups.setdefault(name, []).append(text)
    for first, *others in groups.values():
        more = f"(first of {len(others) + 1}) " if others else ""
        warnings.warn(more + first, kind(first), stacklevel=level)
