"""A released linear model from its file: the features of other tables, and what it predicts."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from gibbs_dp.io.files import parse_json, reason, shown
from gibbs_dp.io.text_tables import UTF_8, DateFormat, NumberFormat, byte_encoding, separator
from gibbs_dp.privacy.columns import (
    Column,
    Date,
    Levels,
    Number,
    Positive,
    Range,
    lines,
    split_cells,
    to_number,
    to_text,
)
from gibbs_dp.privacy.schema import Schema
from gibbs_dp.privacy.table import check_kind, find_columns, plain_cell, read_header, transcoder

if TYPE_CHECKING:
    import pandas as pd

    from gibbs_dp.problems.source import Frame, Source, Spelling

# Of what a file says on predictions; others are refused.
FORMAT = 2
# What scores are that are no log-odds.
NO_LOG_ODDS = "no log-odds: they order rows, and 1 / (1 + exp(-s)) is no probability"
# Larger files are none that a release wrote.
MOST_BYTES = 1 << 26
# Room for rounding below a norm.
MARGIN = 1e-7
# From so many rows on, a column that is wholly beyond its declared ends is in another unit.
MANY_ROWS = 10
NO_FACTS = (
    "it does not say how to predict, as files of older versions and of release methods of one's "
    "own do not; release again, or do by hand what its 'model' and 'rules' say"
)


@dataclass(frozen=True, eq=False)
class Shortening:
    """How the rule's models move features into bounds, and shorten what is far from the middle."""

    low: Float[np.ndarray, " columns"]
    high: Float[np.ndarray, " columns"]
    center: Float[np.ndarray, " columns"]
    width: Float[np.ndarray, " columns"]
    norm: float

    def units(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
        """Return rows in widths from the middle, of at most the norm."""
        moved = (np.clip(rows, self.low, self.high) - self.center) / self.width
        largest = np.max(np.abs(moved), axis=1, keepdims=True, initial=0.0)
        safe = np.where(largest > 0, largest, 1.0)  # the square of a huge entry would overflow
        unit = np.linalg.norm(moved / safe, axis=1, keepdims=True)
        bound = self.norm * (1 - MARGIN) / np.where(unit > 0, unit, 1.0)  # of the largest entry
        return np.where(largest > bound, (moved / safe) * bound, moved)

    @property
    def rule(self) -> str:
        """What is done to features after the rules of their columns, in words."""
        if np.isinf(self.low).any():
            return f"features are shortened to a norm of {self.norm:.6g}"
        return (
            "features whose distance from the middle of their ranges, in units of a fifth of each "
            f"range and half of an indicator's, is above {self.norm:.6g} are moved towards the "
            "middle to it"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, None for an infinite bound."""
        found: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Shortening)}
        for name in ("low", "high", "center", "width"):
            found[name] = [float(v) if math.isfinite(v) else None for v in found[name]]
        return found | {"norm": float(self.norm)}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], size: int) -> Shortening:
        """Read what `to_dict` wrote, for so many columns."""
        sides = {"low": -math.inf, "high": math.inf, "center": math.nan, "width": math.nan}
        arrays = {
            name: np.array([missing if v is None else float(v) for v in saved[name]], np.float64)
            for name, missing in sides.items()
        }
        low, high, center, width = arrays.values()
        norm = float(saved["norm"])
        if not (
            all(side.shape == (size,) for side in arrays.values())
            and (low <= high).all()
            and np.isfinite(center).all()
            and ((width > 0) & np.isfinite(width)).all()
            and 0 <= norm < math.inf
        ):
            raise ValueError("its 'shortening' does not fit its columns")
        return cls(low, high, center, width, norm)


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """Draws of a linear model, and all that is public of how they predict.

    Predicting costs nothing of a budget: whatever is computed from a release is as private as it.

    Parameters
    ----------
    schema
        How features follow from a record, and what the label is.
    draws
        One number a feature, ``[draws, features]``, in the order of ``schema.names``.
    shortening
        What a model of the rule does to features before. None: vectors longer than the schema's
        bound are shortened to it.
    has_log_odds
        Whether scores of two classes are log-odds, as of the logistic loss. Others order rows, and
        are no probabilities.
    """

    schema: Schema
    draws: Float[np.ndarray, "draws features"]
    shortening: Shortening | None = None
    has_log_odds: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, as ``release.json`` has it."""
        names = self.schema.names
        how = None if self.shortening is None else self.shortening.to_dict()
        return {
            "draws": [dict(zip(names, map(float, theta), strict=True)) for theta in self.draws],
            "schema": self.schema.to_dict(),
            "prediction": {
                "format": FORMAT,
                "shortening": how,
                "has_log_odds": self.has_log_odds,
            },
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> ReleasedModel:
        """Read what `to_dict` wrote; other entries are left alone.

        Raises
        ------
        ValueError
            If it is nothing that predicts.
        """
        if "prediction" not in saved:
            raise ValueError(f"release: {NO_FACTS}.")
        try:
            how = saved["prediction"]
            if how["format"] != FORMAT:
                version = shown(repr(how["format"]), 20)
                raise ValueError(f"it is of format {version}, and this version reads {FORMAT}")
            schema = Schema.from_dict(saved["schema"])
            names = schema.names
            draws = np.array([[float(row[n]) for n in names] for row in saved["draws"]], np.float64)
            if draws.ndim != 2 or not np.isfinite(draws).all():
                raise ValueError("its 'draws' are no finite numbers")
            own = how["shortening"]
            size = len(names) - int(schema.intercept)
            shortening = None if own is None else Shortening.from_dict(own, size)
            found = cls(schema, draws, shortening, how["has_log_odds"] is True)
            if own is not None and not schema.intercept:
                raise ValueError("its 'shortening' is of models with an intercept")
            label = schema.label
            if not (
                isinstance(label, Positive | Number)
                or (isinstance(label, Levels) and len(label.levels) == 2)
            ):
                raise ValueError("its label is neither one of two classes nor a number")
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            told = f"{type(error).__name__}: {shown(reason(error))}"
            raise ValueError(f"release: it is not as 'gibbs-dp release' wrote it ({told}).") from (
                error
            )
        except ValueError as error:
            told = reason(error).removeprefix("saved: ").rstrip(".")
            raise ValueError(f"release: {told}.") from None
        return found

    @property
    def classes(self) -> tuple[str, str] | None:
        """What the label is where it is 0, and where it is 1; None for numbers."""
        label = self.schema.label
        if isinstance(label, Positive):
            return f"not {label.level}", label.level
        if isinstance(label, Levels):
            return label.levels[0], label.levels[1]
        return None

    def predict(
        self,
        data: str | os.PathLike[str] | pd.DataFrame | Frame,
        *,
        decimal: str = ".",
        sep: str | None = None,
        encoding: str = UTF_8,
        thousands: str | None = None,
        units: Sequence[str] = (),
        date_format: str | None = None,
    ) -> pd.DataFrame:
        """Predict the label of every row of another table.

        Columns are read and encoded as for the release, and are all that is looked at. Numbers and
        days beyond their declared ends are moved there, with a warning; nothing else is guessed.

        Parameters
        ----------
        data
            A data frame, or the path of a CSV or Parquet file, with the columns of the features.
        decimal
            Decimal mark of the numbers in a CSV file, "." or ",".
        sep
            Separator of its cells, one character. None: the one that finds the columns.
        encoding
            UTF-8, or an encoding with a byte a character that contains ASCII.
        thousands
            What stands between groups of three digits.
        units
            Texts before or behind a number that are dropped.
        date_format
            How its dates are spelled, with YYYY, MM and DD, as "DD/MM/YYYY". None: as those of the
            release.

        Returns
        -------
        pandas.DataFrame
            A line a row, with a pandas frame's own index, else 1, 2, ...: ``prediction``, the
            likelier class or a number, averaged over the draws; for classes also ``probability``,
            of the class that is 1, or where scores are no log-odds ``score``, from 0 to 1.

        Raises
        ------
        ValueError
            For a column that is not there, a cell that is missing, no number, no day or no declared
            level, a column of ten rows or more that is all beyond its ends, and a spelling of dates
            where none are declared.

        Examples
        --------
        >>> schema = Schema({"age": Range(0.0, 100.0)}, "ill", Levels(["no", "yes"]))
        >>> model = ReleasedModel(schema, np.array([[-2.0, 4.0]]))
        >>> import pandas as pd
        >>> print(model.predict(pd.DataFrame({"age": [20, 80]})).round(3))
          prediction  probability
        0         no        0.231
        1        yes        0.769
        """
        import pandas as pd  # slow to import

        from gibbs_dp.problems.source import PARQUET, Spelling, open_table

        how = Spelling(sep, decimal, encoding, (), thousands, tuple(units))
        columns = replace(self.schema, target=None, label=None)
        if date_format is not None:
            columns = _with_dates(columns, date_format)
        path = Path(data) if isinstance(data, (str, os.PathLike)) else None
        if path is not None and path.suffix.lower() not in PARQUET:
            records = _of_csv(path, columns, how)
        else:
            records = _of_frame(open_table(data, how), columns, decimal)
        x = self.score(_encoded(columns, records, how.numbers))
        index = data.index if isinstance(data, pd.DataFrame) else pd.RangeIndex(1, x.shape[1] + 1)
        if (classes := self.classes) is None:
            found = x.mean(axis=0)
            if self.shortening is not None:
                found = np.clip(found, *self.schema.domain.y_range)
            return pd.DataFrame({"prediction": found}, index)
        one = expit(x).mean(axis=0)
        named = np.where(one > 0.5, *reversed(classes))
        name = "probability" if self.has_log_odds else "score"
        return pd.DataFrame({"prediction": named, name: one}, index)

    def score(self, x: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, "draws rows"]:
        """Return the linear predictions of every draw, for features as the schema makes them."""
        if self.shortening is None:
            return np.asarray(self.draws @ self.schema.domain.clip(x).T)
        how = self.shortening
        moved = how.center + how.width * how.units(x[:, 1:])
        return np.asarray(self.draws[:, :1] + self.draws[:, 1:] @ moved.T)


def load_released_model(path: str | os.PathLike[str]) -> ReleasedModel:
    """Read the model in ``release.json``, as ``gibbs-dp release --out`` writes it.

    Nothing in the file is run.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    ReleasedModel
        What predicts.

    Raises
    ------
    ValueError
        If the file is another one, or of a version that did not say how to predict.
    OSError
        If it cannot be read.
    """
    name = shown(os.fspath(path), 200)
    if Path(path).stat().st_size > MOST_BYTES:
        raise ValueError(f"release: {name!r} is too large to be one; give release.json.")
    try:
        saved = parse_json(Path(path).read_text(UTF_8), dict)
    except ValueError as error:
        raise ValueError(
            f"release: {name!r} is no release.json of 'gibbs-dp release' ({shown(reason(error))})."
        ) from None
    return ReleasedModel.from_dict(saved)


# Records of a table as cells of the features' columns; what is wrong is said of the first row.


Records = Iterator[list[bytes]]


def _with_dates(schema: Schema, spelled: str) -> Schema:
    """Spell dates otherwise than the release's table did."""
    found = {
        name: replace(column, spelled=spelled) if isinstance(column, Date) else column
        for name, column in schema.features.items()
    }
    if not any(isinstance(column, Date) for column in found.values()):
        raise ValueError("date_format: the release declares no column of dates; leave it out.")
    return replace(schema, features=found)


def _of_csv(path: Path, schema: Schema, how: Spelling) -> Records:
    marks = None if how.sep is None else (separator(how.sep, how.decimal).encode(),)
    to_utf_8 = transcoder(byte_encoding(how.encoding))
    check_kind(path)
    with path.open("rb") as file:
        header = read_header(file, how.encoding)
        mark, places, width = find_columns(header, schema, path, how.decimal, marks)
        for number, line in enumerate(lines(file), 1):
            if not to_text(line):
                raise ValueError(f"data: row {number} is a blank line; remove it.")
            cells = split_cells(to_utf_8(line), mark)
            if cells is None or len(cells) != width:
                got = "broken quotes" if cells is None else f"{len(cells)} cells"
                raise ValueError(
                    f"data: row {number} has {got} where the header has {width} names; mend it."
                )
            yield [cells[place] for place in places]


def _of_frame(source: Source, schema: Schema, decimal: str) -> Records:
    if absent := [name for name in schema.features if name not in source.columns]:
        has = ", ".join(shown(repr(name), 40) for name in source.columns[:10])
        raise ValueError(f"data: there is no column {shown(absent[0], 60)!r}; it has {has}.")
    for frame in source.chunks(list(schema.features), frozenset()):
        texts = [
            [_cell(value, column, decimal) for value in frame[name]]
            for name, column in schema.features.items()
        ]
        yield from map(list, zip(*texts, strict=True))


def _cell(value: Any, column: Column, decimal: str) -> bytes:
    """Write a value of a data frame as the release's table would spell it."""
    import pandas as pd

    if isinstance(value, str):
        return value.encode(UTF_8, "replace")
    if pd.isna(value):
        return b""
    if isinstance(column, Date) and isinstance(value, date):  # pandas' own are of this kind
        parts = {"YYYY": f"{value.year:04}", "MM": f"{value.month:02}", "DD": f"{value.day:02}"}
        text = column.spelled
        for part, digits in parts.items():
            text = text.replace(part, digits)
        return text.encode()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a level "2" that a frame holds as 2.0
    text = str(value) if isinstance(column, Levels | Positive) else str(value).replace(".", decimal)
    return text.encode(UTF_8, "replace")


def _encoded(
    schema: Schema, records: Records, spelled: NumberFormat
) -> Float[np.ndarray, "rows features"]:
    """Return features of records; warn of values beyond the declared ends."""
    of_number = plain_cell(spelled)
    ends = {name: _ends_of(column) for name, column in schema.features.items()}
    beyond = dict.fromkeys(schema.features, 0)
    rows: list[tuple[float, ...]] = []
    start: tuple[float, ...] = (1.0,) if schema.intercept else ()
    for number, cells in enumerate(records, 1):
        row = start
        for cell, (name, column) in zip(cells, schema.features.items(), strict=True):
            is_number = isinstance(column, Number | Range)
            plain = cell if spelled.is_plain or not is_number else of_number(cell)
            decimal = b"." if is_number and not spelled.is_plain else spelled.decimal.encode()
            features = column.features(plain, decimal)
            if features is None:
                raise ValueError(f"data: row {number}: {shown(name, 60)!r} {_wrong(cell, column)}.")
            end = ends[name]
            beyond[name] += end is not None and end.is_beyond(plain, decimal)
            row += features
        rows.append(row)
    if not rows:
        raise ValueError("data: the table has no rows; give one with some.")
    for name, end in ends.items():
        if end is not None and beyond[name]:
            _tell_beyond(name, end.words, beyond[name], len(rows))
    return np.array(rows, np.float64)


def _wrong(cell: bytes, column: Column) -> str:
    """Say what is wrong with a cell, and what to do."""
    text = shown(to_text(cell).decode(UTF_8, "replace"), 40)
    if not text:
        return "is missing; fill it in, or leave the row out"
    if isinstance(column, Levels):
        known = ", ".join(shown(repr(level), 40) for level in column.levels[:20])
        return f"is {text!r}, which is none of the release's levels ({known}); recode it"
    if isinstance(column, Date):
        return (
            f"is {text!r}, which is no day spelled {column.spelled}; spell it so, or give the "
            "spelling of all with date_format (--date-format)"
        )
    return (
        f"is {text!r}, which is no number; if all are written so, give decimal=, thousands= or "
        "units= (--decimal, --thousands, --units)"
    )


class _Ends(NamedTuple):
    """The declared ends of a column, in words too, and the value of a cell to compare with them."""

    value: Callable[[bytes, bytes], float | None]
    low: float
    high: float
    words: str

    def is_beyond(self, cell: bytes, decimal: bytes) -> bool:
        value = self.value(cell, decimal)
        return value is not None and not self.low <= value <= self.high


def _ends_of(column: Column) -> _Ends | None:
    if isinstance(column, Number | Range):
        return _Ends(to_number, column.low, column.high, f"{column.low:g} to {column.high:g}")
    if not isinstance(column, Date):
        return None
    spelled = DateFormat(column.spelled)
    first, last = (date.fromisoformat(day).toordinal() for day in (column.first, column.last))

    def day(cell: bytes, decimal: bytes) -> int | None:
        del decimal  # of numbers
        return spelled.day(to_text(cell).decode(errors="replace"))

    return _Ends(day, first, last, f"{column.first} to {column.last}")


def _tell_beyond(name: str, words: str, count: int, rows: int) -> None:
    if count == rows >= MANY_ROWS:
        raise ValueError(
            f"data: all {rows} values of {shown(name, 60)!r} lie beyond {words}, which the release "
            "declared; give them in its units."
        )
    warnings.warn(
        f"{count} of {rows} values of {shown(name, 60)!r} lie beyond {words}, which the release "
        "declared, and were moved there.",
        stacklevel=4,
    )
