"""A report as a page: what an audit's result says, and what it does not promise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gibbs_dp.auditing import shown
from gibbs_dp.auditing.explain import CAUTIONS
from gibbs_dp.auditing.plot import PANELS, plot_panels
from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.results import page
from gibbs_dp.results.page import Page, Section, inline_svg
from gibbs_dp.results.table import Column, Heading, TextTable, counted, with_error

# So many have a column each.
FEW_GAMMAS = 6
TITLE = "Privacy and generalization of a Gibbs posterior"
NO_PROMISE = (
    "On-average KL is an average over datasets and people: it is no guarantee for any one person, "
    "and an unusual one can lose far more.",
    "A worst-case epsilon, where there is one, is for one exact draw, of data inside the declared "
    "domain. The draws of a Markov chain are approximate, and floating-point arithmetic is not "
    "hardened.",
    "All of it is about one draw of the posterior. Several draws give away more, and so may the "
    "posterior's mean, this page, or whatever else is computed from the data.",
    "The numbers are about the population that was audited, and about no other.",
)
OF_A_TABLE = (
    "The numbers and whatever is told of the table are computed from it without noise: this page "
    "is as confidential as the table."
)


def report_page(
    report: Plotted,
    warnings: Sequence[str],
    notes: Sequence[str],
    title: str | None = None,
    about: Iterable[str] = (),
    *more: Section,
) -> Page:
    """Say on a page what an audit found.

    Parameters
    ----------
    report, warnings, notes
        What to show.
    title
        Its heading.
    about
        Sentences on what was audited.
    *more
        Sections below the pictures.

    Returns
    -------
    Page
        To be saved.
    """
    settings = dict(report.settings)
    of_table = [OF_A_TABLE] if settings.get("population") == "Table" else []
    return Page(
        title or TITLE,
        shown.one_line(report.rows, settings, warnings),
        verdict(report.rows, len(warnings)),
        (
            page.warned(warnings, [c for kinds in CAUTIONS.values() for c in kinds]),
            page.section("What was audited", page.bullets(about)),
            page.section("Results", _table(report.rows, report.own_columns)),
            page.section("Pictures", page.pictures(_pictures(report))),
            *more,
            page.section("What was checked", page.bullets(_checked(report.rows))),
            page.section("What the numbers rest on", page.bullets(notes)),
            page.section("What it does not promise", page.bullets([*NO_PROMISE, *of_table])),
            page.section(
                "What the columns are", page.meanings(_meanings(report.rows, report.own_columns))
            ),
            page.settings(settings),
        ),
        is_warned=bool(warnings),
    )


def verdict(rows: shown.Rows, num_warnings: int = 0) -> str:
    """Say in one sentence what a draw gives away.

    Parameters
    ----------
    rows
        Of a report; any of them may be empty.
    num_warnings
        Of the report.

    Returns
    -------
    str
        On average and in the worst case, at the smallest and at the largest gamma.

    Examples
    --------
    >>> row = {"gamma": 1.0, "on_average_kl": 0.0067, "on_average_kl_se": 0.0001}
    >>> verdict([{**row, "dp_epsilon": 32.0}])
    'One draw gives away 0.0067 ± 0.0001 nats about an example on average at gamma = 1; the worst \
case allows 32.'
    """
    known = sorted(
        (row for row in rows if _is_number(row.get("on_average_kl"))), key=lambda row: row["gamma"]
    )
    mark = "" if not num_warnings else f" ({counted(num_warnings, 'warning')} below)"
    if not known:
        return f"What a draw gives away could not be estimated{mark}."
    size = known[0].get("group_size", 1)
    whom = "an example" if size == 1 else f"a group of {size} examples"
    ends = known[:1] if len(known) == 1 else [known[0], known[-1]]
    text = f"One draw gives away {_with_error(ends[0])} nats about {whom} on average at gamma = "
    text += f"{ends[0]['gamma']:g}"
    if len(ends) > 1:
        text += f" and {_with_error(ends[1])} at gamma = {ends[1]['gamma']:g}"
    return f"{text}; {_worst(ends)}{mark}."


def _worst(rows: Sequence[Mapping[str, Any]]) -> str:
    found = [row.get("dp_epsilon") for row in rows]
    told = [f"{x:.4g}" for x in found if _is_number(x) and x is not None]
    if all(x is None for x in found):
        return "no bound of the worst case is known"
    if len(told) < len(found):
        return "the worst case has no bound"
    return f"the worst case allows {' and '.join(dict.fromkeys(told))}"


def _with_error(row: Mapping[str, Any]) -> str:
    value, se = row["on_average_kl"], row.get("on_average_kl_se")
    return f"{value:.4g}" if se is None else with_error(value, se)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _table(rows: shown.Rows, own: Sequence[Column]) -> str:
    """Make a table with a column a gamma where they are few, which fits a phone and paper."""
    if not rows:
        return page.paragraphs(["There are no rows."])
    columns: dict[str, list[str]] = {}
    known = shown.known_columns(own)
    for name, texts in shown.cells(rows[: page.MOST_ROWS], own).items():
        columns[known[name].title or name] = texts
        intervals = [_interval(row) for row in rows[: page.MOST_ROWS]]
        if name == "on_average_kl" and any(intervals):
            columns["95% interval"] = intervals
    hidden = len(rows) - page.MOST_ROWS
    if len(rows) > FEW_GAMMAS:
        headings = [Heading(title) for title in columns]
        return TextTable(
            headings, list(zip(*columns.values(), strict=True)), hidden, "gammas"
        ).to_html()
    first, *others = columns.items()
    headings = [Heading(first[0], is_text=True), *map(Heading, first[1])]
    return TextTable(headings, [[title, *texts] for title, texts in others]).to_html()


def _interval(row: Mapping[str, Any]) -> str:
    low, high = row.get("on_average_kl_low"), row.get("on_average_kl_high")
    return f"{low:.4g} to {high:.4g}" if _is_number(low) and _is_number(high) else ""


def _pictures(report: Plotted) -> list[tuple[str, str]]:
    if not report.rows:
        return []
    return [
        (
            inline_svg(figure, f"{PANELS[name].label} over gamma", f"{name}-"),
            f"{PANELS[name].label.capitalize()} over gamma, with 95% intervals over datasets.",
        )
        for name, figure in plot_panels(report).items()
    ]


def _meanings(rows: shown.Rows, own: Sequence[Column]) -> list[tuple[str, str]]:
    found, columns = [], shown.known_columns(own)
    for name in shown.cells(rows, own):
        column = columns[name]
        known = column.title or name
        unit = f" ({column.unit})" if column.unit else ""
        also = f": {name}" if name != known else ""
        found.append((f"{known}{unit}{also}", column.meaning))
    return found


def _checked(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Verdicts of all rows that have one."""
    return [f"gamma={row['gamma']:g}: {row['trust']}" for row in rows if "trust" in row]
