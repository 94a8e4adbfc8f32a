"""Legends beside the data, never on it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from matplotlib.transforms import ScaledTranslation

from gibbs_dp.plotting.marks import meanings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points between the axes and a legend below them: ticks, their labels and the axis' label.
BELOW = 38.0
# Letters of a line of a legend below one of two panels.
LETTERS = 42


def explained(axes: Axes) -> tuple[list[Any], list[str]]:
    """Return handles and labels of a legend, with the meaning of every mark that is there."""
    handles, labels = axes.get_legend_handles_labels()
    marks, texts = meanings(axes)
    return [*handles, *marks], [*labels, *texts]


def legend_below(axes: Axes, columns: int = 1, of: Axes | None = None) -> None:
    """Put the legend below the axes, from their left edge on.

    Parameters
    ----------
    axes
        Where.
    columns
        Of the legend.
    of
        Axes with the labelled artists, if they are others.
    """
    handles, labels = explained(of or axes)
    if not handles:
        return
    down = ScaledTranslation(0.0, -BELOW / 72, axes.figure.dpi_scale_trans)
    axes.legend(
        handles,
        [textwrap.fill(label, LETTERS) for label in labels],
        loc="upper left",
        bbox_to_anchor=(0.0, 0.0),
        bbox_transform=axes.transAxes + down,
        ncols=columns,
    )


def legend_of_figure(figure: Figure, panels: Iterable[Axes], columns: int = 2) -> None:
    """Put one legend of several panels below all of them; equal texts once.

    Parameters
    ----------
    figure
        Of constrained layout.
    panels
        Axes with labelled artists.
    columns
        Of the legend.
    """
    entries: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True)) | entries
        drawn, texts = meanings(axes)
        marks |= dict(zip(texts, drawn, strict=True))
    entries |= marks
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns
        )
