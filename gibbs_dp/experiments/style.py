"""What the pictures of the experiments have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from gibbs_dp.experiments.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe-Ito colours, as in every figure of the package.
BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
VERMILION, PURPLE, ORANGE = "#D55E00", "#CC79A7", "#E69F00"


def one_panel(
    size: tuple[float, float], title: str, xlabel: str, ylabel: str
) -> tuple[Figure, Axes]:
    """Make a figure of one panel with a grid.

    Returns
    -------
    figure, axes
        Empty.
    """
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.grid(alpha=0.3)
    return figure, axes


def column(rows: Sequence[Row], name: str) -> Float[np.ndarray, " rows"]:
    """Return one number a row, NaN where it is absent."""
    return np.array([row.get(name, np.nan) for row in rows], dtype=np.float64)
