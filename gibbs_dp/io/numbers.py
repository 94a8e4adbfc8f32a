"""Numbers in tables: plain decimal numbers, or by a declared spelling with marks and units."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

# Characters of a number; more are text.
LONGEST_NUMBER = 1000
# Characters of a number with a unit; in longer texts none is looked for.
LONGEST_SPELLED = 100
SPACE_WORDS = (" ", "space", "SPACE")
# What stands between groups of three digits, as declared and in a table.
_GROUPS = {",": ",", ".": "[.]", "_": "_", "'": "['\u2019]", " ": "[ \u00a0\u2009\u202f]"}
_SIGN = "[-+\u2212]?"
# Currencies that tables name by their letters, before or behind a number.
_CURRENCIES = frozenset(
    [
        "USD",
        "EUR",
        "GBP",
        "JPY",
        "CHF",
        "CNY",
        "RMB",
        "INR",
        "AUD",
        "CAD",
        "NZD",
        "SEK",
        "NOK",
        "DKK",
        "ISK",
        "PLN",
        "CZK",
        "HUF",
        "RON",
        "BGN",
        "TRY",
        "RUB",
        "UAH",
        "ILS",
        "ZAR",
        "BRL",
        "MXN",
        "ARS",
        "CLP",
        "COP",
        "KRW",
        "TWD",
        "HKD",
        "SGD",
        "THB",
        "IDR",
        "MYR",
        "PHP",
        "VND",
        "AED",
        "SAR",
        "EGP",
        "NGN",
        "KES",
        "PKR",
        "BDT",
        "US$",
        "A$",
        "C$",
        "R$",
        "Fr",
        "Fr.",
        "Rs",
        "Rs.",
        "kr",
        "kr.",
    ]
)
_PARTS = re.compile(
    "(?P<before>[^0-9]*?)(?P<number>[-+\u2212]?[.,]?[0-9](?:.*[0-9])?[.,]?)(?P<behind>[^0-9]*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class NumberFormat:
    r"""How numbers are spelled.

    Digits are ASCII ones, with a sign before them (a hyphen, "+", or U+2212) and an exponent
    behind, both optional, and blanks around all of it. Neither ``nan``, ``inf``, ``0x1f`` nor an
    undeclared ``1_000`` is a number.

    Parameters
    ----------
    decimal
        Decimal mark, "." or ",".
    thousands
        What stands between groups of three digits, where something does: "," or "." or "_" or "'"
        or a space, which stands for narrow ones and those that do not break too.
    units
        Texts before or behind a number that are dropped, one of them a number: "$", "EUR", "%".

    Raises
    ------
    ValueError
        If a mark or a unit makes no sense.

    Examples
    --------
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
        """Whether no marks between digits and no units are declared."""
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

    Examples
    --------
    >>> unit_of("$ 1,250"), unit_of("10%"), unit_of("5 kg"), unit_of("Q1"), unit_of("7")
    (('$', True), ('%', True), ('kg', False), ('', False), ('', False))
    """
    found = _PARTS.fullmatch(text.strip()) if len(text) <= LONGEST_SPELLED else None
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

    Parameters
    ----------
    texts
        Different values of a column.
    given
        What was declared; it is returned unless another one reads more.
    least
        Units that are no known currency or percentage need so many texts: "2 doors" and "4 doors"
        are rather categories.

    Returns
    -------
    NumberFormat
        Of those that read as many, the one with the fewest declarations.

    Examples
    --------
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
    marks = [(given.decimal, given.thousands), (".", None)]
    marks += [(".", mark) for mark in (",", "_", "'", " ")]
    marks += [(",", mark) for mark in (None, ".", "'", " ")]
    for some in dict.fromkeys((given.units, units)):
        for decimal, thousands in marks:
            yield NumberFormat(decimal, thousands, some)


def _count(texts: Iterable[str], spelled: NumberFormat) -> int:
    return sum(spelled.plain(text) is not None for text in texts)
