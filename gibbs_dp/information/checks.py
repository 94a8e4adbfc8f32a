"""Checks of numbers and laws that users pass in: one clear sentence, naming the argument."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

Adjacency = Literal["replace-one", "add-remove"]

# What empty cells, and missing values that were made texts, look like.
_MISSING = frozenset(["", "nan", "NaN", "None", "NaT", "<NA>"])
# Probabilities typed by hand rarely sum to one exactly; a larger gap is a mistake.
SUM_TOLERANCE = 1e-9
LARGEST_GAMMA = 1e100


def real(name: str, value: Any) -> float:
    """Return a number as a float, else raise ``ValueError``: text, None and booleans are not."""
    found = math.nan
    no_numbers = (bool, np.bool_, str, bytes, np.ma.MaskedArray)
    is_number = not isinstance(value, no_numbers) and value is not None
    if is_number:
        try:
            found = float(value)
        except (TypeError, ValueError, OverflowError):
            is_number = False
    if not is_number:
        raise ValueError(f"{name} must be a number, got {shown(value)}; pass a float.")
    return found


def shown(value: Any) -> str:
    """Show a value in a sentence: itself if it is one short line, else its type.

    >>> shown("x"), shown(np.zeros(100))
    ("'x'", 'ndarray')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= 40 and "\n" not in text else type(value).__name__


def refuse_masked(name: str, value: Any, is_private: bool = False) -> None:
    """Raise ``ValueError`` for arrays of `numpy.ma` with masked entries, anywhere in a container.

    NumPy and JAX turn them into plain arrays with the numbers that the mask was to hide. Where
    ``is_private``, nothing may be told of the entries: masked arrays are then refused by their
    type, whether or not something is masked in them.
    """
    if isinstance(value, np.ma.MaskedArray):
        if is_private or _hides(value):
            raise ValueError(
                f"{name}: a masked array, whose mask would be lost; drop those rows (such as "
                "x[~np.ma.getmaskarray(x)]) or fill in values yourself (x.filled(value))."
            )
    elif isinstance(value, Mapping):
        for part in value.values():
            refuse_masked(name, part, is_private)
    elif isinstance(value, (list, tuple)) or (
        isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim
    ):
        for part in value:
            if not isinstance(part, (int, float)):
                refuse_masked(name, part, is_private)


def whole_arrays(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Refuse masked arrays in all arguments of a function; see `refuse_masked`.

    >>> whole_arrays(lambda values: sum(values))(np.ma.masked_greater([1.0, 99.0], 9.0))
    Traceback (most recent call last):
    ...
    ValueError: values: a masked array, whose mask would be lost; drop those rows (such as \
x[~np.ma.getmaskarray(x)]) or fill in values yourself (x.filled(value)).
    """
    names = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            refuse_masked(name, value)
        return function(*args, **kwargs)

    return checked


def _hides(value: np.ma.MaskedArray[Any, Any]) -> bool:
    mask = np.ma.getmaskarray(value)
    if mask.dtype.names is None:
        return bool(mask.any())
    return any(_hides(value[field]) for field in mask.dtype.names)


def positive(name: str, value: float) -> float:
    """Return ``value`` if it is positive and finite, else raise ``ValueError``."""
    found = real(name, value)
    if not (math.isfinite(found) and found > 0):
        raise ValueError(f"{name} must be positive and finite, got {value}; pass a value above 0.")
    return found


def nonnegative(name: str, value: float, allow_infinite: bool = False) -> float:
    """Return a number of at least 0, finite unless infinity is allowed, else raise."""
    found = real(name, value)
    if math.isnan(found) or found < 0 or (math.isinf(found) and not allow_infinite):
        raise ValueError(f"{name} must be at least 0, got {value}; pass a nonnegative number.")
    return found


def unit_interval(name: str, value: float, open_left: bool = False) -> float:
    """Return ``value`` if it lies in ``[0, 1)`` (``(0, 1)`` with ``open_left``), else raise."""
    found = real(name, value)
    if math.isnan(found) or found >= 1 or found < 0 or (open_left and found == 0):
        interval = "(0, 1)" if open_left else "[0, 1)"
        raise ValueError(f"{name} must lie in {interval}, got {value}; pass a probability in it.")
    return found


def count(name: str, value: int, minimum: int = 1) -> int:
    """Return a whole number of at least ``minimum``, else raise ``ValueError``."""
    found = real(name, value)
    if not found.is_integer():  # nor NaN and infinity
        raise ValueError(f"{name} must be an integer, got {value}; pass a whole number.")
    if found < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}; pass a larger integer.")
    return int(value)


def inverse_temperature(value: float) -> float:
    """Return ``gamma`` if it is at least 0 and its figures can be squared, else raise."""
    found = nonnegative("gamma", value)
    if found > LARGEST_GAMMA:
        raise ValueError(
            f"gamma must be at most {LARGEST_GAMMA:g}, got {value:g}; the figures of a larger one "
            "leave floating-point numbers."
        )
    return found


def law(name: str, value: ArrayLike) -> Float[np.ndarray, " outcomes"]:
    """Return a vector of probabilities, renormalized in its last digits, else raise."""
    refuse_masked(name, value)
    vector = np.asarray(value, dtype=np.float64)
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"{name} must be a vector of probabilities, got shape {vector.shape}; pass one axis."
        )
    return joint_law(name, vector)


def joint_law(name: str, value: ArrayLike) -> Float[np.ndarray, ...]:
    """Return probabilities of any shape, renormalized in their last digits, else raise."""
    refuse_masked(name, value)
    array = np.asarray(value, dtype=np.float64)
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        raise ValueError(f"{name} must hold finite probabilities >= 0; remove the others.")
    total = float(array.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1, got {total:.12g}; divide it by its sum.")
    return array / total


def adjacency(value: str) -> str:
    """Return ``value`` if it names an adjacency, else raise ``ValueError``."""
    if value not in ("replace-one", "add-remove"):
        raise ValueError(f"adjacency must be 'replace-one' or 'add-remove', got {value!r}.")
    return value


def same_length(
    p_name: str, p: Float[np.ndarray, " outcomes"], q_name: str, q: Float[np.ndarray, " others"]
) -> None:
    """Raise ``ValueError`` unless the two laws are over the same number of outcomes."""
    if p.shape != q.shape:
        raise ValueError(
            f"{p_name} and {q_name} must have the same outcomes, got {p.size} and {q.size}; "
            "pad the shorter one with zeros."
        )


def expm1(value: float) -> float:
    """Return ``e^value - 1``, infinite where it overflows."""
    return math.inf if value > 709.0 else math.expm1(value)


def refuse_missing_labels(name: str, labels: Any) -> None:
    """Raise ``ValueError`` where labels of groups are missing: they would be one more group."""
    refuse_masked(name, labels)
    given = (
        list(labels) if isinstance(labels, (list, tuple)) else np.asarray(labels).ravel().tolist()
    )
    absent = np.fromiter(map(is_missing, given), bool, len(given))
    if given and all(type(label) is int for label in given) and min(given) == -1:
        absent = np.array(given) == -1
    if absent.any():
        raise ValueError(
            f"{name}: {int(absent.sum())} of {absent.size} labels are missing, the first in row "
            f"{int(absent.argmax())} (counted from 0), and rows without one are no group; leave "
            "these rows out, or give each a label of its own."
        )


def is_missing(label: Any) -> bool:
    """Say whether a label is missing.

    >>> labels = None, float("nan"), np.datetime64("NaT", "s"), " ", "nan", 0, "na"
    >>> list(map(is_missing, labels))
    [True, True, True, True, True, False, False]
    """
    if isinstance(label, (str, bytes)):
        text = label.decode("latin-1") if isinstance(label, bytes) else label
        return text.strip() in _MISSING
    if label is None or type(label).__name__ == "NAType":
        return True
    try:
        return bool(label != label)  # NaN and NaT
    except (TypeError, ValueError):
        return False
