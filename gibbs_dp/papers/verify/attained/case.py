"""A case that attains a bound: two sides that meet, or come as close as is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Sides = Callable[[], tuple[float, float]]


class Case(NamedTuple):
    """``sides()`` computes ``left <= right``, calling one bound through ``bounds.<name>``.

    The statement is false once the bound's value (its entry ``part``, if it returns several
    numbers) is multiplied by ``factor``: below 1 for upper bounds, above 1 for lower bounds and for
    numbers that are spent, such as the eps of one release. Where no known case comes close,
    ``loose`` says why, and the factor is the tightest known.
    """

    sides: Sides
    factor: float
    part: int | None = None
    loose: str = ""

    def scale(self, bound: Callable[..., Any], factor: float | None = None) -> Callable[..., Any]:
        """Change the bound's constant, by the case's own factor unless another is given."""
        by = self.factor if factor is None else factor

        def scaled(*args: Any, **kwargs: Any) -> Any:
            value = bound(*args, **kwargs)
            if self.part is None:
                return by * value
            parts = list(value)
            parts[self.part] *= by
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)

        return scaled

    @property
    def is_near(self) -> bool:
        """Whether a change of a few percent makes the statement false."""
        return 0.9 < self.factor < 1.11


def equal(sides: Sides) -> list[Case]:
    """Return the cases of an equality: the right side may be neither too small nor too large."""

    def swapped() -> tuple[float, float]:
        left, right = sides()
        return right, left

    return [Case(sides, 0.999), Case(swapped, 1.001)]


def single(sides: Sides, factor: float = 0.999, loose: str = "") -> list[Case]:
    """Return the only case of a bound."""
    return [Case(sides, factor, loose=loose)]
