"""A report's page on which one moves gamma: what its script is given, of the report's own numbers.

Whatever the script (``explore.js``) shows as an estimate is a number or a sentence that is made
here, of an audited gamma. ``explore.html`` is what it fills, ``explore.css`` how that looks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from gibbs_dp import io
from gibbs_dp.auditing.plot import allowed_tpr, points_of
from gibbs_dp.auditing.report_data import ReportData, cells_of_rows, curve_with_errors, rows_title
from gibbs_dp.auditing.report_page import page_of
from gibbs_dp.auditing.summary import CAUTIONS
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.quantities.attacker import PROFILE
from gibbs_dp.results import page
from gibbs_dp.results.table import TextTable, plain, rounded


@dataclass(frozen=True)
class Measure:
    """A column in the unit that people see: ``offset + factor * column``."""

    column: str
    title: str
    unit: str
    offset: float = 0.0
    factor: float = 1.0


LOSS = "units of the loss"
MEASURES = {
    "on_average_kl": Measure("on_average_kl", "on-average KL", "nats"),
    "epsilon": Measure("dp_epsilon", "worst case (DP epsilon)", "nats"),
    "advantage": Measure("on_average_tv", "attacker's advantage", "%", 0.0, 100.0),
    "right": Measure("on_average_tv", "right guesses", "in 100", 50.0, 50.0),
    "most_right": Measure("attack_advantage_limit", "worst case", "in 100", 50.0, 50.0),
    "population_risk": Measure("population_risk", "risk on fresh examples", LOSS),
    "excess_risk": Measure("excess_risk", "excess risk", LOSS),
}
# What a picture shows together, by what is chosen beside it and stands at its axis.
PICTURES = {
    "gives": {
        "nats": ("on_average_kl", "epsilon"),
        "right guesses in 100": ("right", "most_right"),
    },
    "risk": {"risk on fresh examples": ("population_risk",), "excess risk": ("excess_risk",)},
}
# What may be limited, whether it grows with gamma, and what finds the gamma of it.
LIMITS = {
    "advantage": (True, "gdp.calibrate(posterior, attack_advantage={}, ...)"),
    "on_average_kl": (True, "gdp.calibrate(posterior, on_average_kl={}, ...)"),
    "epsilon": (True, "gdp.calibrate(posterior, pure_epsilon={}, ...)"),
    "population_risk": (False, "an audit of gammas between the two"),
    "excess_risk": (False, "an audit of gammas between the two"),
}
# False positive rates of an ROC: for few false alarms, and for the whole curve.
LEAST_FPR, POINTS = 1e-3, 33
NAME = 40
OF_FIRST = "The explorer above compares {names}; everything below it is of {first} alone."


def explore_page(
    reports: Mapping[str, ReportData],
    head: str,
    title: str | None = None,
    about: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    differences: tuple[Sequence[float], TextTable] | None = None,
) -> page.Page:
    """Return the page of the first report, with an explorer of all of them.

    Without scripts it is what ``to_html`` of the first report writes. ``files`` are where the
    reports are saved, by name, for the Python that is shown; ``differences`` the gamma of every
    line, and the lines, of a comparison with the first report.
    """
    data = explorer_data(reports, files, differences)
    first, *others = reports
    told = list(about)
    if others:
        told.append(OF_FIRST.format(names=", ".join(reports), first=first))
    markup, style, script = (_shipped(f"explore.{kind}") for kind in ("html", "css", "js"))
    whole = page_of(reports[first], head, title, told)
    return replace(whole, live=page.Live(markup, style, script, data))


@cache
def _shipped(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def explorer_data(
    reports: Mapping[str, ReportData],
    files: Mapping[str, str] | None = None,
    differences: tuple[Sequence[float], TextTable] | None = None,
) -> dict[str, Any]:
    """Return what the script is given, as JSON can hold it; see `explore_page`."""
    found = {name: _in_order(report) for name, report in reports.items()}
    gammas = sorted({row["gamma"] for report in found.values() for row in report.rows})
    return {
        "gammas": gammas,
        "measures": {name: asdict(measure) for name, measure in MEASURES.items()},
        "pictures": PICTURES,
        "limits": {name: {"grows": g, "finds": finds} for name, (g, finds) in LIMITS.items()},
        "reports": [_of_report(name, report) for name, report in found.items()],
        "differences": _lines_at(differences),
        "table": _table(found),
        "python": [_python(found, files, gamma) for gamma in gammas],
    }


def _in_order(report: ReportData) -> ReportData:
    """Put the rows of a report in the order of their gammas, with all that belongs to them."""
    gammas = [row.get("gamma", math.nan) for row in report.rows]
    order = sorted((i for i, g in enumerate(gammas) if math.isfinite(g)), key=gammas.__getitem__)
    if not order:
        raise ValueError("report: it has no row, so that there is nothing to explore; audit again.")
    parts: dict[str, Any] = {
        name: tuple(held[i] for i in order)
        for name in ("rows", "per_dataset", "curves", "row_tables")
        if (held := getattr(report, name))
    }
    return replace(report, **parts)


# What a report says, gamma by gamma.


def _of_report(name: str, report: ReportData) -> dict[str, Any]:
    rows, columns = report.rows, report.columns
    measures = {k: _measured(report, m) for k, m in MEASURES.items() if m.column in columns}
    warnings = [_warning(text, report) for text in report.warnings[: page.MOST_ROWS]]
    exposed = zip(rows, report.row_tables, strict=bool(report.row_tables))
    return {
        "name": plain(name, NAME),
        "gammas": [row["gamma"] for row in rows],
        "rows": [io.json_row(row) for row in rows],
        "measures": measures,
        "told": [told_at(report, i) for i in range(len(rows))],
        "tiles": [_tiles(report, measures, i) for i in range(len(rows))],
        "checked": [plain(str(row.get("trust", ""))) for row in rows],
        "roc": [_roc(report, i) for i in range(len(rows))],
        "warnings": warnings,
        "exposed": [_exposed(row["gamma"], t) for row, t in exposed],
    }


def _measured(report: ReportData, measure: Measure) -> dict[str, list[Any]]:
    """Return values with the ends of their intervals, as JSON can hold them, and as texts."""
    points = points_of(report, measure.column, np.ones(len(report), bool))
    parts = {"value": points.value, "low": points.low, "high": points.high}
    numbers = {
        name: list(map(_number, measure.offset + measure.factor * values))
        for name, values in parts.items()
    }
    return numbers | {"text": [_text(row, measure) for row in report.rows]}


def _number(value: float) -> float | str | None:
    """Return a number; infinite ones as texts, as rows of JSON have them."""
    if math.isfinite(value):
        return float(value)
    return None if math.isnan(value) else f"{value:g}"


def _text(row: Mapping[str, Any], measure: Measure) -> str:
    value = row.get(measure.column, math.nan)
    if math.isnan(value):
        return "-"
    value = measure.offset + measure.factor * value
    se = measure.factor * row.get(f"{measure.column}_se", 0.0)
    shown = rounded(value, se)
    if se > 0:  # digits as those of the value
        digits = len(shown.partition(".")[2])
        shown += f" ± {rounded(se, se) if 'e' in shown else f'{se:.{digits}f}'}"
    if measure.unit == "%":
        return f"({shown})%" if se > 0 else f"{shown}%"
    return shown if measure.unit == LOSS else f"{shown} {measure.unit}"


def _count(value: Any) -> int:
    """Read a count from settings, which may be a stranger's."""
    return value if isinstance(value, int) and value > 1 else 1


def _whom(row: Mapping[str, Any]) -> tuple[str, str]:
    """Say of whom something is given away, and what an attacker chooses between."""
    size = _count(row.get("group_size"))
    if size == 1:
        return "an example", "two examples"
    return f"a group of {size} examples", f"two groups of {size} examples"


def _sees(report: ReportData) -> str:
    draws = _count(report.settings.get("num_releases"))
    return "the draw" if draws == 1 else f"{draws} draws"


def told_at(report: ReportData, i: int) -> str:
    """Say in two sentences what a draw gives away and costs at one gamma."""
    row = report.rows[i]
    whom, which = _whom(row)
    text = f"gamma = {row['gamma']:g}: what a draw gives away could not be estimated."
    if _is_known(row, "on_average_kl"):
        kl = _text(row, MEASURES["on_average_kl"])
        text = f"gamma = {row['gamma']:g}: one draw gives away {kl} about {whom}, on average."
    if _is_known(row, "on_average_tv"):
        text += (
            f" Someone who knows everyone else and sees {_sees(report)} guesses right "
            f"{_plain_right(row)} times in 100 which of {which} was in the data; a coin is right "
            "50 times."
        )
    return text


def _plain_right(row: Mapping[str, Any]) -> str:
    return rounded(50 + 50 * row["on_average_tv"], 50 * row.get("on_average_tv_se", 0.0))


def _is_known(row: Mapping[str, Any], name: str) -> bool:
    return isinstance(row.get(name), int | float) and math.isfinite(row[name])


Measured = dict[str, dict[str, list[Any]]]


def _tiles(report: ReportData, measures: Measured, i: int) -> list[dict[str, Any]]:
    """Return what stands beside each other: titles, one large number each, sentences."""
    spans = {name: _span(measured, i) for name, measured in measures.items()}
    return [
        _of_guesses(report, spans, i),
        _of_kl(report, spans, i),
        _of_risk(report, spans, i),
        _of_worst(report.rows[i]),
    ]


def _tile(title: str, value: str, unit: str, *lines: str) -> dict[str, Any]:
    return {"title": title, "value": value, "unit": unit, "lines": [line for line in lines if line]}


def _of_guesses(report: ReportData, spans: Mapping[str, str], i: int) -> dict[str, Any]:
    row, title = report.rows[i], "In odds"
    if _is_known(row, "on_average_tv"):
        return _tile(
            title,
            _plain_right(row),
            "right guesses in 100",
            f"of someone who knows everyone else and sees {_sees(report)}; a coin has 50.",
            spans["right"],
        )
    if _is_known(row, "on_average_kl"):
        kl = max(row["on_average_kl"], 0.0)
        most = min(math.sqrt(kl / 2), math.sqrt(-math.expm1(-kl)))
        text = "by Pinsker's bound on the KL, or Bretagnolle and Huber's: no attacker was audited."
        return _tile(title, f"at most {50 + 50 * most:.3g}", "right guesses in 100", text)
    return _tile(title, "not known", "", "no attacker was audited.")


def _of_kl(report: ReportData, spans: Mapping[str, str], i: int) -> dict[str, Any]:
    row, title = report.rows[i], "One draw gives away"
    if not _is_known(row, "on_average_kl"):
        return _tile(title, "not known", "", "the audit found no number.")
    value = rounded(row["on_average_kl"], row.get("on_average_kl_se", 0.0))
    about = f"about {_whom(row)[0]}: on-average KL, no promise to any one person."
    return _tile(title, value, "nats", about, spans["on_average_kl"])


def _of_risk(report: ReportData, spans: Mapping[str, str], i: int) -> dict[str, Any]:
    row, title = report.rows[i], "Risk paid"
    name = next((n for n in ("population_risk", "excess_risk") if _is_known(row, n)), None)
    if name is None:
        return _tile(title, "not known", "", "the audit found no risk.")
    measure, least = MEASURES[name], ""
    known = [r for r in report.rows if _is_known(r, name)]
    best = min(known, key=lambda r: float(r[name]))
    if best["gamma"] != row["gamma"]:
        least = f"Least of the audited: {_text(best, measure)} at gamma = {best['gamma']:g}."
    excess = ""
    if name == "population_risk" and _is_known(row, "excess_risk"):
        excess = f"Above that of the best parameter by {_text(row, MEASURES['excess_risk'])}."
    value = rounded(row[name], row.get(f"{name}_se", 0.0))
    what = "mean loss on a fresh example" if name == "population_risk" else "excess risk"
    return _tile(title, value, what, spans[name], excess, least)


def _of_worst(row: Mapping[str, Any]) -> dict[str, Any]:
    title = "The worst case allows"
    epsilon = row.get("dp_epsilon")
    if epsilon is None or math.isnan(epsilon):
        text = "no bound is known: no domain was declared, or the loss has no bound on it."
        return _tile(title, "anything", "", text)
    if math.isinf(epsilon):
        return _tile(title, "anything", "", "DP epsilon is infinite: the worst case has no bound.")
    limit = row.get("attack_advantage_limit", math.tanh(0.5 * epsilon))
    most = min(100.0, math.ceil(5000 + 5000 * limit) / 100)
    return _tile(
        title,
        f"{epsilon:.4g}",
        "nats (DP epsilon)",
        f"that is up to {most:.4g} right guesses in 100, about anybody.",
        "Of an exact draw, for data in the declared domain.",
    )


def _span(measured: Mapping[str, list[Any]], i: int) -> str:
    """Write a 95% interval to the precision of its width; nothing where there is none."""
    low, high = measured["low"][i], measured["high"][i]
    if not (isinstance(low, float) and isinstance(high, float)):
        return ""
    ends = [rounded(end, (high - low) / 4) for end in (low, high)]
    return f"95% interval {' to '.join(ends)}."


def _warning(text: str, report: ReportData) -> dict[str, Any]:
    """Return a warning with its remedy and the gamma that it begins with, if it does."""
    known = {f"{row['gamma']:g}": row["gamma"] for row in report.rows}
    found = re.match(r"gamma=(\S+): ", text)
    caution = page.caution_of(text, (c for kinds in CAUTIONS.values() for c in kinds))
    more = [] if caution is None else [caution.meaning, f"What to do: {caution.remedy}"]
    return {"gamma": known.get(found[1]) if found else None, "text": plain(text), "more": more}


def _roc(report: ReportData, i: int) -> dict[str, Any] | None:
    """Return the ROC with the ends of its intervals, and what DP epsilon allows over it."""
    curve = report.curves[i].get(PROFILE) if report.curves else None
    if curve is None:
        return None
    low = np.concatenate([[0.0], np.geomspace(LEAST_FPR / 10, 1.0, POINTS)])
    fpr = np.unique(np.concatenate([low, np.linspace(0.0, 1.0, POINTS)]))
    tpr, se = np.array(curve_with_errors(curve, fpr)).T
    epsilon = report.rows[i].get("dp_epsilon", math.inf)
    parts = {
        "fpr": fpr,
        "tpr": tpr,
        "low": np.maximum(tpr - LIMIT_Z * se, fpr),
        "high": np.minimum(tpr + LIMIT_Z * se, 1.0),
    }
    if math.isfinite(epsilon):
        releases = _count(report.settings.get("num_releases"))
        parts["allowed"] = allowed_tpr(fpr, releases * epsilon)
    return {name: [_number(float(f"{x:.5g}")) for x in values] for name, values in parts.items()}


def _exposed(gamma: float, table: Any) -> dict[str, Any]:
    cells = cells_of_rows(gamma, table)
    return {
        "title": rows_title(gamma, table),
        "headings": list(cells),
        "lines": list(zip(*cells.values(), strict=True)),
    }


# Of all reports together.


def _lines_at(found: tuple[Sequence[float], TextTable] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    gammas, table = found
    return {
        "gammas": list(map(float, gammas)),
        "headings": [heading.text for heading in table.headings[1:]],
        "lines": [list(map(plain, line[1:])) for line in table.rows],
    }


def _table(reports: Mapping[str, ReportData]) -> dict[str, Any]:
    """Return the printed table of all reports, a line a gamma."""
    texts = {name: report._texts(page.MOST_ROWS) for name, report in reports.items()}
    columns = list(dict.fromkeys(c for found in texts.values() for c in found))
    known = {k: v for report in reports.values() for k, v in report._known_columns.items()}
    lines, gammas = [], []
    for name, found in texts.items():
        for i, row in enumerate(reports[name].rows[: page.MOST_ROWS]):
            own = [plain(name, NAME)] if len(reports) > 1 else []
            lines.append(own + [found[c][i] if c in found else "-" for c in columns])
            gammas.append(row["gamma"])
    titles = [plain(known[c].title or c) for c in columns]
    more = ["report"] if len(reports) > 1 else []
    return {"gammas": gammas, "headings": more + titles, "lines": lines}


def _python(
    reports: Mapping[str, ReportData], files: Mapping[str, str] | None, gamma: float
) -> str:
    """Return the lines of Python that print and draw what is seen at one gamma."""
    paths = files or {name: f"{name}.nc" for name in reports}
    note = "" if files else "  # as report.save wrote it"
    lines = ["import gibbs_dp as gdp"]
    if len(reports) > 1:
        named = ", ".join(f"{name!r}: gdp.load_report({paths[name]!r})" for name in reports)
        lines.append(f"found = gdp.compare({{{named}}}){note}")
        lines.append(f"print(found.table[found.table['gamma'] == {gamma!r}].to_string())")
        return "\n".join([*lines, "found.plot()"])
    ((name, report),) = reports.items()
    lines.append(f"report = gdp.load_report({paths[name]!r}){note}")
    lines.append(f"print(report.to_dataframe().loc[{gamma!r}])")
    has_roc = any(PROFILE in curve for curve in report.curves)
    return "\n".join([*lines, f"report.plot_attack([{gamma!r}])" if has_roc else "report.plot()"])
