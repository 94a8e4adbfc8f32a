"""Tables in files, read a few rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from gibbs_dp._extras import install_hint

# Rows of a file in memory at once.
CHUNK_ROWS = 65_536
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


def open_table(data: str | os.PathLike[str] | pd.DataFrame) -> Source:
    """Open a CSV or Parquet file, or wrap a data frame.

    Returns
    -------
    Source
        The table, to be read in chunks.

    Raises
    ------
    ValueError
        If a file is missing, empty, or not a table, or two columns share a name.
    """
    if isinstance(data, pd.DataFrame):
        source = _of_frame(data)
    elif not Path(data).exists():
        raise ValueError(f"data: there is no file {os.fspath(data)!r}.")
    elif Path(data).suffix.lower() in PARQUET:
        source = _of_parquet(data)
    else:
        source = _of_csv(data)
    twice = [name for name in source.columns if source.columns.count(name) > 1]
    if twice:
        raise ValueError(f"data: two columns are called {twice[0]!r}; rename one.")
    return source


def _of_frame(frame: pd.DataFrame) -> Source:
    renamed = frame.set_axis([str(c) for c in frame.columns], axis=1)

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        del text  # a frame already has types
        yield renamed[list(columns)]

    return Source(tuple(renamed.columns), chunks)


def _of_csv(path: str | os.PathLike[str]) -> Source:
    # With some rows: a header alone does not show whether a file is text.
    header = _guarded(path, lambda: pd.read_csv(path, sep=_separator(path), nrows=100))

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        reader = pd.read_csv(
            path,
            sep=_separator(path),
            usecols=list(columns),
            dtype=dict.fromkeys(text & set(columns), "str"),
            chunksize=CHUNK_ROWS,
        )
        with reader:
            yield from _while_readable(path, iter(reader))

    return Source(tuple(str(c) for c in header.columns), chunks)


def _of_parquet(path: str | os.PathLike[str]) -> Source:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ValueError(
            f"data: Parquet files are read with pyarrow; {install_hint('pyarrow', 'tables')}"
        ) from error
    names = _guarded(path, lambda: pq.read_schema(path).names)

    def frames(columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=list(columns)):
                yield batch.to_pandas()

    def chunks(columns: Sequence[str], text: frozenset[str]) -> Iterator[pd.DataFrame]:
        del text  # the file states its types
        yield from _while_readable(path, frames(columns))

    return Source(tuple(names), chunks)


def _separator(path: str | os.PathLike[str]) -> str:
    return "\t" if ".tsv" in Path(path).suffixes else ","


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
    kind = "Parquet" if Path(path).suffix.lower() in PARQUET else "CSV"
    reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
    return ValueError(f"data: {shown} cannot be read as a {kind} table ({reason}).")
