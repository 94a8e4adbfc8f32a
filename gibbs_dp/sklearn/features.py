"""From private tables and declared bounds to features of norm at most 1, and back to coefficients.

Where the domain is declared, no record may make a fit warn, raise or print what it would not for a
neighbour. Types of arrays, columns and whether lengths fit are public; the number of rows is not
under add-remove, nor what a cell holds, be it text among numbers, a label that was not declared,
NaN, or a number beyond all doubles.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils.validation import validate_data

from gibbs_dp.information import checks
from gibbs_dp.privacy.released_model import Shortening
from gibbs_dp.privacy.table import unobserved
from gibbs_dp.sklearn.plan import leak

Rows = Float[np.ndarray, "rows columns"]
# A declared range of a column counts as this many standard deviations to either side of its middle.
HALF_RANGE = 2.5
# Narrower ranges cannot be divided by.
TINY = 1e-290


@dataclass(frozen=True, eq=False)
class Scaling(Shortening):
    """Moves rows into bounds, centres, scales and shortens them, and puts the intercept first."""

    intercept: float

    @property
    def total(self) -> float:
        """Largest norm of a row with its intercept, which becomes 1."""
        return float(np.hypot(self.norm, self.intercept))

    def features(self, rows: Rows) -> Float[np.ndarray, "rows features"]:
        """Features of norm at most 1; the intercept's column is first, where there is one."""
        shorter = self.units(rows)
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

    >>> refuse_other_types("X", np.array([["2020-01-01"]], "datetime64[D]"))
    Traceback (most recent call last):
    ...
    ValueError: X: it holds dates or durations, which are no numbers; make numbers of them first, \
such as days (.dt.days, or (x - first) / np.timedelta64(1, "D")).
    """
    checks.refuse_masked(name, given, is_private=True)
    for where, held in _types(given):
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


def refuse_texts(name: str, given: Any, meant: str = "numbers") -> None:
    """Raise a ValueError for types of texts where numbers are meant, and warn of types of objects.

    Cells that are no numbers are not read, which would often be all of a column of texts. Types are
    public; lists have none, and nothing is said of them.

    >>> refuse_texts("y", np.array(["no", "yes"]))
    Traceback (most recent call last):
    ...
    ValueError: y: it holds texts where numbers are meant; make numbers of it first, such as with \
pandas.to_numeric(x, errors="coerce").
    """
    for where, held in _types(given):
        kind = getattr(held, "kind", None) or "?"
        if kind in TEXTS or str(held).lower().startswith(("str", "large_str")):
            raise ValueError(
                f"{name}: {where} holds texts where {meant} are meant; make numbers of it first, "
                'such as with pandas.to_numeric(x, errors="coerce").'
            )
        if kind == "O":
            warnings.warn(
                f"{name}: {where} holds objects of any type where {meant} are meant, and cells "
                "that are none are not read, without a word; give a type of numbers.",
                stacklevel=4,
            )
            return


def _types(given: Any) -> list[tuple[str, Any]]:
    """Where an array or a frame holds which types; of categories, those of their values."""
    types: Any = getattr(given, "dtypes", None)
    if isinstance(types, list):  # of polars
        types = dict(zip(given.columns, types, strict=True))
    if hasattr(types, "items"):
        parts = [(f"column {key!r}", dtype) for key, dtype in types.items()]
    else:
        parts = [("it", getattr(given, "dtype", None))]
    return [(w, getattr(getattr(d, "categories", None), "dtype", d)) for w, d in parts]


def declared_scaling(
    rows: Rows,
    bounds: Any,
    x_bound: float | None,
    fit_intercept: bool,
    norm: float,
    leaks: list[str],
    columns: Sequence[str] | None = None,
) -> Scaling:
    """Make the scaling that was declared, or with a warning the one that the data suggest."""
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
            leaks,
        )
    else:
        low, high = declared_pair("bounds", bounds, size, columns)
    reach = min(norm, HALF_RANGE * float(np.sqrt(size)))
    if fit_intercept:
        width = (high - low) / (2 * HALF_RANGE)
        return Scaling(low, high, low + (high - low) / 2, width, reach, 1.0)
    # Moved to the middle, a plane through the origin would go through that instead.
    width = np.maximum(np.abs(low), np.abs(high)) / HALF_RANGE
    return Scaling(low, high, np.zeros(size), np.where(width > 0, width, 1.0), reach, 0.0)


def declared_pair(
    name: str, bounds: Any, size: int, columns: Sequence[str] | None = None
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """Read ``(low, high)``, each a number or one a column, or ``{column: (low, high)}``.

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
            f"{name}: low must be below high, both finite, and so their difference (all lows come "
            f"first, then all highs); got {checks.shown(bounds)}."
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


# Private tables as numbers, without a word about any cell.

# Kinds of arrays whose cells are read one by one; numbers come as they are, and no others are read.
READ, NUMBERS, TEXTS = "OUST", "biuf", "UST"
LARGEST = float(np.finfo(np.float64).max)


def private_rows(estimator: Any, X: Any) -> Float[np.ndarray, "rows columns"]:
    """Return features as doubles: NaN for no number, the largest double for infinity."""
    if hasattr(X, "toarray"):  # scikit-learn's own sentence on sparse matrices
        validate_data(estimator, X)
    refuse_texts("X", X)
    found = private_numbers("X", X)
    if found.ndim != 2 or 0 in found.shape:
        raise ValueError(
            "X: give a table [rows, columns] with at least one of each"
            f"{_shape(found, estimator.adjacency)}."
        )
    names = X if hasattr(X, "columns") else found
    validate_data(estimator, names, skip_check_array=True)
    return found


def private_labels(y: Any, rows: int, adjacency: str) -> np.ndarray:
    """Return labels as an array ``[rows]`` of any type."""
    if y is None:
        raise ValueError("y: it is missing, and fits require y to be passed; give labels.")
    found = y if isinstance(y, np.ndarray) else _as_array(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (rows,):
        count = "" if adjacency == "add-remove" else f", {rows} of them"
        raise ValueError(f"y: give one label a row{count}{_shape(found, adjacency)}.")
    return found


def _shape(found: np.ndarray, adjacency: str) -> str:
    """Say a shape, unless the number of rows is private."""
    return "" if adjacency == "add-remove" else f", got shape {list(found.shape)}"


def private_numbers(name: str, values: Any) -> Float[np.ndarray, ...]:
    """Turn an array, a table or nested lists into doubles; NaN where a cell is no number."""
    found = values if isinstance(values, np.ndarray) else _as_array(values)
    kind = found.dtype.kind
    if kind not in READ + NUMBERS:
        raise ValueError(f"{name}: its type {found.dtype} is no number; encode it as numbers.")
    with unobserved():
        if kind in READ:
            cells = [_number(cell) for cell in found.reshape(-1).tolist()]
            found = np.array(cells, np.float64).reshape(found.shape)
        found = np.asarray(found, np.float64)
        return np.clip(found, -LARGEST, LARGEST)


def class_indices(
    y: np.ndarray, classes: np.ndarray
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Return places of labels among sorted classes, 0 for unknown ones, and which are known."""
    if y.dtype.kind in "biufcMm" and classes.dtype.kind in "US":
        raise ValueError(
            f"classes: they are texts, and labels of type {y.dtype} are none; declare them as they "
            "are (cross_val_predict makes numbers of them for probabilities: give it these, and "
            "classes=[0, 1])."
        )
    with unobserved():
        if y.dtype.kind in "f":
            classes = classes.astype(y.dtype) if classes.dtype.kind in NUMBERS else classes
        where: dict[Any, int] = {c: i for i, c in reversed(list(enumerate(classes.tolist())))}
        has_numbers = classes.dtype.kind in NUMBERS
        found = [_place(label, where, has_numbers) for label in y.tolist()]
    places = np.array(found, np.float64)
    return np.maximum(places, 0.0), places >= 0


def _place(label: Any, where: dict[Any, int], has_numbers: bool) -> int:
    """Place of a label, -1 where it has none."""
    try:
        found = where.get(label, -1)
        if found < 0 and has_numbers and isinstance(label, str):
            found = where.get(_number(label), -1)
    except Exception:  # what cannot be hashed or compared
        return -1
    return found


def _number(cell: Any) -> float:
    if type(cell) is float or (type(cell) is int and -(2**53) < cell < 2**53):
        return float(cell)
    try:
        return float(cell)
    except OverflowError:
        return LARGEST if cell > 0 else -LARGEST
    except Exception:  # of whatever kind of object it is
        return float("nan")


def _as_array(values: Any) -> np.ndarray:
    """Make an array whose type no single cell decides: of lists, always one of objects."""
    if isinstance(values, (list, tuple)):
        values = [v if isinstance(v, (list, tuple)) else _listed(v) for v in values]
        return np.array(values, dtype=object)
    return np.asarray(values)


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
