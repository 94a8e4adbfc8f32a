"""One picture for each holdout experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from gibbs_dp.experiments.holdout_result import Found
from gibbs_dp.experiments.tables import Row, column
from gibbs_dp.plotting import (
    COLORS,
    Picture,
    legend_below,
    legend_of_figure,
    one_panel,
    panels,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@styled()
def plot_holdout(found: Found) -> Picture:
    """Draw the picture of an experiment that `run_holdout` ran."""
    figures = {
        "classifier": _plot_classifier,
        "correlated": _plot_correlated,
        "maxima": _plot_maxima,
        "selection": _plot_selection,
        "climb": _plot_climb,
        "accuracy": _plot_accuracy,
    }
    return figures[found.name](found.rows)


def _plot_classifier(rows: list[Row]) -> Picture:
    figure, grid = panels((8.4, 6.6), 2, 2, sharex=True, sharey=True)
    first = rows[0]
    titles = {"standard": "standard holdout", "thresholdout": "Thresholdout"}
    for i, data in enumerate(("no signal", "signal")):
        for j, (analyst, title) in enumerate(titles.items()):
            axes: Axes = grid[i, j]
            own = [r for r in rows if r["data"] == data and r["analyst"] == analyst]
            for name, color, marker in zip(
                ("train", "holdout", "fresh"), COLORS, "o^s", strict=False
            ):
                label = "holdout, as told" if name == "holdout" else name
                _errorbars(axes, own, "k", name, color, label, marker)
            axes.axhline(0.5, color="grey", lw=0.8, ls=":")
            axes.set_title(f"{data}, {title}")
    for axes in grid[1]:
        axes.set_xlabel("attributes that vote, k")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy")
    legend_of_figure(figure, grid[:1, 0], columns=3)
    figure.suptitle(
        f"n = {first['n']}, d = {first['d']}: mean over {first['repetitions']} repetitions, "
        "95% intervals"
    )
    return figure


def _plot_correlated(rows: list[Row]) -> Picture:
    k, count = rows[0]["k"], rows[0]["repetitions"]
    title = f"No signal, k = {k}: mean over {count} repetitions, 95% intervals"
    figure, axes = one_panel((7.6, 4.4), title, "", "|holdout accuracy as told − fresh|")
    axes.grid(visible=False, axis="x")
    groups = list(dict.fromkeys((r["rows"], r["attributes"]) for r in rows))
    analysts = list(dict.fromkeys(r["analyst"] for r in rows))
    width = 0.8 / len(analysts)
    for j, (analyst, color) in enumerate(zip(analysts, COLORS, strict=False)):
        own = [r for r in rows if r["analyst"] == analyst]
        x = np.array([groups.index((r["rows"], r["attributes"])) for r in own], dtype=float)
        axes.bar(
            x + (j - (len(analysts) - 1) / 2) * width,
            column(own, "gap"),
            width * 0.92,
            yerr=1.96 * column(own, "gap_se"),
            color=color,
            error_kw={"lw": 1.0},
            label=analyst,
        )
    axes.set_xticks(range(len(groups)), [f"{a} rows,\n{b} attributes" for a, b in groups])
    legend_below(axes, columns=len(analysts))
    return figure


def _plot_maxima(rows: list[Row]) -> Picture:
    figure, axes = one_panel(
        (6.0, 4.6),
        "Choosing subsets by their maximum (the truth is 0), 95% intervals",
        "n standard normal rows",
        "mean of the chosen subsets",
    )
    for name, color, marker in zip(
        dict.fromkeys(r["choice"] for r in rows), COLORS, "o^s", strict=False
    ):
        own = [r for r in rows if r["choice"] == name]
        _errorbars(axes, own, "n", "bias", color, name, marker)
    axes.axhline(0.0, color="grey", lw=0.8, ls=":")
    axes.set_xscale("log")
    legend_below(axes)
    return figure


def _plot_selection(rows: list[Row]) -> Picture:
    figure, axes = one_panel(
        (6.0, 5.0),
        f"Selection bias of m noisy means, sigma = {rows[0]['sigma']:g}",
        "temperature of the selection (sigma; 0: the largest)",
        "selected mean − its truth",
    )
    for m, color in zip(dict.fromkeys(r["m"] for r in rows), COLORS, strict=False):
        own = [r for r in rows if r["m"] == m]
        _errorbars(axes, own, "temperature", "bias", color, f"bias, m = {m}", "o")
        axes.plot(
            column(own, "temperature"),
            column(own, "bound"),
            "--",
            color=color,
            label=f"√(2σ² I), m = {m}",
        )
    legend_below(axes, columns=2)
    return figure


def _plot_climb(rows: list[Row]) -> Picture:
    figure, axes = one_panel(
        (6.0, 4.4), "An analyst who climbs on the answers", "repetition", "largest |answer − truth|"
    )
    axes.set_ylim(0, 0.55)
    for analyst, color, marker in (("standard", COLORS[1], "^"), ("thresholdout", COLORS[0], "o")):
        own = [r for r in rows if r["analyst"] == analyst]
        axes.plot(
            column(own, "repetition"),
            column(own, "largest_error"),
            marker,
            color=color,
            label=analyst,
        )
    tau = rows[0]["promised_tau"]
    axes.axhline(tau, color="black", ls="--", label=f"promised, tau = {tau:.3f}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(axes)
    return figure


def _plot_accuracy(rows: list[Row]) -> Picture:
    first = rows[0]
    title = f"n = {first['n']}, eps = {first['epsilon']:g}, delta = {first['delta']:g} in all"
    labels = f"{title}, replace-one", "counting queries, m", "expected error of a fraction"
    figure, axes = one_panel((6.0, 5.0), *labels)
    m = column(rows, "queries")
    for rule, color in zip(("basic", "advanced", "optimal"), COLORS, strict=False):
        axes.plot(m, column(rows, f"mean_error_{rule}"), color=color, label=f"mean, {rule}")
        axes.plot(
            m, column(rows, f"worst_error_{rule}"), ":", color=color, label=f"worst of m, {rule}"
        )
    axes.plot(m, column(rows, "sampling_error"), "--", color="black", label="sampling error")
    axes.set(xscale="log", yscale="log")
    legend_below(axes, columns=2)
    return figure


def _errorbars(
    axes: Axes, rows: list[Row], x: str, y: str, color: str, label: str, marker: str
) -> None:
    style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "lw": 1.4}
    axes.errorbar(
        column(rows, x), column(rows, y), 1.96 * column(rows, f"{y}_se"), label=label, **style
    )
