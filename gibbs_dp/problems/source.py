"""Tables in files, read a few rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gibbs_dp._extras import install_hint
from gibbs_dp.io import text_tables
from gibbs_dp.io.damage import reason

# Rows of a file in memory at once, and cells, where a CSV file has many columns.
CHUNK_ROWS, CHUNK_CELLS = 65_536, 1 << 23
# Characters of a column's name: every message about it shows it.
LONGEST_NAME = 300
# As a table spells a whole number; those beyond 64 bits pandas leaves as text.
_WHOLE = r"\s*[+-]?[0-9]{1,400}\s*"
# Characters of a number; more are text.
LONGEST_NUMBER = 1000
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Source:
    """A table that can be read several times, in pieces.

    Parameters
    ----------
    columns
        Names of its columns.
    chunks
        ``chunks(columns, text)`` yields frames of those columns in the order of the file, with
        those in ``text`` as spelled there, not as numbers.
    """

    columns: tuple[str, ...]
    chunks: Callable[[Sequence[str], frozenset[str]], Iterator[pd.DataFrame]]


@dataclass(frozen=True)
class Spelling:
    """How a table is written down.

    Parameters
    ----------
    sep
        Separator of a CSV file's cells. None: tab where the name ends in ``.tsv``, else semicolon
        where the decimal mark is a comma, else comma.
    decimal
        Its decimal mark, "." or ",".
    encoding
        Its encoding.
    na_values
        Texts that mean a missing value, beside an empty cell, NA, NaN, null and pandas' others.

    Raises
    ------
    ValueError
        If one of them makes no sense.
    """

    sep: str | None = None
    decimal: str = "."
    encoding: str = text_tables.UTF_8
    na_values: tuple[str, ...] = ()

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
        """Raise a ValueError if something is declared that only text has."""
        default = Spelling()
        for name in ("sep", "decimal", "encoding"):
            if getattr(self, name) != getattr(default, name):
                raise ValueError(f"{name}: it is of CSV files, and {kind} has none; leave it out.")


def open_table(
    data: str | os.PathLike[str] | pd.DataFrame, spelling: Spelling | None = None
) -> Source:
    """Open a CSV or Parquet file, or wrap a data frame.

    Parameters
    ----------
    data
        A path, or a frame.
    spelling
        How it is written down.

    Returns
    -------
    Source
        The table, to be read in chunks.

    Raises
    ------
    ValueError
        If a file is missing, empty, or not a table, or two columns share a name.
    """
    spelling = spelling or Spelling()
    if isinstance(data, pd.DataFrame):
        spelling.refuse_for("a data frame")
        source = _without(_of_frame(data), spelling.na_values)
    elif not Path(data).exists():
        raise ValueError(f"data: there is no file {os.fspath(data)!r}.")
    elif Path(data).suffix.lower() in PARQUET:
        spelling.refuse_for("a Parquet file")
        source = _without(_of_parquet(data), spelling.na_values)
    else:
        source = _of_csv(data, spelling)
    _check_names(source.columns)
    return source


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
    numbers = [float(text) for text in na_values if is_number(text)]

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        for frame in source.chunks(columns, text):
            yield frame.apply(
                lambda one: one.mask(
                    one.isin(numbers if pd.api.types.is_numeric_dtype(one) else list(na_values))
                )
            )

    return Source(source.columns, chunks)


def is_number(text: str, decimal: str = ".") -> bool:
    """Say whether a text is a number.

    >>> is_number("-9"), is_number("1,5"), is_number("1,5", ","), is_number("?")
    (True, False, True, False)
    """
    if len(text) > LONGEST_NUMBER:  # Python takes the square of the length to read one
        return False
    try:
        float(text.replace(decimal, "."))
    except ValueError:
        return False
    return True


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

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        # All columns, as pandas cuts lines that are too long where it is told to use some.
        kinds = dict.fromkeys(text & set(columns), "str")
        with pd.read_csv(path, **options, dtype=kinds, chunksize=size) as reader:
            for frame in _while_readable(path, iter(reader)):
                yield _with_whole_numbers(frame[list(columns)], text)

    return Source(tuple(str(c) for c in header.columns), chunks)


def _spelled_names(path: str | os.PathLike[str], options: dict[str, Any]) -> list[str]:
    """Read the names in the header as they are, and see that a record has no more of them."""
    plain = {k: options[k] for k in ("sep", "encoding")}
    line = _guarded(
        path, lambda: pd.read_csv(path, header=None, nrows=2, dtype="str", na_filter=False, **plain)
    )
    return [str(name) for name in line.iloc[0] if name]


def _with_whole_numbers(frame: pd.DataFrame, text: frozenset[str]) -> pd.DataFrame:
    """Make numbers of columns of whole numbers that 64 bits do not hold, but for some columns."""
    large = {}
    for name, kind in frame.dtypes.items():
        if name in text or pd.api.types.is_numeric_dtype(kind):
            continue
        here = frame[name].dropna().astype(str)
        if here[:1].str.fullmatch(_WHOLE).any() and here.str.fullmatch(_WHOLE).all():
            large[str(name)] = frame[name].map(_to_float, na_action="ignore").astype(float)
    return frame.assign(**large) if large else frame


def _of_parquet(path: str | os.PathLike[str]) -> Source:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(
            f"data: Parquet files are read with pyarrow; {install_hint('pyarrow')}"
        ) from error
    names = _guarded(path, lambda: pq.read_schema(path).names)

    def frames(columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        # Checksums of pages, where the program that wrote them has written some.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=list(columns)):
                yield batch.to_pandas()

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        del text  # the file states its types
        yield from _while_readable(path, frames(columns))

    return Source(tuple(names), chunks)


def _to_float(value: Any) -> float:
    return float(str(value))  # infinite where it is beyond all floating-point numbers


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
    kind = "Parquet" if Path(path).suffix.lower() in PARQUET else "CSV"
    return ValueError(f"data: {shown} cannot be read as a {kind} table ({reason(error)}).")
