"""Pictures of a map as data addresses, and the viewer: layers side by side, and the story of each pixel."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.pipeline.map_product import SET_SIZE
from uncover.pipeline.map_styles import ramp
from uncover.raster.product import UNCERTAINTY
from uncover.raster.quality import Quality
from uncover.report.page import Fragment, packed
from uncover.report.pixels import Stories, quality_words
from uncover.report.style import require_report
from uncover.report.summary import ClassSummary, Summary

TITLES = {
    "total": ("Total uncertainty", "nats", "how unsure the class is, all causes together"),
    "measurement": (
        "… from the measurement",
        "nats",
        "what a perfect measurement would remove (less if pooled)",
    ),
    "model": ("… from the model", "nats", "what more training data would remove"),
    "overlap": (
        "… from overlapping classes",
        "nats",
        "what neither would remove: the classes look alike here",
    ),
    "margin": (
        "Margin",
        "",
        "probability of the class less that of the runner-up; near 0 it is a close call",
    ),
    "typicality": ("Typicality", "", "p-value; near 0 the pixel looks like nothing that was trained"),
    "unknown": ("None of the classes", "", "probability that the pixel is of no trained class"),
}
#: Flags in the order in which they are shown where a pixel has several, with their colours (Okabe and Ito).
FLAGS = {
    Quality.CLOUD: "#999999",
    Quality.SHADOW: "#4d4d4d",
    Quality.SNOW: "#56B4E9",
    Quality.SATURATED: "#F0E442",
    Quality.OUTSIDE_DOMAIN: "#CC79A7",
    Quality.DISAGREE: "#0072B2",
    Quality.LOW_MARGIN: "#E69F00",
}
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


def viewer(summary: Summary) -> tuple[Fragment, dict[str, Any]]:
    """The part itself, and the data that its script takes."""
    layers = [*_pictures(summary), *_uncertainties(summary), *_set_sizes(summary)]
    flags = _flags(summary)
    layers += [flags] if flags else []
    fragment = Fragment("viewer.html", {"layers": layers, "identity": summary.identity})
    data = {
        "size": [summary.grid.width, summary.grid.height],
        "transform": [float(v) for v in summary.grid.transform],
        "crs": short_crs(summary.grid.crs),
        "layers": [
            {key: layer[key] for key in ("name", "title", "unit", "legend", "reading")} for layer in layers
        ],
        "classes": [{"name": c.name, "colour": c.colour} for c in summary.classes],
        "parts": [*UNCERTAINTY, "unknown"][: len(summary.stories.uncertainty)],
        "flags": {str(int(bit)): quality_words(bit)[0] for bit in Quality},
        "stories": stories_data(summary.stories),
        "model": None if summary.model is None else model_data(summary.model),
    }
    return fragment, data


def _layer(name: str, title: str, unit: str, reading: str, image: str, legend: list[Any]) -> dict[str, Any]:
    return {"name": name, "title": title, "unit": unit, "reading": reading, "image": image, "legend": legend}


def _pictures(summary: Summary) -> list[dict[str, Any]]:
    pictures = summary.pictures
    swatches = [[c.name, c.colour] for c in summary.classes]
    classes = indexed_png(pictures.classes, summary.colours)
    found = [
        _layer(
            "class", "Most probable class", "", "the class with the largest probability", classes, swatches
        )
    ]
    if pictures.colours is not None:
        bands = ", ".join(pictures.colour_bands)
        words = f"bands {bands} in red, green and blue"
        found.append(_layer("scene", "The scene", "", words, photograph(pictures.colours), []))
    return found


def _uncertainties(summary: Summary) -> list[dict[str, Any]]:
    layers, found = summary.pictures.layers, []
    top = entropy_top(layers["total"], len(summary.classes))
    for name, (title, unit, reading) in TITLES.items():
        if name not in layers:
            continue
        most = top if unit else 1.0
        end = f"{most:.2g} {unit} or more" if unit else "1"
        legend = [["0", *ramp_colours(9), end]]
        found.append(_layer(name, title, unit, reading, ramp_png(layers[name], most), legend))
    return found


def entropy_top(total: NDArray[np.floating[Any]], classes: int) -> float:
    """Common end of the scales of all entropies of a map, so that they can be compared by eye."""
    known = total[np.isfinite(total)]
    top = float(np.percentile(known, 99.5)) if known.size else 1.0
    return float(np.clip(top, 0.01, np.log(max(classes, 2))))


def _set_sizes(summary: Summary) -> list[dict[str, Any]]:
    """Layer of the number of classes that cannot be excluded; none where the map has no sets."""
    sizes = summary.pictures.layers.get(SET_SIZE)
    if sizes is None:
        return []
    most = max(2.0, float(np.nanmax(sizes, initial=0.0)))
    coverage = summary.item["properties"].get("uncover:coverage", float("nan"))
    reading = (
        "number of classes that cannot be excluded; calibrated to hold the true one for "
        f"{100 * coverage:g} % of the pixels of each class that are like those kept for it, fewer on other "
        "dates (of 90 %, 81 % a year later on the embedded scene); with 0 none fits"
    )
    legend = [["0", *ramp_colours(9), f"{most:.0f}"]]
    return [_layer(SET_SIZE, "Size of the set of classes", "", reading, ramp_png(sizes, most), legend)]


def _flags(summary: Summary) -> dict[str, Any] | None:
    """The first flag of each pixel, as a picture; None where nothing is flagged."""
    quality = summary.pictures.quality
    numbers = np.zeros(quality.shape, np.uint8)
    for i, bit in reversed(list(enumerate(FLAGS, start=1))):
        numbers[quality & np.uint16(bit) > 0] = i
    present = [i for i in range(1, len(FLAGS) + 1) if (numbers == i).any()]
    if not present:
        return None
    words = [quality_words(int(bit))[0] for bit in FLAGS]
    colours = list(FLAGS.values())
    legend = [[words[i - 1], colours[i - 1]] for i in present]
    return _layer("flags", "Flags", "", "pixels to be careful with", indexed_png(numbers, colours), legend)


def stories_data(stories: Stories) -> dict[str, Any]:
    """Stories as packed arrays: whole steps of 1e-4, realisations as deviations from their mean."""
    data: dict[str, Any] = {
        "rows": packed(stories.rows.astype(np.int32)),
        "cols": packed(stories.cols.astype(np.int32)),
        "classes": packed(stories.classes),
        "probability": packed(_steps(stories.probability)),
        "uncertainty": packed(_steps(stories.uncertainty)),
        "quality": packed(stories.quality),
        "first": _most_interesting(stories),
    }
    if stories.spectra is None:
        return data
    spectra = stories.spectra
    away = spectra.realisations - spectra.mean[:, :, None, :]
    unit = np.nanmax(np.abs(away), axis=(0, 1, 2), initial=0.0) / 127
    whole = np.rint(np.nan_to_num(away / np.where(unit > 0, unit, 1))).astype(np.int8)
    data |= {
        "mean": packed(spectra.mean.astype(np.float32)),
        "away": packed(whole),
        "unit": [float(u) for u in unit],
        "realisations": int(whole.shape[2]),
    }
    if spectra.deviation is not None:
        data["deviation"] = packed(spectra.deviation.astype(np.float32))
    if spectra.worlds is not None:
        data["worlds"] = packed(spectra.worlds)
    return data


def _steps(values: NDArray[np.floating[Any]]) -> NDArray[np.uint16]:
    return np.rint(np.nan_to_num(values) * 1e4).astype(np.uint16)


def _most_interesting(stories: Stories) -> int:
    """Place in the lattice of the pixel to begin with: one whose uncertainty has all three parts."""
    parts = np.nan_to_num(stories.uncertainty[1:4])
    return int(np.argmax(parts.min(axis=0) + 1e-3 * parts.sum(axis=0)))


def model_data(model: ClassSummary) -> dict[str, Any]:
    """Mean and standard deviation of each class in each band, as stories show them."""
    return {
        "bands": list(model.bands),
        "units": model.units or "value",
        "mean": model.mean.round(6).tolist(),
        "deviation": model.deviation.round(6).tolist(),
    }


def short_crs(crs: str | None) -> str:
    """Name of a reference system in few letters; empty without one."""
    if crs is None:
        return ""
    return crs if len(crs) < 20 else crs.split('"')[1] if '"' in crs else "map coordinates"
