"""What is declared of all cells of a private table: their encoding, and which of them are absent.

Both are functions of one line's bytes, or of one cell's, and raise no error about any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gibbs_dp.io.text_tables import UTF_8, NumberFormat
from gibbs_dp.privacy.cells import to_number, to_text
from gibbs_dp.privacy.columns import Levels, Positive, text_keys
from gibbs_dp.privacy.schema import Schema


def transcoder(encoding: str) -> Callable[[bytes], bytes]:
    r"""Return what turns a line into UTF-8; bytes that are no character stay, and equal no text.

    Parameters
    ----------
    encoding
        From `gibbs_dp.io.text_tables.byte_encoding`.

    Returns
    -------
    callable
        From bytes to bytes.

    Examples
    --------
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
    """Return what tells whether a cell means a missing value; None if no text does.

    Parameters
    ----------
    na_values
        Texts, compared as levels are.
    schema
        Declared columns.
    decimal
        Decimal mark of the table.

    Returns
    -------
    callable or None
        Of a cell.

    Raises
    ------
    ValueError
        If it is one text instead of several, or a declared level is among them.
    """
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

    Parameters
    ----------
    spelled
        How numbers are spelled.

    Returns
    -------
    callable
        From bytes to bytes.

    Examples
    --------
    >>> plain = plain_cell(NumberFormat(thousands=",", units=("$",)))
    >>> plain(b"$1,250"), plain(b"$12,50"), plain(b"nan")
    (b'1250', b'', b'')
    """

    def plain(cell: bytes) -> bytes:
        found = spelled.plain(cell.decode(UTF_8, "replace"))
        return b"" if found is None else found[0].encode()

    return plain


def _same(line: bytes) -> bytes:
    return line
