"""A private table read so that one record never changes how another is read."""

from __future__ import annotations

import math
import os
import stat
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float, PyTree

from gibbs_dp._jaxlib.program_cache import nothing_kept
from gibbs_dp.information import checks
from gibbs_dp.information.checks import Adjacency
from gibbs_dp.io.text_tables import (
    UTF_8,
    NumberFormat,
    byte_encoding,
    decimal_mark,
    refuse_other_formats,
    separator,
)
from gibbs_dp.model.domain import Domain
from gibbs_dp.model.losses import Loss
from gibbs_dp.model.posterior import GibbsPosterior
from gibbs_dp.privacy.columns import (
    Column,
    Levels,
    Number,
    Positive,
    Range,
    lines,
    read_line,
    split_cells,
    text_keys,
    to_number,
    to_text,
)
from gibbs_dp.privacy.schema import Schema

SEPARATORS = (b",", b";", b"\t", b"|")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Tables that are not lines of text, by file extension.
OTHER_KINDS = (
    *(".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".xls", ".ods", ".json", ".dta", ".sav"),
    *(".gz", ".bz2", ".xz", ".zst", ".zip", ".tar", ".tgz", ".7z"),
)

Row = tuple[float, ...]
Features = Float[np.ndarray, "rows features"]
Labels = Float[np.ndarray, " rows"]


def read_table(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    decimal: str = ".",
    sep: str | None = None,
    encoding: str = UTF_8,
    na_values: Sequence[str] = (),
    thousands: str | None = None,
    units: Sequence[str] = (),
) -> tuple[Features, Labels] | Features:
    r"""Read a private CSV file record by record, as declared.

    Files that differ in the bytes of one record give arrays that differ in one row: each line is
    read by itself, and nothing is learnt from the file, refused or said because of a record. Only
    the header, which is public, can be refused.

    - *Lines* end at the byte ``\n``, with or without ``\r`` before it, and nowhere else: not
      inside quotes, at a lone ``\r``, or at any of the breaks that Unicode knows. Each line after
      the header is a record, a blank one too; a last line without ``\n`` is one if it has a byte.
      So the number of rows is the number of lines, which is public under replace-one.
    - *Cells* are separated by ``sep`` or, without it, by the first of comma, semicolon, tab and
      ``|`` that finds all declared columns in the header (tab first for ``.tsv``), and may be
      quoted as in RFC 4180.
    - *Numbers* are finite decimal numbers in ASCII, such as ``-1``, ``.5`` or ``1e-3``, with
      spaces or tabs around them: not ``nan``, ``inf``, ``1e999``, ``0x10``, ``1_000``, ``1,000``,
      ``$5`` or ``10%``, unless ``thousands`` and ``units`` declare what these have.
    - *Texts* are compared byte by byte, as UTF-8 or in ``encoding``, without spaces and tabs around
      them.
    - *Dates* are days of the calendar, as the column's `Date` spells them.
    - *A record that cannot be read* becomes zeros, the intercept too, with the label nearest to 0:
      it still counts in n, and no linear prediction depends on it. That is one with another number
      of cells than the header, broken quotes, over a mebibyte, or any declared column without a
      number, a date or a declared level, or with one of ``na_values``. What is in other columns
      does not matter.

    Parameters
    ----------
    path
        Comma-, semicolon-, tab- or bar-separated text with a header; not compressed.
    schema
        What the columns are.
    decimal
        Decimal mark of the numbers, "." or ",".
    sep
        Separator of the cells, one character. None: the one that finds the columns.
    encoding
        UTF-8, or an encoding with a byte a character that contains ASCII, such as "latin-1" or
        "cp1252".
    na_values
        Texts that mean a missing value, compared as levels are: "?" or "-9".
    thousands
        What stands between groups of three digits: "," or "." or "_" or "'" or a space.
    units
        Texts before or behind a number that are dropped: "$", "EUR", "%" (10% is then 10). Nothing
        says whether records differ in them.

    Returns
    -------
    tuple or array
        ``(x [rows, features], y [rows])`` in float64, or ``x`` alone for a schema without target;
        columns of ``x`` as in ``schema.names``, the first being the intercept's ones.

    Raises
    ------
    ValueError
        If there is no such file, it is no plain text, or its header does not have each declared
        column once; if an argument makes no sense, or a declared level means a missing value.

    Examples
    --------
    >>> import pathlib, tempfile, gibbs_dp as gdp
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "patients.csv"
    >>> _ = file.write_text("age,smoker,ill\n50,yes,no\nunknown,no,yes\n")
    >>> smoker = gdp.privacy.Levels(["no", "yes"])
    >>> schema = gdp.privacy.Schema(
    ...     {"age": gdp.privacy.Range(0.0, 100.0), "smoker": smoker},
    ...     target="ill", label=gdp.privacy.Levels(["no", "yes"]))
    >>> x, y = gdp.privacy.read_table(file, schema)
    >>> x.tolist(), y.tolist()
    ([[1.0, 0.5, 1.0], [0.0, 0.0, 0.0]], [0.0, 0.0])
    >>> folder.cleanup()
    """
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError(
            f"path: give the name of a CSV file, got {type(path).__name__}; of a table in memory, "
            "give gibbs_dp.release arrays of numbers."
        )
    decimal_mark(decimal)
    marks = None if sep is None else (separator(sep, decimal).encode(),)
    to_utf_8 = transcoder(byte_encoding(encoding))
    absent = missing_cells(na_values, schema, decimal)
    if isinstance(units, str):
        raise ValueError(f"units: give a list of texts, got {units!r}.")
    spelled = NumberFormat(decimal, thousands, tuple(units))
    check_kind(Path(path))
    with Path(path).open("rb") as file:
        header = read_header(file, encoding)
        mark, places, width = find_columns(header, schema, Path(path), decimal, marks)
        read_row = _row_reader(schema, mark, places, width, spelled, absent)
        values = array("d")
        for line in lines(file):
            values.extend(read_row(to_utf_8(line)))
    width = len(schema.names)
    table = np.array(values, dtype=np.float64).reshape(-1, width + (schema.label is not None))
    return table if schema.label is None else (table[:, :width], table[:, width])


def _row_reader(
    schema: Schema,
    mark: bytes,
    places: Sequence[int],
    width: int,
    spelled: NumberFormat,
    is_absent: Callable[[bytes], bool] | None,
) -> Callable[[bytes], Row]:
    """Return the function that reads a record from its line, and from nothing else in the file."""
    columns = list(zip(places, schema.features.values(), strict=False))
    label, label_place = schema.label, places[-1]
    of_number = plain_cell(spelled)

    def how(column: Column | None) -> tuple[Callable[[bytes], bytes], bytes]:
        """Return what makes a cell plain, and the decimal mark that it then has."""
        if spelled.is_plain or not isinstance(column, Number | Range):
            return _same, spelled.decimal.encode()
        return of_number, b"."

    hows = [how(column) for _, column in columns]
    plain_label, label_mark = how(label)
    unreadable = _unreadable(schema)
    start = (1.0,) if schema.intercept else ()

    def read_row(line: bytes) -> Row:
        cells = split_cells(line, mark)
        if cells is None or len(cells) != width:
            return unreadable
        if is_absent is not None and any(is_absent(cells[place]) for place in places):
            return unreadable
        row: Row = start
        for (place, column), (plain, decimal) in zip(columns, hows, strict=True):
            features = column.features(plain(cells[place]), decimal)
            if features is None:
                return unreadable
            row += features
        if label is None:
            return row
        y = label.label(plain_label(cells[label_place]), label_mark)
        return unreadable if y is None else (*row, y)

    return read_row


def _same(cell: bytes) -> bytes:
    return cell


def _unreadable(schema: Schema) -> Row:
    """Row of a record that cannot be read: zeros, and the label nearest to 0."""
    zeros = (0.0,) * len(schema.names)
    if schema.label is None:
        return zeros
    low, high = schema.label.label_range
    return (*zeros, min(max(0.0, low), high))


def check_kind(path: Path) -> None:
    """Refuse what is no file of plain text, by its name and first bytes."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ValueError(f"data: there is no file {os.fspath(path)!r}.") from None
    if stat.S_ISDIR(mode):
        raise ValueError(f"data: {os.fspath(path)!r} is a folder; name a CSV file in it.")
    if path.suffix.lower() in OTHER_KINDS:
        raise ValueError(
            f"data: a private table is plain CSV or TSV, read line by line, and no {path.suffix} "
            "file; write it as CSV."
        )
    refuse_other_formats(path)


def read_header(file: BufferedIOBase, encoding: str) -> bytes:
    """Return the header in UTF-8."""
    header = (read_line(file) or b"").removeprefix(BYTE_ORDER_MARK)
    try:
        header = header.decode(encoding).encode()
        is_text = b"\0" not in header
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        raise ValueError(
            f"data: the header is not {encoding.upper()} text; give the file's own encoding "
            "(--encoding latin-1, say), or save the table as CSV in UTF-8, not compressed."
        )
    if b"\r" in header:
        raise ValueError(
            "data: the header has a carriage return inside; end lines with \\n or \\r\\n."
        )
    return header


def find_columns(
    header: bytes, schema: Schema, path: Path, decimal: str, given: Sequence[bytes] | None
) -> tuple[bytes, list[int], int]:
    """Find the separator, the place of each declared column, and how many columns there are."""
    marks = [mark for mark in given or SEPARATORS if mark != decimal.encode()]
    if path.suffix.lower() == ".tsv":
        marks.sort(key=lambda mark: mark != b"\t")
    wanted = [column.strip() for column in schema.columns]
    first: list[str] = []
    for mark in marks:
        cells = split_cells(header, mark)
        names = [] if cells is None else [cell.decode().strip() for cell in cells]
        first = first or names
        if not set(wanted).issubset(names):
            continue
        for column in wanted:
            if names.count(column) > 1:
                raise ValueError(f"data: two columns are called {column!r}; rename one.")
        return mark, [names.index(column) for column in wanted], len(names)
    missing = next((column for column in wanted if column not in first), wanted[0])
    by = "one of comma, semicolon, tab and |" if given is None else repr(given[0].decode())
    raise ValueError(
        f"data: the header has no column {missing!r}; the first line must hold the names of the "
        f"columns, separated by {by}."
    )


# Private examples before anything looks at them: how many they are, and projected on a domain.


@contextmanager
def unobserved() -> Iterator[None]:
    """Work on private values: no warning tells of them, and no compiled program is kept.

    Programs have the shapes of the data and of what was done to them: how many rows there are under
    add/remove, and how often chains were run again.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"), nothing_kept():
        warnings.simplefilter("ignore")
        yield


def num_rows(data: PyTree) -> int:
    """Count the examples, from shapes alone."""
    checks.refuse_masked("data", data, is_private=True)
    lengths = {len(leaf) for leaf in jax.tree.leaves(data) if getattr(leaf, "ndim", 1)}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError("data: give arrays with one common leading axis of examples.")
    return int(lengths.pop())


def dataset_size(rows: int, adjacency: Adjacency, n: int | None) -> int:
    """Size that the guarantee is for: public under replace-one, a public bound under add/remove."""
    checks.adjacency(adjacency)
    if n is not None:
        n = checks.count("n", n)
    if adjacency == "replace-one":
        if n not in (None, rows):
            raise ValueError("n: under replace-one it is the number of rows; leave it out.")
        return rows
    if n is None or n < rows:
        raise ValueError(
            "n: under add-remove give a public upper bound on the number of examples, at least as "
            "large as the data."
        )
    return n


def clip_data(posterior: GibbsPosterior, data: PyTree, domain: Domain) -> PyTree:
    """Project every example on the domain, as the loss asks.

    Whole labels stay whole for losses of one's own, which may take a row of scores by them, and
    are among those that JAX has.

    >>> import gibbs_dp as gdp, numpyro.distributions as dist
    >>> own = GibbsPosterior(lambda theta, z: theta[z[1]], dist.Normal(np.zeros(3), 1.0))
    >>> clip_data(own, (np.ones((2, 1)), np.array([1, 7])), gdp.Domain(y_range=(0.0, 2.0)))[1]
    array([1, 2])
    """
    if isinstance(posterior.loss, Loss):
        return posterior.loss.clip(data, domain)
    clipped, leaves = domain.clip(data), jax.tree.leaves(data)
    is_whole = all(math.isinf(end) or float(end).is_integer() for end in domain.y_range)
    if len(leaves) != 2 or not is_whole or leaves[1].dtype.kind not in "iu":
        return clipped
    (features, labels), structure = jax.tree.flatten(clipped)
    # A record beyond them would be refused, and so tell of itself.
    most = min(float(np.iinfo(jax.dtypes.canonicalize_dtype(np.int64)).max), 2.0**63 - 1024)
    whole = labels.clip(-most, most).astype(leaves[1].dtype)
    return jax.tree.unflatten(structure, [features, whole])


# What is declared of all cells of a private table: their encoding, and which of them are absent.
#
# Both are functions of one line's bytes, or of one cell's, and raise no error about any.


def transcoder(encoding: str) -> Callable[[bytes], bytes]:
    r"""Return what turns a line into UTF-8; bytes that are no character stay, and equal no text.

    >>> transcoder("cp1252")(b"K\xf6ln,\x81").decode(errors="replace")
    'Köln,\ufffd'
    """
    if encoding == UTF_8:
        return _same
    stay = "surrogateescape"
    return lambda line: line.decode(encoding, stay).encode(UTF_8, stay)


def missing_cells(
    na_values: Sequence[str], schema: Schema, decimal: str
) -> Callable[[bytes], bool] | None:
    """Return what tells whether a cell means a missing value; None if no text does."""
    if isinstance(na_values, str):
        raise ValueError(f"na_values: give a list of texts, got {na_values!r}.")
    absent = {key for text in na_values for key in text_keys(text)}
    if not absent:
        return None
    declared = dict(schema.features)
    if schema.label is not None and schema.target is not None:
        declared[schema.target] = schema.label
    for name, column in declared.items():
        levels = column.levels if isinstance(column, Levels) else ()
        levels = (column.level,) if isinstance(column, Positive) else levels
        for level in levels:
            if not absent.isdisjoint(text_keys(level)):
                raise ValueError(
                    f"na_values: {level!r} is a declared level of {name!r}; leave one of them out."
                )
    mark = decimal.encode()
    has_numbers = any(isinstance(key, float) for key in absent)
    return lambda cell: to_text(cell) in absent or (has_numbers and to_number(cell, mark) in absent)


def plain_cell(spelled: NumberFormat) -> Callable[[bytes], bytes]:
    """Return what writes the number of a cell with a decimal point alone; no number stays none.

    >>> plain = plain_cell(NumberFormat(thousands=",", units=("$",)))
    >>> plain(b"$1,250"), plain(b"$12,50"), plain(b"nan")
    (b'1250', b'', b'')
    """

    def plain(cell: bytes) -> bytes:
        found = spelled.plain(cell.decode(UTF_8, "replace"))
        return b"" if found is None else found[0].encode()

    return plain
