"""A result as one HTML file that needs nothing else: no script, font, style or picture from afar.

Results say what their sections are; a page puts them below a verdict and gives them a style. Every
text is escaped: columns, levels and paths may be a stranger's. A page without `Live` runs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gibbs_dp._cautions import Caution
from gibbs_dp._version import __version__
from gibbs_dp.io.files import atomic_write
from gibbs_dp.results import table
from gibbs_dp.results.table import TextTable, markup, safe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How a page of results looks: light and dark, on a phone, on a screen and on paper.
#
# Pictures take ``--paper`` and ``--line`` from here (`inline_svg`).

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2024; --soft: #5c656e;
  --line: #d9dee3; --card: #f4f6f8; --mark: #0072b2; --alarm: #b3401a; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181b; --ink: #e4e7ea; --soft: #a2abb4; --line: #363c43; --card: #1f2428;
    --mark: #56b4e9; --alarm: #f0915f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
ul { max-width: 46rem; }
li { margin: .3rem 0; }
.what, figcaption, dd, footer { color: var(--soft); }
.verdict { font-size: 1.2rem; line-height: 1.45; margin: 1.2rem 0; padding: .8rem 1rem;
  max-width: none; background: var(--card); border-left: .3rem solid var(--mark); }
.verdict.warned, .warning { border-left: .3rem solid var(--alarm); }
.warning { margin: .8rem 0; padding: .4rem .9rem; background: var(--card); }
.warning p { max-width: none; }
table { font-size: .92rem; }
.facts table { width: 100%; }
.facts th, .facts td { white-space: normal !important; vertical-align: top; }
.facts th { min-width: 8rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
figure { margin: 0; flex: 1 1 20rem; min-width: 0; max-width: 29rem; }
svg { display: block; width: 100%; height: auto; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0; max-width: 46rem; }
footer { margin-top: 2.5rem; font-size: .9rem; }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #cccccc;
    --card: #ffffff; --mark: #0072b2; --alarm: #b3401a; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  div { overflow: visible !important; }
  table { font-size: 8pt; }
  th, td { white-space: normal !important; overflow-wrap: normal; padding: .15em .4em !important; }
  .warning, figure, tr, dd { break-inside: avoid; }
  h2, dt { break-after: avoid; }
}
"""
"""Of every page."""


ENDINGS = (".html", ".htm")
# A browser that reads this loads nothing and runs nothing, whatever the page says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# With a script: that one, by its hash, and no other; it may not make elements of texts. Cells and
# pictures have style attributes, which load nothing.
LIVE_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src 'unsafe-inline'; style-src-elem "
    "'{style}'; style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
    "'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# Rows of one table, and warnings.
MOST_ROWS = 1000
PACKAGES = ("jax", "numpyro", "numpy", "scipy")


@dataclass(frozen=True)
class Section:
    """A heading and HTML below it; empty parts are left out, and so is a section of these."""

    title: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Live:
    """What a script adds to a page: HTML that is hidden until it runs, its style, code and data."""

    markup: str
    style: str
    script: str
    data: Any

    @property
    def scripts(self) -> str:
        """Data and code, as elements; the code finds its data as ``explorer-data``."""
        return (
            f'<script type="application/json" id="explorer-data">{inert_json(self.data)}</script>\n'
            f"<script>{self.script}</script>\n"
        )


def inert_json(value: Any) -> str:
    r"""Write JSON that ends no element and begins none, whatever its texts are.

    >>> inert_json({"a": "</script>"})
    '{"a":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def digest(text: str) -> str:
    """Name a script or style sheet as policies do: by its hash."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@dataclass(frozen=True)
class Page:
    """A page: heading, subject, verdict, what is live of it, and sections in order."""

    title: str
    what: str
    verdict: str
    sections: tuple[Section, ...]
    is_warned: bool = False
    live: Live | None = None

    def render(self) -> str:
        """Return the whole file; the same results give the same text."""
        sections = "".join(map(_rendered, self.sections))
        mark = "verdict warned" if self.is_warned else "verdict"
        policy, style, explorer, scripts = POLICY, STYLE, "", ""
        does = "loads nothing and runs nothing"
        if self.live is not None:
            style, explorer, scripts = STYLE + self.live.style, self.live.markup, self.live.scripts
            policy = LIVE_POLICY.format(script=digest(self.live.script), style=digest(style))
            does = "loads nothing and sends nothing"
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{safe(self.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
            f'<h1>{safe(self.title)}</h1>\n<p class="what">{safe(self.what)}</p>\n'
            f'<p class="{mark}">{safe(self.verdict)}</p>\n{explorer}{sections}</main>\n'
            f"<footer>Written by gibbs-dp {safe(__version__)}. This page {does}.</footer>\n"
            f"{scripts}</body>\n</html>\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        check_page_path(path)
        with atomic_write(path) as temporary:
            temporary.write_text(self.render(), encoding="utf-8", newline="\n")


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Refuse a name that is not a page's: a slip should not overwrite a table."""
    if Path(path).suffix.lower() not in ENDINGS:
        raise ValueError(
            f"path: {os.fspath(path)!r} is no name of a page; let it end in {ENDINGS[0]}."
        )


def section(title: str, *parts: str | TextTable) -> Section:
    """Make a section of HTML, some of which may be empty, and of tables."""
    return Section(title, tuple(markup(part) for part in parts))


def paragraphs(texts: Iterable[str]) -> str:
    r"""Make a paragraph of every text.

    >>> paragraphs(["a < b"])
    '<p>a &lt; b</p>\n'
    """
    return "".join(f"<p>{safe(text)}</p>\n" for text in texts)


def bullets(texts: Iterable[str]) -> str:
    """Make a list; nothing of no texts."""
    items = "".join(f"<li>{safe(text)}</li>\n" for text in texts)
    return f"<ul>\n{items}</ul>\n" if items else ""


def meanings(named: Iterable[tuple[str, str]]) -> str:
    """Make a list of names and of what they mean; nothing of no names."""
    items = "".join(f"<dt>{safe(name)}</dt><dd>{safe(text)}</dd>\n" for name, text in named)
    return f"<dl>\n{items}</dl>\n" if items else ""


def facts(named: Iterable[tuple[str, str]]) -> str:
    """Make a table of names and values whose lines are broken where a screen is narrow."""
    found = list(named)
    return f'<div class="facts">{table.facts(found)}</div>\n' if found else ""


def pictures(drawn: Iterable[tuple[str, str]]) -> str:
    """Put pictures beside each other, or below where there is no room."""
    found = "".join(
        f"<figure>{svg}<figcaption>{safe(caption)}</figcaption></figure>\n"
        for svg, caption in drawn
    )
    return f'<div class="pictures">\n{found}</div>\n' if found else ""


def warned(warnings: Sequence[str], cautions: Iterable[Caution]) -> Section:
    """Make the section of warnings, each with its meaning and its remedy."""
    known = list(cautions)
    parts = []
    for text in warnings[:MOST_ROWS]:
        caution = caution_of(text, known)
        told = f"<p><strong>{safe(text)}</strong></p>"
        if caution is not None:
            told += f"<p>{safe(caution.meaning)}</p><p>What to do: {safe(caution.remedy)}</p>"
        parts.append(f'<div class="warning">{told}</div>\n')
    if len(warnings) > MOST_ROWS:
        parts.append(paragraphs([f"… and {len(warnings) - MOST_ROWS:,} more."]))
    return Section("Warnings: read these first", tuple(parts))


def caution_of(text: str, cautions: Iterable[Caution]) -> Caution | None:
    """Return which kind a warning is of, by the name that ends it; None of a stranger's."""
    name = re.search(r"\[([\w-]+)\]$", text)
    return next((c for c in cautions if name is not None and c.name == name[1]), None)


def settings(found: Mapping[str, Any]) -> Section:
    """Make the section of settings and versions."""
    own = dict(found)
    versions = own.pop("versions", None)
    numbers = versions if isinstance(versions, Mapping) else installed()
    lines = [(k.replace("_", " "), told(v)) for k, v in own.items() if v is not None]
    of = ", ".join(f"{name} {number}" for name, number in numbers.items())
    return Section("Settings and versions", (facts([*lines, *([("versions", of)] if of else [])]),))


def told(value: Any) -> str:
    """Say a setting in words.

    >>> told([0.1, 1.0]), told(True), told({"a": 1e-6}), told("none")
    ('0.1, 1', 'yes', 'a 1e-06', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} {told(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(told, value))
    return str(value)


def installed() -> dict[str, str]:
    """Return the versions of what runs here: this library, Python, and what computes for it."""
    found = {"gibbs_dp": __version__, "Python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a copy that no package manager knows
            continue
    return found


def _rendered(part: Section) -> str:
    inner = "".join(part.parts)
    return f"<section>\n<h2>{safe(part.title)}</h2>\n{inner}\n</section>\n" if inner else ""


# Pictures inside a page of HTML, in the page's colours.

# Black, white and the grid are the page's own, so that it may be dark.
COLOURS = {"#000000": "currentColor", "#ffffff": "var(--paper)", "#e0e0e0": "var(--line)"}
# Lines of more points become images: a page of a hundred thousand elements is slow.
MOST_POINTS = 2000
TEXT = "system-ui, sans-serif"


def inline_svg(figure: Figure, label: str, prefix: str) -> str:
    """Turn a figure into an SVG element for a page, which names no place on the web.

    >>> from gibbs_dp.results.plotting import one_panel
    >>> text = inline_svg(one_panel((3.0, 2.0), "", "x", "y")[0], "an empty panel", "p1-")
    >>> text.startswith("<svg "), "http" in text, "#000000" in text
    (True, False, False)
    """
    from xml.etree import ElementTree

    from matplotlib.collections import Collection  # slow to import
    from matplotlib.lines import Line2D

    from gibbs_dp.results.plotting import styled

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
