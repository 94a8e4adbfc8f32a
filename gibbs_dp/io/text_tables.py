"""What a table of text may be declared to be: its separator, decimal mark and encoding."""

from __future__ import annotations

import codecs

TAB_WORDS = ("\\t", "tab", "TAB")
UTF_8 = "utf-8"
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
