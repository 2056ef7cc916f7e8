"""How figures look, on a page of either theme and in print; and figures as inline SVG or as files."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uncover.report.requiring import require_report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Ink of three strengths. In print they are these colours; on a page the theme takes their place.
INK, MUTED, FAINT = "#1a1c21", "#5b606b", "#d4d7de"
_THEMED = {INK: "currentColor", MUTED: "var(--muted)", FAINT: "var(--rule)"}

#: Okabe and Ito's colours (2008), for what is not a class: told apart by every eye.
OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")

#: Marks that tell classes apart where their colours do not.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")

#: Inches. A figure is about as wide as a phone at 1:1, and two stand side by side on a laptop.
WIDTH, WIDE = 4.5, 9.6

_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "uncover",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "lines.linewidth": 1.6,
    "patch.linewidth": 0.8,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """The look of all figures; make them and their axes inside.

    >>> with figure_style():
    ...     figure = new_figure()
    ...     axes = figure.subplots()
    >>> "<svg" in inline_svg(figure, "Nothing")
    True
    """
    require_report("matplotlib")
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):
        yield


def new_figure(height: float = 3.4, width: float = WIDTH) -> Figure:
    """A figure that no global state knows of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def legend_above(figure: Figure, axes: Any) -> None:
    """A legend above the figure in as many columns as fit; the figure grows by what it takes.

    >>> with figure_style():
    ...     figure = new_figure(height=3)
    ...     axes = figure.subplots()
    ...     for i in range(12):
    ...         _ = axes.plot([0, 1], label=f"class number {i}")
    ...     legend_above(figure, axes)
    >>> bool(figure.get_figheight() > 3.5)
    True
    """
    handles, labels = axes.get_legend_handles_labels()
    if not labels:
        return
    width = 0.42 + 0.075 * max(map(len, labels))  # inches: a mark and its text
    columns = max(1, min(len(labels), int((figure.get_figwidth() - 0.3) / width)))
    figure.set_figheight(figure.get_figheight() + 0.19 * -(-len(labels) // columns))
    figure.legend(
        handles, labels, loc="outside upper left", ncols=columns, columnspacing=1.0, handletextpad=0.3
    )


def inline_svg(figure: Figure, label: str) -> str:
    """SVG to stand in a page: it scales, takes the colours of the theme, and has a label for screen readers.

    >>> with figure_style():
    ...     svg = inline_svg(new_figure(), "A <label>")
    >>> svg.startswith('<svg role="img" aria-label="A &lt;label&gt;"')
    True
    """
    from xml.sax.saxutils import quoteattr

    text = _svg(figure)
    start = text.index("<svg")
    view = re.search(r'viewBox="([^"]+)"', text)
    assert view is not None
    body = text[text.index(">", start) + 1 :]
    # A style element would apply to the whole page, and metadata name where matplotlib lives.
    body = re.sub(r"<(metadata|style)\b.*?</\1>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    body = _own_ids(body)
    for colour, themed in _THEMED.items():
        body = re.sub(colour, themed, body, flags=re.IGNORECASE)
    return f'<svg role="img" aria-label={quoteattr(label)} viewBox="{view.group(1)}">{body.strip()}'


def _own_ids(body: str) -> str:
    """Ids that something refers to, made unlike those of other figures; all others are left out."""
    used = set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", body))
    own = f"f{zlib.crc32(body.encode()):08x}-"
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{own}{m[1]}"' if m[1] in used else "", body)
    return re.sub(r"(url\(#|href=\"#)", rf"\g<1>{own}", body)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as a file for print, SVG or PNG by its suffix, on white; the same bytes every time."""
    name = str(path)
    if name.lower().endswith(".svg"):
        Path(path).write_text(_svg(figure), "utf-8")
        return
    figure.savefig(path, dpi=200, facecolor="white", metadata={"Software": None})


def _svg(figure: Figure) -> str:
    require_report("matplotlib")
    import matplotlib

    out = io.StringIO()
    with matplotlib.rc_context({key: v for key, v in _SETTINGS.items() if key.startswith("svg.")}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
