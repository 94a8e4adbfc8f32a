"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no network."""

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.errors import ExtensionError


def to_mathml(latex, is_block):
    """One formula."""
    try:
        return latex2mathml.tex2mathml(latex, as_block=is_block)
    except Exception as error:
        raise ExtensionError(f"no MathML for {latex!r}: {error}") from error


def visit_inline(self, node):
    self.body.append(to_mathml(node.astext(), is_block=False))
    raise nodes.SkipNode


def visit_block(self, node):
    self.body.append(f'<div class="formula">{to_mathml(node.astext(), is_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
