"""From the columns of a data frame to a matrix of features and a vector of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

LossName = Literal["logistic", "squared", "absolute"]

# A column of text with more levels than this is an identifier, a date or free text.
MAX_LEVELS = 100


class Encoded(NamedTuple):
    """Numbers ready for a loss, and a sentence for every decision that was taken."""

    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, " rows"]
    notes: tuple[str, ...]


def standardize(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Subtract the mean of each column and divide by its standard deviation.

    >>> standardize(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    return (values - values.mean(axis=0)) / values.std(axis=0)


def encode(
    frame: pd.DataFrame, target: str, loss: LossName, features: Sequence[str] | None = None
) -> Encoded:
    """Encode a table.

    Numeric features are standardized; columns of text become 0/1 indicators of every level but
    the first; features with a single value are dropped. A logistic target becomes 0/1, other
    targets are standardized.

    Parameters
    ----------
    frame
        The table.
    target
        Name of the column to predict.
    loss
        Which loss the target is for.
    features
        Columns to use; all but the target by default.

    Raises
    ------
    ValueError
        If a column is unknown, has missing or infinite values, or cannot be encoded.
    """
    used = _chosen_columns(frame, target, features)
    _refuse_missing(frame[[*used, target]])
    matrices, constant = [], []
    for name in used:
        column = frame[name]
        if column.nunique() < 2:
            constant.append(name)
        else:
            matrices.append(_encode_feature(column))
    notes = []
    if constant:
        notes.append(f"dropped features with a single value: {', '.join(constant)}.")
    if not matrices:
        raise ValueError(f"features: none of {', '.join(used)} varies; nothing can be learned.")
    y, how = _encode_target(frame[target], loss)
    return Encoded(np.concatenate(matrices, axis=1), y, (*notes, how))


def _chosen_columns(frame: pd.DataFrame, target: str, features: Sequence[str] | None) -> list[str]:
    known = [str(c) for c in frame.columns]
    frame.columns = pd.Index(known)
    if target not in known:
        raise ValueError(f"target: there is no column {target!r}; the table has {_few(known)}.")
    if features is None:
        chosen = [c for c in known if c != target]
        if not chosen:
            raise ValueError(f"features: the table has no column besides the target {target!r}.")
        return chosen
    chosen = list(dict.fromkeys(features))
    for name in chosen:
        if name not in known:
            raise ValueError(f"features: there is no column {name!r}; the table has {_few(known)}.")
        if name == target:
            raise ValueError(f"features: {name!r} is the target; leave it out.")
    if not chosen:
        raise ValueError("features: the list is empty; name at least one column.")
    return chosen


def _refuse_missing(frame: pd.DataFrame) -> None:
    counts = {str(name): int(column.isna().sum()) for name, column in frame.items()}
    missing = [f"{name} ({count})" for name, count in counts.items() if count]
    if missing:
        raise ValueError(
            f"data: missing values in {_few(missing)}; drop those rows, fill the values in, or "
            "leave the columns out with features."
        )
    for name, column in frame.items():
        if _is_numeric(column) and not np.isfinite(column.to_numpy(float)).all():
            raise ValueError(f"data: column {str(name)!r} holds infinite values; replace them.")


def _encode_feature(column: pd.Series[Any]) -> Float[np.ndarray, "rows features"]:
    if _is_numeric(column):
        return standardize(column.to_numpy(float))[:, None]
    levels = sorted(column.astype(str).unique())
    if len(levels) > MAX_LEVELS or len(levels) == len(column):
        raise ValueError(
            f"features: the text column {str(column.name)!r} has {len(levels)} different values "
            f"in {len(column)} rows (at most {MAX_LEVELS}, each repeated, make categories); "
            "group them or leave the column out."
        )
    values = column.astype(str).to_numpy()
    return (values[:, None] == np.array(levels[1:])[None, :]).astype(float)


def _encode_target(
    column: pd.Series[Any], loss: LossName
) -> tuple[Float[np.ndarray, " rows"], str]:
    name = str(column.name)
    if loss == "logistic":
        return _two_classes(column, name)
    if not _is_numeric(column):
        raise ValueError(
            f"target: column {name!r} holds text, but the {loss} loss needs numbers; "
            "for two classes use the logistic loss."
        )
    values = column.to_numpy(float)
    if values.std() == 0:
        raise ValueError(f"target: every row of {name!r} is {values[0]:g}; nothing to predict.")
    unit = "variances" if loss == "squared" else "standard deviations"
    return standardize(values), (
        f"target {name!r} is standardized (mean {values.mean():.4g}, standard deviation "
        f"{values.std():.4g}): risks are in {unit} of it."
    )


def _two_classes(column: pd.Series[Any], name: str) -> tuple[Float[np.ndarray, " rows"], str]:
    values = column.to_numpy() if _is_numeric(column) else column.astype(str).to_numpy()
    levels = np.unique(values)
    if len(levels) == 1:
        raise ValueError(
            f"target: every row of {name!r} is {levels[0]}; the logistic loss needs two classes."
        )
    if len(levels) > 2:
        raise ValueError(
            f"target: column {name!r} has {len(levels)} different values, but the logistic loss "
            "needs two classes; recode it, or use the squared or absolute loss."
        )
    return (values == levels[1]).astype(float), (
        f"target {name!r}: {levels[0]} -> 0, {levels[1]} -> 1."
    )


def _is_numeric(column: pd.Series[Any]) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)


def _few(names: Sequence[str], most: int = 20) -> str:
    """Names in one line, cut where they are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
