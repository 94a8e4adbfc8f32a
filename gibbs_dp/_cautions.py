"""Warnings as declared kinds: a name, a sentence with gaps, what it means and what to do."""

from __future__ import annotations

from dataclasses import dataclass

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
