"""The base of all pictures: style, colours, files, marks, ticks, legends and labels.

The style is a file, ``gibbs_dp/style.mplstyle``; ``plt.style.use("gibbs_dp.style")`` takes it for
pictures of one's own. Matplotlib's global settings are left as they are.

pyplot keeps every figure that it knows, until it is closed: right for a person who draws, wrong for
a page of forty pictures. So what users ask for, by the ``plot`` methods (:func:`drawing`), is known
to pyplot, and ``plt.show()`` shows it, if the user has imported pyplot; nothing here imports it.
What becomes files and pages never is.
"""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from gibbs_dp.io import atomic_write
from gibbs_dp.results.table import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe-Ito.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, BLACK = "#56B4E9", "#E69F00", "#000000"
COLORS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
"""Of series that are alike, in this order."""

NAME = "gibbs_dp.style"


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the library's style, also as a decorator; the user's settings are kept."""
    with style.context(["default", NAME]):
        yield


# Figures that keep the library's style when they are shown and saved.


class Picture(Figure):
    """A figure in the library's style, also when ticks and text are made as late as on drawing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make it in the style, but not what is before: pyplot may load its backend then."""
        with styled():
            super().__init__(*args, **kwargs)

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

    def _ipython_display_(self) -> None:
        """Let a notebook that shows all of pyplot's figures at a cell's end not show this again."""
        pyplot = _pyplot()
        if pyplot is not None and "inline" in pyplot.get_backend():
            pyplot.close(self)
        raise NotImplementedError  # by which IPython goes on to its usual formats

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
    """Make a figure of one panel."""
    figure, grid = panels(size)
    axes: Axes = grid[0, 0]
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return figure, axes


def panels(
    size: tuple[float, float], rows: int = 1, columns: int = 1, **kwargs: Any
) -> tuple[Picture, np.ndarray]:
    """Make a figure of several panels, which pyplot does not know."""
    with styled():
        figure = Picture(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)


def _pyplot() -> Any:
    """Return pyplot, if somebody has imported it."""
    return sys.modules.get("matplotlib.pyplot")


@contextmanager
def drawing(
    axes: Axes | Sequence[Axes] | np.ndarray | None,
    size: tuple[float, float],
    rows: int = 1,
    columns: int = 1,
    count: int | None = None,
    is_known: bool = True,
    **kwargs: Any,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Draw on given axes in their style, or on a new figure, known to pyplot if ``is_known``."""
    count = rows * columns if count is None else count
    if axes is not None:
        given = list(np.ravel(np.asarray(axes, object)))
        name = "ax" if count == 1 else "axes"
        if len(given) != count or not all(hasattr(place, "get_figure") for place in given):
            told = "one, as" if count == 1 else f"{count}, as those"
            got = ", ".join(type(place).__name__ for place in given) or "none"
            raise ValueError(
                f"{name}: give Matplotlib's axes, {told} of plt.subplots(1, {count})[1]; got {got}."
            )
        figures: set[Figure] = {place.figure.figure for place in given}  # of subfigures, the whole
        if len(figures) > 1:
            raise ValueError(f"{name}: they are of {len(figures)} figures; give axes of one.")
        figure = figures.pop()
        with styled() if isinstance(figure, Picture) else nullcontext():
            yield figure, given
        return
    if not is_known or (pyplot := _pyplot()) is None:
        figure = Picture(figsize=size, layout="constrained")
    else:
        figure = pyplot.figure(FigureClass=Picture, figsize=size, layout="constrained")
    with styled():
        grid = figure.subplots(rows, columns, squeeze=False, **kwargs)
        for place in list(grid.flat)[count:]:
            place.remove()
        yield figure, list(grid.flat)[:count]


# Pictures in files.

FORMATS = ("svg", "png")


def save(
    figure: Figure, stem: str | os.PathLike[str], formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write a picture as SVG and as PNG, each whole or not at all; no date is in it."""
    stem = Path(stem)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in formats]
    for path, ending in zip(paths, formats, strict=True):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
        with styled(), atomic_write(path) as temporary:
            figure.savefig(temporary, format=ending, metadata=metadata)
    return paths


# Marks of estimates that are less than they seem.

# What legends call them, by the gid of the lines that draw them.
Edge = Literal["infinite", "not positive"]
TOP: Edge = "infinite"
BOTTOM: Edge = "not positive"
SELECTED, NOTE = "selected", "note"
MEANINGS = {
    SELECTED: "hollow: biased, as some datasets failed",
    TOP: "at the upper edge: infinite",
    BOTTOM: "at the lower edge: estimate not above zero",
}
_SYMBOLS = {SELECTED: "o", TOP: "^", BOTTOM: "v"}


def mark_selected(
    axes: Axes,
    x: Float[np.ndarray, " points"],
    y: Float[np.ndarray, " points"],
    is_selected: Bool[np.ndarray, " points"],
    color: str,
    marker: str,
    size: float = 4.5,
    zorder: float = 3.5,
) -> None:
    """Draw hollow points over those that stand for a selection of the datasets."""
    if is_selected.any():
        axes.plot(
            x[is_selected],
            y[is_selected],
            ls="none",
            marker=marker,
            ms=size + 1.5,
            mfc="white",
            mec=color,
            mew=1.3,
            zorder=zorder,
            gid=SELECTED,
        )


def mark_edge(axes: Axes, x: Float[np.ndarray, " points"], edge: Edge, color: str) -> None:
    """Draw triangles at the upper edge for infinite numbers, at the lower one for no logarithm."""
    if x.size:
        axes.plot(
            x,
            np.full(x.size, 1.0 if edge == TOP else 0.0),
            ls="none",
            marker=_SYMBOLS[edge],
            ms=7.0,
            color=color,
            mec="white",
            mew=0.5,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            zorder=4.0,
            gid=edge,
        )


def note(axes: Axes, text: str) -> None:
    """Let the legend say something of what the axes do not show."""
    axes.add_line(Line2D([], [], ls="none", label=f"_{text}", gid=NOTE))


def meanings(axes: Axes) -> tuple[list[Line2D], list[str]]:
    """Return what a legend says of the marks that the axes show, and the notes."""
    shown = {line.get_gid() for line in axes.lines}
    used = [mark for mark in MEANINGS if mark in shown]
    handles = [
        Line2D([], [], ls="none", marker=_SYMBOLS[m], ms=6.0, mec="0.3", mew=1.2, mfc="white")
        if m == SELECTED
        else Line2D([], [], ls="none", marker=_SYMBOLS[m], ms=6.0, color="0.3")
        for m in used
    ]
    notes = [str(line.get_label())[1:] for line in axes.lines if line.get_gid() == NOTE]
    handles += [Line2D([], [], ls="none") for _ in notes]
    return handles, [*(MEANINGS[m] for m in used), *notes]


# Estimates with 95% intervals on logarithmic and linear axes.

Numbers = Float[np.ndarray, " points"]
# Sizes of markers: on a line, and of a second route, which a line's marker fits into.
ON_LINE, SECOND = 4.0, 8.0


@dataclass(frozen=True)
class Points:
    """A column over gamma, with the ends of 95% intervals; NaN where there is none."""

    x: Numbers
    value: Numbers
    low: Numbers
    high: Numbers
    is_selected: Bool[np.ndarray, " points"]


def draw_estimate(axes: Axes, points: Points, style: Style) -> None:
    """Draw a line with a band, or bare points with error bars, as the style says."""
    is_log = axes.get_yscale() == "log"
    x, value = points.x, points.value
    shown = np.isfinite(value) & ((value > 0) | (not is_log))
    is_marked = style.is_points or shown.sum() == 1
    order = 2.0 if style.is_points else 3.0
    size = SECOND if style.is_points else ON_LINE
    axes.plot(
        x[shown],
        value[shown],
        ls="none" if style.is_points else style.line,
        marker=style.marker,
        ms=size,
        mew=0.0,
        color=style.color,
        label=style.label,
        zorder=order,
    )
    low, high = points.low, points.high
    if is_log:  # an interval that reaches zero has no lower end here: a decade below the value
        low = np.where(shown, np.maximum(low, 0.1 * value), low)
    has_ends = np.isfinite(low) & np.isfinite(high)
    if is_marked:
        _draw_bars(axes, points, low, shown & has_ends, style.color, order)
    elif (shown & has_ends).any():
        x_band, ends = x[shown & has_ends], (low[shown & has_ends], high[shown & has_ends])
        axes.fill_between(x_band, *ends, color=style.color, alpha=0.2, lw=0, zorder=1.5)
    selected = points.is_selected & shown
    mark_selected(axes, x, value, selected, style.color, style.marker, size, order + 0.5)
    mark_edge(axes, x[value == np.inf], TOP, style.color)
    if is_log:
        mark_edge(axes, x[value <= 0], BOTTOM, style.color)


def _draw_bars(
    axes: Axes,
    points: Points,
    low: Numbers,
    shown: Bool[np.ndarray, " points"],
    color: str,
    order: float,
) -> None:
    if not shown.any():
        return
    value = points.value[shown]
    lengths = np.stack([value - low[shown], points.high[shown] - value])
    axes.errorbar(
        points.x[shown],
        value,
        np.maximum(lengths, 0.0),
        ls="none",
        color=color,
        lw=1.2,
        zorder=order - 0.1,
    )


# Ticks of logarithms.

# Below so many decades, powers of ten alone are too few ticks.
FEW_DECADES = 1.7
LEAST_SPAN = 10.0


def tidy_logs(axes: Axes) -> None:
    """Give logarithmic axes of few decades ticks at 1, 2 and 5, and no labels between ticks."""
    places = _places(axes)
    if axes.get_xscale() == "log" and places.size == 1:
        axes.set_autoscalex_on(False)  # which complains of a single point
        axes.set_xlim(places[0] / 3.0, places[0] * 3.0)
        axes.set_xticks(places, [f"{places[0]:g}"])
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif axes.get_xscale() == "log":
        _tidy(axes.xaxis, axes.get_xlim())
    if axes.get_yscale() == "log":
        low, high = axes.get_ylim()
        if high < LEAST_SPAN * low:
            wider = float(np.sqrt(LEAST_SPAN * low / high))
            axes.set_ylim(low / wider, high * wider)
        _tidy(axes.yaxis, axes.get_ylim())


def _places(axes: Axes) -> Float[np.ndarray, " places"]:
    """Positions on the horizontal axis at which lines have points."""
    drawn = [
        np.asarray(line.get_xdata(), float)
        for line in axes.lines
        if line.get_transform().contains_branch_seperately(axes.transData)[0]
    ]
    x = np.concatenate([*drawn, np.zeros(0)])
    return np.unique(x[np.isfinite(x)])


def _tidy(axis: Axis, limits: tuple[float, float]) -> None:
    axis.set_minor_formatter(NullFormatter())
    if np.log10(limits[1] / limits[0]) < FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))


# Legends beside the data, never on it.

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
    """Put the legend below the axes, from their left edge on; in a user's figure, on them."""
    handles, labels = explained(of or axes)
    if not handles:
        return
    if not isinstance(axes.figure.figure, Picture):  # there may be no room below
        axes.legend(handles, labels)
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
    """Put one legend of several panels below all of them; equal texts once."""
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
