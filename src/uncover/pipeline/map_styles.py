"""The look of a map: its colour ramp, the QGIS styles of its layers, and the overview picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.pipeline.ground import pixel_metres
from uncover.pipeline.map_facts import percent
from uncover.raster.errors import require
from uncover.raster.grid import Window
from uncover.raster.product import UNIT, Layer, Product
from uncover.raster.quality import Quality
from uncover.raster.scene import Scene
from uncover.raster.scratch import Scratch
from uncover.raster.tiles import BandFile, open_raster

#: From none to much, readable in print and by every eye (dark blue to yellow).
RAMP = ((0.0, "#0d0887"), (0.25, "#7e03a8"), (0.5, "#cc4778"), (0.75, "#f89540"), (1.0, "#f0f921"))
_FLAGS = (
    *("#4d4d4d", "#b35806", "#e0e0e0", "#542788", "#9ecae1"),
    *("#d73027", "#e7298a", "#1b9e77", "#fdae61", "#7f7f00", "#8c8c8c"),
)
_NODATA = (225, 225, 225)
_SIDE = 720  # pixels of the longer side of each map of the overview
_MOST = 2048 * 2048  # pixels of a scene that is read in full for it
_TRUE = ("B04", "B03", "B02")

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
        if layer.name not in ("probability", "uncertainty", "unknown", "shares"):
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
    return _filled("paletted.qml", entries=lines)


def pseudocolour(band: int, largest: float, scale: float, name: str) -> str:
    """A ramp of colours from 0 to the largest number of a band.

    QGIS applies the scale of a file before the style: numbers are those that a reader sees.
    """
    top = largest * scale
    items = "".join(
        f'          <item value="{value:.6g}" color="{colour}" alpha="255" label="{value:.3g}"/>\n'
        for value, colour in ((share * top, colour) for share, colour in RAMP)
    )
    plain = re.sub("[-<>&]", " ", name)
    return _filled("ramp.qml", band=band, top=f"{top:.6g}", items=items, name=plain)


def _filled(template: str, **values: object) -> str:
    text = resources.files("uncover.pipeline").joinpath(f"styles/{template}").read_text("utf-8")
    return Template(text).substitute(values)


def ramp(share: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Colours of shares from 0 to 1 along the ramp: red, green and blue on a last axis.

    >>> ramp(np.array([0.0, 1.0])).tolist()
    [[13, 8, 135], [240, 249, 33]]
    """
    colours = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for _, colour in RAMP])
    mixed = [np.interp(share, [place for place, _ in RAMP], channel) for channel in colours.T]
    return np.rint(np.stack(mixed, axis=-1)).astype(np.uint8)


def write_overview(
    path: Path, scratch: Scratch, scene: Scene | None, title: str, shares: NDArray[np.float64]
) -> None:
    """Write a PNG for print: scene, class, its probability, total uncertainty, typicality, and the legend."""
    require("matplotlib")
    from matplotlib import style

    layers = {layer.name: layer for layer in scratch.product.layers}
    codes = _sampled(scratch, layers["class"], 0)
    planes = [_numbers(scratch, layers["probability"], i) for i in range(scratch.product.classes)]
    shown = {"Total uncertainty, nats": 0, "Typicality": 5}  # bands of the uncertainty layer
    values = {name: _numbers(scratch, layers["uncertainty"], band) for name, band in shown.items()}
    panels = {"Probability of the class": np.max(planes, axis=0), **values}
    pictures = {}
    if scene is not None and (picture := thumbnail(scene, codes.shape)) is not None:
        bands = pictured_bands(scene.bands)
        pictures["Scene" if bands == _TRUE else f"Scene: {', '.join(dict.fromkeys(bands))}"] = picture
    metres = scratch.product.grid.shape[1] * pixel_metres(scratch.product.grid)[1]
    with style.context("default"):
        figure = _overview(title, scratch.product.scheme, codes, pictures, panels, shares)
        if scratch.product.grid.crs is not None:
            _scale_bar(figure.axes[0], metres / codes.shape[1])
        figure.savefig(path, dpi=150, metadata={"Software": None})


def _overview(
    title: str,
    scheme: Scheme,
    codes: NDArray[np.uint8],
    pictures: Mapping[str, NDArray[np.uint8]],
    panels: Mapping[str, NDArray[Any]],
    shares: NDArray[np.float64],
) -> Any:
    """Panels in two rows, and the legend in the last place."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    height, width = codes.shape
    figure = Figure(figsize=(10.5, 1.0 + 2 * min(max(3.3 * height / width, 2.0), 6.0)), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axes = iter(figure.subplots(2, 3).flat)
    grey = tuple(level / 255 for level in _NODATA)
    rising = LinearSegmentedColormap.from_list("uncover", RAMP).with_extremes(bad=grey)
    falling = rising.reversed()
    for number, (name, picture) in enumerate([*pictures.items(), ("Class", _class_picture(codes, scheme))]):
        _panel(next(axes), f"({'abcdef'[number]}) {name}").imshow(picture, interpolation="nearest")
    most = float(np.log(len(scheme.classes)))
    looks = (
        (Normalize(1 / len(scheme.classes), 1), falling),
        (Normalize(0, most), rising),
        (LogNorm(1e-4, 1), falling),
    )
    for number, (name, plane) in enumerate(panels.items(), start=len(pictures) + 1):
        ax = _panel(next(axes), f"({'abcdef'[number]}) {name}")
        scale, doubtful = looks[number - len(pictures) - 1]
        least = np.maximum(plane, 1e-4) if isinstance(scale, LogNorm) else plane
        image = ax.imshow(np.ma.masked_invalid(least), cmap=doubtful, norm=scale, interpolation="nearest")
        figure.colorbar(image, ax=ax, location="bottom", shrink=0.8, aspect=30, pad=0.02).ax.tick_params(
            labelsize=7
        )
    legend = next(axes)
    names = [entry.name if len(entry.name) < 30 else f"{entry.name[:28]}…" for entry in scheme.classes]
    patches = [Patch(color=c.colour, label=f"{n}, {percent(float(s))}")
               for c, n, s in zip(scheme.classes, names, shares, strict=True)]  # fmt: skip
    if (codes == 0).any():
        patches.append(Patch(color=grey, label="no class"))
    size, columns = (8, 1) if len(patches) <= 12 else (6, 2)
    legend.legend(handles=patches, loc="upper left", frameon=False, fontsize=size, ncols=columns,
                  title="Class, share of the mapped area", title_fontsize=8, alignment="left")  # fmt: skip
    legend.text(0.02, 0.02, "Bright is doubtful, in all colour scales.", fontsize=8)
    for ax in (legend, *axes):
        ax.set_axis_off()
    return figure


def _scale_bar(ax: Any, metres: float) -> None:
    """A bar of a round length, about a quarter of the picture wide; `metres` is the side of a pixel."""
    rows, columns = ax.images[0].get_array().shape[:2]
    power = 10.0 ** np.floor(np.log10(columns * metres / 4))
    length = max(step for step in (power, 2 * power, 5 * power) if step <= columns * metres / 4)
    x, y = 0.04 * columns + np.array([0, length / metres]), 0.95 * rows
    for width, colour in ((5, "black"), (2.5, "white")):
        ax.plot(x, [y, y], color=colour, linewidth=width, solid_capstyle="butt")
    text = f"{length / 1000:g} km" if length >= 1000 else f"{length:g} m"
    ax.text(x.mean(), y - 0.02 * rows, text, color="white", ha="center", va="bottom", fontsize=8,
            bbox={"facecolor": "black", "alpha": 0.6, "pad": 1.5, "linewidth": 0})  # fmt: skip


def _panel(ax: Any, title: str) -> Any:
    ax.set_title(title, fontsize=9, loc="left")
    ax.set_xticks([])
    ax.set_yticks([])
    return ax


def _class_picture(codes: NDArray[np.uint8], scheme: Scheme) -> NDArray[np.uint8]:
    table = np.full((256, 3), _NODATA, np.uint8)
    for entry in scheme.classes:
        table[entry.code] = entry.rgb
    return table[codes]


def _numbers(scratch: Scratch, layer: Layer, band: int) -> NDArray[Any]:
    """A band at the size of a picture, NaN where there is none."""
    numbers = _sampled(scratch, layer, band)
    return np.where(np.isnan(numbers) | (numbers == layer.nodata), np.nan, numbers * np.float32(layer.scale))


def thumbnail(scene: Scene, shape: tuple[int, int]) -> NDArray[np.uint8] | None:
    """The scene in natural colours at the size of a picture, read from overviews (row, col, 3).

    Bands that are not in a file of the scene's own reference system, along its axes, are read in full; None
    where that would be more than `_MOST` pixels.
    """
    bands = pictured_bands(scene.bands)
    planes = [_from_file(scene, band, shape) for band in bands]
    if not any(plane is None for plane in planes):
        return stretched(np.array(planes))
    if scene.grid.width * scene.grid.height > _MOST:
        return None
    rows, cols = (_lines(n, side) for n, side in zip(shape, scene.grid.shape, strict=True))
    return stretched(band_reader(scene, bands)(scene.grid.window)[:, rows[:, None], cols])


def band_reader(scene: Scene, bands: tuple[str, ...]) -> Callable[[Window], NDArray[np.float32]]:
    """Reader of some bands of a window of a scene, (band, row, col), which leaves the others alone."""
    groups = tuple(group for group in scene.groups if set(group.bands) & set(bands))
    few = replace(scene, bands=tuple(band for group in groups for band in group.bands), groups=groups)
    places = [few.bands.index(band) for band in bands]
    return lambda window: few.read(window).reflectance[places]


def pictured_bands(bands: tuple[str, ...]) -> tuple[str, ...]:
    """Bands in red, green and blue: true colour where it is there, else the first three, last first.

    >>> pictured_bands(("B02", "B04", "B8A", "B11"))
    ('B8A', 'B04', 'B02')
    """
    return _TRUE if set(_TRUE) <= set(bands) else (bands * 3)[2::-1]


def _from_file(scene: Scene, band: str, shape: tuple[int, int]) -> NDArray[np.floating[Any]] | None:
    """A band at the size of a picture, by the overviews of its file; None without such a file."""
    from rasterio.enums import Resampling
    from rasterio.windows import from_bounds

    group = next(group for group in scene.groups if band in group.bands)
    source, at = group.source, group.bands.index(band)
    _, b, _, d, e, _ = source.grid.transform
    if not isinstance(source, BandFile) or source.grid.crs != scene.grid.crs or b or d or e > 0:
        return None
    with open_raster(source.path) as file:
        window = from_bounds(*scene.grid.bounds, transform=file.transform)
        how = {"window": window, "out_shape": shape, "resampling": Resampling.nearest}
        numbers = file.read(source.indexes[at], **how)
    return np.asarray(group.calibrations[at].apply(numbers)[0])


def _lines(count: int, side: int) -> NDArray[np.intp]:
    """So many rows or columns of a side, evenly."""
    return ((np.arange(count) + 0.5) * side / count).astype(np.intp)


def stretched(picture: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Bytes (row, col, 3): each band from its 1st to its 99th percentile, a little brighter in the dark."""
    out = np.empty((*picture.shape[1:], 3), np.uint8)
    for i, plane in enumerate(picture):
        known = plane[np.isfinite(plane)]
        low, high = np.percentile(known, [1, 99]) if known.size else (0.0, 1.0)
        share = np.clip((np.nan_to_num(plane, nan=low) - low) / max(high - low, 1e-9), 0, 1)
        out[..., i] = np.rint(255 * share**0.8)
    out[~np.isfinite(picture).all(axis=0)] = 200
    return out


def _sampled(scratch: Scratch, layer: Layer, band: int) -> NDArray[Any]:
    """One band of a layer at the size of a picture, by nearest neighbour; small maps are magnified."""
    shape = scratch.product.grid.shape
    longest = max(shape)
    factor = _SIDE // longest if longest <= _SIDE // 2 else _SIDE / longest
    lines = [_lines(max(1, round(side * factor)), side) for side in shape]
    found = []
    for strip in scratch.strips(UNIT):
        mine = lines[0][(lines[0] >= strip.row) & (lines[0] < strip.row + strip.height)] - strip.row
        if mine.size:
            found.append(scratch.read(layer, strip, [band])[0][mine[:, None], lines[1]])
    return np.concatenate(found)
