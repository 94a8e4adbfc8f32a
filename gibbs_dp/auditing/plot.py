"""Pictures of audits: panels of a report over gamma, and reports over each other."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gibbs_dp.auditing.report_data import ESTIMATES, ReportData, curve_with_errors, profiles
from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.one_dataset.plot import draw_ranked
from gibbs_dp.quantities.registry import COLUMNS, PANEL_UNITS
from gibbs_dp.results.plotting import (
    BLUE,
    COLORS,
    GREEN,
    Picture,
    Points,
    draw_estimate,
    drawing,
    legend_below,
    literal,
    mark_selected,
    meanings,
    note,
    panels,
    styled,
    tidy_logs,
)
from gibbs_dp.results.table import Column, Style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Reports = Mapping[str, ReportData]


# Panels of a report's picture: what each shows, on an axis of one unit.

Styles = dict[str, Style]
Numbers = Float[np.ndarray, " gammas"]


@dataclass(frozen=True)
class Panel:
    """What a panel is called, beside its axis."""

    label: str
    why_absent: str
    is_log: bool = True


PANELS = {
    "privacy": Panel("privacy", "its audit found no number of privacy"),
    "risk": Panel("risk", "its audit found no risk", is_log=False),
    "attack": Panel("attacker", "its audit found nothing of the attacker"),
    "information": Panel("information", "audit with num_information of 2 or more"),
    "generalization": Panel("gen. error", "audit with num_information of 2 or more"),
}
UNITS = {"nats": "nats", "loss": "units of the loss", "": "probability"}
GAMMA = "gamma (inverse temperature)"
# Numbers this many times apart are drawn on a logarithmic axis.
WIDE = 10.0


def styles_of(panel: str, own: Sequence[Column] = ()) -> Styles:
    """Columns of a panel, the library's and one's own, and how they are drawn."""
    drawn = ((column.name, column.style) for column in (*COLUMNS.values(), *own))
    return {name: style for name, style in drawn if style is not None and style.panel == panel}


def columns_in(report: ReportData, panel: str) -> Styles:
    """Columns of a panel of which a report has numbers."""
    own = {
        name: style
        for name, style in styles_of(panel, report.own_columns).items()
        if _has(report, name)
    }
    return {name: style for name, style in own.items() if style.instead_of not in own}


def _has(report: ReportData, name: str) -> bool:
    return name in report.columns and not np.isnan(report[name].astype(float)).all()


def check_panels(report: ReportData, panels: str | Sequence[str]) -> list[str]:
    """Check which panels are asked for."""
    if panels == "all":
        return [name for name in PANELS if columns_in(report, name)]
    names = [panels] if isinstance(panels, str) else list(panels)
    if not names:
        raise ValueError(f"panels: it is empty; name some of {', '.join(PANELS)}.")
    for name in names:
        if name not in PANELS:
            raise ValueError(
                f"panels: there is no panel {name!r}; choose some of {', '.join(PANELS)}, or 'all'."
            )
        if name not in ("privacy", "risk") and not columns_in(report, name):
            raise ValueError(
                f"panels: the report has nothing for {name!r}; {PANELS[name].why_absent}."
            )
    return names


def draw_panel(
    axes: Axes, report: ReportData, panel: str, color: str | None = None, prefix: str | None = None
) -> None:
    """Draw the columns of one panel over gamma."""
    styles, gamma = columns_in(report, panel), report["gamma"].astype(float)
    if prefix is not None:
        styles = {name: style for name, style in styles.items() if not style.is_points}
    shown = gamma > 0  # gamma = 0 is the prior: no place on a logarithmic axis
    drawn = {name: points_of(report, name, shown) for name in styles}
    is_log = PANELS[panel].is_log or _is_wide([points.value for points in drawn.values()])
    if axes.get_yscale() == "log" and axes.lines:  # of a report before this one
        is_log = True
    axes.set(xscale="log", yscale="log" if is_log else "linear")
    for name, style in styles.items():
        own = style
        if color is not None:
            own = replace(own, color=color)
        if prefix is not None:
            own = replace(own, label=f"{prefix}: {style.label}")
        draw_estimate(axes, drawn[name], own)
    tidy_logs(axes)
    names = list(styles)
    what = "excess risk" if names == ["excess_risk"] else PANELS[panel].label
    axes.set(xlabel=GAMMA, ylabel=f"{what} ({UNITS[PANEL_UNITS[panel]]})")
    if prefix is None:
        _note_absent_columns(axes, report, panel, has_prior=not shown.all())
        if not styles:
            note(axes, f"nothing to show: {PANELS[panel].why_absent}")


def points_of(report: ReportData, name: str, shown: Bool[np.ndarray, " gammas"]) -> Points:
    """Return a column at some of the gammas, with 95% intervals: its own, or 1.96 errors."""
    value = report[name].astype(float)
    low = high = np.full(value.shape, np.nan)
    if f"{name}_se" in report.columns:
        half = LIMIT_Z * report[f"{name}_se"].astype(float)
        low, high = value - half, value + half
    if f"{name}_low" in report.columns:
        low, high = (report[f"{name}_{end}"].astype(float) for end in ("low", "high"))
    is_selected = selected_rows(report, name)
    gamma = report["gamma"].astype(float)
    return Points(*(x[shown] for x in (gamma, value, low, high, is_selected)))


def _is_wide(columns: Iterable[Numbers]) -> bool:
    """Whether all numbers are positive and far apart."""
    values = np.concatenate([np.asarray(c) for c in columns] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() > 0 and values.max() > WIDE * values.min())


def _note_absent_columns(axes: Axes, report: ReportData, panel: str, has_prior: bool) -> None:
    """Explain in the legend what the reader would look for in vain."""
    texts = [
        style.absent
        for name, style in styles_of(panel).items()
        if style.absent is not None and not _has(report, name)
    ]
    if has_prior:
        texts.append("gamma = 0 has no place on this axis")
    for text in texts:
        note(axes, text)


DEFAULT = ("privacy", "risk")
GID = "report "
# Inches of one panel.
PANEL_SIZE = (4.2, 4.1)
# Of a panel that is a picture: without a legend, and each line of that.
BARE_HEIGHT, LINE_HEIGHT = 3.5, 0.19


def plot_report(
    report: ReportData, title: str | None = None, shown: str | Sequence[str] = DEFAULT
) -> Figure:
    """Draw panels of a report over gamma, two beside each other."""
    names = check_panels(report, shown)
    columns = min(2, len(names))
    rows = -(-len(names) // 2)
    width, height = PANEL_SIZE
    size = width * columns, height * rows
    with drawing(None, size, rows, columns, len(names)) as (figure, places):
        for axes, name in zip(places, names, strict=True):
            _draw(axes, report, name)
        settings = report.settings
        told = f", n = {settings['n']}" if "n" in settings else ""
        figure.suptitle(title or literal(f"{settings.get('loss', 'Gibbs posterior')}{told}"))
    return figure


@styled()
def plot_panels(report: ReportData) -> dict[str, Picture]:
    """Draw every panel that a report has numbers for as a picture of its own, without a title."""
    found = {}
    for name in check_panels(report, "all"):
        figure, grid = panels(PANEL_SIZE)
        _draw(grid[0, 0], report, name)
        legend = grid[0, 0].get_legend()
        told = [] if legend is None else legend.get_texts()
        lines = sum(1 + text.get_text().count("\n") for text in told)
        figure.set_size_inches(PANEL_SIZE[0], BARE_HEIGHT + LINE_HEIGHT * lines)
        found[name] = figure
    return found


def _draw(axes: Axes, report: ReportData, name: str) -> None:
    draw_panel(axes, report, name)
    if name == "information":
        _draw_ceiling(axes, report)
    legend_below(axes)


def _draw_ceiling(axes: Axes, report: ReportData) -> None:
    count = report.settings.get("num_information", 0)
    if count < 2:
        return
    ceiling = np.log(count)
    axes.axhline(ceiling, color="0.5", lw=1, ls=":", label="log M: no lower bound exceeds it")


def overlay_report(
    axes: Axes,
    report: ReportData,
    title: str | None = None,
    label: str | None = None,
    panel: str = DEFAULT[0],
) -> Figure:
    """Draw one panel of a report over what the axes show already."""
    (panel,) = check_panels(report, [panel])
    drawn = {g for line in axes.lines if (g := str(line.get_gid())).startswith(GID)}
    unit = f" in {PANEL_UNITS[panel]}"
    if any(not gid.endswith(unit) for gid in drawn):
        raise ValueError(
            f"ax: it shows reports in another unit than {PANELS[panel].label} has; take other axes."
        )
    name = label or str(report.settings.get("loss", f"report {len(drawn)}"))
    before = set(axes.lines)
    draw_panel(axes, report, panel, COLORS[len(drawn) % len(COLORS)], name)
    for line in set(axes.lines) - before:
        if line.get_gid() is None:
            line.set_gid(f"{GID}{len(drawn)}{unit}")
    legend_below(axes)
    if title is not None:
        axes.set_title(title)
    return axes.figure.figure  # of a subfigure, the whole one


# Numbers that stand for a selection of the datasets, as some of them failed.


def selected_rows(report: ReportData, name: str) -> Bool[np.ndarray, " gammas"]:
    """At which gammas a column is a mean over fewer datasets than were drawn."""
    if f"{name}_se" not in report.columns:
        return np.zeros(len(report), bool)
    found = np.array([row.get("failed_datasets", 0) > 0 for row in report.rows])
    for i, values in enumerate(report.per_dataset):
        if name in values:  # estimates fail one by one
            missing = np.isnan(values[name])
            # What was saved is padded, and some columns are of the first datasets only.
            looked_at = missing.size - int(np.argmin(missing[::-1])) if not missing.all() else 0
            found[i] = bool(missing[:looked_at].any())
    return found


# A comparison: reports over each other, and their differences.

# Differences beyond twice this need an axis that is logarithmic beyond it.
LINEAR = 5.0
# Columns of which differences are drawn, below the panel that has them: the first that is there.
DIFFERENCES = {"privacy": ("on_average_kl",), "risk": ("excess_risk", "population_risk")}
LEGEND_WIDTH = 34


def plot_comparison(
    reports: Reports,
    table: pd.DataFrame,
    title: str | None = None,
    axes: Sequence[Axes] | np.ndarray | None = None,
) -> Figure:
    """Draw privacy and risk of all reports; below, differences over their standard errors."""
    compared = {
        panel: next((c for c in columns if (table["quantity"] == c).any()), None)
        for panel, columns in DIFFERENCES.items()
    }
    shown = {panel: column for panel, column in compared.items() if column is not None}
    names = list(reports)
    wide = len(shown)
    size = 4.2 * wide + 0.4, 5.6 + 0.2 * len(names)
    grid: dict[str, Any] = {"sharex": "col", "height_ratios": (2, 1)}
    with drawing(axes, size, 2, wide, **grid) as (figure, places):
        for (panel, column), top, bottom in zip(
            shown.items(), places[:wide], places[wide:], strict=True
        ):
            for name, color in zip(names, _colors(names), strict=True):
                draw_panel(top, reports[name], panel, color, name)
            _draw_differences(bottom, reports, table[table["quantity"] == column], str(column))
            top.set_xlabel("")
        if title is not None:
            figure.suptitle(title)
        handles = _handles(reports, list(shown), places)
        if axes is None:
            figure.legend(handles=handles, loc="outside lower center", ncols=min(2, wide))
        else:
            places[0].legend(handles=handles)
    return figure


def _colors(names: list[str]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(names))]


def _draw_differences(axes: Axes, reports: Reports, table: pd.DataFrame, column: str) -> None:
    names = list(reports)
    axes.axhspan(-LIMIT_Z, LIMIT_Z, color="0.9", lw=0, zorder=0.5)
    axes.axhline(0.0, color="0.5", lw=0.8)
    for name, color in list(zip(names, _colors(names), strict=True))[1:]:
        own = table[(table["report"] == name) & (table["gamma"] > 0)]
        x, z = (own[key].to_numpy(float) for key in ("gamma", "z"))
        axes.plot(x, z, "o-", color=color, ms=4, lw=1.2)
        is_selected = np.isin(x, _selected_gammas(reports, name, column))
        mark_selected(axes, x, z, is_selected, color, "o")
    axes.set(xscale="log", xlabel=GAMMA)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, -3.0), max(high, 3.0))
    largest = max(-low, high)
    if largest > 2 * LINEAR:
        axes.set_yscale("symlog", linthresh=LINEAR)
        powers = 10.0 ** np.arange(1, np.ceil(np.log10(largest)) + 1)
        ticks = [0.0, *powers, *-powers]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(min(low, -3.0), max(1.2 * high, 3.0))
    axes.set_ylabel("difference\n(standard errors)")


def _selected_gammas(reports: Reports, name: str, column: str) -> Float[np.ndarray, " _gammas"]:
    """Gammas at which a report or the baseline lost datasets."""
    both = (reports[name], next(iter(reports.values())))
    return np.concatenate([r["gamma"][selected_rows(r, column)] for r in both if len(r)])


def _handles(reports: Reports, shown: list[str], drawn: list[Axes]) -> list[Line2D | Patch]:
    """Colours are reports and lines are columns: names once, however many reports there are."""
    names = list(reports)
    left: list[Line2D | Patch] = []
    for i, (name, color) in enumerate(zip(names, _colors(names), strict=True)):
        text = f"{name} (baseline)" if i == 0 else name
        left.append(Line2D([], [], color=color, lw=3.0, label=textwrap.fill(text, LEGEND_WIDTH)))
    right: list[Line2D | Patch] = []
    for panel in shown:
        styles = {k: v for r in reports.values() for k, v in columns_in(r, panel).items()}
        for style in styles.values():
            if not style.is_points:
                look: dict[str, Any] = {"ls": style.line, "marker": style.marker, "ms": 4}
                right.append(Line2D([], [], color="0.3", label=style.label, **look))
    right.append(Patch(color="0.9", label="differences of equal ones: 95%"))
    marks: dict[str, Line2D] = {}
    for axes in drawn:
        handles, texts = meanings(axes)
        marks |= dict(zip(texts, handles, strict=True))
    for text, handle in marks.items():
        handle.set_label(text)
    right += marks.values()
    if len(shown) == 1:
        return left + right
    # Legends are filled column by column: reports at the left, and what their lines are.
    rows = max(len(left), len(right))
    for entries in (left, right):
        entries += [Line2D([], [], ls="none", label=" ") for _ in range(rows - len(entries))]
    return left + right


# What the average attacker sees: its ROC.

ATTACK_SIZE = (8.6, 4.6)
# Curves that one picture tells apart.
MOST_CURVES = 5
LEAST_FPR = 1e-3
POINTS = 65
# Above it the exponential is no float; everything is allowed long before.
LARGEST_EPSILON = 700.0


def plot_attack(
    report: ReportData,
    gammas: Sequence[float] | None = None,
    title: str | None = None,
    axes: Sequence[Axes] | np.ndarray | None = None,
) -> Figure:
    """Draw the ROC with bands, on linear and on logarithmic axes."""
    known = dict(profiles(report))
    chosen = _chosen_gammas(list(known), gammas, len(COLORS))
    size = f", n = {report.settings['n']}" if "n" in report.settings else ""
    default = f"what an attacker sees: {report.settings.get('loss', 'Gibbs posterior')}{size}"
    with drawing(axes, ATTACK_SIZE, columns=2) as (figure, (left, right)):
        _draw_roc(left, right, report, known, chosen)
        if title is not None or axes is None:
            figure.suptitle(title or literal(default))
    return figure


def _draw_roc(
    left: Axes,
    right: Axes,
    report: ReportData,
    known: Mapping[float, dict[str, np.ndarray]],
    chosen: list[float],
) -> None:
    epsilons = {row["gamma"]: row.get("dp_epsilon") for row in report.rows}
    releases = int(report.settings.get("num_releases", 1))
    low = np.concatenate([[0.0], np.geomspace(LEAST_FPR / 10, 1.0, POINTS)])
    for axes, fpr in (
        (left, np.unique(np.append(low, np.linspace(0, 1, POINTS)))),
        (right, low[1:]),
    ):
        for color, gamma in zip(COLORS, chosen, strict=False):
            found = np.array(curve_with_errors(known[gamma], fpr))
            value, half = found[:, 0], LIMIT_Z * found[:, 1]
            axes.plot(fpr, value, color=color, label=f"gamma = {gamma:g}")
            axes.fill_between(
                fpr, np.maximum(value - half, fpr), value + half, color=color, alpha=0.2, lw=0
            )
            epsilon = epsilons.get(gamma)
            if epsilon is not None and math.isfinite(epsilon):
                axes.plot(fpr, allowed_tpr(fpr, releases * epsilon), color=color, ls="--", lw=1)
        axes.plot(fpr, fpr, color="0.6", lw=1, ls=":", label="guessing")
        axes.set(xlabel="false positive rate", ylabel="true positive rate")
    if any(e is not None and math.isfinite(e) for e in map(epsilons.get, chosen)):
        left.plot([], [], color="0.3", ls="--", lw=1, label="most that DP epsilon allows")
    left.set(xlim=(0, 1), ylim=(0, 1))
    right.set(xscale="log", yscale="log", xlim=(LEAST_FPR, 1), ylim=(LEAST_FPR, 1.1))
    left.set_title("one draw, everyone else known")
    right.set_title("few false alarms")
    legend_below(left)


def allowed_tpr(fpr: np.ndarray, epsilon: float) -> np.ndarray:
    """Largest true positive rate under pure DP (Kairouz, Oh & Viswanath 2015, Theorem 2.1)."""
    factor = np.exp(min(epsilon, LARGEST_EPSILON))
    return np.asarray(np.minimum(1.0, np.minimum(factor * fpr, 1 - (1 - fpr) / factor)))


def _chosen_gammas(known: list[float], asked: Sequence[float] | None, most: int) -> list[float]:
    if asked is None:
        places = np.unique(np.linspace(0, len(known) - 1, min(len(known), MOST_CURVES)).round())
        return [known[int(i)] for i in places]
    found = [next((g for g in known if math.isclose(g, a, rel_tol=1e-6)), None) for a in asked]
    if not found or any(g is None for g in found):
        told = ", ".join(f"{g:g}" for g in known)
        raise ValueError(f"gammas: choose some of the report's, {told}, got {list(asked)!r}.")
    if len(found) > most:
        raise ValueError(f"gammas: at most {most} are told apart, got {len(found)}.")
    return [g for g in found if g is not None]


# What single rows of a table cost, over their rank.

# Inches of the picture, and what its panels are called.
EXPOSURE_SIZE = (9.0, 4.6)
ROW_PANELS = {
    "on_average_kl": ("on-average KL", "on-average KL (nats)"),
    "advantage": ("attacker's advantage", "total variation"),
}


def plot_exposure(
    rows: pd.DataFrame, title: str | None = None, axes: Sequence[Axes] | np.ndarray | None = None
) -> Figure:
    """Draw the rows of one gamma of ``Report.exposure``, a panel an estimate."""
    with drawing(axes, EXPOSURE_SIZE, columns=2) as (figure, places):
        for place, name in zip(places, ESTIMATES, strict=True):
            _draw_rows(place, rows, name)
        if title is not None:
            figure.suptitle(title)
    return figure


def _draw_rows(axes: Axes, frame: pd.DataFrame, name: str) -> None:
    heading, label = ROW_PANELS[name]
    color = BLUE if name == "on_average_kl" else GREEN
    known = frame[np.isfinite(frame[name])]
    rank, values = known["rank"].to_numpy(float), known[name].to_numpy()
    low, high = (known[f"{name}_{end}"].to_numpy() for end in ("low", "high"))
    below, above = np.nan_to_num(values - low), np.nan_to_num(high - values)
    mean = float(values.mean()) if values.size else 0.0
    names = ("each row", "intervals", "mean of the rows")
    draw_ranked(axes, rank, values, below, above, mean, color, names)
    axes.set(title=heading, xlabel="rank, by the other half of the datasets", ylabel=label)
    legend_below(axes)
