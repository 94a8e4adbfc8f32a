"""Any table: a CSV or Parquet file, a target column and a loss."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
from jaxtyping import Float

from gibbs_dp.io.text_tables import ISO, UTF_8, DateFormat
from gibbs_dp.model import GibbsPosterior, losses, populations
from gibbs_dp.model.losses import Loss, as_loss
from gibbs_dp.problems.base import Problem, normal_prior
from gibbs_dp.problems.columns import encode
from gibbs_dp.problems.registry import LABELS
from gibbs_dp.problems.source import Frame, Source, Spelling, as_frame, open_table
from gibbs_dp.problems.survey import MAX_LEVELS, Missing

# Columns of dates as numbers of days.


def as_pairs(
    days: Mapping[str, str] | Sequence[Sequence[str]], categorical: Sequence[str]
) -> dict[str, str]:
    """Check which columns are dates, and from which day on they are counted.

    Examples
    --------
    >>> as_pairs([("admitted", "2020-01-01")], [])
    {'admitted': '2020-01-01'}
    """
    found: dict[str, str] = {}
    pairs = days.items() if isinstance(days, Mapping) else days
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"date: give columns with a day each, got {pair!r}.")
        name, day = pair
        if not isinstance(day, str):
            raise ValueError(f"date: give the day of {name!r} as a text, got {day!r}.")
        if name in found or name in categorical:
            what = "twice" if name in found else "also as categorical"
            raise ValueError(f"date: {name!r} is named {what}; once is enough.")
        found[name] = day
    return found


def with_days(source: Source, days: Mapping[str, str], spelled: DateFormat) -> Source:
    """Return a table in which columns of dates are numbers."""
    first = {name: spelled.declared(f"date: {name!r}", day) for name, day in days.items()}
    for name in days:
        if name not in source.columns:
            raise ValueError(f"date: there is no column {name!r}.")
    if not days:
        return source

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        for frame in source.chunks(columns, text.union(first)):
            dated = [name for name in columns if name in first]
            yield frame.assign(**{k: _since(frame[k], first[k], spelled) for k in dated})

    return Source(source.columns, chunks, source.index)


def _since(column: pd.Series[Any], first: int, spelled: DateFormat) -> pd.Series[Any]:
    days = {value: _day(value, str(column.name), spelled) for value in column.dropna().unique()}
    return column.map(days).astype(float) - first


def _day(value: Any, name: str, spelled: DateFormat) -> int:
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, date):  # pandas' own are of this kind
        return value.toordinal()
    found = spelled.day(str(value).strip())
    if found is None:
        raise ValueError(
            f"date: {str(value)[:40]!r} in column {name!r} is no date spelled {spelled.spelled}; "
            "give the spelling with date_format (--date-format), or name the value with na_values "
            "if it is missing."
        )
    return found


# What is left to the table: the loss, by its target, and which columns are dates.


def _loss_for(source: Source, target: str, spelling: Spelling) -> tuple[Loss, str]:
    """Return the loss that a target is for, and a sentence about it where it is not logistic."""
    if target not in source.columns:  # refused where all columns are chosen
        return as_loss("logistic", *LABELS), ""
    levels: set[Any] = set()
    is_number = True
    for frame in source.chunks([target], frozenset()):
        values, kinds = frame[target].dropna(), pd.api.types
        if kinds.is_object_dtype(values.dtype) or kinds.is_string_dtype(values.dtype):
            values = values.map(lambda v: v.strip() if isinstance(v, str) else v)
            values = values[values != ""]
        levels.update(values.unique()[: MAX_LEVELS + 1])
        if not (kinds.is_numeric_dtype(values.dtype) or kinds.is_timedelta64_dtype(values.dtype)):
            found = (spelling.numbers.plain(str(value)) for value in values.unique())
            is_number = is_number and all(number is not None for number in found)
    if len(levels) <= 2 or not (is_number or len(levels) <= MAX_LEVELS):
        return as_loss("logistic", *LABELS), ""
    if is_number:
        why = f"the loss is squared, as {target!r} holds numbers (loss= takes another)."
        return as_loss("squared", *LABELS), why
    if all(isinstance(level, (np.datetime64, date)) for level in levels):
        first = min(str(level)[:10] for level in levels)
        raise ValueError(
            f"target: {target!r} holds dates; predict days since one of them with "
            f"date={{{target!r}: {first!r}}} (--date {target} {first}), or another column."
        )
    why = f"the loss is softmax, as {target!r} has {len(levels)} values (loss= takes another)."
    return as_loss("softmax", *LABELS), why


def days_of(data: Any, reading: Mapping[str, Any]) -> dict[str, str]:
    """Return columns that hold dates, as such or spelled YYYY-MM-DD, with their first days."""
    if reading.get("date_format", ISO) != ISO:
        return {}
    names = ("sep", "decimal", "encoding", "thousands")
    spelled: dict[str, Any] = {name: reading[name] for name in names if name in reading}
    spelled |= {k: tuple(reading[k]) for k in ("na_values", "units") if k in reading}
    held = data if isinstance(data, (str, os.PathLike)) else as_frame(data)
    source, spelling = open_table(held, Spelling(**spelled)), DateFormat(ISO)
    left = set(reading.get("categorical") or ())
    wanted = [c for c in (reading.get("features") or source.columns) if c in source.columns]
    first: dict[str, int | None] = {name: None for name in wanted if name not in left}
    for frame in source.chunks(list(first), frozenset()):
        for name in [*first]:
            values = frame[name].dropna()
            is_text = not pd.api.types.is_datetime64_any_dtype(values.dtype)
            if is_text and pd.api.types.is_numeric_dtype(values.dtype):
                del first[name]
                continue
            days = [_day_or_none(value, spelling) for value in values.unique()]
            if None in days:
                del first[name]
            elif days:
                least = min(day for day in days if day is not None)
                before = first[name]
                first[name] = least if before is None else min(before, least)
    return {k: date.fromordinal(day).isoformat() for k, day in first.items() if day is not None}


def _day_or_none(value: Any, spelled: DateFormat) -> int | None:
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if isinstance(value, date):
        return value.toordinal()
    return spelled.day(value.strip()) if isinstance(value, str) else None


# Largest default dataset size: half the rows of a large table would take too long to sample.
MAX_N = 1000


def table(
    data: str | os.PathLike[str] | pd.DataFrame | Frame,
    target: str,
    loss: str | Loss | None = None,
    features: Sequence[str] | None = None,
    prior_scale: float | None = 1.0,
    split: bool = False,
    missing: Missing = "refuse",
    categorical: Sequence[str] | None = None,
    weights: str | None = None,
    group: str | None = None,
    sep: str | None = None,
    decimal: str = ".",
    encoding: str = UTF_8,
    na_values: Sequence[str] = (),
    date: Mapping[str, str] | Sequence[Sequence[str]] = (),
    date_format: str = ISO,
    thousands: str | None = None,
    units: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> Problem:
    """Regression or classification on the rows of a table.

    Numeric features are standardized, columns of text become 0/1 indicators (all levels but the
    first), and a column of ones is the intercept. Decimal fractions, durations (in seconds) and
    texts that are all numbers are numbers; where only most of a column's texts are, or by another
    spelling, it is refused with the option that reads them, and so is a column of dates, times,
    lists, records or bytes. Row names that pandas wrote are no features.

    A logistic or hinge target must have two values, the smaller (or alphabetically first) of which
    becomes 0; a softmax target may have more; counts (poisson) are kept; other targets are
    standardized, so that losses are in variances (squared, huber) or standard deviations (absolute)
    of the target. Files are read a few thousand rows at a time; only the encoded table stays in
    memory.

    Parameters
    ----------
    data
        A CSV file (``sep``, ``decimal`` and ``encoding`` say how it is written), a Parquet file
        (``.parquet``, ``.pq``) or a data frame: of pandas, or with ``to_pandas`` as those of polars
        and Arrow have it.
    target
        The column to predict.
    loss
        Name of a loss, such as "logistic", "softmax", "squared" or "poisson", or a loss:
        ``losses.Huber(0.5)``, or one of your own (`gibbs_dp.losses.LinearLoss`). None: logistic
        for a target of two values, squared for numbers, softmax for up to 100 other values.
    features
        Columns to predict from; by default all but the target, the weights and the groups.
    prior_scale
        Standard deviation of the Gaussian prior on each weight, intercept included; None or
        infinity for a flat one.
    split
        Make training rows and ghosts disjoint rows of the table, instead of drawing them with
        replacement.
    missing
        "refuse" (default): a missing value in a used column is an error. "drop": such rows are left
        out, and a note says how many.
    categorical
        Features whose values stand for levels, to be made indicators: numbers, dates, or texts of
        numbers.
    weights
        A column of numbers >= 0: rows are drawn with probability proportional to it (survey
        weights). Not with ``split``. Features and target are standardized without it.
    group
        With ``split``: a column that says which rows belong together (a person, a household);
        rows of one group stay on one side. Audits then need ``group_size = n``.
    sep
        Separator of a CSV file's cells. None: tab where the name ends in ``.tsv``, else semicolon
        where the decimal mark is a comma, else comma.
    decimal
        Decimal mark of numbers in text, "." or ",".
    encoding
        Encoding of a CSV file, such as "latin-1" or "cp1252".
    na_values
        Texts that mean a missing value, beside an empty cell, NA, NaN, null and pandas' others.
    date
        Columns of dates, each with a day: they become numbers of days since then. Other columns of
        dates are refused, unless ``categorical`` names them.
    date_format
        How dates are spelled, with YYYY, MM and DD: "DD/MM/YYYY". A time of day behind a date is
        dropped.
    thousands
        What stands between groups of three digits: "," or "." or "_" or "'" or a space. Without it
        no mark is allowed there.
    units
        Texts beside numbers that are dropped: "$", "EUR", "%" (10% is then 10), "kg". All numbers
        of a column must have the same.
    numbers
        Columns that hold numbers, however they look: texts with zeros in front, which are levels
        otherwise, as codes are.

    Returns
    -------
    Problem
        Ready for ``gibbs_dp.audit``.

    Raises
    ------
    ValueError
        If the file cannot be read or its columns cannot be used.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [31, 45, 50, 62], "city": ["a", "b", "a", "b"],
    ...                       "ill": ["no", "yes", "no", "yes"]})
    >>> problem = table(frame, target="ill")
    >>> problem.notes
    ("target 'ill': no -> 0, yes -> 1.",)
    >>> problem.population.data[0].shape                         # intercept, age, city = b
    (4, 3)
    """
    function = None if loss is None else as_loss(loss, *LABELS)
    target = str(target)  # numbers that name a frame's columns, too
    wanted = None if features is None else [str(name) for name in features]
    weights, group = (None if name is None else str(name) for name in (weights, group))
    if not isinstance(data, (str, os.PathLike)):
        data = as_frame(data)
        if data.shape[0] == 0:
            raise ValueError("data: the table has no rows; give at least two.")
    days = as_pairs(date, categorical or ())
    if date_format != ISO and not days:
        raise ValueError(
            "date_format: it is of the columns that date names; name one (--date COLUMN DAY), or "
            "leave it."
        )
    for name, given in (("na_values", na_values), ("units", units), ("numbers", numbers)):
        if isinstance(given, str):
            raise ValueError(f"{name}: give a list of texts, such as [{given!r}].")
    spelling = Spelling(sep, decimal, encoding, tuple(na_values), thousands, tuple(units))
    source = with_days(open_table(data, spelling), days, DateFormat(date_format))
    chosen = []
    if function is None:
        function, note = _loss_for(source, target, spelling)
        chosen = [note] if note else []
    encoded = encode(
        source,
        target,
        function,
        wanted,
        missing,
        categorical or (),
        weights,
        group,
        numbers,
        spelling.numbers,
    )
    width, found = encoded.design.shape[1], encoded.num_classes
    if isinstance(function, losses.SoftmaxCrossEntropy):
        function = function if isinstance(loss, Loss) else replace(function, num_classes=found)
        if function.num_classes != found:
            raise ValueError(
                f"loss: it has num_classes={function.num_classes}, and column {target!r} has "
                f"{found} different values; declare that many."
            )
        prior = _matrix_prior(width, found, prior_scale)
    else:
        prior = normal_prior(width, prior_scale)
    rows = len(encoded.y)
    used = {target, *(wanted or source.columns)}
    notes = chosen + [f"column {k!r} is days since {day}." for k, day in days.items() if k in used]
    notes += encoded.notes
    if rows // 2 > MAX_N:
        notes.append(f"the table has {rows} rows; datasets have n = {MAX_N} unless n says so.")
    return Problem(
        name="table" if isinstance(data, pd.DataFrame) else Path(data).stem,
        posterior=GibbsPosterior(function, prior),
        population=populations.Table(
            (encoded.design, encoded.y),
            replace=not split,
            weights=encoded.weights,
            groups=encoded.groups,
            row_numbers=encoded.row_numbers,
        ),
        n=min(max(1, rows // 2), MAX_N),
        gammas=(0.01, 0.1, 1.0),
        num_datasets=512,
        description=f"{function.name} regression of {target} on {width - 1} features.",
        notes=tuple(notes),
        names=encoded.names,
    )


def _matrix_prior(width: int, num_classes: int, scale: float | None) -> Any:
    """Independent normal weights ``[width, num_classes]``; softmax has no flat posterior."""
    if scale is None or not 0 < scale < np.inf:
        raise ValueError(
            "prior_scale: must be positive and finite for the softmax loss, whose flat posterior "
            "is improper."
        )
    return dist.Normal(jnp.zeros((width, num_classes)), scale)


def table_problem(
    name: str,
    x: Float[np.ndarray, "rows features"],
    y: Float[np.ndarray, " rows"],
    loss: Loss,
    prior_scale: float | None,
    split: bool,
    description: str,
    notes: tuple[str, ...] = (),
) -> Problem:
    """Put an intercept, a Gaussian prior and a table population around encoded columns."""
    design = np.concatenate([np.ones((len(y), 1)), x], axis=1)
    return Problem(
        name=name,
        posterior=GibbsPosterior(loss, normal_prior(design.shape[1], prior_scale)),
        population=populations.Table((design, y), replace=not split),
        n=max(1, len(y) // 2),
        gammas=(0.01, 0.1, 1.0),
        num_datasets=512,
        description=description,
        notes=notes,
    )
