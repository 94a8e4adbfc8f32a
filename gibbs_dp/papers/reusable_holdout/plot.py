"""One picture for each holdout experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from gibbs_dp.estimators.average import LIMIT_Z
from gibbs_dp.papers.reusable_holdout.data import Found
from gibbs_dp.papers.reusable_holdout.sparse import RELEASED
from gibbs_dp.papers.tables import Row, column
from gibbs_dp.results.plotting import (
    BLACK,
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


# Pictures of sparse vector's variants and of its approximate calibration.

MARKERS = "o^sDvPX*"
GREYS = ("0.25", "0.6")


def plot_variants(found: Found) -> Picture:
    """Draw losses against the number of queries; infinite ones at the upper edge."""
    first = found.rows[0]
    title = (
        f"Sparse vector and its variants: c = {first['positives']}, "
        f"claimed epsilon = {first['claimed_epsilon']:g}"
    )
    figure, axes = one_panel(
        (7.2, 6.2), title, "queries (legend: loss at the last)", "privacy loss (nats)"
    )
    losses = column(found.rows, "loss")
    top = 2.5 * float(losses[np.isfinite(losses)].max())
    names = list(dict.fromkeys(row["variant"] for row in found.rows))
    infinite = {row["variant"] for row in found.rows if np.isinf(row["loss"])}
    endless = [name for name in names if name in infinite]
    for name, color, marker in zip(names, (*COLORS[:6], *GREYS), MARKERS, strict=True):
        own = [row for row in found.rows if row["variant"] == name]
        queries, loss = column(own, "queries"), column(own, "loss")
        is_endless = np.isinf(loss)
        # Beside each other where several are infinite.
        shift = 1.06 ** (2 * endless.index(name) - len(endless) + 1) if name in endless else 1.0
        x = np.where(is_endless, queries * shift, queries)
        worst = "unbounded" if name in endless else f"{loss[-1]:.3g}"
        style: dict[str, Any] = {"color": color, "marker": marker, "ms": 5.5, "lw": 1.4}
        if name == RELEASED:  # as steep as without a stop
            style |= {"ls": "--", "ms": 9.0, "mfc": "none"}
        axes.plot(x, np.where(is_endless, top, loss), label=f"{name}: {worst}", **style)
    axes.axhline(first["claimed_epsilon"], color=BLACK, ls="--", lw=1.2, label="claimed")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(np.unique(column(found.rows, "queries")))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    ticks = [t for t in (0.2, 0.5, 1, 2, 5, 10, 20, 50) if losses.min() * 0.7 < t < top / 1.5]
    axes.set_yticks([*ticks, top], [*(f"{t:g}" for t in ticks), "∞"])
    legend_below(axes, columns=2)
    return figure


def plot_approximate(found: Found) -> Picture:
    """Draw epsilon proven and measured over epsilon claimed, and both noises."""
    first = found.rows[0]
    figure, grid = panels((9.0, 4.8), 1, 2)
    ratio, noise = grid[0]
    for name, color, marker in (("printed", COLORS[1], "^"), ("accountant", COLORS[0], "o")):
        own = [row for row in found.rows if row["sigma_from"] == name]
        claimed = column(own, "claimed_epsilon")
        for what, line in (("proven", "-"), ("measured", ":")):
            style: dict[str, Any] = {"color": color, "marker": marker, "ms": 5.0, "ls": line}
            label = f"{name}, {what}"
            ratio.plot(claimed, column(own, f"{what}_epsilon") / claimed, label=label, **style)
        noise.plot(claimed, column(own, "sigma"), color=color, marker=marker, ms=5.0, label=name)
    ratio.axhline(1.0, color=BLACK, ls="--", lw=1.2, label="claimed")
    ratio.set(ylabel="epsilon at delta / epsilon claimed", ylim=(0, None))
    noise.set(ylabel="sigma, in units of the sensitivity", yscale="log")
    for axes in (ratio, noise):
        axes.set(xscale="log", xlabel="epsilon claimed")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        legend_below(axes)
    figure.suptitle(
        f"Approximate sparse vector, c = {first['positives']}, delta = {first['delta']:g}"
    )
    return figure


# The picture of choosing subsets by their maximum: bias, density and running mean.


def plot_maxima(found: Found) -> Picture:
    """Draw the bias over ``n``, and of the last ``n`` the density and the running mean."""
    figure, grid = panels((12.6, 4.6), 1, 3)
    bias, density, running = grid[0]
    for name, color, marker in zip(_choices(found.rows), COLORS, "o^s", strict=False):
        _draw_bias(bias, _of(found.rows, name), name, color, marker)
        own = _of(found.more["density"], name)
        width = own[1]["mean"] - own[0]["mean"]
        density.stairs(
            column(own, "density"),
            [*(column(own, "mean") - width / 2), own[-1]["mean"] + width / 2],
            color=color,
            lw=1.4,
        )
        own = _of(found.more["running"], name)
        groups = column(own, "groups")
        running.fill_between(
            groups, column(own, "low"), column(own, "high"), color=color, alpha=0.15, lw=0
        )
        running.plot(groups, column(own, "running"), color=color)
        running.plot(groups, column(own, "first"), color=color, lw=0.9, ls="--")
    every = _of(found.more["density"], _choices(found.rows)[0])
    x = column(every, "mean")
    density.plot(x, column(every, "one"), color="0.45", ls=":", label="law of one subset's mean")
    density.plot(x, column(every, "largest"), color=BLACK, lw=1.0, label="law of a group's largest")
    n = every[0]["n"]
    bias.set(title="Average over groups", xlabel="n standard normal rows", ylabel="bias (truth: 0)")
    bias.set_xscale("log")
    density.set(title=f"Density, n = {n:,}", xlabel="mean of a chosen subset", ylabel="density")
    running.set(
        title=f"Running mean, n = {n:,}; 95% of datasets",
        xlabel="groups averaged (dashed: the first dataset)",
        ylabel="mean of the chosen subsets",
    )
    for axes in (bias, running):
        axes.axhline(0.0, color="grey", lw=0.8, ls=":")
    legend_of_figure(figure, (bias, density), columns=5)
    return figure


def _choices(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["choice"] for row in rows))


def _of(rows: list[Row], choice: str) -> list[Row]:
    return [row for row in rows if row["choice"] == choice]


def _draw_bias(axes: Axes, own: list[Row], name: str, color: str, marker: str) -> None:
    error = LIMIT_Z * column(own, "bias_se")
    style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "lw": 1.4}
    axes.errorbar(column(own, "n"), column(own, "bias"), error, label=name, **style)


FURTHER = {"maxima": plot_maxima, "sparse": plot_variants, "sparse-approximate": plot_approximate}


@styled()
def plot_holdout(found: Found) -> Picture:
    """Draw the picture of an experiment that `run_holdout` ran."""
    if found.name in FURTHER:
        return FURTHER[found.name](found)
    figures = {
        "classifier": _plot_classifier,
        "correlated": _plot_correlated,
        "selection": _plot_selection,
        "climb": _plot_climb,
        "accuracy": _plot_accuracy,
    }
    return figures[found.name](found.rows)


def _plot_classifier(rows: list[Row]) -> Picture:
    figure, grid = panels((11.4, 6.6), 2, 3)
    first = rows[0]
    titles = {"standard": "standard holdout", "thresholdout": "Thresholdout"}
    own_size = [r for r in rows if r["n"] == first["n"]]
    for i, data in enumerate(("no signal", "signal")):
        for j, (analyst, title) in enumerate(titles.items()):
            own = [r for r in own_size if r["data"] == data and r["analyst"] == analyst]
            _plot_sets(grid[i, j], own, f"{data}, {title}")
    for axes in grid[1, :2]:
        axes.set_xlabel("attributes that vote, k")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy")
    sizes = _at_largest_k([r for r in rows if r["data"] == "no signal"])
    for i, (analyst, title) in enumerate(titles.items()):
        own = [r for r in sizes if r["analyst"] == analyst]
        _plot_sets(grid[i, 2], own, f"no signal, {title}, k = n/20", x="n")
        grid[i, 2].set_xscale("log")
    grid[1, 2].set_xlabel("rows and attributes, n = d" if first["n"] == first["d"] else "rows, n")
    _share_limits(grid.ravel())
    legend_of_figure(figure, grid[:1, 0], columns=3)
    figure.suptitle(
        f"n = {first['n']:,}, d = {first['d']:,}: mean over {first['repetitions']} repetitions, "
        "95% intervals"
    )
    return figure


def _plot_correlated(rows: list[Row]) -> Picture:
    figure, grid = panels((13.6, 6.8), 2, 4)
    first = rows[0]
    chain = [r for r in rows if r["rows"] == "chain"]
    analysts = list(dict.fromkeys(r["analyst"] for r in chain))
    costs = {r["analyst"]: r["bdp_epsilon"] for r in chain if "bdp_epsilon" in r}
    for i, data in enumerate(("no signal", "signal")):
        for j, analyst in enumerate(analysts):
            own = [
                r for r in chain if (r["n"], r["data"], r["analyst"]) == (first["n"], data, analyst)
            ]
            _plot_sets(grid[i, j], own, f"{data}, {analyst}")
            if i == 1:
                grid[i, j].set_xlabel("attributes that vote, k")
    for axes in grid[:, 0]:
        axes.set_ylabel("accuracy")
    _share_limits(grid[:, :3].ravel())
    sizes = _at_largest_k([r for r in chain if r["data"] == "no signal"])
    by_n, by_k = grid[0, 3], grid[1, 3]
    for analyst, color, marker in zip(analysts, (*COLORS[3:], *COLORS), "o^s", strict=False):
        cost = f", {costs[analyst]:.2g}-BDP" if analyst in costs else ""
        own = [r for r in sizes if r["analyst"] == analyst]
        _errorbars(by_n, own, "n", "gap", color, f"{analyst}{cost}", marker)
        same = [
            r
            for r in chain
            if (r["n"], r["data"], r["analyst"]) == (first["n"], "no signal", analyst)
        ]
        _errorbars(by_k, same, "k", "gap", color, f"{analyst}{cost}", marker)
    by_n.set(xscale="log", xlabel="rows, n", ylim=(0, None))
    by_n.set_title("no signal, k = n/20: |told − fresh|")
    by_k.set(xlabel="attributes that vote, k", ylim=(0, None))
    by_k.set_title(f"no signal, n = {first['n']:,}: |told − fresh|")
    counts = sorted({r["n"] for r in sizes})
    by_n.set_xticks(counts, [f"{n:,}" for n in counts])
    by_n.minorticks_off()
    legend_of_figure(figure, (grid[0, 0], by_n), columns=3)
    figure.suptitle(
        f"Rows of a Markov chain, n = {first['n']:,}, d = {first['d']:,}: mean over "
        f"{first['repetitions']} repetitions, 95% intervals"
    )
    return figure


def _plot_sets(axes: Axes, rows: list[Row], title: str, x: str = "k") -> None:
    for name, color, marker in zip(("train", "holdout", "fresh"), COLORS, "o^s", strict=False):
        label = "holdout, as told" if name == "holdout" else name
        _errorbars(axes, rows, x, name, color, label, marker)
    axes.axhline(0.5, color="grey", lw=0.8, ls=":")
    axes.set_title(title)


def _at_largest_k(rows: list[Row]) -> list[Row]:
    """Of every size the rows of its largest ``k``, by ``n``."""
    last = {n: max(r["k"] for r in rows if r["n"] == n) for n in {r["n"] for r in rows}}
    return sorted((r for r in rows if r["k"] == last[r["n"]]), key=lambda r: r["n"])


def _share_limits(every: Iterable[Axes]) -> None:
    shared = list(every)
    limits = [axes.get_ylim() for axes in shared]
    for axes in shared:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


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
    figure, grid = panels((10.4, 4.4), 1, 2)
    told, errors = grid.ravel()
    first = rows[0]
    tau = first["promised_tau"]
    styles = {"standard": (COLORS[1], "^"), "thresholdout": (COLORS[0], "o")}
    for analyst, (color, marker) in styles.items():
        own = [r for r in rows if r["analyst"] == analyst]
        heard = [r for r in own if "told" in r]
        told.plot(
            column(heard, "questions"),
            column(heard, "told"),
            marker,
            color=color,
            alpha=0.6,
            label=analyst,
        )
        last = [r for r in own if r["vote"] == own[-1]["vote"]]
        errors.plot(
            column(last, "repetition"),
            column(last, "largest_error"),
            marker,
            color=color,
            label=analyst,
        )
    told.axhline(0.5, color="grey", lw=0.8, ls=":")
    told.axhline(0.5 + tau, color="black", ls="--", label=f"promised, tau = {tau:.3f}")
    errors.axhline(tau, color="black", ls="--")
    told.set(ylim=(0.45, 1), xlabel="questions asked", ylabel="accuracy of the vote, as told")
    errors.set(ylim=(0, 0.55), xlabel="repetition", ylabel="largest |answer − truth|")
    errors.xaxis.set_major_locator(MaxNLocator(integer=True))
    told.set_title("The analyst's climb; the truth is 1/2")
    errors.set_title("Errors of all answers")
    legend_of_figure(figure, [told], columns=3)
    figure.suptitle(
        f"n = {first['n']:,}, {first['queries']:,} questions, settings from the planner"
    )
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
        column(rows, x), column(rows, y), LIMIT_Z * column(rows, f"{y}_se"), label=label, **style
    )
