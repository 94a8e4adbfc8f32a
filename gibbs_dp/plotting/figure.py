"""Pictures: their style, the file they are saved in, and how pages hold them."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
from matplotlib import style
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gibbs_dp.io import atomic_write

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# Okabe-Ito.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, BLACK = "#56B4E9", "#E69F00", "#000000"
COLORS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE)
"""Of series that are alike, in this order."""

NAME = "gibbs_dp.style"


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the style of the library, whatever the user's own settings are.

    Also a decorator. Matplotlib's settings are as before at the end.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> before = dict(mpl.rcParams)
    >>> with styled():
    ...     mpl.rcParams["svg.fonttype"]
    'none'
    >>> dict(mpl.rcParams) == before
    True
    """
    with style.context(["default", NAME]):
        yield


# Figures that keep the library's style when they are shown and saved.


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


# Pictures in files.

FORMATS = ("svg", "png")


def save(figure: Figure, stem: str | os.PathLike[str]) -> list[Path]:
    """Write a picture as SVG and as PNG, each whole or not at all; no date is in it.

    Parameters
    ----------
    figure
        What to write.
    stem
        Folder and name, without an ending.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    stem = Path(stem)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in FORMATS]
    for path, ending in zip(paths, FORMATS, strict=True):
        metadata = {"Date": None} if ending == "svg" else None
        with styled(), atomic_write(path) as temporary:
            figure.savefig(temporary, format=ending, metadata=metadata)
    return paths


# Pictures inside a page of HTML, in the page's colours.

# Black, white and the grid are the page's own, so that it may be dark.
COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)", "#e0e0e0": "var(--line)"}
# Lines of more points become images: a page of a hundred thousand elements is slow.
MOST_POINTS = 2000
TEXT = "system-ui, sans-serif"


def inline_svg(figure: Figure, label: str, prefix: str) -> str:
    """Turn a figure into an SVG element for a page, which names no place on the web.

    Parameters
    ----------
    figure
        What to show.
    label
        What it shows, for whoever does not see it.
    prefix
        Before each of its identifiers, of which a page must not have two.

    Returns
    -------
    str
        An element without width and height, whose text and axes have the colour of the page's
        text.

    Examples
    --------
    >>> from gibbs_dp.plotting import one_panel
    >>> text = inline_svg(one_panel((3.0, 2.0), "", "x", "y")[0], "an empty panel", "p1-")
    >>> text.startswith("<svg "), "http" in text, "#000000" in text
    (True, False, False)
    """
    for line in figure.findobj(Line2D):
        line.set_rasterized(np.size(line.get_xdata()) > MOST_POINTS)
    for drawn in figure.findobj(Collection):
        drawn.set_rasterized(len(drawn.get_paths()) > MOST_POINTS)
    file = io.BytesIO()
    with styled():
        figure.savefig(file, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if _local(child.tag) in ("metadata", "style"):
                parent.remove(child)
    known: set[str | None] = set()
    for element in root.iter():
        element.tag = _local(element.tag)
        name = element.attrib.get("id")
        if (
            name is not None and name in known
        ):  # marks of one kind have one name, which nothing refers to
            del element.attrib["id"]
        known.add(name)
        own = {_local(key): value for key, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({key: _adapted(key, own[key], prefix) for key in own})
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    # What the style sheet of Matplotlib's file says of all elements of a document.
    more = {"style": "stroke-linejoin: round; stroke-linecap: butt; fill: currentColor"}
    root.attrib.update({"role": "img", "aria-label": label, **more})
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _adapted(name: str, value: str, prefix: str) -> str:
    """Make identifiers the picture's own, and colours and letters the page's."""
    if name == "id":
        return prefix + value
    if name == "href":
        return f"#{prefix}{value[1:]}" if value.startswith("#") else value
    value = value.replace("url(#", f"url(#{prefix}")
    if name == "style":
        value = re.sub("font-family: [^;]*", f"font-family: {TEXT}", value)
        for old, new in COLOURS.items():
            value = value.replace(old, new)
    return value
