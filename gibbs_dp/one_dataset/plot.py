"""The picture of one posterior's audit: what each example changes, and what its weights are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.results import plotting
from gibbs_dp.results.plotting import BLUE, GREEN, VERMILION
from gibbs_dp.results.table import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Mapping[str, np.ndarray]

SIZE = (9.0, 4.6)
# Above so many examples, markers are small and without error bars.
MANY = 400
# Letters of a unit's name.
WIDTH = 40


def plot_report(
    averages: Mapping[str, float],
    examples: Values,
    settings: Mapping[str, Any],
    title: str | None,
    axes: Sequence[Axes] | np.ndarray | None = None,
) -> Figure:
    """Draw exposures in the order of their size, and the tail shapes of weights beside them."""
    with plotting.drawing(axes, SIZE, columns=2) as (figure, (left, right)):
        _draw(left, right, averages, examples, settings)
        if title is not None:
            figure.suptitle(title)
    return figure


def plot_panels(
    averages: Mapping[str, float], examples: Values, settings: Mapping[str, Any]
) -> dict[str, Figure]:
    """Draw the two panels as pictures of their own."""
    width, height = SIZE
    (one, left), (other, right) = (plotting.panels((width / 2, height)) for _ in range(2))
    with plotting.styled():
        _draw(left[0, 0], right[0, 0], averages, examples, settings)
    return {"exposure": one, "k_hat": other}


def _draw(
    left: Axes,
    right: Axes,
    averages: Mapping[str, float],
    examples: Values,
    settings: Mapping[str, Any],
) -> None:
    # The unit is a name from a file.
    unit = plotting.literal(plain(str(settings["unit"]), WIDTH))
    order = np.argsort(-examples["exposure"], kind="stable")
    _exposures(left, averages, examples, order, unit)
    _shapes(right, examples["k_hat"][order], settings)
    for axes in (left, right):
        axes.set_xlabel(f"{unit}s, most exposed first")
        plotting.legend_below(axes)


def _exposures(
    axes: Axes, averages: Mapping[str, float], examples: Values, order: np.ndarray, unit: str
) -> None:
    values, errors = examples["exposure"][order], examples["exposure_mcse"][order]
    places = np.arange(1, values.size + 1).astype(float)
    names = (f"each {unit}", "Monte Carlo intervals", "on-average KL: their mean")
    mean = averages["on_average_kl"]
    draw_ranked(axes, places, values, LIMIT_Z * errors, LIMIT_Z * errors, mean, BLUE, names)
    axes.set(title="exposure", ylabel="KL (nats)")


def draw_ranked(
    axes: Axes,
    places: np.ndarray,
    values: np.ndarray,
    below: np.ndarray,
    above: np.ndarray,
    mean: float,
    color: str,
    names: tuple[str, str, str],
) -> None:
    """Draw positive numbers over their places on a log axis; ``names``: point, interval, mean."""
    is_few, shown = values.size <= MANY, values > 0
    axes.set_yscale("log")
    plotting.mark_edge(axes, places[~shown], "not positive", color)
    if is_few:
        bars = np.stack([np.minimum(below, 0.9 * np.abs(values)), above])[:, shown]
        axes.errorbar(places[shown], values[shown], bars, ls="none", color=color, lw=1.0, alpha=0.5)
    each, interval, of_mean = names
    _draw_points(
        axes, places[shown], values[shown], is_few, color, each + f", 95% {interval}" * is_few
    )
    if mean > 0:
        axes.axhline(mean, color=VERMILION, lw=1.5, label=of_mean)
    plotting.tidy_logs(axes)


def _draw_points(
    axes: Axes, x: np.ndarray, y: np.ndarray, is_few: bool, color: str, label: str
) -> None:
    size = 4.0 if is_few else 2.0
    axes.plot(x, y, ls="none", marker="o", ms=size, mew=0.0, color=color, label=label)


def _shapes(axes: Axes, k_hat: np.ndarray, settings: Mapping[str, Any]) -> None:
    places = np.arange(1, k_hat.size + 1)
    is_finite = np.isfinite(k_hat)
    is_few = k_hat.size <= MANY
    _draw_points(axes, places[is_finite], k_hat[is_finite], is_few, GREEN, "k_hat")
    plotting.mark_edge(axes, places[~is_finite].astype(float), "infinite", GREEN)
    limit = settings["k_hat_limit"]
    axes.axhline(limit, color=VERMILION, lw=1.5, ls="--", label=f"above {limit:.2f}: not reliable")
    axes.set(title="weights that remove it", ylabel="tail shape")
