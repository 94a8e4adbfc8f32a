"""Pages that are written when the site is built."""

from pathlib import Path

FOLDER = "generated"


def write_page(app, name, text):
    """Write a page, if it changed: Sphinx reads again what is newer."""
    path = Path(app.srcdir) / FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path


def escaped(text):
    """Text that Markdown takes as it is."""
    for sign in "\\`*_{}[]<>|$":
        text = text.replace(sign, "\\" + sign)
    return text
