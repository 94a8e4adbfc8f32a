"""Private tables as numbers, without a word about any cell.

Where the domain is declared, no record may make a fit warn, raise or print what it would not for a
neighbour. Shapes and types of arrays are public; what a cell holds is not, be it text among
numbers, a label that was not declared, NaN, or a number beyond all doubles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils.validation import validate_data

from gibbs_dp.privacy.table import unobserved

# Kinds of arrays whose cells are read one by one; numbers come as they are, and no others are read.
READ, NUMBERS = "OUST", "biuf"
LARGEST = float(np.finfo(np.float64).max)


def private_rows(estimator: Any, X: Any) -> Float[np.ndarray, "rows columns"]:
    """Return features as doubles, NaN where a cell is no number; infinities are the largest double.

    Parameters
    ----------
    estimator
        Its number of features and their names are set, as scikit-learn wants it.
    X
        A table ``[rows, columns]``.

    Returns
    -------
    array
        One row a record.

    Raises
    ------
    ValueError
        For another shape, and types that are no numbers: both are public.
    """
    if hasattr(X, "toarray"):  # scikit-learn's own sentence on sparse matrices
        validate_data(estimator, X)
    found = private_numbers("X", X)
    if found.ndim != 2 or 0 in found.shape:
        raise ValueError(
            f"X: give a table [rows, columns] with at least one of each, got shape "
            f"{list(found.shape)}."
        )
    names = X if hasattr(X, "columns") else found
    validate_data(estimator, names, skip_check_array=True)
    return found


def private_labels(name: str, y: Any, rows: int) -> np.ndarray:
    """Return labels as an array ``[rows]`` of any type.

    Raises
    ------
    ValueError
        For another shape, which is public.
    """
    if y is None:
        raise ValueError(f"{name}: it is missing, and fits require y to be passed; give labels.")
    found = y if isinstance(y, np.ndarray) else _as_array(y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.shape != (rows,):
        raise ValueError(
            f"{name}: give one label a row, {rows} of them, got shape {list(found.shape)}."
        )
    return found


def private_numbers(name: str, values: Any) -> Float[np.ndarray, ...]:
    """Turn an array, a table or nested lists into doubles; NaN where a cell is no number.

    >>> private_numbers("X", [[1, "2.5"], [None, 10**400]]).tolist()
    [[1.0, 2.5], [nan, 1.7976931348623157e+308]]
    """
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


def places_among(
    y: np.ndarray, classes: np.ndarray
) -> tuple[Float[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Return places of labels among sorted classes, 0 for unknown ones, and which are known.

    Parameters
    ----------
    y
        Labels of any type.
    classes
        Declared labels, sorted.

    Returns
    -------
    tuple
        Places and whether they are.

    Raises
    ------
    ValueError
        If an array of numbers meets classes that are texts: types are public.

    Examples
    --------
    >>> places_among(np.array(["b", "?", "a"]), np.array(["a", "b"]))
    (array([1., 0., 0.]), array([ True, False,  True]))
    """
    if y.dtype.kind in "biufcMm" and classes.dtype.kind in "US":
        raise ValueError(
            f"classes: they are texts, and labels of type {y.dtype} are none; declare them as they "
            "are."
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
