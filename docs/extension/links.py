"""After the build: every link inside the site leads to a page and a place that are there."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.errors import ExtensionError

SPOKEN_OF = {"href", "src"}


class Page(HTMLParser):
    """Links and places of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.places = set(), {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in SPOKEN_OF and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


@cache
def parsed(path):
    return Page(path.read_text())


def broken(folder):
    """Pairs of a page and a link of it that leads nowhere; how many links were followed."""
    found, count = [], 0
    for path in sorted(Path(folder).rglob("*.html")):
        if "_static" in path.parts:
            continue
        for link in parsed(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or (
                target.suffix == ".html" and unquote(parts.fragment) not in parsed(target).places
            ):
                found.append((path, link))
    return found, count


def check(app, error):
    if error is not None or app.builder.name != "html":
        return
    parsed.cache_clear()
    found, count = broken(app.outdir)
    if found:
        listed = "\n".join(f"{path.relative_to(app.outdir)}: {link}" for path, link in found)
        raise ExtensionError(f"links that lead nowhere:\n{listed}")
    print(f"links: {count} inside the site, all of them lead somewhere")


def setup(app):
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
