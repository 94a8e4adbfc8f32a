"""Pictures inside a page of HTML, in the page's colours."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
from matplotlib.collections import Collection
from matplotlib.lines import Line2D

from gibbs_dp.plotting.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
