"""From the columns of a table to a matrix of features and a vector of targets."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from gibbs_dp.information.checks import refuse_missing_labels
from gibbs_dp.io.files import shown
from gibbs_dp.io.text_tables import PLAIN, NumberFormat
from gibbs_dp.model.losses import Loss
from gibbs_dp.problems.kinds import Declared, refuse_meant, refuse_moments, remedies
from gibbs_dp.problems.source import Source
from gibbs_dp.problems.survey import MAX_LEVELS, ColumnFacts, Missing, Survey, few, survey

# What losses that know their degree are measured in.
UNITS = {1: "standard deviations", 2: "variances"}
# Categories come back: each is in so many rows on average, where there are more than a few.
ROWS_A_LEVEL, MOST_LIKELY = 3, 10


@dataclass(frozen=True, eq=False)
class Encoded:
    """Numbers ready for a loss, and a sentence for every decision taken."""

    design: Float[np.ndarray, "rows columns"]
    y: Float[np.ndarray, " rows"]
    num_classes: int
    weights: Float[np.ndarray, " rows"] | None
    groups: Int[np.ndarray, " rows"] | None
    notes: tuple[str, ...]
    names: tuple[str, ...]  # of the design's columns
    row_numbers: Int[np.ndarray, " rows"] | None = None

    @property
    def x(self) -> Float[np.ndarray, "rows features"]:
        """Features without the intercept."""
        return self.design[:, 1:]


def standardize(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Subtract the mean of each column and divide by its standard deviation.

    >>> standardize(np.array([1.0, 3.0]))
    array([-1.,  1.])
    """
    return (values - values.mean(axis=0)) / values.std(axis=0)


def encode(
    source: Source,
    target: str,
    loss: Loss,
    features: Sequence[str] | None = None,
    missing: Missing = "refuse",
    categorical: Sequence[str] = (),
    weights: str | None = None,
    group: str | None = None,
    numbers: Sequence[str] = (),
    spelled: NumberFormat = PLAIN,
) -> Encoded:
    """Encode a table in two passes, one to survey it and one to encode it.

    Numeric features and targets are standardized, texts and levels become 0/1 indicators, classes
    0, 1, ...; counts are kept. Only a chunk of rows and the result are in memory.
    """
    if missing not in get_args(Missing):
        raise ValueError(f"missing: {missing!r} is not 'refuse' or 'drop'.")
    special = {"target": target, "weights": weights, "group": group}
    used = _chosen_columns(source, {k: v for k, v in special.items() if v}, features)
    for name in categorical:
        if name not in used:
            raise ValueError(f"categorical: {name!r} is not among the features {few(used)}.")
    names = list(dict.fromkeys([*used, *(name for name in special.values() if name)]))
    for name in numbers:
        if name not in names or name == group:
            raise ValueError(f"numbers: {name!r} is not among the used columns {few(names)}.")
        if name in categorical:
            raise ValueError(f"numbers: {name!r} is also in categorical; leave one of them out.")
    is_label_alone = group not in {*used, target, weights}
    found = survey(
        source,
        names,
        missing,
        Declared(spelled, frozenset(categorical), frozenset(numbers)),
        frozenset([target] if _has_classes(loss) else []),
        group if is_label_alone else None,
    )
    if found.num_rows == 0:
        why = "every row has a missing value" if found.num_dropped else "the table has no rows"
        raise ValueError(f"data: {why}; give at least two.")
    if found.num_rows == 1:
        told = " without missing values" if found.num_dropped else ""
        raise ValueError(f"data: the table has one row{told}; give at least two.")
    notes = []
    left_out = [name for name in source.columns if name in source.index and name not in names]
    if left_out and features is None:
        notes.append(
            f"row names that pandas wrote are no features: {few(left_out)} (list them in features "
            "to use them)."
        )
    if found.num_dropped and missing == "drop":
        share = found.num_dropped / (found.num_rows + found.num_dropped)
        notes.append(
            f"dropped {found.num_dropped} rows ({share:.1%}) with missing values: the rest may "
            "differ from them."
        )
    kept, note = _varying([found.columns[name] for name in used], categorical, spelled)
    notes += note
    to_target, num_classes, how = _target(found.columns[target], loss, spelled)
    texts = [c.name for c in found.columns.values() if c.was_text and c.name not in numbers]
    if texts:
        notes.append(f"texts are numbers, and used as these: {few(texts)}.")
    design, y, extra, rows = _write(found, kept, target, to_target, [weights, group])
    return Encoded(
        design=design,
        y=y,
        num_classes=num_classes,
        weights=None if weights is None else _checked_weights(extra[weights], weights),
        groups=None if group is None else _groups(extra[group], group),
        notes=(*notes, how),
        names=("intercept", *(name for column in kept for name in _names_of(column))),
        row_numbers=rows if found.num_dropped else None,
    )


def _chosen_columns(
    source: Source, special: dict[str, str], features: Sequence[str] | None
) -> list[str]:
    known = source.columns
    for role, name in special.items():
        if name not in known:
            raise ValueError(_no_column(role, name, known))
    if features is None:
        chosen = [c for c in known if c not in special.values() and c not in source.index]
        if not chosen:
            raise ValueError(
                f"features: the table has no column besides the target {special['target']!r}."
            )
        return chosen
    chosen = list(dict.fromkeys(features))
    for name in chosen:
        if name not in known:
            raise ValueError(_no_column("features", name, known))
        if name == special["target"]:
            raise ValueError(f"features: {name!r} is the target; leave it out.")
    if not chosen:
        raise ValueError("features: the list is empty; name at least one column.")
    return chosen


def _varying(
    columns: Sequence[ColumnFacts], categorical: Sequence[str], spelled: NumberFormat
) -> tuple[list[ColumnFacts], list[str]]:
    """Find features with more than one value; return notes on the others, and on odd ones."""
    kept = [column for column in columns if len(column.levels) > 1]
    constant = [column.name for column in columns if len(column.levels) < 2]
    if not kept:
        raise ValueError(f"features: none of {few(constant)} varies; nothing can be learned.")
    for column in kept:
        if column.is_text:
            _check_levels(column, column.name in categorical, spelled)
    told = f"dropped features with a single value: {few(constant, len(constant))}."
    notes = [told] if constant else []
    notes += [
        f"feature {column.name!r} is used as text, for zeros in front of its numbers; list it in "
        "numbers (--numbers) if it holds some."
        for column in kept
        if column.is_code and column.name not in categorical
    ]
    notes += [
        f"feature {column.name!r} numbers the rows; leave it out with features unless their order "
        "matters."
        for column in kept
        if not column.is_text and column.is_counting and column.count > MOST_LIKELY
    ]
    return kept, notes


def _check_levels(column: ColumnFacts, is_declared: bool, spelled: NumberFormat) -> None:
    """Refuse a feature of texts that are no levels."""
    name, size, count = column.name, len(column.levels), column.count
    if not is_declared:
        refuse_moments(name, column.levels)
        if not column.is_code and not (column.is_category and column.is_spelled):
            refuse_meant(name, column.levels, spelled)
    is_many = not is_declared and size > max(MOST_LIKELY, count // ROWS_A_LEVEL)
    if column.has_many_levels or is_many or size == count:
        shown_size = f"over {MAX_LEVELS}" if column.has_many_levels else str(size)
        told = "; if they are numbers, list it in numbers (--numbers)" if column.is_code else ""
        raise ValueError(
            f"features: the text column {name!r} has {shown_size} different values in {count} "
            f"rows (at most {MAX_LEVELS}, each in {ROWS_A_LEVEL} rows on average, make "
            "categories); group them or leave the column out"
            f"{told or remedies(column.levels, spelled)}."
        )


def _has_classes(loss: Loss) -> bool:
    return loss.labels in ("two classes", "classes")


def _target(column: ColumnFacts, loss: Loss, spelled: NumberFormat) -> tuple[Any, int, str]:
    """Decide how to encode the target, into how many classes, and say so in a sentence."""
    name, levels = column.name, sorted(column.levels)
    if _has_classes(loss):
        _check_classes(column, loss)
        classes = ", ".join(f"{shown(str(level), 60)} -> {i}" for i, level in enumerate(levels))
        places = pd.Index(levels)

        def to_class(values: pd.Series[Any]) -> Any:
            return places.get_indexer(values.astype(str) if column.is_text else values)

        count = len(levels) if loss.labels == "classes" else 0
        odd = "" if column.is_spelled else remedies(column.levels, spelled)
        return to_class, count, f"target {name!r}: {classes}{odd}."
    if column.is_text:
        refuse_moments(name, column.levels, "target")
        raise ValueError(
            f"target: column {name!r} holds text or categories, but the {loss.name} loss needs "
            "numbers; for classes use the logistic or softmax loss"
            f"{remedies(column.levels, spelled)}."
        )
    if column.std == 0:
        raise ValueError(f"target: every row of {name!r} is {column.mean:g}; nothing to predict.")
    if loss.labels == "counts":
        if column.low < 0:
            raise ValueError(
                f"target: column {name!r} goes down to {column.low:g}, but the {loss.name} loss "
                "needs counts."
            )
        return (lambda values: values), 0, f"target {name!r} is used as counts."
    unit = "" if loss.degree not in UNITS else f": risks are in {UNITS[loss.degree]} of it"
    return (
        (lambda values: (values - column.mean) / column.std),
        0,
        f"target {name!r} is standardized (mean {column.mean:.4g}, standard deviation "
        f"{column.std:.4g}){unit}.",
    )


def _check_classes(column: ColumnFacts, loss: Loss) -> None:
    name, count = column.name, len(column.levels)
    most = MAX_LEVELS if loss.labels == "classes" else 2
    wanted = "two classes" if most == 2 else f"2 to {most} classes"
    if count == 1:
        raise ValueError(
            f"target: every row of {name!r} is {shown(str(next(iter(column.levels))), 60)}; "
            f"nothing to predict (the {loss.name} loss needs {wanted})."
        )
    if count > most:
        size = f"over {MAX_LEVELS}" if column.has_many_levels else str(count)
        raise ValueError(
            f"target: column {name!r} has {size} different values, but the {loss.name} loss "
            f"needs {wanted}; recode it, or use another loss."
        )


def _indicators(column: ColumnFacts) -> list[str]:
    """Levels that have a column of 0 and 1."""
    return sorted(column.levels)[1:]


def _names_of(column: ColumnFacts) -> list[str]:
    """Name the columns of a feature: its own, or one a level."""
    if not column.is_text:
        return [column.name]
    return [f"{column.name}={shown(str(level), 60)}" for level in _indicators(column)]


def _write(
    found: Survey,
    kept: Sequence[ColumnFacts],
    target: str,
    to_target: Any,
    extra: Sequence[str | None],
) -> tuple[
    Float[np.ndarray, "rows columns"],
    Float[np.ndarray, " rows"],
    dict[str, Any],
    Int[np.ndarray, " rows"],
]:
    """Fill the design, the target, the extra columns and the rows' numbers, chunk by chunk."""
    levels = [_indicators(column) if column.is_text else None for column in kept]
    width = 1 + sum(1 if level is None else len(level) for level in levels)
    design, y = np.empty((found.num_rows, width)), np.empty(found.num_rows)
    numbers = np.empty(found.num_rows, np.int64)
    design[:, 0] = 1.0
    aside: dict[str, list[Any]] = {name: [] for name in extra if name}
    begin = 0
    for frame in found.chunks():
        rows, at = slice(begin, begin + len(frame)), 1
        for column, level in zip(kept, levels, strict=True):
            values = frame[column.name]
            if level is None:
                design[rows, at] = (values.to_numpy(float) - column.mean) / column.std
                at += 1
                continue
            for one in level:
                design[rows, at] = values.astype(str).to_numpy() == one
                at += 1
        numbers[rows] = frame.index
        y[rows] = np.asarray(to_target(frame[target]), dtype=float)
        for name, parts in aside.items():
            parts.append(frame[name].to_numpy())
        begin += len(frame)
    return design, y, {name: np.concatenate(parts) for name, parts in aside.items()}, numbers


def _groups(labels: np.ndarray, name: str) -> Int[np.ndarray, " rows"]:
    """Give groups numbers in the order of their first rows."""
    refuse_missing_labels(f"group: column {name!r}", labels)
    return np.asarray(pd.factorize(labels)[0])


def _checked_weights(values: Any, name: str) -> Float[np.ndarray, " rows"]:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"weights: column {name!r} holds text; weights are numbers.")
    weights = values.astype(float)
    if weights.min() < 0 or weights.max() == 0:
        raise ValueError(f"weights: column {name!r} must be at least 0, and not 0 everywhere.")
    if np.count_nonzero(weights) == 1:
        raise ValueError(
            f"weights: column {name!r} is 0 in all rows but one, which every example would be a "
            "copy of; give at least two rows a weight."
        )
    return weights


def _no_column(role: str, name: str, known: Sequence[str]) -> str:
    """Say that a table has no such column, and which may be meant."""
    plain = {one.strip().lower(): one for one in known}
    listed = [one.strip() for one in name.split(",")]
    if len(listed) > 1 and set(listed) <= set(known):
        return f"{role}: there is no column {name!r}; give several apart: {' '.join(listed)}."
    if any(NumberFormat().number(one) is not None for one in known):
        return (
            f"{role}: there is no column {name!r}; the first line must hold the names of the "
            f"columns, and it holds {few(known)}."
        )
    near = difflib.get_close_matches(name.strip().lower(), list(plain), n=1)
    meant = f"did you mean {plain[near[0]]!r}? It has" if near else "the table has"
    return f"{role}: there is no column {name!r}; {meant} {few(known)}."
