"""Tables of text as they are declared: separator, encoding, spelling of dates and of numbers."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
import zipfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path

from gibbs_dp.io.files import shown

TAB_WORDS = ("\\t", "tab", "TAB")
UTF_8 = "utf-8"
# How files begin that are no text, what they are, and the function of pandas that reads them. No
# header of a CSV file begins so.
KINDS = (
    (b"\xd0\xcf\x11\xe0", "an Excel file", "read_excel"),
    (b"PAR1\x15", "a Parquet file", "read_parquet"),
    (b"ARROW1\0", "a Feather file", "read_feather"),
    (b"\x89HDF", "an HDF5 or NetCDF file", ""),
    (b"CDF\x01", "a NetCDF file", ""),
    (b"CDF\x02", "a NetCDF file", ""),
    (b"\x93NUMPY", "an array that NumPy saved", ""),
    *((b"\x80" + version, "a pickle", "") for version in (b"\x02", b"\x03", b"\x04", b"\x05")),
    (b"SQLite format 3\0", "a database", "read_sql"),
    (b"%PDF-", "a PDF file", ""),
    (b"$FL2@", "an SPSS file", "read_spss"),
    (b"$FL3@", "an SPSS file", "read_spss"),
    (b"<stata_dta>", "a Stata file", "read_stata"),
    *((start, "a JSON file", "read_json") for start in (b'{"', b'[{"', b"[[", b"{\n", b"[\n")),
    *((start, "a page of HTML", "read_html") for start in (b"<!doctype", b"<html", b"<table")),
    (b"<?xml", "an XML file", "read_xml"),
    (b"{\\rtf", "a document of a text program", ""),
)
# Endings of files that are no text and begin as anything, or as compressed text does.
ENDINGS = {
    ".dta": ("a Stata file", "read_stata"),
    ".sas7bdat": ("a SAS file", "read_sas"),
    ".xpt": ("a SAS file", "read_sas"),
    ".rds": ("a file of R", ""),
    ".rda": ("a file of R", ""),
    ".rdata": ("a file of R", ""),
    ".pkl": ("a pickle", ""),
    ".pickle": ("a pickle", ""),
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# Where bytes of ASCII may stand for others, this says so.
SWITCH = b"\x1b$B0!\x1b(B"


def separator(sep: str, decimal: str = ".") -> str:
    r"""Check a separator of cells; a shell may say "tab".

    >>> separator(";"), separator("tab")
    (';', '\t')
    """
    mark = "\t" if sep in TAB_WORDS else sep
    is_mark = len(mark) == 1 and mark.isascii() and (mark.isprintable() or mark == "\t")
    if not is_mark or mark.isalnum() or mark in "\"'+-. ":
        raise ValueError(
            f"sep: {sep!r} cannot separate cells; give one character such as , ; | or tab."
        )
    if mark == decimal:
        raise ValueError(f"sep: {mark!r} is the decimal mark; give another separator or decimal.")
    return mark


def decimal_mark(decimal: str) -> str:
    """Check a decimal mark."""
    if decimal not in (".", ","):
        raise ValueError(f"decimal: give '.' or ',', got {decimal!r}.")
    return decimal


def text_encoding(encoding: str) -> str:
    """Check an encoding of text.

    >>> text_encoding("Latin-1"), text_encoding("UTF8")
    ('iso8859-1', 'utf-8')
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)  # a LookupError for codecs of other things
    except (LookupError, ValueError):
        name = ""
    if not name or "escape" in name or name in ("undefined", "idna", "punycode"):
        raise ValueError(
            f"encoding: there is no encoding of text {encoding!r}; give utf-8, latin-1, cp1252 or "
            "another that Python knows."
        )
    return name


def byte_encoding(encoding: str) -> str:
    """Check an encoding of which a line can be read by itself, whatever its bytes are.

    That is UTF-8, or one with a byte a character whose first 128 are ASCII.

    >>> byte_encoding("cp1252")
    'cp1252'
    >>> byte_encoding("utf-16")
    Traceback (most recent call last):
    ValueError: encoding: 'utf-16' is not read line by line; give utf-8, or one with a byte a \
character that contains ASCII, as latin-1 or cp1252 do.
    """
    name = text_encoding(encoding)
    if name in (UTF_8, "utf-8-sig"):
        return UTF_8
    ascii_bytes, others = bytes(range(128)), bytes(range(128, 256))
    try:
        is_plain = ascii_bytes.decode(name) == ascii_bytes.decode("ascii")
        # Two bytes of one character would make fewer.
        is_plain = is_plain and len(others.decode(name, "replace")) == len(others)
        is_plain = is_plain and SWITCH.decode(name, "replace") == SWITCH.decode("ascii")
    except ValueError:
        is_plain = False
    if not is_plain:
        raise ValueError(
            f"encoding: {encoding!r} is not read line by line; give utf-8, or one with a byte a "
            "character that contains ASCII, as latin-1 or cp1252 do."
        )
    return name


def refuse_other_formats(path: str | os.PathLike[str], encoding: str = UTF_8) -> None:
    """See that a file is not plainly of another kind than text, by its name and first bytes."""
    name = repr(os.fspath(path))
    if Path(path).is_dir():
        raise ValueError(f"data: {name} is a folder; give the path of one file in it.")
    if not Path(path).is_file():  # a pipe is read once
        return
    with Path(path).open("rb") as file:
        begin = file.readline(32)  # no record: of a private table only the header is looked at
    is_wide = encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32"))
    if begin.startswith(UTF_16) and not is_wide:
        raise ValueError(
            f"data: {name} cannot be read as a CSV table in this encoding ({encoding}): it is in "
            "UTF-16 (Excel's 'Unicode text'); save it as CSV UTF-8."
        )
    found = _kind(path, begin)
    if found is not None:
        what, reader = found
        python = f" (in Python: pandas.{reader}(...).to_csv(..., index=False))" if reader else ""
        if reader == "read_parquet":
            raise ValueError(f"data: {name} is {what}; let its name end in .parquet.")
        how = "in Excel, Save As > CSV UTF-8" if reader == "read_excel" else "save the table as CSV"
        raise ValueError(
            f"data: {name} cannot be read as a CSV table: it is {what}; {how}{python}."
        )


def _kind(path: str | os.PathLike[str], begin: bytes) -> tuple[str, str] | None:
    ending = Path(path).suffix.lower()
    if begin.startswith(b"PK\x03\x04"):
        with suppress(zipfile.BadZipFile, OSError):
            names = zipfile.ZipFile(path).namelist()
            if any(one.startswith("xl/") for one in names):
                return "an Excel file", "read_excel"
            if "content.xml" in names:
                return "a spreadsheet of LibreOffice", "read_excel"
            if any(one.endswith(".npy") for one in names):
                return "arrays that NumPy saved", ""
        return None if ending == ".zip" else ("a ZIP archive", "")
    begin = begin.removeprefix(codecs.BOM_UTF8).lstrip(b" ").lower().replace(b"\r", b"")
    for magic, what, reader in KINDS:
        if begin.startswith(magic.lower()):
            return what, reader
    return ENDINGS.get(ending)


# Dates in tables: as whole days, by a declared spelling, the same on every machine.


ISO = "YYYY-MM-DD"
_DATE_PARTS = {"YYYY": r"(?P<year>[0-9]{4})", "MM": "(?P<month>{})", "DD": "(?P<day>{})"}
_TIME = r"(?:[ T][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_ANY = re.compile(
    r"(?:[0-9]{4}([-/.])[0-9]{1,2}\1[0-9]{1,2}|[0-9]{1,2}([-/.])[0-9]{1,2}\2[0-9]{4})" + _TIME
)


@dataclass(frozen=True)
class DateFormat:
    """A spelling of dates: YYYY, MM and DD, once each, with or without marks between them.

    With marks, months and days may have one digit. A time of day behind a date is dropped.

    >>> german = DateFormat("DD.MM.YYYY")
    >>> german.day("1.2.2020") - german.day("31.01.2020"), german.day("30.02.2020")
    (1, None)
    >>> DateFormat().day("2020-01-01T12:30:00Z") == date(2020, 1, 1).toordinal()
    True
    """

    spelled: str = ISO

    def __post_init__(self) -> None:
        rest = self.spelled
        for part in _DATE_PARTS:
            rest = rest.replace(part, "", 1)
        is_whole = all(part in self.spelled for part in _DATE_PARTS)
        if not is_whole or any(c.isalnum() or c in "\"'\n\r" for c in rest):
            raise ValueError(
                f"date_format: {shown(repr(self.spelled), 60)} must have YYYY, MM and DD, once "
                "each, and marks between them, as YYYY-MM-DD or DD/MM/YYYY."
            )
        digits = "[0-9]{1,2}" if rest else "[0-9]{2}"
        pattern = re.escape(self.spelled)
        for part, group in _DATE_PARTS.items():
            pattern = pattern.replace(part, group.replace("{}", digits), 1)
        object.__setattr__(self, "_pattern", re.compile(pattern + _TIME))

    def day(self, text: str) -> int | None:
        """Return a date's number as ``date.toordinal`` counts; None for no date."""
        found = self._pattern.fullmatch(text)
        if found is None:
            return None
        try:
            return date(*(int(found[name]) for name in ("year", "month", "day"))).toordinal()
        except ValueError:  # the 30th of February
            return None

    def declared(self, name: str, text: str) -> int:
        """Return the day of a declared date, which may also be spelled as ISO does."""
        for spelled in (self, DateFormat()):
            found = spelled.day(text.strip())
            if found is not None:
                return found
        raise ValueError(f"{name}: {shown(repr(text), 60)} is no day; give one as {ISO}.")

    _pattern = re.compile("")


def looks_like_a_date(text: str) -> bool:
    """Say whether a text has year, month and day with marks between them, in a usual order.

    >>> [looks_like_a_date(t) for t in ("2020-01-31", "31/1/2020 10:00", "1.5", "2020", "a-b-c")]
    [True, True, False, False, False]
    """
    return _ANY.fullmatch(text.strip()) is not None


# Numbers in tables: plain decimal numbers, or by a declared spelling with marks and units.


# Characters of a number; more are text.
LONGEST_NUMBER = 1000
# Characters of a number with a unit; in longer texts none is looked for.
LONGEST_SPELLED = 100
SPACE_WORDS = (" ", "space", "SPACE")
# What stands between groups of three digits, as declared and in a table.
_GROUPS = {",": ",", ".": "[.]", "_": "_", "'": "['\u2019]", " ": "[ \u00a0\u2009\u202f]"}
_SIGN = "[-+\u2212]?"
# Currencies that tables name by their letters, before or behind a number.
_NAMES = (
    "USD EUR GBP JPY CHF CNY RMB INR AUD CAD NZD SEK NOK DKK ISK PLN CZK HUF RON BGN TRY RUB "
    "UAH ILS ZAR BRL MXN ARS CLP COP KRW TWD HKD SGD THB IDR MYR PHP VND AED SAR EGP NGN KES "
    "PKR BDT US$ A$ C$ R$ Fr Fr. Rs Rs. kr kr. "
)
_CURRENCIES = frozenset(_NAMES.split())
_BESIDE = re.compile(
    "(?P<before>[^0-9]*?)(?P<number>[-+\u2212]?[.,]?[0-9](?:.*[0-9])?[.,]?)(?P<behind>[^0-9]*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class NumberFormat:
    r"""A spelling of numbers.

    Digits are ASCII ones, with a sign before them (a hyphen, "+", or U+2212) and an exponent
    behind, both optional, and blanks around all of it. Neither ``nan``, ``inf``, ``0x1f`` nor an
    undeclared ``1_000`` is a number. ``thousands`` may be a space, which stands for narrow ones
    too; of ``units``, texts before or behind a number, one is dropped.

    >>> dollars = NumberFormat(thousands=",", units=("$",))
    >>> [dollars.number(text) for text in ("$1,250.00", "-$3", "12,50", "$1,250 $", "EUR 5")]
    [1250.0, -3.0, None, None, None]
    >>> NumberFormat(",", ".").number("1.250,5"), NumberFormat().number("\u22125e-1 ")
    (1250.5, -0.5)
    """

    decimal: str = "."
    thousands: str | None = None
    units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        mark = self.thousands
        if mark is not None:
            mark = " " if mark in SPACE_WORDS else mark
            if mark not in _GROUPS or mark == self.decimal:
                raise ValueError(
                    f"thousands: {self.thousands!r} cannot stand between groups of digits; give "
                    f"one of , . _ ' or space, and not the decimal mark {self.decimal!r}."
                )
        for unit in self.units:
            if not isinstance(unit, str) or not unit.strip() or re.search("[0-9]", unit):
                raise ValueError(f"units: {unit!r} is no unit; give texts without digits, as $ %.")

    @cached_property
    def _mark(self) -> str:
        """Pattern of what stands between groups."""
        if self.thousands is None:
            return "(?!)"
        return _GROUPS[" " if self.thousands in SPACE_WORDS else self.thousands]

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        digits = f"(?:[0-9]{{1,3}}(?:{self._mark}[0-9]{{3}})+|[0-9]+)"
        point = re.escape(self.decimal)
        body = f"(?:{digits}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][-+]?[0-9]+)?"
        number = f"(?P<sign>{_SIGN})(?P<body>{body})"
        longest = sorted({text.strip() for text in self.units}, key=len, reverse=True)
        unit = "|".join(map(re.escape, longest)) or "(?!)"
        return re.compile(
            rf"(?:{number}|{number.replace('<', '<b_')}\s*(?P<behind>{unit})"
            rf"|(?P<outer>{_SIGN})\s*(?P<before>{unit})\s*{number.replace('<', '<a_')})"
        )

    @property
    def is_plain(self) -> bool:
        """True where neither marks between digits nor units are declared."""
        return self.thousands is None and not self.units

    def plain(self, text: str) -> tuple[str, str] | None:
        """Return a number with a decimal point alone, and its unit; None for what is no number."""
        text = text.strip()
        found = self._pattern.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
        if found is None:
            return None
        parts = found.groupdict()
        body = parts["body"] or parts["b_body"] or parts["a_body"]
        signs = [parts[name] for name in ("sign", "b_sign", "outer", "a_sign") if parts[name]]
        if len(signs) > 1:
            return None
        body = re.sub(self._mark, "", body)
        sign = "-" if signs and signs[0] != "+" else ""
        unit = parts["before"] or parts["behind"] or ""
        return sign + body.replace(self.decimal, "."), unit

    def number(self, text: str) -> float | None:
        """Return a number, infinite where it is too large for one; None for what is none."""
        found = self.plain(text)
        return None if found is None else float(found[0])


PLAIN = NumberFormat()


def looks_like_a_code(text: str) -> bool:
    """Say whether a text is a whole number with zeros in front, as codes have.

    >>> [looks_like_a_code(text) for text in ("007", "01234", "0", "0.5", "10", "a01")]
    [True, True, False, False, False, False]
    """
    text = text.strip()
    return len(text) > 1 and text[0] == "0" and text.isascii() and text.isdigit()


def unit_of(text: str) -> tuple[str, bool]:
    """Return what stands beside the number in a text, and whether it is known to be a unit.

    >>> unit_of("$ 1,250"), unit_of("10%"), unit_of("5 kg"), unit_of("Q1"), unit_of("7")
    (('$', True), ('%', True), ('kg', False), ('', False), ('', False))
    """
    found = _BESIDE.fullmatch(text.strip()) if len(text) <= LONGEST_SPELLED else None
    if found is None:
        return "", False
    before = found["before"].strip().lstrip("+-\u2212").strip()
    behind = found["behind"].strip()
    unit = before or behind
    is_known = unit in _CURRENCIES or (
        0 < len(unit) <= 3 and all(unicodedata.category(c) == "Sc" or c in "%\u2030" for c in unit)
    )
    if (before and behind) or not (is_known or behind):
        return "", False
    return unit, is_known


def guess_format(texts: Collection[str], given: NumberFormat, least: int) -> NumberFormat:
    """Return the spelling by which most of some texts are numbers, near the one that is declared.

    >>> guess_format(["$1,250.00", "$9.99", "?"], NumberFormat(), 10)
    NumberFormat(decimal='.', thousands=',', units=('$',))
    """
    units: dict[str, list[bool]] = {}
    for text in texts:
        unit, is_known = unit_of(text)
        if unit:
            units.setdefault(unit, []).append(is_known)
    found = [u for u, known in units.items() if known[0] or len(known) >= least]
    best, most = given, _count(texts, given)
    for tried in _others(given, tuple(sorted({*given.units, *found}))):
        count = _count(texts, tried)
        if count > most:
            best, most = tried, count
    return best


def _others(given: NumberFormat, units: tuple[str, ...]) -> Iterable[NumberFormat]:
    """Spellings to try, those with the fewest declarations first."""
    of_point = [(".", mark) for mark in (None, ",", "_", "'", " ")]
    of_comma = [(",", mark) for mark in (None, ".", "'", " ")]
    both = of_point + of_comma if given.decimal == "." else of_comma + of_point
    marks = [(given.decimal, given.thousands), *both]
    for some in dict.fromkeys((given.units, units)):
        for decimal, thousands in marks:
            yield NumberFormat(decimal, thousands, some)


def _count(texts: Iterable[str], spelled: NumberFormat) -> int:
    return sum(spelled.plain(text) is not None for text in texts)
