"""Tables in files, read a few rows at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd

from gibbs_dp._extras import install_hint
from gibbs_dp.io import text_tables
from gibbs_dp.io.files import parse_json, reason
from gibbs_dp.io.text_tables import NumberFormat, looks_like_a_code

# Rows of a file in memory at once, and cells, where a CSV file has many columns.
CHUNK_ROWS, CHUNK_CELLS = 65_536, 1 << 23
# Characters of a column's name: every message about it shows it.
LONGEST_NAME = 300
# How pandas calls the columns of row names that it writes to CSV and Parquet files.
_UNNAMED, _LEVEL = re.compile(r"Unnamed: [0-9]+"), re.compile(r"__index_level_[0-9]+__")
_WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Source:
    """A table that can be read several times, in pieces."""

    columns: tuple[str, ...]
    chunks: Callable[[Sequence[str], frozenset[str]], Iterator[pd.DataFrame]]
    index: frozenset[str] = frozenset()


@runtime_checkable
class Frame(Protocol):
    """A data frame of another library: polars, Arrow and others."""

    def to_pandas(self) -> pd.DataFrame:
        """Return it as a frame of pandas."""
        ...


@dataclass(frozen=True)
class Spelling:
    """How a table is written down."""

    sep: str | None = None
    decimal: str = "."
    encoding: str = text_tables.UTF_8
    na_values: tuple[str, ...] = ()
    thousands: str | None = None
    units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        text_tables.decimal_mark(self.decimal)
        for name in ("sep", "decimal", "encoding"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (name == "sep" and value is None)):
                raise ValueError(f"{name}: give a text, got {value!r}.")
        if not all(isinstance(text, str) for text in self.na_values):
            raise ValueError(f"na_values: give texts, got {list(self.na_values)!r}.")
        text_tables.text_encoding(self.encoding)
        if self.sep is not None:
            text_tables.separator(self.sep, self.decimal)
        NumberFormat(self.decimal, self.thousands, self.units)

    @property
    def numbers(self) -> NumberFormat:
        """How texts spell numbers."""
        return NumberFormat(self.decimal, self.thousands, self.units)

    def separator(self, path: str | os.PathLike[str]) -> str:
        """Return the separator of a file of that name."""
        if self.sep is not None:
            return text_tables.separator(self.sep, self.decimal)
        if ".tsv" in Path(path).suffixes:
            return "\t"
        return ";" if self.decimal == "," else ","

    def options(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Return what pandas needs to know."""
        return {
            "sep": self.separator(path),
            "decimal": self.decimal,
            "encoding": self.encoding,
            "na_values": list(self.na_values),
        }

    def refuse_for(self, kind: str) -> None:
        """Raise a ValueError if something is declared that only files of text have."""
        default = Spelling()
        for name in ("sep", "encoding"):
            if getattr(self, name) != getattr(default, name):
                raise ValueError(f"{name}: it is of CSV files, and {kind} has none; leave it out.")


def open_table(
    data: str | os.PathLike[str] | pd.DataFrame | Frame, spelling: Spelling | None = None
) -> Source:
    """Open a CSV or Parquet file, or wrap a data frame."""
    spelling = spelling or Spelling()
    if not isinstance(data, (str, os.PathLike)):
        spelling.refuse_for("a data frame")
        source = _of_frame(as_frame(data))
    elif not Path(data).exists():
        raise ValueError(f"data: there is no file {os.fspath(data)!r}.")
    elif Path(data).suffix.lower() in PARQUET:
        spelling.refuse_for("a Parquet file")
        source = _of_parquet(data)
    else:
        source = _of_csv(data, spelling)
    _check_names(source.columns)
    # Without a name in the midst of others a column is one that somebody did not name.
    names = source.columns
    index = source.index.union(
        takewhile(_UNNAMED.fullmatch, names), filter(_LEVEL.fullmatch, names)
    )
    return replace(_without(source, spelling.na_values), index=index)


def as_frame(data: Any) -> pd.DataFrame:
    """Return a frame of pandas."""
    if isinstance(data, pd.DataFrame):
        return data
    try:
        found = data.to_pandas()
    except Exception as error:
        found = error
    if not isinstance(found, pd.DataFrame):
        why = f" ({reason(found)})" if isinstance(found, ImportError) else ""
        raise ValueError(
            f"data: give a path or a data frame, got {type(data).__name__}{why}; "
            "pandas.DataFrame(...) makes one of columns."
        )
    return found


def _check_names(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ValueError(
                f"data: a column's name has {len(name)} characters ({name[:20]!r} ...); give it "
                f"one of at most {LONGEST_NAME}."
            )
        if name in seen:
            raise ValueError(f"data: two columns are called {name!r}; rename one.")
        seen.add(name)


def _of_frame(frame: pd.DataFrame) -> Source:
    renamed = frame.set_axis([str(c) for c in frame.columns], axis=1)

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        del text  # a frame already has types
        yield renamed[list(columns)]

    return Source(tuple(renamed.columns), chunks)


def _without(source: Source, na_values: Sequence[str]) -> Source:
    """Make values missing that are one of these texts, or the number that one is."""
    if not na_values:
        return source
    plain = NumberFormat()
    numbers = {number for text in na_values if (number := plain.number(text)) is not None}
    texts = {text.strip() for text in na_values}

    def is_absent(value: Any) -> bool:
        if isinstance(value, (str, bool, np.bool_)):
            return str(value).strip() in texts
        try:
            return value in numbers
        except (TypeError, ArithmeticError):  # lists, say
            return False

    def without(one: pd.Series[Any]) -> pd.Series[Any]:
        kinds = pd.api.types
        if kinds.is_numeric_dtype(one.dtype) and not kinds.is_bool_dtype(one.dtype):
            return one.mask(one.isin(numbers)) if numbers else one
        return one.mask(one.map(is_absent).astype(bool))

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        for frame in source.chunks(columns, text):
            yield frame.apply(without)

    return Source(source.columns, chunks, source.index)


def _of_csv(path: str | os.PathLike[str], spelling: Spelling) -> Source:
    text_tables.refuse_other_formats(path, spelling.encoding)
    options = spelling.options(path)
    names = _guarded(path, lambda: pd.read_csv(path, nrows=0, **options).columns)
    if len(names) == 1 and spelling.sep is None:
        _check_one_column(path, str(names[0]), options["sep"])
    _check_names(_spelled_names(path, options))
    # With some rows: a header alone does not show whether a file is text.
    header = _guarded(path, lambda: pd.read_csv(path, nrows=100, **options))
    if not isinstance(header.index, pd.RangeIndex):  # pandas takes the first cells for row names
        raise ValueError(
            f"data: the lines of {os.fspath(path)!r} have more cells than its header has names; "
            "name every column (also one of row names), or remove separators at the ends of lines."
        )
    size = max(1, min(CHUNK_ROWS, CHUNK_CELLS // len(header.columns)))
    whole = {str(name) for name in header.columns if _is_whole(header[name])}

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        # All columns, as pandas cuts lines that are too long where it is told to use some. Whole
        # numbers as text, where codes with zeros in front show.
        kinds = dict.fromkeys((text | whole) & set(columns), "str")
        plain = whole & set(columns) - text
        with pd.read_csv(path, **options, dtype=kinds, chunksize=size) as reader:
            for frame in _while_readable(path, iter(reader)):
                found = _with_whole_numbers(frame[list(columns)], text, spelling.decimal)
                plain = {n for n in plain if pd.api.types.is_numeric_dtype(found[n])}
                yield found
        whole.difference_update(plain)  # they have none

    return Source(tuple(str(c) for c in header.columns), chunks)


def _spelled_names(path: str | os.PathLike[str], options: dict[str, Any]) -> list[str]:
    """Read the names in the header as they are, and see that a record has no more of them."""
    plain = {k: options[k] for k in ("sep", "encoding")}
    line = _guarded(
        path, lambda: pd.read_csv(path, header=None, nrows=2, dtype="str", na_filter=False, **plain)
    )
    return [str(name) for name in line.iloc[0] if name]


def _is_whole(column: pd.Series[Any]) -> bool:
    here = column.dropna()
    is_number = pd.api.types.is_numeric_dtype(here) and not pd.api.types.is_bool_dtype(here)
    return is_number and len(here) > 0 and bool((here >= 0).all() and (here % 1 == 0).all())


def _with_whole_numbers(frame: pd.DataFrame, text: frozenset[str], decimal: str) -> pd.DataFrame:
    """Make numbers of columns of them that were read as text, but for some columns."""
    found = {}
    for name in map(str, frame.columns):
        if name in text or pd.api.types.is_numeric_dtype(frame[name]):
            continue
        here = frame[name].dropna().astype(str)
        # A point may also stand between groups of digits: what is whole in each cell is not.
        if here.empty or not (decimal == "." or all(map(_WHOLE.fullmatch, here))):
            continue
        if any(map(looks_like_a_code, here[here.str.startswith("0")].unique())):
            continue
        is_short = here.str.fullmatch("[0-9]{1,18}").all()
        numbers = here.astype("int64") if is_short else pd.to_numeric(here, errors="coerce")
        if not numbers.isna().any():
            found[name] = numbers.reindex(frame.index)
    return frame.assign(**found) if found else frame


def _of_parquet(path: str | os.PathLike[str]) -> Source:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(
            f"data: Parquet files are read with pyarrow; {install_hint('pyarrow')}"
        ) from error
    schema = _guarded(path, lambda: pq.read_schema(path))

    def frames(columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        # Checksums of pages, where the program that wrote them has written some.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=list(columns)):
                # Without what pandas wrote of an index: it would be no column. Whole numbers stay
                # so where some are missing: labels of groups have many digits.
                plain = batch.replace_schema_metadata(None)
                yield plain.to_pandas(integer_object_nulls=True)

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        del text  # the file states its types
        yield from _while_readable(path, frames(columns))

    return Source(tuple(schema.names), chunks, _index_of(schema.metadata))


def _index_of(metadata: Any) -> frozenset[str]:
    """Read in a Parquet file's metadata which columns pandas wrote for an index."""
    text = (metadata or {}).get(b"pandas", b"{}").decode(errors="replace")
    try:
        names = parse_json(text, dict).get("index_columns")
    except ValueError:  # it says nothing
        names = None
    found = names if isinstance(names, list) else []
    return frozenset(name for name in found if isinstance(name, str))


def _check_one_column(path: str | os.PathLike[str], name: str, sep: str) -> None:
    """Refuse a table of one column whose name has another separator in it."""
    for mark, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'"), (",", ",")):
        is_text = name.replace(mark, "").isprintable()
        if mark in name and mark != sep and is_text:
            raise ValueError(
                f"data: the header of {os.fspath(path)!r} is one column, {name!r:.60}; if its "
                f"cells are separated by {word}, give sep={mark!r} (--sep {word})."
            )


def _while_readable(
    path: str | os.PathLike[str], frames: Iterator[pd.DataFrame]
) -> Iterator[pd.DataFrame]:
    while True:
        try:
            frame = next(frames)
        except StopIteration:
            return
        except Exception as error:
            raise _unreadable(path, error) from error
        yield frame


def _guarded(path: str | os.PathLike[str], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str | os.PathLike[str], error: Exception) -> ValueError:
    shown = repr(os.fspath(path))
    if isinstance(error, pd.errors.EmptyDataError):
        return ValueError(f"data: the file {shown} is empty.")
    if isinstance(error, UnicodeError):
        return ValueError(
            f"data: {shown} cannot be read as a CSV table in this encoding ({error.encoding}); "
            "give the file's own with encoding (--encoding latin-1, or cp1252 for one from "
            "Windows)."
            if isinstance(error, UnicodeDecodeError)
            else f"data: {shown} cannot be read as a CSV table in this encoding ({error})."
        )
    cells = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
    if cells is not None:
        return ValueError(
            f"data: {shown} cannot be read as a CSV table: line {cells[2]} has {cells[3]} cells "
            f"where the others have {cells[1]}; quote cells that hold separators, leave out those "
            "at the ends of lines, or name another (--sep)."
        )
    kind = "Parquet" if Path(path).suffix.lower() in PARQUET else "CSV"
    return ValueError(f"data: {shown} cannot be read as a {kind} table ({reason(error)}).")
