"""One picture for each holdout experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from gibbs_dp.experiments.holdout_result import Found, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe-Ito colours, as in every figure of the package.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


def plot_holdout(found: Found) -> Figure:
    """Draw the picture of an experiment.

    Parameters
    ----------
    found
        Of `run_holdout`.
    """
    figures = {
        "classifier": _plot_classifier,
        "correlated": _plot_correlated,
        "maxima": _plot_maxima,
        "selection": _plot_selection,
        "climb": _plot_climb,
        "accuracy": _plot_accuracy,
    }
    return figures[found.name](found.rows)


def _plot_classifier(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(10.5, 7.4), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey=True)
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
            axes.grid(alpha=0.3)
    for axes in grid[1]:
        axes.set_xlabel("attributes that vote, k")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy")
    grid[0, 0].legend(frameon=False)
    figure.suptitle(
        f"n = {first['n']}, d = {first['d']}: mean over {first['repetitions']} repetitions, "
        "95% intervals"
    )
    return figure


def _plot_correlated(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    groups = list(dict.fromkeys((r["rows"], r["attributes"]) for r in rows))
    analysts = list(dict.fromkeys(r["analyst"] for r in rows))
    width = 0.8 / len(analysts)
    for j, (analyst, color) in enumerate(zip(analysts, COLORS, strict=False)):
        own = [r for r in rows if r["analyst"] == analyst]
        x = np.array([groups.index((r["rows"], r["attributes"])) for r in own], dtype=float)
        axes.bar(
            x + (j - (len(analysts) - 1) / 2) * width,
            _column(own, "gap"),
            width * 0.92,
            yerr=1.96 * _column(own, "gap_se"),
            color=color,
            capsize=3,
            label=analyst,
        )
    axes.set_xticks(range(len(groups)), [f"{a} rows,\n{b} attributes" for a, b in groups])
    axes.set_ylabel("|holdout accuracy as told - fresh|")
    axes.set_title(
        f"No signal, k = {rows[0]['k']}: mean over {rows[0]['repetitions']} repetitions, "
        "95% intervals"
    )
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _plot_maxima(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(6.8, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for name, color, marker in zip(
        dict.fromkeys(r["choice"] for r in rows), COLORS, "o^s", strict=False
    ):
        own = [r for r in rows if r["choice"] == name]
        _errorbars(axes, own, "n", "bias", color, name, marker)
    axes.axhline(0.0, color="grey", lw=0.8, ls=":")
    axes.set(xscale="log", xlabel="n standard normal rows", ylabel="mean of the chosen subsets")
    axes.set_title("Choosing subsets by their maximum (the truth is 0), 95% intervals")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _plot_selection(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    axes = figure.add_subplot()
    for m, color in zip(dict.fromkeys(r["m"] for r in rows), COLORS, strict=False):
        own = [r for r in rows if r["m"] == m]
        _errorbars(axes, own, "temperature", "bias", color, f"bias, m = {m}", "o")
        axes.plot(
            _column(own, "temperature"),
            _column(own, "bound"),
            "--",
            color=color,
            label=f"sqrt(2 sigma$^2$ I), m = {m}",
        )
    axes.set(xlabel="temperature of the selection, in sigma (0: the largest)")
    axes.set_ylabel("selected mean - its truth")
    axes.set_title(f"Selection bias of m noisy means, sigma = {rows[0]['sigma']:g}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, ncols=2, fontsize=9)
    return figure


def _plot_climb(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(6.8, 4.6), layout="constrained")
    axes = figure.add_subplot()
    for analyst, color, marker in (("standard", COLORS[1], "^"), ("thresholdout", COLORS[0], "o")):
        own = [r for r in rows if r["analyst"] == analyst]
        axes.plot(
            _column(own, "repetition"),
            _column(own, "largest_error"),
            marker,
            color=color,
            label=f"{analyst}: largest error of a repetition",
        )
    tau = rows[0]["promised_tau"]
    axes.axhline(tau, color="black", ls="--", label=f"promised, tau = {tau:.3f}")
    axes.set(xlabel="repetition", ylabel="|answer - truth|", ylim=(0, 0.55))
    axes.set_title("An analyst who climbs on the answers")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _plot_accuracy(rows: list[Row]) -> Figure:
    figure = Figure(figsize=(6.8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    m = _column(rows, "queries")
    for rule, color in zip(("basic", "advanced", "optimal"), COLORS, strict=False):
        axes.plot(m, _column(rows, f"mean_error_{rule}"), color=color, label=f"mean, {rule}")
        axes.plot(
            m, _column(rows, f"worst_error_{rule}"), ":", color=color, label=f"worst of m, {rule}"
        )
    axes.plot(m, _column(rows, "sampling_error"), "--", color="black", label="sampling error")
    axes.set(xscale="log", yscale="log", xlabel="counting queries, m")
    axes.set_ylabel("expected error of a fraction")
    first = rows[0]
    axes.set_title(
        f"n = {first['n']}, eps = {first['epsilon']:g}, delta = {first['delta']:g} in all, "
        "replace-one"
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9)
    return figure


def _errorbars(
    axes: Axes, rows: list[Row], x: str, y: str, color: str, label: str, marker: str
) -> None:
    style: dict[str, Any] = {"color": color, "marker": marker, "ms": 5, "capsize": 2, "lw": 1.4}
    axes.errorbar(
        _column(rows, x), _column(rows, y), 1.96 * _column(rows, f"{y}_se"), label=label, **style
    )


def _column(rows: list[Row], name: str) -> np.ndarray:
    return np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)
