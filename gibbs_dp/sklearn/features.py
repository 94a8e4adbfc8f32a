"""From declared bounds to features of norm at most 1, and back to coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from gibbs_dp.information import checks
from gibbs_dp.sklearn.leaks import leak

Rows = Float[np.ndarray, "rows columns"]
# A declared range of a column counts as this many standard deviations to either side of its middle.
HALF_RANGE = 2.5
# Narrower ranges cannot be divided by.
TINY = 1e-290
# Room for rounding below a norm of 1.
MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class Scaling:
    """Centres, scales and shortens rows, and puts the intercept before them.

    Parameters
    ----------
    low, high
        Bounds that columns are moved into; infinite where only the norm is bounded.
    center, width
        Subtracted from each column, and divided by.
    norm
        Longer rows are shortened to it, after that.
    intercept
        What stands for the intercept; 0 for none.
    """

    low: Float[np.ndarray, " columns"]
    high: Float[np.ndarray, " columns"]
    center: Float[np.ndarray, " columns"]
    width: Float[np.ndarray, " columns"]
    norm: float
    intercept: float

    @property
    def total(self) -> float:
        """Largest norm of a row with its intercept, which becomes 1."""
        return float(np.hypot(self.norm, self.intercept))

    def features(self, rows: Rows) -> Float[np.ndarray, "rows features"]:
        """Features of norm at most 1; the intercept's column is first, where there is one."""
        moved = (np.clip(rows, self.low, self.high) - self.center) / self.width
        largest = np.max(np.abs(moved), axis=1, keepdims=True, initial=0.0)
        safe = np.where(largest > 0, largest, 1.0)  # the square of a huge entry would overflow
        unit = np.linalg.norm(moved / safe, axis=1, keepdims=True)
        bound = self.norm * (1 - MARGIN) / np.where(unit > 0, unit, 1.0)  # of the largest entry
        shorter = np.where(largest > bound, (moved / safe) * bound, moved)
        if self.intercept:
            first = np.full((len(rows), 1), self.intercept)
            shorter = np.concatenate([first, shorter], axis=1)
        return np.asarray(shorter / self.total)

    def coefficients(
        self, theta: Float[np.ndarray, "features outputs"]
    ) -> tuple[Float[np.ndarray, "outputs columns"], Float[np.ndarray, " outputs"]]:
        """Coefficients of the columns as they came, and intercepts."""
        own = theta[1:] if self.intercept else theta
        coef = own.T / (self.total * self.width)
        base = theta[0] * self.intercept / self.total if self.intercept else np.zeros(len(coef))
        return np.asarray(coef), np.asarray(base - coef @ self.center)


def refuse_other_types(name: str, given: Any) -> None:
    """Raise a ValueError for types of arrays that would be cast to numbers of another meaning.

    That is masked arrays, dates, durations and complex numbers, in an array or a column of a
    frame. Types are public, and nothing is told of a value.

    Parameters
    ----------
    name
        The argument's name, for the error message.
    given
        An array, a list, or a frame.

    Examples
    --------
    >>> refuse_other_types("X", np.array([["2020-01-01"]], "datetime64[D]"))
    Traceback (most recent call last):
    ...
    ValueError: X: it holds dates or durations, which are no numbers; make numbers of them first, \
such as days (.dt.days, or (x - first) / np.timedelta64(1, "D")).
    """
    checks.refuse_masked(name, given, is_private=True)
    types: Any = getattr(given, "dtypes", None)
    if hasattr(types, "items"):
        parts = [(f"column {key!r}", dtype) for key, dtype in types.items()]
    else:
        parts = [("it", getattr(given, "dtype", None))]
    for where, dtype in parts:
        held = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of categories
        kind = getattr(held, "kind", "")
        if kind in ("m", "M") or str(held).startswith("period["):
            raise ValueError(
                f"{name}: {where} holds dates or durations, which are no numbers; make numbers of "
                'them first, such as days (.dt.days, or (x - first) / np.timedelta64(1, "D")).'
            )
        if kind == "c":
            raise ValueError(
                f"{name}: {where} holds complex numbers (Complex data not supported); give real "
                "and imaginary parts as columns."
            )


def declared_scaling(
    rows: Rows,
    bounds: Any,
    x_bound: float | None,
    fit_intercept: bool,
    norm: float,
    kept: list[str],
    columns: Sequence[str] | None = None,
) -> Scaling:
    """Make the scaling that was declared, or with a warning the one that the data suggest.

    Parameters
    ----------
    rows
        Features as they came; looked at only where nothing was declared.
    bounds
        ``(low, high)``, numbers or one a column, or a dict of them by column.
    x_bound
        Instead: largest norm of a row.
    fit_intercept
        Whether there is an intercept.
    norm
        What standardized rows are shortened to.
    kept
        Sentences about what was taken from the data.
    columns
        Names of the columns, where they have any.

    Returns
    -------
    Scaling
        For this number of columns.

    Raises
    ------
    ValueError
        If both are given, or bounds make no sense.
    """
    size = rows.shape[1]
    if bounds is not None and x_bound is not None:
        raise ValueError("x_bound: give either it or bounds, not both.")
    if x_bound is not None:
        x_bound = _positive("x_bound", x_bound)
        everywhere = np.full(size, np.inf)
        # Standardized rows of that norm, in other units: the intercept counts as one feature.
        unit = x_bound / norm
        one = unit if fit_intercept else 0.0
        return Scaling(-everywhere, everywhere, np.zeros(size), np.ones(size), x_bound, one)
    if bounds is None:
        low, high = rows.min(axis=0), rows.max(axis=0)
        high = np.where(high > low, high, low + 1.0)
        leak(
            "bounds: taken from the data, which no guarantee covers; declare bounds=(low, high) "
            "of the columns, or x_bound, without looking at these data.",
            kept,
        )
    else:
        low, high = declared_pair("bounds", bounds, size, columns)
    width = (high - low) / (2 * HALF_RANGE)
    reach = min(norm, HALF_RANGE * float(np.sqrt(size)))
    return Scaling(low, high, low + (high - low) / 2, width, reach, 1.0 if fit_intercept else 0.0)


def declared_pair(
    name: str, bounds: Any, size: int, columns: Sequence[str] | None = None
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """Read ``(low, high)``, each a number or one a column, or ``{column: (low, high)}``.

    Parameters
    ----------
    name
        Of the argument, for messages.
    bounds
        What was declared. A pandas Series is taken by its index, where columns have names.
    size
        Number of columns.
    columns
        Their names, where they have any.

    Returns
    -------
    tuple
        Lower and upper bounds ``[size]``.

    Raises
    ------
    ValueError
        If they are not two, not finite, of another length or other names, or not in order.

    Examples
    --------
    >>> declared_pair("bounds", (0.0, [1.0, 2.0]), 2)
    (array([0., 0.]), array([1., 2.]))
    >>> declared_pair("bounds", {"b": (0, 1), "a": (2, 3)}, 2, ["a", "b"])
    (array([2., 0.]), array([3., 1.]))
    """
    checks.refuse_masked(name, bounds)
    if isinstance(bounds, Mapping):
        bounds = _by_name(name, bounds, columns)
    try:
        sides = [_in_order(name, side, columns) for side in bounds]
        low, high = (np.broadcast_to(np.asarray(s, np.float64), (size,)) for s in sides)
    except (TypeError, ValueError) as error:
        if str(error).startswith(name):
            raise
        raise ValueError(
            f"{name}: give (low, high), each a number or {size} of them, one a column; got "
            f"{checks.shown(bounds)}."
        ) from None
    with np.errstate(over="ignore", invalid="ignore"):
        is_wide = (
            np.isfinite(low) & np.isfinite(high) & (high - low > TINY) & np.isfinite(high - low)
        )
    if not is_wide.all():
        raise ValueError(
            f"{name}: low must be below high, both finite, and so their difference; got "
            f"{checks.shown(bounds)}."
        )
    return low, high


def _by_name(
    name: str, bounds: Mapping[Any, Any], columns: Sequence[str] | None
) -> tuple[list[Any], list[Any]]:
    """Put bounds of named columns in the columns' order."""
    if columns is None or set(bounds) != set(columns):
        raise ValueError(
            f"{name}: a dict needs a table whose columns have names, and all of them; got bounds "
            f"of {checks.shown(list(bounds))}."
        )
    try:
        low, high = zip(*(bounds[column] for column in columns), strict=True)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: give (low, high) of every column.") from None
    return list(low), list(high)


def _in_order(name: str, side: Any, columns: Sequence[str] | None) -> Any:
    """Put a Series in the columns' order: its index says which is which."""
    index = getattr(side, "index", None)
    if not hasattr(side, "reindex") or columns is None or index is None:
        return side
    if set(index) == set(columns) and len(index) == len(columns):
        return side.reindex(columns)
    if list(index) == list(range(len(columns))):
        return side
    raise ValueError(f"{name}: a Series needs the columns' names as its index, or is a list.")


def _positive(name: str, value: Any) -> float:
    if isinstance(value, (bool, str)) or not np.isscalar(value) or not 0 < value < np.inf:  # type: ignore[operator]
        raise ValueError(f"{name}: must be a positive, finite number, got {value!r}.")
    return float(value)  # type: ignore[arg-type]
