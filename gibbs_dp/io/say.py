"""Progress of long computations, as lines of text."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""
