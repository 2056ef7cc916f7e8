"""Settings of the documentation: MyST pages, reference from docstrings, formulas without a network."""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

import uncover

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "uncover"
author = "The uncover developers"
copyright = author
version = release = uncover.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "commands", "mathml"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"uncover {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["page.css"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = False
napoleon_use_param = False
napoleon_use_rtype = False

_LITERAL = re.compile(r"(``.*?``|:\w+:`.*?`)")


def _escape_notation(app, what, name, obj, options, lines):
    """Keep |x| and *batch of the docstrings' mathematics from being read as markup."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = _LITERAL.split(line)
        parts[::2] = [re.sub(r"(?<!\\)([|*])", r"\\\1", part) for part in parts[::2]]
        lines[i] = "".join(parts)


def _unlink_words(app, doctree):
    """Keep the words of types ("array of shape …") from becoming links to whatever is called so."""
    for reference in list(doctree.findall(addnodes.pending_xref)):
        target = reference["reftarget"]
        if reference.get("reftype") == "class" and target.islower() and "." not in target:
            reference.replace_self(reference.children)


def _end_blocks(app, doctree):
    """Take away the empty line by which a page ends an example for the tests."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text == block.rawsource and text.endswith("\n"):
            block.rawsource = text.rstrip("\n")
            block.children = [nodes.Text(block.rawsource)]


def setup(app):
    app.connect("doctree-read", _unlink_words)
    app.connect("doctree-read", _end_blocks)
    app.connect("autodoc-process-docstring", _escape_notation, priority=400)  # before napoleon's
