"""Panels of a report's picture: what each shows, on an axis of one unit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from gibbs_dp.auditing.plotted import Plotted
from gibbs_dp.auditing.selection import selected_rows
from gibbs_dp.engine.quantity import Style
from gibbs_dp.plotting import Points, draw_estimate, note, tidy_logs
from gibbs_dp.quantities.registry import COLUMNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def styles_of(panel: str) -> Styles:
    """Columns of a panel, and how they are drawn."""
    drawn = ((column.name, column.style) for column in COLUMNS.values())
    return {name: style for name, style in drawn if style is not None and style.panel == panel}


def unit_of(panel: str) -> str:
    """Return the unit of a panel's axis.

    Examples
    --------
    >>> unit_of("risk")
    'loss'
    """
    return COLUMNS[next(iter(styles_of(panel)))].unit


def columns_in(report: Plotted, panel: str) -> Styles:
    """Columns of a panel of which a report has numbers.

    Returns
    -------
    dict
        By name, how each is drawn.
    """
    own = {name: style for name, style in styles_of(panel).items() if _has(report, name)}
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
    axes.set(xlabel=GAMMA, ylabel=f"{what} ({UNITS[unit_of(panel)]})")
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
