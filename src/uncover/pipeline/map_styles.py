"""The look of a map: its colour ramp, the QGIS styles of its layers, and the overview picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.raster.errors import require
from uncover.raster.product import UNIT, Layer, Product
from uncover.raster.quality import Quality
from uncover.raster.scratch import Scratch

#: From none to much, readable in print and by every eye (dark blue to yellow).
RAMP = ((0.0, "#0d0887"), (0.25, "#7e03a8"), (0.5, "#cc4778"), (0.75, "#f89540"), (1.0, "#f0f921"))
_FLAGS = (
    *("#4d4d4d", "#b35806", "#e0e0e0", "#542788", "#9ecae1"),
    *("#d73027", "#e7298a", "#1b9e77", "#fdae61", "#7f7f00", "#8c8c8c"),
)
_NODATA = (225, 225, 225)
_SIDE, _MARGIN = 720, 20  # pixels of the longer side of each map of the overview, and around it

Entry = tuple[int, str, str, int]  # value, colour, label, opacity


def styles(product: Product, values: Iterable[int], largest: dict[str, float]) -> Iterator[tuple[str, str]]:
    """Names and texts of all style files: one beside each layer, and one for each further band.

    `values` are the numbers that occur in the quality layer; `largest` the top of each band's scale.
    """
    yield "class.qml", paletted((c.code, c.colour, c.name, 255) for c in product.scheme.classes)
    yield "quality.qml", paletted(_flag_entry(value) for value in sorted(set(values)))
    for layer in product.layers:
        if layer.name == "sets":
            yield "sets.qml", pseudocolour(1, float(product.classes), 1.0, layer.bands[0])
        if layer.name not in ("probability", "uncertainty", "unknown"):
            continue
        for i, band in enumerate(layer.bands, start=1):
            text = pseudocolour(i, largest.get(band, 1.0) / layer.scale, layer.scale, band)
            if i == 1:
                yield f"{layer.name}.qml", text
            yield f"styles/{layer.name}-{i}.qml", text


def _flag_entry(value: int) -> Entry:
    if value == 0:
        return 0, "#ffffff", "clear", 0
    bits = [bit for bit in Quality if value & bit]
    names = ", ".join(str(bit.name).lower().replace("_", " ") for bit in bits)
    return value, _FLAGS[list(Quality).index(bits[0])], names, 255


def paletted(entries: Iterable[Entry]) -> str:
    """A colour and a name for each value."""
    lines = "".join(
        f'        <paletteEntry value="{value}" color="{colour}" alpha="{opacity}" '
        f"label={quoteattr(label)}/>\n"
        for value, colour, label, opacity in entries
    )
    return _document(
        '    <rasterrenderer type="paletted" band="1" opacity="1" alphaBand="-1" nodataColor="">\n'
        "      <rasterTransparency/>\n"
        f"      <colorPalette>\n{lines}      </colorPalette>\n"
        "    </rasterrenderer>\n"
    )


def pseudocolour(band: int, largest: float, scale: float, name: str) -> str:
    """A ramp of colours from 0 to the largest number of a band.

    QGIS applies the scale of a file before the style: numbers are those that a reader sees.
    """
    top = largest * scale
    items = "".join(
        f'          <item value="{value:.6g}" color="{colour}" alpha="255" label="{value:.3g}"/>\n'
        for value, colour in ((share * top, colour) for share, colour in RAMP)
    )
    return _document(
        f'    <rasterrenderer type="singlebandpseudocolor" band="{band}" opacity="1" alphaBand="-1" '
        f'nodataColor="" classificationMin="0" classificationMax="{top:.6g}">\n'
        "      <rasterTransparency/>\n"
        "      <rastershader>\n"
        '        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" '
        f'minimumValue="0" maximumValue="{top:.6g}" labelPrecision="4">\n'
        f"{items}"
        "        </colorrampshader>\n"
        "      </rastershader>\n"
        f"    </rasterrenderer>\n    <!-- {_comment(name)} -->\n"
    )


def _comment(name: str) -> str:
    return name.replace("-", " ").replace("<", " ").replace(">", " ").replace("&", " ")


def _document(renderer: str) -> str:
    return (
        "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
        '<qgis version="3.28" styleCategories="AllStyleCategories">\n'
        f"  <pipe>\n{renderer}  </pipe>\n"
        "  <blendMode>0</blendMode>\n</qgis>\n"
    )


def ramp(share: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Colours of shares from 0 to 1 along the ramp: red, green and blue on a last axis.

    >>> ramp(np.array([0.0, 1.0])).tolist()
    [[13, 8, 135], [240, 249, 33]]
    """
    colours = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in RAMP])
    mixed = [np.interp(share, [place for place, _ in RAMP], channel) for channel in colours.T]
    return np.rint(np.stack(mixed, axis=-1)).astype(np.uint8)


def write_overview(path: Path, scratch: Scratch, title: str, shares: NDArray[np.float64]) -> None:
    """Write a PNG with the classes and the total uncertainty side by side, and the legend below."""
    require("PIL")
    from PIL import Image, ImageDraw

    layers = {layer.name: layer for layer in scratch.product.layers}
    scheme, top = scratch.product.scheme, float(np.log(scratch.product.classes))
    left = _class_picture(_sampled(scratch, layers["class"]), scheme)
    right = _uncertainty_picture(_sampled(scratch, layers["uncertainty"]), layers["uncertainty"], top)
    height, width, _ = left.shape
    column, foot = max(_MARGIN + width, 340) + _MARGIN, 68 + height + _MARGIN
    per_row = max(1, (2 * width - 220) // 340)  # classes beside each other, and beside the scale
    lowest = foot + max(26 * -(-len(scheme.classes) // per_row), 60)
    page = Image.new("RGB", (column + max(width, 240) + _MARGIN, lowest + _MARGIN), "white")
    draw = ImageDraw.Draw(page)
    _write(draw, (_MARGIN, 12), title, page.width - 2 * _MARGIN)
    _write(draw, (_MARGIN, 42), "most probable class", column - _MARGIN)
    _write(draw, (column, 42), "total uncertainty, nats", page.width - column)
    page.paste(Image.fromarray(left), (_MARGIN, 68))
    page.paste(Image.fromarray(right), (column, 68))
    for i, (entry, share) in enumerate(zip(scheme.classes, shares, strict=True)):
        x, y = _MARGIN + 340 * (i % per_row), foot + 26 * (i // per_row)
        draw.rectangle((x, y + 2, x + 27, y + 19), entry.colour)
        number = f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "<0.1 %"
        _write(draw, (x + 38, y + 11), entry.name, 205, "lm")
        _write(draw, (x + 316, y + 11), number, 80, "rm")
    scale = page.width - 220 - _MARGIN
    page.paste(Image.fromarray(np.repeat(ramp(np.linspace(0, 1, 220))[None], 18, axis=0)), (scale, foot + 2))
    _write(draw, (scale, foot + 28), "0", 100)
    _write(draw, (scale + 220, foot + 28), f"{top:.2f}", 100, "ra")
    page.save(path, "PNG")


def _write(draw: Any, at: tuple[int, int], text: str, space: int, anchor: str = "la") -> None:
    """Write text that is cut, with dots to say so, where it is longer than its space in pixels."""
    from PIL import ImageFont

    font = ImageFont.load_default(17)
    while font.getlength(text) > space and len(text) > 2:
        text = text.rstrip("…")[:-1] + "…"
    draw.text(at, text, "#222222", font, anchor)


def _class_picture(codes: NDArray[np.uint8], scheme: Scheme) -> NDArray[np.uint8]:
    table = np.full((256, 3), _NODATA, np.uint8)
    for entry in scheme.classes:
        table[entry.code] = entry.rgb
    return table[codes]


def _uncertainty_picture(numbers: NDArray[Any], layer: Layer, top: float) -> NDArray[np.uint8]:
    """Total entropy along the ramp, whose end is that of a guess among all classes."""
    missing = np.isnan(numbers) | (numbers == layer.nodata)
    picture = ramp(np.where(missing, 0, numbers) * layer.scale / top)
    picture[missing] = _NODATA
    return picture


def _sampled(scratch: Scratch, layer: Layer) -> NDArray[Any]:
    """First band of a layer at the size of a picture, by nearest neighbour; small maps are magnified."""
    shape = scratch.product.grid.shape
    longest = max(shape)
    factor = _SIDE // longest if longest <= _SIDE // 2 else _SIDE / longest
    lines = []
    for side in shape:
        n = max(1, round(side * factor))
        lines.append(((np.arange(n) + 0.5) * side / n).astype(int))
    found = []
    for strip in scratch.strips(UNIT):
        mine = lines[0][(lines[0] >= strip.row) & (lines[0] < strip.row + strip.height)] - strip.row
        if mine.size:
            found.append(scratch.read(layer, strip, [0])[0][mine[:, None], lines[1]])
    return np.concatenate(found)
