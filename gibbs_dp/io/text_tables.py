"""What a table of text may be declared to be: its separator, decimal mark and encoding."""

from __future__ import annotations

import codecs
import os
import zipfile
from contextlib import suppress
from pathlib import Path

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

    Returns
    -------
    str
        One character.

    Raises
    ------
    ValueError
        If it is not one ASCII character, could be part of a number, ends a line, or is a quote.

    Examples
    --------
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
    """Check a decimal mark.

    Raises
    ------
    ValueError
        Unless it is "." or ",".
    """
    if decimal not in (".", ","):
        raise ValueError(f"decimal: give '.' or ',', got {decimal!r}.")
    return decimal


def text_encoding(encoding: str) -> str:
    """Check an encoding of text.

    Returns
    -------
    str
        Python's own name of it.

    Raises
    ------
    ValueError
        If there is no such encoding, or it is not one of text.

    Examples
    --------
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

    Returns
    -------
    str
        Python's own name of it.

    Raises
    ------
    ValueError
        For any other.

    Examples
    --------
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
    """See that a file is not plainly of another kind than text, by its name and first bytes.

    Parameters
    ----------
    path
        The file, of any kind.
    encoding
        As it was declared.

    Raises
    ------
    ValueError
        If it is, or is a folder, with what to do.
    """
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
