"""Figures that keep the library's style when they are shown and saved."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from gibbs_dp.plotting.style import styled

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes


class Picture(Figure):
    """A figure in the library's style, also when ticks and text are made as late as on drawing.

    Notebooks show it whether or not they have loaded pyplot. A saved SVG has no date: the same
    numbers give the same bytes.
    """

    def draw(self, renderer: Any) -> None:
        """Draw in the style."""
        with styled():
            super().draw(renderer)

    def savefig(self, fname: Any, *, transparent: bool | None = None, **kwargs: Any) -> None:
        """Save as Matplotlib does, in the style and without a date."""
        ending = Path(fname).suffix[1:] if isinstance(fname, str | os.PathLike) else ""
        if (kwargs.get("format") or ending).lower() == "svg":
            kwargs["metadata"] = {"Date": None} | (kwargs.get("metadata") or {})
        with styled():
            super().savefig(fname, transparent=transparent, **kwargs)

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=self.dpi)
        return file.getvalue()


def literal(text: str) -> str:
    r"""Escape dollars, between which Matplotlib reads formulas: for names from files.

    >>> literal("a$b")
    'a\\$b'
    """
    return text.replace("$", r"\$")


def one_panel(
    size: tuple[float, float], title: str, xlabel: str, ylabel: str
) -> tuple[Picture, Axes]:
    """Make a figure of one panel.

    Parameters
    ----------
    size
        Width and height, inches.
    title, xlabel, ylabel
        Texts; units in parentheses.

    Returns
    -------
    figure, axes
        Empty.
    """
    figure, grid = panels(size)
    axes: Axes = grid[0, 0]
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def panels(
    size: tuple[float, float], rows: int = 1, columns: int = 1, **kwargs: Any
) -> tuple[Picture, np.ndarray]:
    """Make a figure of several panels.

    Parameters
    ----------
    size
        Width and height, inches.
    rows, columns
        Panels below and beside each other.
    **kwargs
        Of ``Figure.subplots``.

    Returns
    -------
    figure, axes
        The axes as an array of rows and columns.
    """
    with styled():
        figure = Picture(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)
