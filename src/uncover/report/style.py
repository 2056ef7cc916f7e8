"""Style of figures, on a page of either theme and in print: colours, legends, inline SVG, files."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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

#: Matrices of Machado, Oliveira and Fernandes (2009, doi:10.1109/TVCG.2009.113), full severity, linear RGB.
VISIONS = {
    "normal sight": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

#: Differences of colour (CIE 1976) below it are hard to see in small patches.
TOO_NEAR = 12.0

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


def require_report(*names: str) -> None:
    """Raise ImportError with a remedy where a library is missing.

    >>> require_report("no_such_library")
    Traceback (most recent call last):
    ...
    ImportError: reports need no_such_library, which is not installed; run pip install 'uncover[report]'
    """
    for name in names:
        if find_spec(name) is None:
            raise ImportError(
                f"reports need {name}, which is not installed; run pip install 'uncover[report]'"
            )


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


def look_alikes(colours: Sequence[str]) -> list[tuple[int, int, str]]:
    """Pairs of colours that are too near to each other, and to whose eyes.

    >>> look_alikes(["#0072B2", "#E69F00", "#009E73"])
    []
    >>> [(i, j) for i, j, _ in look_alikes(["#AA0000", "#336600", "#0000FF"])]
    [(0, 1)]
    """
    linear = _linear(colours)
    found = []
    for i, j in combinations(range(len(colours)), 2):
        for name, matrix in VISIONS.items():
            seen = _lab(np.clip(linear[[i, j]] @ matrix.T, 0, 1))
            if float(np.linalg.norm(seen[0] - seen[1])) < TOO_NEAR:
                found.append((i, j, name))
                break
    return found


def _lab(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of linear sRGB."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    ratio = linear @ to_xyz.T / np.array([0.95047, 1.0, 1.08883])
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = f.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours (WCAG 2), from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    dark, bright = sorted(_linear([first, second]) @ [0.2126, 0.7152, 0.0722])
    return float((bright + 0.05) / (dark + 0.05))


def _linear(colours: Sequence[str]) -> NDArray[np.float64]:
    """Linear sRGB of colours, (colour, 3)."""
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours]).reshape(-1, 3)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
