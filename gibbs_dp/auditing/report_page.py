"""The page of a report: its sections, in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gibbs_dp.auditing.plot import EXPOSURE_SIZE, PANELS, plot_exposure, plot_panels
from gibbs_dp.auditing.report_data import ReportData, cells_of_rows, exposure_frame, rows_title
from gibbs_dp.auditing.summary import CAUTIONS
from gibbs_dp.quantities.exposure import COLUMNS, SENSITIVE
from gibbs_dp.results import page
from gibbs_dp.results.plotting import panels
from gibbs_dp.results.table import Heading, TextTable, interval, warnings_below, with_error

# So many gammas have a column each on a page.
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
# So many gammas have a table of rows each.
MOST_GAMMAS = 6


def page_of(report: ReportData, head: str, title: str | None, about: Iterable[str]) -> page.Page:
    """Return the page of a report, from its head line and what is known of what was audited."""
    of_table = [OF_A_TABLE] if report.settings.get("population") == "Table" else []
    return page.Page(
        title or TITLE,
        head,
        _conclusion(report.rows, report.warnings),
        (
            page.warned(report.warnings, [c for kinds in CAUTIONS.values() for c in kinds]),
            page.section("What was audited", page.bullets(about)),
            page.section("Results", _results(report)),
            page.section("Pictures", page.pictures(_pictures(report))),
            _exposure_section(report),
            page.section("What was checked", page.bullets(_checked(report.rows))),
            page.section("What the numbers rest on", page.bullets(report.notes)),
            page.section("What it does not promise", page.bullets([*NO_PROMISE, *of_table])),
            page.section("What the columns are", page.meanings(_meanings(report))),
            page.settings(report.settings),
        ),
        is_warned=bool(report.warnings),
    )


def _conclusion(rows: Sequence[Mapping[str, Any]], warnings: Sequence[str] = ()) -> str:
    """Say in one sentence what a draw gives away."""
    known = sorted(
        (row for row in rows if _is_number(row.get("on_average_kl"))), key=lambda row: row["gamma"]
    )
    mark = warnings_below(warnings)
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


def _results(report: ReportData) -> TextTable | str:
    """Make a table with a column a gamma where they are few, which fits a phone and paper."""
    if not report.rows:
        return page.paragraphs(["There are no rows."])
    columns: dict[str, list[str]] = {}
    for name, texts in report._texts(page.MOST_ROWS).items():
        columns[report._known_columns[name].title or name] = texts
        intervals = [_interval(row) for row in report.rows[: page.MOST_ROWS]]
        if name == "on_average_kl" and any(intervals):
            columns["95% interval"] = intervals
    hidden = len(report) - page.MOST_ROWS
    if len(report) > FEW_GAMMAS:
        lines = list(zip(*columns.values(), strict=True))
        return TextTable(list(map(Heading, columns)), lines, hidden, "gammas")
    first, *others = columns.items()
    headings = [Heading(first[0], is_text=True), *map(Heading, first[1])]
    return TextTable(headings, [[title, *texts] for title, texts in others])


def _interval(row: Mapping[str, Any]) -> str:
    ends = [row.get(f"on_average_kl_{end}", math.nan) for end in ("low", "high")]
    return interval(*ends) if all(map(_is_number, ends)) else ""


def _pictures(report: ReportData) -> list[tuple[str, str]]:
    if not report.rows:
        return []

    return [
        (
            page.inline_svg(figure, f"{PANELS[name].label} over gamma", f"{name}-"),
            f"{PANELS[name].label.capitalize()} over gamma, with 95% intervals over datasets.",
        )
        for name, figure in plot_panels(report).items()
    ]


def _meanings(report: ReportData) -> list[tuple[str, str]]:
    found = []
    for name in report._texts():
        column = report._known_columns[name]
        known = column.title or name
        unit = f" ({column.unit})" if column.unit else ""
        also = f": {name}" if name != known else ""
        found.append((f"{known}{unit}{also}", column.meaning))
    return found


def _checked(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Verdicts of all rows that have one."""
    return [f"gamma={row['gamma']:g}: {row['trust']}" for row in rows if "trust" in row]


# The most exposed rows of a table.


def _exposure_section(report: ReportData) -> page.Section:
    """Return the most exposed rows as a section of a page; an empty one where there are none."""
    if not report.row_tables:
        return page.section("Most exposed rows")
    gammas = [row["gamma"] for row in report.rows]
    parts = [page.paragraphs([SENSITIVE.meaning])]
    for gamma, table in list(zip(gammas, report.row_tables, strict=True))[-MOST_GAMMAS:]:
        cells = cells_of_rows(gamma, table)
        parts.append(page.paragraphs([rows_title(gamma, table)]))
        headings = [Heading(name) for name in cells]
        parts.append(TextTable(headings, list(zip(*cells.values(), strict=True))).to_html())
    caption = f"What each row costs at gamma = {max(gammas):g}, over its rank."
    largest = report.row_tables[gammas.index(max(gammas))]
    figure, grid = panels(EXPOSURE_SIZE, columns=2)
    plot_exposure(exposure_frame([max(gammas)], [largest]), axes=grid)
    parts.append(page.pictures([(page.inline_svg(figure, caption, "exposure-"), caption)]))
    parts.append(page.meanings((c.title, c.meaning) for c in COLUMNS if c.title is not None))
    return page.section("Most exposed rows", *parts)
