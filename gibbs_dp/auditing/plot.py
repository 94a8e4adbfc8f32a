"""The picture of an audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gibbs_dp.auditing.panels import PANELS, asked_panels, draw_panel, unit_of
from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.plotting import (
    COLORS,
    Picture,
    explained,
    legend_below,
    literal,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    ceiling = np.log(report.settings["num_information"])
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
    unit = f" in {unit_of(panel)}"
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
