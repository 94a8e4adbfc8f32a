"""CSV read by Python's own module, cell by cell: what a table says if it says anything."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

# Digits of a whole number; more are text.
LONGEST = 400
NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII)
# Whole numbers with zeros in front stand for levels.
CODE = re.compile("0[0-9]+")
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MISSING = frozenset(
    {
        *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"),
        *("1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
    }
)


class NoTableError(ValueError):
    """Text that is no table of as many cells in each line as in its header."""


def read(content: bytes, name: str, options: Mapping[str, Any]) -> pd.DataFrame:
    """Read a table; a column is of numbers if each of its cells is one, and of text otherwise.

    Raises
    ------
    NoTableError
        If a line has more cells than the header, or two columns share a name.
    UnicodeError
        If it is not in its encoding.
    """
    encoding = options.get("encoding", "utf-8")
    decimal = options.get("decimal", ".")
    sep = options.get("sep") or ("\t" if name.endswith(".tsv") else ";" if decimal == "," else ",")
    text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    csv.field_size_limit(2**31 - 1)
    lines = [
        line
        for line in csv.reader(
            io.StringIO(text, newline=""), delimiter="\t" if sep == "tab" else sep
        )
        if len(line) > 1 or (line and line[0].strip())
    ]
    if not lines:
        raise NoTableError("nothing")
    header, rows = lines[0], lines[1:]
    if any(len(row) > len(header) for row in rows):
        raise NoTableError("a line has more cells than the header")
    # A column without a name holds the names of rows, as pandas writes them.
    if len(set(header)) < len(header):
        raise NoTableError("two columns share a name")
    absent = MISSING | set(options.get("na_values", ()))
    return pd.DataFrame(
        {
            name: _column(
                [row[place] if place < len(row) else "" for row in rows],
                absent,
                decimal,
                is_text=name in options.get("categorical", ()),
            )
            for place, name in enumerate(header)
            if name
        }
    )


def _column(cells: list[str], absent: frozenset[str], decimal: str, is_text: bool) -> pd.Series:
    here = [cell for cell in cells if cell not in absent]
    plain = [cell.strip().replace(decimal, ".") for cell in here]
    is_code = all(text.isdigit() for text in plain) and any(CODE.fullmatch(t) for t in plain)
    if not is_text and not is_code and here and all(map(_is_number, plain)):
        return pd.Series(
            [None if c in absent else float(c.strip().replace(decimal, ".")) for c in cells],
            dtype=float,
        )
    if not is_text and len(here) == len(cells) and all(cell in FLAGS for cell in here):
        return pd.Series([FLAGS[cell] for cell in cells], dtype=bool)
    return pd.Series([None if cell in absent else cell for cell in cells], dtype=object)


def _is_number(text: str) -> bool:
    is_short = len(text) <= LONGEST or not text.lstrip("+-").isdigit()
    return is_short and bool(NUMBER.fullmatch(text) or INFINITE.fullmatch(text))
