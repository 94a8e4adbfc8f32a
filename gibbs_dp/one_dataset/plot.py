"""The picture of one posterior's audit: what each example changes, and what its weights are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp.results import plotting
from gibbs_dp.results.plotting import BLUE, GREEN, VERMILION
from gibbs_dp.results.table import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (9.0, 4.6)
# Above so many examples, markers are small and without error bars.
MANY = 400
# Letters of a unit's name.
WIDTH = 40


def plot_report(
    averages: Mapping[str, float],
    examples: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    title: str | None,
) -> Figure:
    """Draw exposures in the order of their size, and the tail shapes of weights beside them."""
    figure, grid = plotting.panels(SIZE, columns=2)
    with plotting.styled():
        _draw(grid[0, 0], grid[0, 1], averages, examples, settings)
        if title is not None:
            figure.suptitle(title)
    return figure


def plot_panels(
    averages: Mapping[str, float], examples: Mapping[str, np.ndarray], settings: Mapping[str, Any]
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
    examples: Mapping[str, np.ndarray],
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
    axes: Axes,
    averages: Mapping[str, float],
    examples: Mapping[str, np.ndarray],
    order: np.ndarray,
    unit: str,
) -> None:
    values, errors = examples["exposure"][order], examples["exposure_mcse"][order]
    places = np.arange(1, values.size + 1)
    is_few = values.size <= MANY
    axes.set_yscale("log")
    shown = values > 0
    plotting.mark_edge(axes, places[~shown].astype(float), "not positive", BLUE)
    low = np.minimum(1.96 * errors, 0.9 * np.abs(values))
    if is_few:
        bars = np.stack([low, 1.96 * errors])[:, shown]
        axes.errorbar(places[shown], values[shown], bars, ls="none", color=BLUE, lw=1.0, alpha=0.5)
    axes.plot(
        places[shown],
        values[shown],
        ls="none",
        marker="o",
        ms=4.0 if is_few else 2.0,
        mew=0.0,
        color=BLUE,
        label=f"each {unit}" + (", 95% Monte Carlo intervals" if is_few else ""),
    )
    mean = averages["on_average_kl"]
    if mean > 0:
        axes.axhline(mean, color=VERMILION, lw=1.5, label="on-average KL: their mean")
    axes.set(title="exposure", ylabel="KL (nats)")
    plotting.tidy_logs(axes)


def _shapes(axes: Axes, k_hat: np.ndarray, settings: Mapping[str, Any]) -> None:
    places = np.arange(1, k_hat.size + 1)
    is_finite = np.isfinite(k_hat)
    axes.plot(
        places[is_finite],
        k_hat[is_finite],
        ls="none",
        marker="o",
        ms=4.0 if k_hat.size <= MANY else 2.0,
        mew=0.0,
        color=GREEN,
        label="k_hat",
    )
    plotting.mark_edge(axes, places[~is_finite].astype(float), "infinite", GREEN)
    limit = settings["k_hat_limit"]
    axes.axhline(limit, color=VERMILION, lw=1.5, ls="--", label=f"above {limit:.2f}: not reliable")
    axes.set(title="weights that remove it", ylabel="tail shape")
