"""The picture of `dp_vs_on_average.py`: nats and probabilities apart, a column a problem."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from gibbs_dp.results.plotting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, styled

# Column -> label, colour, marker, line.
NATS = {
    "pure_epsilon": ("pure DP epsilon", VERMILION, "s", "-"),
    "approximate_epsilon": ("epsilon at delta = 1e-6", ORANGE, "v", "--"),
    "worst_kl": ("KL of any neighbours, at most", PURPLE, "P", "--"),
    "on_average_kl": ("on-average KL", BLUE, "o", "-"),
    "gibbs_generalization": ("gamma x generalization error (where above 4 s.e.)", GREEN, "^", ""),
}
PROBABILITIES = {
    "worst_tv": ("total variation of any neighbours, at most", BLACK, "P", "--"),
    "on_average_tv_pinsker": ("on average, at most (Pinsker, from KL)", SKY, "", ":"),
    "on_average_tv": ("total variation on average", BLUE, "o", "-"),
}
SIZE = (15.0, 8.6)
PERCENT = (1e-4, 1.6)


@styled()
def draw(table):
    """Curves of each problem, in nats and in probabilities, and the ratios of all of them."""
    groups = list(table.groupby("problem", sort=False))
    figure = Figure(figsize=SIZE, layout="constrained")
    places = figure.subplots(2, len(groups) + 1, squeeze=False)
    for (name, part), (above, below) in zip(groups, places[:, :-1].T, strict=True):
        _curves(above, part, NATS)
        _curves(below, part, PROBABILITIES)
        above.set(title=f"{name}\n(n = {part['n'].iloc[0]})", yscale="log")
        below.set(yscale="log", ylim=PERCENT)
    places[0, 0].set_ylabel("nats")
    places[1, 0].set_ylabel("probability")
    for ratio, axes in zip(("ratio_kl", "ratio_tv"), places[:, -1], strict=True):
        for name, part in groups:
            axes.plot(part["on_average_kl"], part[ratio], marker="o", label=name)
        axes.axhline(1.0, color=BLACK, linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="on-average KL, nats")
    places[0, -1].set_title("largest KL allowed\n/ on-average KL")
    places[1, -1].set_title("largest TV allowed\n/ on-average TV")
    for axes in places[:, :-1].ravel():
        axes.set(xscale="log", xlabel="gamma")
    found = {}
    for axes in places[:, 0]:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    low = {"loc": "outside lower left", "title": "of every problem", "alignment": "left"}
    figure.legend(found.values(), found, ncols=2, **low)
    low |= {"loc": "outside lower right", "title": "ratios: a line a problem"}
    figure.legend(*places[0, -1].get_legend_handles_labels(), ncols=2, **low)
    return figure


def _curves(axes, part, columns):
    for column, (label, color, marker, line) in columns.items():
        y = part[column].to_numpy(float)
        good = np.isfinite(y) & (y > 0)
        if column == "gibbs_generalization":
            good &= y > 4 * part[f"{column}_se"].to_numpy(float)
        style = {"color": color, "marker": marker, "ls": line or "none", "label": label}
        x, y = part["gamma"].to_numpy(float)[good], y[good]
        axes.plot(x, y, **style)
