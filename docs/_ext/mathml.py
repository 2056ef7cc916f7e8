"""Formulas as MathML, which browsers show without scripts: the pages need no network."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)

# docutils sets the index of an accented letter below the letter; an empty group keeps it at its side.
_ACCENTED_WITH_INDEX = re.compile(r"\\(bar|hat|tilde)\s*(\\[A-Za-z]+|[A-Za-z])(?=\s*_)")


def _inline(translator, node):
    translator.body.append(_render(node, as_block=False))
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="math">{_render(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _render(node, as_block):
    source = _ACCENTED_WITH_INDEX.sub(r"{\\\1 \2{}}", node.astext())
    try:
        return tex2mathml(source, as_block=as_block)
    except MathError as problem:
        logger.warning("formula %s: %s", node.astext(), problem, location=node)
        return ""


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
