"""A picture of a map for people: classes, total uncertainty, and what the colours mean."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.pipeline.styles import RAMP
from uncover.raster.product import UNIT, Layer
from uncover.raster.scratch import Scratch
from uncover.raster.tiles import no_place_needed

_SIDE = 720  # pixels of the longer side of each picture
_MARGIN = 20
_INK = (34, 34, 34)
_NODATA = (225, 225, 225)

Image = NDArray[np.uint8]  # (row, col, 3)

# One character after the other from the blank on; each pair of digits is a column, its lowest bit at the top.
_COLUMNS = (
    "0000000000 00005F0000 0007000700 147F147F14 242A7F2A12 2313086462 3649552250 0005030000 001C224100 "
    "0041221C00 082A1C2A08 08083E0808 0050300000 0808080808 0060600000 2010080402 3E5149453E 00427F4000 "
    "4261514946 2141454B31 1814127F10 2745454539 3C4A494930 0171090503 3649494936 064949291E 0036360000 "
    "0056360000 0008142241 1414141414 4122140800 0201510906 324979413E 7E1111117E 7F49494936 3E41414122 "
    "7F4141221C 7F49494941 7F09090901 3E41495132 7F0808087F 00417F4100 2040413F01 7F08142241 7F40404040 "
    "7F0204027F 7F0408107F 3E4141413E 7F09090906 3E4151215E 7F09192946 4649494931 01017F0101 3F4040403F "
    "1F2040201F 7F2018207F 6314081463 0304780403 6151494543 007F414100 0204081020 0041417F00 0402010204 "
    "4040404040 0001020400 2054545478 7F48444438 3844444420 384444487F 3854545418 087E090102 081454543C "
    "7F08040478 00447D4000 2040443D00 007F102844 00417F4000 7C04180478 7C08040478 3844444438 7C14141408 "
    "081414187C 7C08040408 4854545420 043F444020 3C4040207C 1C2040201C 3C4030403C 4428102844 0C5050503C "
    "4464544C44 0008364100 00007F0000 0041360800 1008081008"
)
_GLYPHS = [
    np.array([[int(code[i : i + 2], 16) >> row & 1 for i in range(0, 10, 2)] for row in range(7)], np.bool_)
    for code in _COLUMNS.split()
]


def write_overview(path: Path, scratch: Scratch, title: str, shares: NDArray[np.float64]) -> None:
    """Write the picture as PNG; made in memory, because GDAL does not report every write that fails."""
    import rasterio
    from rasterio.io import MemoryFile

    image = overview(scratch, title, shares)
    height, width, _ = image.shape
    with rasterio.Env(GDAL_PAM_ENABLED="NO"):
        profile = {"driver": "PNG", "width": width, "height": height, "count": 3, "dtype": "uint8"}
        with MemoryFile() as file:
            with no_place_needed(), file.open(**profile) as dataset:
                dataset.write(np.moveaxis(image, 2, 0))
            path.write_bytes(file.read())


def overview(scratch: Scratch, title: str, shares: NDArray[np.float64]) -> Image:
    """The picture: two maps side by side, the legend below."""
    product = scratch.product
    layers = {layer.name: layer for layer in product.layers}
    classes = _sample(scratch, layers["class"], 0)
    total, top = _uncertainty(scratch, layers["uncertainty"])
    left, right = _class_picture(classes, product.scheme), _ramp_picture(total, top)
    height, width, _ = left.shape
    legend = _legend(product.scheme, shares, max(2 * width + _MARGIN, 640))
    page_width = max(2 * width + 3 * _MARGIN, legend.shape[1] + 2 * _MARGIN)
    head = 64
    page = np.full((head + height + _MARGIN + legend.shape[0] + _MARGIN, page_width, 3), 255, np.uint8)
    _write(page, title, 14, _MARGIN, page_width - 2 * _MARGIN)
    _write(page, "most probable class", 40, _MARGIN, width)
    _paste(page, left, head, _MARGIN)
    column = 2 * _MARGIN + width
    _write(page, "total uncertainty, nats", 40, column, page_width - column)
    _paste(page, right, head, column)
    _paste(page, legend, head + height + _MARGIN, _MARGIN)
    _paste(page, _bar(top), head + height + _MARGIN, max(column, page_width - 220 - _MARGIN))
    return page


def _sample(scratch: Scratch, layer: Layer, band: int) -> NDArray[Any]:
    """A layer's band at the picture's size, by nearest neighbour; small maps are magnified."""
    height, width = scratch.product.grid.shape
    longest = max(height, width)
    shape = [max(1, round(side * _SIDE / longest)) for side in (height, width)]
    if longest <= _SIDE // 2:
        shape = [side * (_SIDE // longest) for side in (height, width)]
    rows = ((np.arange(shape[0]) + 0.5) * height / shape[0]).astype(int)
    cols = ((np.arange(shape[1]) + 0.5) * width / shape[1]).astype(int)
    found = []
    for strip in scratch.strips(UNIT):
        mine = rows[(rows >= strip.row) & (rows < strip.row + strip.height)] - strip.row
        if mine.size:
            found.append(scratch.read(layer, strip, [band])[0][mine[:, None], cols])
    return np.concatenate(found)


def _uncertainty(scratch: Scratch, layer: Layer) -> tuple[NDArray[np.float64], float]:
    """Total entropy, NaN where there is none, and the top of its scale: what a certain guess of K lacks."""
    numbers = _sample(scratch, layer, 0)
    values = np.where(numbers == layer.nodata, np.nan, numbers * layer.scale)
    return values, float(np.log(scratch.product.classes))


def _class_picture(codes: NDArray[np.uint8], scheme: Scheme) -> Image:
    table = np.full((256, 3), _NODATA, np.uint8)
    for entry in scheme.classes:
        table[entry.code] = entry.rgb
    return table[codes]


def _ramp_picture(values: NDArray[np.float64], top: float) -> Image:
    out = _ramp(np.nan_to_num(values) / top)
    out[np.isnan(values)] = _NODATA
    return out


def _ramp(share: NDArray[np.float64]) -> Image:
    places = [place for place, _ in RAMP]
    colours = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in RAMP])
    channels = [np.interp(share, places, colours[:, i]) for i in range(3)]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


def _legend(scheme: Scheme, shares: NDArray[np.float64], width: int) -> Image:
    """A swatch, the name and the share of each class, in columns."""
    column, line = 340, 26
    columns = max(1, (width - 240) // column)
    rows = -(-len(scheme.classes) // columns)
    image = np.full((max(rows * line, 60), max(width, column), 3), 255, np.uint8)
    for i, (entry, share) in enumerate(zip(scheme.classes, shares, strict=True)):
        top, left = i // columns * line, i % columns * column
        image[top + 2 : top + 20, left : left + 28] = entry.rgb
        number = f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else "<0.1 %"
        space = column - 44 - 12 * (len(number) + 2)
        _write(image, entry.name, top + 4, left + 38, space)
        _write(image, number, top + 4, left + 38 + space, 12 * (len(number) + 1))
    return image


def _bar(top: float) -> Image:
    """The scale of the uncertainty."""
    image = np.full((48, 220, 3), 255, np.uint8)
    image[2:20] = _ramp(np.linspace(0, 1, 220))
    _write(image, "0", 28, 0, 100)
    label = f"{top:.2f}"
    _write(image, label, 28, 220 - 12 * len(label), 100)
    return image


def _paste(page: Image, part: Image, top: int, left: int) -> None:
    height, width = min(part.shape[0], page.shape[0] - top), min(part.shape[1], page.shape[1] - left)
    where = page[top : top + height, left : left + width]
    mine = part[:height, :width]
    white = (mine == 255).all(axis=-1)
    where[~white] = mine[~white]


def _write(page: Image, text: str, top: int, left: int, width: int) -> None:
    """Letters 14 pixels high; what does not fit is cut, with dots to say so."""
    letters = max(1, width // 12)
    shown = text if len(text) <= letters else text[: max(letters - 2, 1)] + ".."
    dots = lettering(shown, 2)
    height = min(dots.shape[0], page.shape[0] - top)
    across = min(dots.shape[1], page.shape[1] - left)
    page[top : top + height, left : left + across][dots[:height, :across]] = _INK


def lettering(text: str, size: int = 2) -> NDArray[np.bool_]:
    """Dots of a line of text, (row, col); letters that are not there lose their accents or become '?'.

    >>> print("\\n".join("".join(".#"[int(dot)] for dot in row) for row in lettering("T1", size=1)))
    #####...#...
    ..#....##...
    ..#.....#...
    ..#.....#...
    ..#.....#...
    ..#.....#...
    ..#....###..
    """
    plain = unicodedata.normalize("NFKD", text)
    letters = [c for c in plain if not unicodedata.combining(c)]
    glyphs = [_GLYPHS[ord(c) - 32] if 32 <= ord(c) < 127 else _GLYPHS[ord("?") - 32] for c in letters]
    gap = np.zeros((7, 1), np.bool_)
    line = np.concatenate([part for glyph in glyphs for part in (glyph, gap)] or [gap], axis=1)
    return np.kron(line, np.ones((size, size), np.bool_))
