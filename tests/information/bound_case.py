"""What a kept case of a bound is: a statement that a smaller constant would make false."""

from collections.abc import Callable
from typing import NamedTuple


class Case(NamedTuple):
    """``sides()`` computes ``left <= right``, calling one bound through ``bounds.<name>``.

    With what the bound returns (entry ``part`` of it, where it returns several numbers) times
    ``factor`` the statement is false. Factors below 1 belong to upper bounds, above 1 to lower
    bounds and to numbers that are spent, such as the eps of one release. A bound that no known
    case nearly attains has ``loose``: why, beside the tightest factor known.
    """

    sides: Callable[[], tuple[float, float]]
    factor: float
    part: int | None = None
    loose: str = ""

    def scale(self, bound):
        """The bound with its constant changed."""

        def scaled(*args, **kwargs):
            value = bound(*args, **kwargs)
            if self.part is None:
                return self.factor * value
            parts = list(value)
            parts[self.part] *= self.factor
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)

        return scaled

    @property
    def is_near(self):
        """Whether a few percent decide."""
        return 0.9 < self.factor < 1.11


def equal(sides):
    """Cases of an equality: it fails with the right side too small, and with it too large."""
    return [Case(sides, 0.999), Case(lambda: sides()[::-1], 1.001)]
