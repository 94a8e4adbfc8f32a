"""The picture of the notions of privacy over gamma."""

from __future__ import annotations

import numpy as np

from gibbs_dp.experiments.notions import Notions
from gibbs_dp.experiments.notions_curves import BETA, DELTA, OMEGA
from gibbs_dp.results.plotting import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
    label_ends,
    one_panel,
    styled,
)

# Key -> (label, colour, line). Worst cases are warm, averages are cold.
STYLES = {
    "dp_epsilon": ("DP eps = largest personalized eps", VERMILION, "-"),
    "random_dp": (f"random DP, omega = {OMEGA:g}", ORANGE, "--"),
    "approximate_dp": (f"eps at delta = {DELTA:g}", ORANGE, ":"),
    "kl_privacy": ("KL-privacy", BLACK, "-"),
    "zcdp": ("zCDP rho", PURPLE, "--"),
    "on_average_kl": ("on-average KL = gamma × gen. error", BLUE, "-"),
    "max_information_per_example": ("max-information / n", GREEN, "-"),
    "mutual_information_per_example": ("mutual information / n", SKY, "-"),
}
FURTHER = {
    "personalized_dp_least": ("least personalized eps", VERMILION, ":"),
    "renyi_8": ("Rényi DP, order 8", PURPLE, "-"),
    "renyi_2": ("Rényi DP, order 2", PURPLE, ":"),
    "twice_squared_tv": ("TV-privacy, as 2 TV²", BLACK, ":"),
    "approx_max_information_per_example": (f"max-information / n, beta = {BETA:g}", GREEN, ":"),
    "erasure_information_per_example": ("erasure information / n", SKY, "--"),
    "individual_information": ("information of one example", SKY, ":"),
}


@styled()
def plot_curves(notions: Notions, all_curves: bool = False) -> Picture:
    """Draw notions over gamma, log-log, each named at its right end.

    Parameters
    ----------
    notions
        With the curves.
    all_curves
        Draw all fifteen, not only the eight that a reader meets first.

    Returns
    -------
    Picture
        One panel.
    """
    title = f"Notions of privacy of one Gibbs posterior, n = {notions.n}, replace-one"
    labels = title, "gamma (inverse temperature)", "privacy or information (nats)"
    figure, axes = one_panel((8.4, 6.2 if all_curves else 4.6), *labels)
    gamma = np.array(notions.gammas)
    axes.set(xscale="log", yscale="log")
    ends = []
    for name, (label, color, line) in (STYLES | (FURTHER if all_curves else {})).items():
        value = notions.curves[name]
        shown = value > 0  # approximate quantities reach zero and below
        axes.plot(gamma[shown], value[shown], line, color=color, lw=1.8, label=label)
        if shown[-1]:
            ends.append((label, float(value[-1]), color))
    axes.margins(x=0)
    if len(gamma) == 1:
        axes.set_xlim(gamma[0] / 3.0, gamma[0])
    label_ends(axes, ends, float(gamma[-1]), gap=0.045 if all_curves else 0.06)
    return figure
