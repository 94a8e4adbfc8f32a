"""The picture of choosing subsets by their maximum: bias, density and running mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gibbs_dp.experiments.holdout_result import Found
from gibbs_dp.experiments.tables import Row, column
from gibbs_dp.plotting import BLACK, COLORS, Picture, legend_of_figure, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_maxima(found: Found) -> Picture:
    """Draw the bias over ``n``, and of the last ``n`` the density and the running mean.

    Parameters
    ----------
    found
        Of the experiment, with its tables "density" and "running".

    Returns
    -------
    Picture
        Three panels.
    """
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
    error = 1.96 * column(own, "bias_se")
    style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4.5, "lw": 1.4}
    axes.errorbar(column(own, "n"), column(own, "bias"), error, label=name, **style)
