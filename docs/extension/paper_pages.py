"""The table of the source papers' results, from the list that the tests run."""

from pages import escaped, write_page
from paper_items import ITEMS


def escaped_code(text):
    """Bars end cells of tables, in code too."""
    return text.replace("|", "\\|")


def table():
    """A table a paper."""
    parts = []
    for paper in dict.fromkeys(item.paper for item in ITEMS):
        parts.append(f"**{escaped(paper)}**\n\n| result | to see it |\n|---|---|")
        own = [item for item in ITEMS if item.paper == paper]
        parts += [f"| {escaped(item.result)} | {escaped_code(item.shown_by)} |" for item in own]
        parts.append("")
    return "\n".join(parts)


def write(app):
    write_page(app, "papers.txt", table())


def setup(app):
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
