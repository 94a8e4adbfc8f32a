"""Names of dimensions in types, such as those of `Float[Array, "n d"]`, are words, not links."""

import re
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref, pending_xref_condition
from sphinx.errors import ExtensionError

# A type that is written twice, as "floatfloat".
TWICE = re.compile(r"\b(float|int|str|bool|bytes|tuple|list|dict|set|type|object|complex)\1\b")


def words(reference):
    """What a reference shows: of the texts that it has for links and for none, one."""
    texts = [one.astext() for one in reference.findall(pending_xref_condition)]
    return texts[0] if texts else reference.astext()


def unlink(app, doctree):
    """Any member of the same name would otherwise be the target of a dimension's name."""
    for reference in list(doctree.findall(pending_xref)):
        target = reference.get("reftarget", "")
        is_class = reference.get("reftype") == "class" and reference.get("refdomain") == "py"
        if is_class and target.isidentifier() and target.islower():
            reference.replace_self(nodes.inline("", words(reference)))


def check(app, error):
    """No page has a type twice."""
    if error is not None or app.builder.name != "html":
        return
    pages = (path for path in Path(app.outdir).rglob("*.html") if "_static" not in path.parts)
    found = {path.name: one[0] for path in pages if (one := TWICE.search(path.read_text()))}
    if found:
        raise ExtensionError(f"types that are written twice: {found}")


def setup(app):
    app.connect("doctree-read", unlink)
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
