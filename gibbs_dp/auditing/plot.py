"""The picture of an audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure

from gibbs_dp.auditing.plot_selection import explained, mark_selected, selected_rows
from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.engine.quantity import Style
from gibbs_dp.quantities.registry import COLUMNS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Several reports in one figure: a colour each, and a line a quantity.
REPORT_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
OVERLAY = ("on_average_kl", "dp_epsilon", "excess_risk")
LINES = {"on_average_kl": "-", "dp_epsilon": "--", "excess_risk": ":"}
GID = "report "
Styles = dict[str, Style]
Numbers = Float[np.ndarray, " gammas"]


def _styles(panel: str) -> Styles:
    """Columns of a panel."""
    drawn = ((column.name, column.style) for column in COLUMNS.values())
    return {name: style for name, style in drawn if style is not None and style.panel == panel}


def plot_report(report: Plotted, title: str | None = None) -> Figure:
    """Draw privacy and risk over gamma; with information estimates, also these and Corollary 10.

    Log-log, with bands of 95% intervals over datasets.
    """
    has_information = "mutual_information_lower" in report.columns
    width = 17.0 if has_information else 7.0
    figure = Figure(figsize=(width, 5.0), layout="constrained")
    panels = figure.subplots(1, 3 if has_information else 1, squeeze=False)[0]
    draw_report(panels[0], report, title)
    if has_information:
        _draw_information(panels[1], report)
        _draw_curves(panels[2], report, _styles("generalization"))
        panels[2].set(ylabel="loss", title="Corollary 10: information bounds generalization")
    return figure


def draw_report(axes: Axes, report: Plotted, title: str | None = None) -> None:
    """Draw DP epsilon, on-average KL, gamma times gen and excess risk on given axes."""
    _draw_curves(axes, report, _styles("privacy"))
    axes.set_ylabel("nats (privacy), loss (risk)")
    n = report.settings.get("n")
    axes.set_title(title or f"{report.settings.get('loss', 'Gibbs posterior')}, n = {n}")


def overlay_report(
    axes: Axes, report: Plotted, title: str | None = None, label: str | None = None
) -> Figure:
    """Draw on-average KL, DP epsilon and excess risk over what the axes show already.

    Each report has a colour, the next one that these axes have not used for a report.
    """
    gids = {str(line.get_gid()) for line in axes.lines}
    drawn = {gid for gid in gids if gid.startswith(GID)}
    gid = f"{GID}{len(drawn)}"
    color = REPORT_COLORS[len(drawn) % len(REPORT_COLORS)]
    name = label or str(report.settings.get("loss", gid))
    styles = {}
    for quantity in OVERLAY:
        style = _styles("privacy")[quantity]
        text = f"{name}: {style.label}"
        styles[quantity] = replace(style, label=text, color=color, line=LINES[quantity])
    before = set(axes.lines)
    _draw_curves(axes, report, styles)
    for line in set(axes.lines) - before:
        if line.get_gid() is None:
            line.set_gid(gid)
    axes.set_ylabel("nats (privacy), loss (risk)")
    if title is not None:
        axes.set_title(title)
    return cast("Figure", axes.get_figure(root=True))


def plot_comparison(
    reports: Mapping[str, Plotted], table: pd.DataFrame, title: str | None = None
) -> Figure:
    """Draw the reports over each other; below, differences of on-average KL over their errors.

    Parameters are the fields of :class:`gibbs_dp.Comparison`, and a title.
    """
    figure = Figure(figsize=(9.5, 6.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for name, report in reports.items():
        overlay_report(top, report, title, name)
    place: Any = {"frameon": False, "fontsize": 9, "loc": "upper left", "bbox_to_anchor": (1, 1)}
    top.legend(*explained(top), **place)
    first = next(iter(reports))
    table = table[table["quantity"] == "on_average_kl"]
    bottom.axhspan(-1.96, 1.96, color="0.85", label="95% of equal ones")
    for i, name in enumerate(list(reports)[1:], start=1):
        own = table[(table["report"] == name) & (table["gamma"] > 0)]
        color = REPORT_COLORS[i % len(REPORT_COLORS)]
        bottom.plot(own["gamma"], own["z"], "o-", color=color, ms=4, label=name)
        is_selected = np.isin(own["gamma"], _selected_gammas(reports, name))
        x, z = (own[column].to_numpy(float) for column in ("gamma", "z"))
        mark_selected(bottom, x, z, is_selected, color, "o")
    bottom.set(xscale="log", xlabel="gamma (inverse temperature)")
    bottom.set_yscale("symlog", linthresh=5.0)
    bottom.set_ylabel(f"KL minus {first}'s,\nin standard errors")
    bottom.grid(which="major", alpha=0.3)
    bottom.legend(**place)
    top.set_xlabel("")
    return figure


def _selected_gammas(reports: Mapping[str, Plotted], name: str) -> Float[np.ndarray, " _gammas"]:
    """Gammas at which a report or the baseline lost datasets."""
    both = (reports[name], next(iter(reports.values())))
    return np.concatenate([r["gamma"][selected_rows(r, "on_average_kl")] for r in both])


def _draw_information(axes: Axes, report: Plotted) -> None:
    ceiling = np.log(report.settings["num_information"])
    axes.axhline(ceiling, color="0.6", lw=1, ls="--", label="log M: ceiling of the lower bound")
    _draw_curves(axes, report, _styles("information"))
    axes.set(ylabel="nats", title="Information between dataset and draw")


def _draw_curves(axes: Axes, report: Plotted, styles: Styles) -> None:
    gamma = report["gamma"]
    shown = gamma > 0  # gamma = 0 is the prior: no place on a logarithmic axis
    axes.set(xscale="log", yscale="log", xlabel="gamma (inverse temperature)")
    for name, style in styles.items():
        if name not in report.columns:
            continue
        value = report[name].astype(float)
        good = shown & np.isfinite(value) & (value > 0)
        if not good.any():
            continue
        x, y, color = gamma[good], value[good], style.color
        axes.plot(x, y, style.line, color=color, marker=style.marker, ms=4, label=style.label)
        is_selected = selected_rows(report, name)[good]
        mark_selected(axes, x, y, is_selected, color, style.marker)
        if f"{name}_se" in report.columns:
            half = 1.96 * report[f"{name}_se"].astype(float)
            ends = value - half, value + half
            if f"{name}_low" in report.columns:
                ends = report[f"{name}_low"].astype(float), report[f"{name}_high"].astype(float)
            _draw_band(axes, gamma, value, ends, good, color)
    axes.grid(which="major", alpha=0.3)
    handles, labels = explained(axes)
    if handles:
        axes.legend(handles, labels, frameon=False, fontsize=9)


def _draw_band(
    axes: Axes,
    gamma: Numbers,
    value: Numbers,
    ends: tuple[Numbers, Numbers],
    good: Bool[np.ndarray, " gammas"],
    color: str,
) -> None:
    # A band that reaches zero has no bottom on this axis; cut it a decade below.
    low = np.maximum(ends[0][good], 0.1 * value[good])
    axes.fill_between(gamma[good], low, ends[1][good], color=color, alpha=0.2, linewidth=0)
