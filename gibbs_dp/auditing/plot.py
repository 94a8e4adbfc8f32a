"""The picture of an audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.auditing.selection import selected_rows
from gibbs_dp.quantities.registry import COLUMNS, PANEL_UNITS
from gibbs_dp.results.plotting import (
    COLORS,
    Picture,
    Points,
    draw_estimate,
    explained,
    legend_below,
    literal,
    note,
    panels,
    styled,
    tidy_logs,
)
from gibbs_dp.results.table import Column, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Panels of a report's picture: what each shows, on an axis of one unit.

Styles = dict[str, Style]
Numbers = Float[np.ndarray, " gammas"]


@dataclass(frozen=True)
class Panel:
    """What a panel is called, beside its axis.

    Parameters
    ----------
    label
        Of the axis, before the unit.
    why_absent
        What to do where a report has nothing for it.
    is_log
        Whether its axis is logarithmic in any case, or only where the numbers are far apart.
    """

    label: str
    why_absent: str
    is_log: bool = True


PANELS = {
    "privacy": Panel("privacy", "its audit found no number of privacy"),
    "risk": Panel("risk", "its audit found no risk", is_log=False),
    "attack": Panel("attacker", "its audit found nothing of the attacker"),
    "information": Panel("information", "audit with num_information of 2 or more"),
    "generalization": Panel("generalization error", "audit with num_information of 2 or more"),
}
UNITS = {"nats": "nats", "loss": "units of the loss", "": "probability"}
GAMMA = "gamma (inverse temperature)"
# Numbers this many times apart are drawn on a logarithmic axis.
WIDE = 10.0


def styles_of(panel: str, own: Sequence[Column] = ()) -> Styles:
    """Columns of a panel, the library's and one's own, and how they are drawn."""
    drawn = ((column.name, column.style) for column in (*COLUMNS.values(), *own))
    return {name: style for name, style in drawn if style is not None and style.panel == panel}


def columns_in(report: Plotted, panel: str) -> Styles:
    """Columns of a panel of which a report has numbers.

    Returns
    -------
    dict
        By name, how each is drawn.
    """
    own = {
        name: style
        for name, style in styles_of(panel, report.own_columns).items()
        if _has(report, name)
    }
    return {name: style for name, style in own.items() if style.instead_of not in own}


def _has(report: Plotted, name: str) -> bool:
    return name in report.columns and not np.isnan(report[name].astype(float)).all()


def asked_panels(report: Plotted, panels: str | Sequence[str]) -> list[str]:
    """Check which panels are asked for.

    Parameters
    ----------
    report
        That they are to show.
    panels
        Names, or "all" for those that the report has numbers for.

    Returns
    -------
    list of str
        Names.

    Raises
    ------
    ValueError
        If there is no such panel, or nothing to show in it.
    """
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
    axes: Axes,
    report: Plotted,
    panel: str,
    color: str | None = None,
    prefix: str | None = None,
) -> None:
    """Draw the columns of one panel over gamma.

    Parameters
    ----------
    axes
        Where; they become logarithmic in gamma, and in the numbers where that fits.
    report
        What to draw.
    panel
        One of `PANELS`.
    color, prefix
        Of one report among several: its colour, and its name in the legend. Columns that are a
        second route to another are left out then.
    """
    styles, gamma = columns_in(report, panel), report["gamma"].astype(float)
    if prefix is not None:
        styles = {name: style for name, style in styles.items() if not style.is_points}
    shown = gamma > 0  # gamma = 0 is the prior: no place on a logarithmic axis
    drawn = {name: _points(report, name, shown) for name in styles}
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
        _say_what_is_absent(axes, report, panel, has_prior=not shown.all())
        if not styles:
            note(axes, f"nothing to show: {PANELS[panel].why_absent}")


def _points(report: Plotted, name: str, shown: Bool[np.ndarray, " gammas"]) -> Points:
    value = report[name].astype(float)
    low = high = np.full(value.shape, np.nan)
    if f"{name}_se" in report.columns:
        half = 1.96 * report[f"{name}_se"].astype(float)
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


def _say_what_is_absent(axes: Axes, report: Plotted, panel: str, has_prior: bool) -> None:
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


@styled()
def plot_report(
    report: Plotted, title: str | None = None, shown: str | Sequence[str] = DEFAULT
) -> Picture:
    """Draw panels of a report over gamma, two beside each other.

    Parameters
    ----------
    report
        What to draw.
    title
        Of the figure; the loss and the size of the datasets by default.
    shown
        Names of panels, or "all".

    Returns
    -------
    Picture
        The figure.

    Raises
    ------
    ValueError
        If there is no such panel, or nothing to show in it.
    """
    names = asked_panels(report, shown)
    columns = min(2, len(names))
    rows = -(-len(names) // 2)
    width, height = PANEL_SIZE
    figure, grid = panels((width * columns, height * rows), rows, columns)
    for axes in grid.ravel()[len(names) :]:
        axes.remove()
    for axes, name in zip(grid.ravel(), names, strict=False):
        _draw(axes, report, name)
    settings = report.settings
    size = f", n = {settings['n']}" if "n" in settings else ""
    figure.suptitle(title or literal(f"{settings.get('loss', 'Gibbs posterior')}{size}"))
    return figure


@styled()
def plot_panels(report: Plotted) -> dict[str, Picture]:
    """Draw every panel that a report has numbers for as a picture of its own, without a title.

    Returns
    -------
    dict
        Figures, by the panels' names.
    """
    found = {}
    for name in asked_panels(report, "all"):
        figure, grid = panels(PANEL_SIZE)
        _draw(grid[0, 0], report, name)
        legend = grid[0, 0].get_legend()
        told = [] if legend is None else legend.get_texts()
        lines = sum(1 + text.get_text().count("\n") for text in told)
        figure.set_size_inches(PANEL_SIZE[0], BARE_HEIGHT + LINE_HEIGHT * lines)
        found[name] = figure
    return found


def _draw(axes: Axes, report: Plotted, name: str) -> None:
    draw_panel(axes, report, name)
    if name == "information":
        _draw_ceiling(axes, report)
    legend_below(axes)


def _draw_ceiling(axes: Axes, report: Plotted) -> None:
    count = report.settings.get("num_information", 0)
    if count < 2:
        return
    ceiling = np.log(count)
    axes.axhline(ceiling, color="0.5", lw=1, ls=":", label="log M: no lower bound exceeds it")


def overlay_report(
    axes: Axes,
    report: Plotted,
    title: str | None = None,
    label: str | None = None,
    panel: str = DEFAULT[0],
) -> Figure:
    """Draw one panel of a report over what the axes show already.

    Each report has a colour, the next one that these axes have not used for a report. The axes
    keep their own style.

    Parameters
    ----------
    axes
        Of any figure.
    report
        What to draw.
    title
        Of the axes.
    label
        What the legend calls the report.
    panel
        Which one.

    Returns
    -------
    Figure
        The figure of the axes.

    Raises
    ------
    ValueError
        If there is nothing to show, or the axes show reports in another unit.
    """
    (panel,) = asked_panels(report, [panel])
    drawn = {gid for gid in map(str, _gids(axes)) if gid.startswith(GID)}
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
    handles, labels = explained(axes)
    if handles:
        axes.legend(handles, labels)
    if title is not None:
        axes.set_title(title)
    return axes.figure.figure  # of a subfigure, the whole one


def _gids(axes: Axes) -> set[str | None]:
    return {line.get_gid() for line in axes.lines}
