r"""Bytes of a private table, line by line and cell by cell, each read by itself.

A line ends at the byte ``\n`` and nowhere else; a carriage return before it is dropped. Quotes
never reach over the end of a line. What a line says is a function of its bytes alone, and nothing
here raises an error about one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from io import BufferedIOBase

# Longer lines are read as unreadable ones: one record cannot fill the memory.
MAX_LINE = 1 << 20
# Digits enough for any spelling of a double, and few enough to be read at once.
MAX_NUMBER = 100
_BLANKS = b" \t"
_NUMERIC = b"0123456789+-.eE" + _BLANKS


def read_line(file: BufferedIOBase) -> bytes | None:
    r"""Return the next line without its end; empty bytes where it is too long, None at the end.

    >>> import io
    >>> file = io.BytesIO(b"a\r\nb\r\rc\n\nd")
    >>> [read_line(file) for _ in range(5)]
    [b'a', b'b\r\rc', b'', b'd', None]
    """
    line = file.readline(MAX_LINE + 1)
    if not line:
        return None
    if len(line) > MAX_LINE and not line.endswith(b"\n"):
        while line and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE)
        return b""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def lines(file: BufferedIOBase) -> Iterator[bytes]:
    """Yield the remaining lines."""
    while (line := read_line(file)) is not None:
        yield line


def split_cells(line: bytes, separator: bytes) -> list[bytes] | None:
    r"""Split one line into cells; None where its quotes are not those of CSV (RFC 4180).

    A cell that begins with a quote ends with one, doubled quotes stand for one, and spaces around
    the quotes do not count. Anywhere else a quote is an ordinary character.

    >>> split_cells(b'"Doe, ""Jo"" J.",5"', b",")
    [b'Doe, "Jo" J.', b'5"']
    >>> split_cells(b'1,"a', b",") is None
    True
    """
    if b'"' not in line:
        return line.split(separator)
    match_cell = _cell(separator).match
    cells, at = [], 0
    while True:
        found = match_cell(line, at)
        if found is None:
            return None
        quoted, plain, end = found.groups()
        cells.append(plain if quoted is None else quoted.replace(b'""', b'"'))
        if not end:
            return cells
        at = found.end()


@lru_cache(maxsize=16)
def _cell(separator: bytes) -> re.Pattern[bytes]:
    mark = re.escape(separator)
    # Possessive (++, *+), so that no line takes longer than its length.
    quoted = rb' *+"([^"]*+(?:""[^"]*+)*+)" *+'
    plain = rb'(?! *+")([^' + mark + rb"]*+)"
    return re.compile(rb"(?:" + quoted + rb"|" + plain + rb")(" + mark + rb"|\Z)")


def to_text(cell: bytes) -> bytes:
    """Drop the spaces and tabs around a cell."""
    return cell.strip(_BLANKS)


def to_number(cell: bytes, decimal: bytes = b".") -> float | None:
    r"""Read a finite decimal number in ASCII; None for anything else.

    A sign, digits with at most one decimal mark, and an exponent, the first and the last optional:
    ``-1``, ``+.5``, ``2.``, ``1e-3``. Not a number: nothing, ``nan``, ``inf``, ``1e999``,
    ``0x10``, ``1_000``, ``1,000``, digits of other scripts, anything over 100 characters.

    >>> [to_number(cell) for cell in (b" +1.5e1 ", b"1_0", b"inf", b"", b"1e999")]
    [15.0, None, None, None, None]
    >>> to_number(b"1,5", b","), to_number(b"1.5", b",")
    (1.5, None)
    """
    if decimal != b".":
        if b"." in cell:
            return None
        cell = cell.replace(decimal, b".")
    # A text of these characters alone is a number here exactly when Python reads one.
    if len(cell) > MAX_NUMBER or cell.translate(None, _NUMERIC):
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if -math.inf < value < math.inf else None
