"""Results as HTML for notebooks: tables, facts and remarks, and no script of anyone's.

Colours and fonts are the page's own, so that light and dark themes are readable alike. Every text
is escaped: a notebook may show a file from a stranger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

# More lines than that are counted, not shown.
MOST_LINES = 40

_RULE = "border:0;border-bottom:1px solid rgba(128,128,128,.4)"
_CELL = f"padding:.2em .7em;white-space:nowrap;color:inherit;background:transparent;{_RULE}"
_ALIGN = {True: f"text-align:left;{_CELL}", False: f"text-align:right;{_CELL}"}


class Heading(NamedTuple):
    """A column's title.

    Parameters
    ----------
    text
        What stands over the column.
    meaning
        What a pointer that rests on it sees.
    is_text
        Whether its cells are words; numbers are aligned on the right.
    """

    text: str
    meaning: str = ""
    is_text: bool = False


def table(
    headings: Sequence[Heading],
    rows: Iterable[Sequence[str]],
    num_hidden: int = 0,
    what: str = "rows",
) -> str:
    """Make a table that scrolls by itself where it is wider than the page.

    Parameters
    ----------
    headings
        A column each.
    rows
        A text for every column.
    num_hidden
        Lines that were left out.
    what
        What they are called.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> "<td" in table([Heading("a")], [["<script>"]]), "<script>" in table([], [["<script>"]])
    (True, False)
    """
    head = "".join(
        f'<th scope="col" style="{_ALIGN[h.is_text]}"{_tooltip(h.meaning)}>{safe(h.text)}</th>'
        for h in headings
    )
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(
            f'<td style="{_ALIGN[h.is_text]}">{safe(cell)}</td>'
            for h, cell in zip(headings, row, strict=False)
        )
        + "</tr>"
        for row in rows
    )
    more = f"<div><em>… and {num_hidden:,} more {safe(what)}</em></div>" if num_hidden > 0 else ""
    return f"{_framed(f'<thead><tr>{head}</tr></thead><tbody>{body}</tbody>')}{more}"


def facts(named: Iterable[tuple[str, str]]) -> str:
    """Make a table of names and values, a line each."""
    rows = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{_ALIGN[True]}">{safe(name)}'
        f'</th><td style="{_ALIGN[True]}">{safe(value)}</td></tr>'
        for name, value in named
    )
    return _framed(f"<tbody>{rows}</tbody>")


def remarks(named: Iterable[tuple[str, str]]) -> str:
    """Make a list of sentences, each behind a word such as WARNING, which is bold in capitals."""
    told = list(named)
    items = "".join(
        f"<li>{_bold(word) if word.isupper() else safe(word)} {safe(text)}</li>"
        for word, text in told[:MOST_LINES]
    )
    if len(told) > MOST_LINES:
        items += f"<li><em>… and {len(told) - MOST_LINES:,} more</em></li>"
    return f'<ul style="margin:.4em 0;padding-left:1.4em">{items}</ul>' if items else ""


def block(head: str, *parts: str) -> str:
    """Put parts under a line that says what they are of."""
    return f"<div><div>{_bold(head)}</div>{''.join(parts)}</div>"


def safe(text: str) -> str:
    """Escape a text, and make control characters visible.

    Examples
    --------
    >>> safe("<b>")
    '&lt;b&gt;'
    """
    return escape(plain(text))


def plain(text: str, width: int | None = None) -> str:
    r"""Put a text on one line, without control characters, and cut it to a width.

    Parameters
    ----------
    text
        Any text.
    width
        Most characters.

    Returns
    -------
    str
        What may be shown on a terminal.

    Examples
    --------
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

    Examples
    --------
    >>> counted(1, "draw"), counted(5000, "draw")
    ('1 draw', '5,000 draws')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


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
