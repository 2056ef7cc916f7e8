"""A page: sections of text, figures and tables, rendered as one HTML file that needs nothing else.

What is on it is not known here: map reports and study reports fill the same shell.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import check_goal
from uncover.report.style import require_report


@dataclass(frozen=True)
class Table:
    """Rows with a header; the first cell of each row names it. Cells are text as it is to be read.

    `words` says that cells hold words and not numbers; `wide`, whether it takes the whole width of the page.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: bool = False
    wide: bool = True
    kind: str = "table"


@dataclass(frozen=True)
class Figure:
    """A picture with a sentence on how to read it, and the same in words and numbers."""

    name: str  # unique on its page; letters, digits and hyphens
    title: str
    svg: str  # as `uncover.report.style.inline_svg` makes it
    reading: str  # how to read it
    alternative: str  # what it shows, for readers who do not see it
    numbers: Table | None = None  # the numbers behind it
    wide: bool = False  # takes the whole width of the page
    kind: str = "figure"


@dataclass(frozen=True)
class Note:
    """A remark: what is missing and how to get it, or what to beware of."""

    text: str
    remedy: str = ""
    kind: str = "note"


@dataclass(frozen=True)
class Text:
    """A heading with a paragraph, before the parts that it introduces."""

    title: str
    text: str = ""
    kind: str = "text"


@dataclass(frozen=True)
class Fragment:
    """A part with a template of its own (a file of this package) and what that template is given."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "fragment"


Part = Table | Figure | Note | Text | Fragment


@dataclass(frozen=True)
class Section:
    """A part of the page that the table of contents lists."""

    name: str
    title: str
    lead: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Headline:
    """One number that matters, what it is, and what it means."""

    value: str
    label: str
    remark: str = ""


@dataclass(frozen=True)
class Page:
    """All of a report.

    >>> html = render(Page("A study", "of nothing", (Section("end", "The end"),)))
    >>> "<h1" in html and "https://" not in html
    True
    """

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    headlines: tuple[Headline, ...] = ()
    warnings: tuple[str, ...] = ()  # shown at the top
    data: Mapping[str, Any] = field(default_factory=dict)  # for scripts, plain or as `packed` arrays
    styles: tuple[str, ...] = ()  # files of this package that the page takes in after the shell's own
    scripts: tuple[str, ...] = ()
    footer: str = ""


def page_goal(out: str | Path) -> Path:
    """The path, if a page can be written there, in place of nothing or of another page.

    >>> page_goal(__file__)
    Traceback (most recent call last):
    ...
    ValueError: ...page.py is no page that could be replaced; name another file
    """
    goal = check_goal(out)
    begins = goal.read_bytes()[:100].lstrip().lower() if goal.is_file() else b""
    if begins and not begins.startswith(b"<!doctype html"):
        raise ValueError(f"{goal} is no page that could be replaced; name another file")
    return goal


def render(page: Page) -> str:
    """HTML of a page: styles, scripts, pictures and data are in it, and nothing is loaded."""
    _check_names(page)
    scripts = [_asset(name) for name in ("shell.js", *page.scripts)]
    template = _environment().get_template("page.html")
    css = "\n".join(_asset(name) for name in ("page.css", *page.styles))
    return template.render(page=page, css=css, scripts=scripts, data=json_in_page(page.data))


def packed(array: NDArray[Any]) -> dict[str, Any]:
    """An array for scripts: its bytes as base64, its type and its shape; `unpack` of shell.js reads it.

    >>> packed(np.array([1, 258], np.uint16))["bytes"]
    'AQACAQ=='
    """
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    content = base64.b64encode(little.tobytes()).decode("ascii")
    return {"type": array.dtype.name, "shape": list(array.shape), "bytes": content}


def json_in_page(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element that it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _check_names(page: Page) -> None:
    names: Sequence[str] = [
        *(section.name for section in page.sections),
        *(p.name for section in page.sections for p in section.parts if isinstance(p, Figure)),
    ]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{twice[0]!r} names two parts of the page; names are anchors and must differ")


@cache
def _asset(name: str) -> str:
    return resources.files("uncover.report").joinpath("assets", name).read_text("utf-8")


@cache
def _environment() -> Any:
    require_report("jinja2")
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
