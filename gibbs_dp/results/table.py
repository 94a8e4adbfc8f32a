"""Results as text and tables: for prompts, notebooks and pages, and without a script of anyone's.

Colours and fonts of tables are the page's own, so that light and dark themes are readable alike.
Every text is escaped: a notebook may show a file from a stranger.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, NamedTuple

# More lines than that are counted, not shown.
MOST_LINES = 40
# Characters of a line on a terminal, and before what is said of it.
WIDTH, INDENT = 100, 9

_RULE = "border:0;border-bottom:1px solid rgba(128,128,128,.4)"
_CELL = f"padding:.2em .7em;white-space:nowrap;color:inherit;background:transparent;{_RULE}"
_ALIGN = {True: f"text-align:left;{_CELL}", False: f"text-align:right;{_CELL}"}


# Texts: numbers with their errors, counts, and what may be shown on a terminal.


def plain(text: str, width: int | None = None) -> str:
    r"""Put a text on one line, without control characters, and cut it to a width.

    >>> plain("a\n b\x1b[2J", 20), plain("0123456789", 5)
    ('a b\ufffd[2J', '0123…')
    """
    line = visible(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def visible(text: str) -> str:
    r"""Replace control characters, which could steer a terminal; lines stay lines.

    >>> visible("a\x1b[2J\nb")
    'a\ufffd[2J\nb'
    """
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def counted(number: int, what: str) -> str:
    """Name a number of things.

    >>> counted(1, "draw"), counted(5000, "draw")
    ('1 draw', '5,000 draws')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def with_error(value: float, se: float) -> str:
    """Format a value to the precision of its standard error.

    >>> with_error(0.66734, 0.0061), with_error(1.2345e-7, 3e-10)
    ('0.6673 ± 0.0061', '1.2345e-07 ± 3e-10')
    """
    if not (math.isfinite(value) and math.isfinite(se) and se > 0):
        return f"{value:.4g} ± {se:.2g}"
    if value == 0:
        return f"0 ± {se:.2g}"
    digits = max(2, math.floor(math.log10(abs(value))) - math.floor(math.log10(se)) + 2)
    digits = min(digits, 8)
    return f"{value:.{digits}g} ± {se:.2g}"


def rounded(value: float, se: float) -> str:
    """Format a value to the first digit of its error, or the second one after a 1.

    >>> rounded(52.401, 0.02), rounded(0.1704, 0.0015), rounded(8.736e-5, 6.6e-7)
    ('52.40', '0.1704', '8.74e-05')
    """
    if not (math.isfinite(value) and 0 < se < math.inf):
        return f"{value:.4g}"
    first, _, power = f"{se:.1e}".partition("e")
    place = first.startswith("1") - int(power)
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return f"{value:.{max(place, 0)}f}"
    return f"{value:.{max(place + math.floor(math.log10(abs(value))), 0)}e}"


def in_paper(value: float, se: float) -> str:
    """Write a value as papers do, with the error of its last digits in parentheses.

    >>> in_paper(0.0067402, 4.2e-5), in_paper(0.3784, 0.0011), in_paper(8.736e-5, 6.6e-7)
    ('0.00674(4)', '0.3784(11)', '8.74(7)e-05')
    """
    shown = rounded(value, se)
    if not (math.isfinite(value) and 0 < se < math.inf):
        return shown
    digits, mark, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return f"{digits}({round(se / unit)}){mark}{power}"


def interval(low: float, high: float) -> str:
    """Write an interval to the precision of its width.

    >>> interval(0.0066891, 0.0068071)
    '[0.00669, 0.00681]'
    """
    return f"[{', '.join(rounded(end, (high - low) / 4) for end in (low, high))}]"


def warnings_below(warnings: Sequence[str]) -> str:
    """Refer from a verdict to the warnings below it; nothing where there are none.

    >>> warnings_below(["odd."])
    ' (1 warning below)'
    """
    return f" ({counted(len(warnings), 'warning')} below)" if warnings else ""


# Columns: what is said of one wherever it is shown.


@dataclass(frozen=True)
class Style:
    """The look of a column in plots.

    Parameters
    ----------
    label
        In legends.
    color
        Of Okabe and Ito.
    line, marker
        As Matplotlib names them.
    panel
        "privacy", "attack", "risk", "information" or "generalization". All columns of a panel have
        one unit.
    is_points
        Drawn as bare points with error bars: a second route to what a line shows. Left out where
        several reports share a panel.
    instead_of
        Drawn only where this column has no number.
    absent
        What the legend says where the column has no number; None: nothing.
    """

    label: str
    color: str
    line: str = "-"
    marker: str = "o"
    panel: str = "privacy"
    is_points: bool = False
    instead_of: str | None = None
    absent: str | None = None


@dataclass(frozen=True)
class Column:
    """One column of a report: everything that tables, plots, files and help say of it.

    Parameters
    ----------
    name
        In rows, files and JSON. The standard error of a mean is in ``{name}_se`` beside it.
    meaning
        One or two sentences for a reader who has only the report.
    unit
        "nats", "loss" (units of the loss), or "" for pure numbers and texts.
    title
        In the printed table; None: not in the table.
    style
        In plots; None: in none of them.
    """

    name: str
    meaning: str
    unit: str = ""
    title: str | None = None
    style: Style | None = None

    @property
    def name_and_unit(self) -> str:
        """The unit in parentheses, where there is one."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def plain(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, held: Any) -> Column:
        """Make it again from what may come from anyone.

        Raises
        ------
        ValueError
            If that is no column.
        """
        try:
            style = held["style"]
            found = cls(**(held | {"style": None if style is None else Style(**style)}))
        except (TypeError, KeyError) as error:
            raise ValueError(f"no column: {error}") from error
        texts = [found.name, found.meaning, found.unit, found.title or ""]
        if found.style is not None:
            own = asdict(found.style)
            texts += [
                text for name, text in own.items() if name != "is_points" and text is not None
            ]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a column's texts are no texts")
        return found


# Tables.


class Heading(NamedTuple):
    """A column's title."""

    text: str
    meaning: str = ""
    is_text: bool = False


@dataclass(frozen=True)
class TextTable:
    """Cells as texts, under headings."""

    headings: Sequence[Heading]
    rows: Sequence[Sequence[str]]
    num_hidden: int = 0
    what: str = "rows"

    def to_text(self) -> str:
        """Return lines of text, numbers aligned on the right and words on the left.

        >>> print(TextTable([Heading("name", is_text=True), Heading("n")], [["a", "10"]]).to_text())
        name  n
        a    10
        """
        lines = [list(map(plain, line)) for line in ([h.text for h in self.headings], *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = ["<" if h.is_text else ">" for h in self.headings]
        return "\n".join(
            " ".join(map("{:{}{}}".format, line, sides, widths)).rstrip() for line in lines
        )

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__  # as a prompt shows what was asked for

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """Return a table that scrolls by itself where it is wider than the page.

        >>> "<td" in TextTable([Heading("a")], [["<script>"]]).to_html()
        True
        """
        head = "".join(
            f'<th scope="col" style="{_ALIGN[h.is_text]}"{_tooltip(h.meaning)}>{safe(h.text)}</th>'
            for h in self.headings
        )
        body = "".join(
            '<tr style="background:transparent">'
            + "".join(
                f'<td style="{_ALIGN[h.is_text]}">{safe(cell)}</td>'
                for h, cell in zip(self.headings, row, strict=False)
            )
            + "</tr>"
            for row in self.rows
        )
        more = ""
        if self.num_hidden > 0:
            more = f"<div><em>… and {self.num_hidden:,} more {safe(self.what)}</em></div>"
        return f"{_framed(f'<thead><tr>{head}</tr></thead><tbody>{body}</tbody>')}{more}"


# Fragments of HTML that stand beside tables.


def facts(named: Iterable[tuple[str, str]]) -> str:
    """Make a table of names and values, a line each."""
    rows = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_ALIGN[True]}">{safe(name)}'
        f'</th><td style="{_ALIGN[True]}">{safe(value)}</td></tr>'
        for name, value in named
    )
    return _framed(f"<tbody>{rows}</tbody>")


def remark_lines(named: Iterable[tuple[str, str]], width: int | None = None) -> list[str]:
    """Return remarks as lines of text, each behind its word; longer ones on several lines.

    >>> remark_lines([("WARNING", "odd."), ("note", "even.")])
    ['WARNING  odd.', 'note     even.']
    >>> remark_lines([("note", "one of many words.")], 20)
    ['note     one of many', '         words.']
    """
    lines = [f"{word:<{INDENT - 1}} {plain(text)}" for word, text in named]
    if width is None:
        return lines
    wrap = textwrap.TextWrapper(
        width, subsequent_indent=INDENT * " ", break_long_words=False, break_on_hyphens=False
    )
    return [part for line in lines for part in wrap.wrap(line)]


def remarks(named: Iterable[tuple[str, str]]) -> str:
    """Make a list of sentences, each behind a word; one such as WARNING is bold."""
    told = list(named)
    items = "".join(
        f"<li>{_bold(word) if word.isupper() else safe(word) + ':'} {safe(text)}</li>"
        for word, text in told[:MOST_LINES]
    )
    if len(told) > MOST_LINES:
        items += f"<li><em>… and {len(told) - MOST_LINES:,} more</em></li>"
    return f'<ul style="margin:.4em 0;padding-left:1.4em">{items}</ul>' if items else ""


def block(head: str, *parts: str | TextTable) -> str:
    """Put HTML and tables under a line that says what they are of."""
    return f"<div><div>{_bold(head)}</div>{''.join(map(markup, parts))}</div>"


def markup(part: str | TextTable) -> str:
    """Return HTML as it is, and a table as HTML."""
    return part if isinstance(part, str) else part.to_html()


def safe(text: str) -> str:
    """Escape a text, and make control characters visible.

    >>> safe("<b>")
    '&lt;b&gt;'
    """
    return escape(plain(text))


def _bold(text: str) -> str:
    return f"<strong>{safe(text)}</strong>"


def _framed(inner: str) -> str:
    return (
        '<div style="overflow-x:auto;max-width:100%;margin:.3em 0;'
        'scrollbar-color:rgba(128,128,128,.6) transparent"><table style="border-collapse:collapse;'
        f'color:inherit;background:transparent;font-variant-numeric:tabular-nums">{inner}</table>'
        "</div>"
    )


def _tooltip(meaning: str) -> str:
    return f' title="{safe(meaning)}"' if meaning else ""
