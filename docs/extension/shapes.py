"""Names of dimensions in types, such as those of `Float[Array, "n d"]`, are words, not links."""

from docutils import nodes
from sphinx.addnodes import pending_xref


def unlink(app, doctree):
    """Any member of the same name would otherwise be the target of a dimension's name."""
    for reference in list(doctree.findall(pending_xref)):
        target = reference.get("reftarget", "")
        is_class = reference.get("reftype") == "class" and reference.get("refdomain") == "py"
        if is_class and target.isidentifier() and target.islower():
            reference.replace_self(nodes.inline("", reference.astext()))


def setup(app):
    app.connect("doctree-read", unlink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
