"""Pictures as data addresses: layers in few colours as PNG, scenes as JPEG."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_styles import ramp
from uncover.report.requiring import require_report

#: Shades of a layer of numbers: enough for the eye, few enough for small files.
SHADES = 48


def indexed_png(numbers: NDArray[np.uint8], colours: Sequence[str]) -> str:
    """PNG of numbers from 1 in their colours; 0 is transparent.

    >>> indexed_png(np.array([[0, 1]], np.uint8), ["#0072B2"])[:22]
    'data:image/png;base64,'
    """
    require_report("PIL")
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(numbers, np.uint8), "P")
    palette = [255, 255, 255] + [int(c[i : i + 2], 16) for c in colours for i in (1, 3, 5)]
    image.putpalette(palette)
    return _address(image, "png", transparency=0, optimize=True)


def ramp_png(values: NDArray[np.floating[Any]], top: float) -> str:
    """PNG of numbers from 0 to `top` (and more) along the ramp of colours; NaN is transparent."""
    share = np.clip(np.nan_to_num(values / max(top, 1e-12)), 0, 1)
    numbers = 1 + np.rint(share * (SHADES - 1)).astype(np.uint8)
    numbers[np.isnan(values)] = 0
    return indexed_png(numbers, ramp_colours())


def ramp_colours(count: int = SHADES) -> list[str]:
    """Colours along the ramp, from none to much.

    >>> ramp_colours(3)[0]
    '#0d0887'
    """
    return ["#" + bytes(colour).hex() for colour in ramp(np.linspace(0, 1, count))]


def photograph(colours: NDArray[np.uint8]) -> str:
    """JPEG of red, green and blue, (row, col, 3)."""
    require_report("PIL")
    from PIL import Image

    return _address(Image.fromarray(colours, "RGB"), "jpeg", quality=86, optimize=True)


def _address(image: Any, kind: str, **options: Any) -> str:
    out = io.BytesIO()
    image.save(out, format=kind.upper(), **options)
    return f"data:image/{kind};base64," + base64.b64encode(out.getvalue()).decode("ascii")
