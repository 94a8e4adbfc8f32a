"""One picture for each holdout experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import MaxNLocator

from gibbs_dp.experiments.holdout_maxima_plot import plot_maxima
from gibbs_dp.experiments.holdout_result import Found
from gibbs_dp.experiments.holdout_sparse_plot import plot_approximate, plot_variants
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

FURTHER = {
    "maxima": plot_maxima,
    "sparse": plot_variants,
    "sparse-approximate": plot_approximate,
}


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
        column(rows, x), column(rows, y), 1.96 * column(rows, f"{y}_se"), label=label, **style
    )
