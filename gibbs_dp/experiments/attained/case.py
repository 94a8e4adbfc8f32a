"""What an attaining case of a bound is: two sides that meet, or come as near as is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Sides = Callable[[], tuple[float, float]]


class Case(NamedTuple):
    """``sides()`` computes ``left <= right``, calling one bound through ``bounds.<name>``.

    With what the bound returns (entry ``part`` of it, where it returns several numbers) times
    ``factor`` the statement is false. Factors below 1 belong to upper bounds, above 1 to lower
    bounds and to numbers that are spent, such as the eps of one release. A bound that no known
    case nearly attains has ``loose``: why, beside the tightest factor known.
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
        """Whether a few percent decide."""
        return 0.9 < self.factor < 1.11


def equal(sides: Sides) -> list[Case]:
    """Cases of an equality: it fails with the right side too small, and with it too large."""

    def swapped() -> tuple[float, float]:
        left, right = sides()
        return right, left

    return [Case(sides, 0.999), Case(swapped, 1.001)]
