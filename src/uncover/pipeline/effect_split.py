"""The measurement part of a map by effect: its mean over the mapped area, and the spread of the areas."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.effect_shares import error_of_shares, shares_of_variance
from uncover.raster.mapper import Mapper
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import AREA_ROWS
from uncover.raster.scratch import Scratch

#: Columns of `shares.csv` before those of the classes.
COLUMNS = ("effect", "mean_nat", "share")


def effect_split(scratch: Scratch, mapper: Mapper, areas: NDArray[np.float64]) -> dict[str, Any]:
    """Each effect's mean part of the measurement part, and its share in the variance of each class's area.

    {} where the map is not split. Areas vary with the worlds alone, so the noise of single pixels has no
    share in them; where they have no spread over worlds, none is given.
    """
    layer = next((layer for layer in scratch.product.layers if layer.name == "shares"), None)
    if layer is None:
        return {}
    total, area = np.zeros(len(layer.bands)), 0.0
    for window in scratch.units:
        raw = scratch.read(layer, window)
        known = np.isfinite(raw[0]) if layer.dtype == "float32" else raw[0] != layer.nodata
        weight = pixel_areas(scratch.product.grid, window)[known]
        total += layer.scale * (raw[:, known].astype(np.float64) @ weight)
        area += float(weight.sum())
    mean = total / (area or 1.0)
    share = mean / (mean.sum() or 1.0)
    names, product = [entry.name for entry in scratch.product.scheme.classes], scratch.product
    worlds = areas[len(AREA_ROWS) :][: product.worlds, : product.classes]
    spread = mapper.without_spread is None
    columns = mapper.effect_columns
    none = np.empty((0, worlds.shape[1]))
    of_areas = shares_of_variance(worlds, columns) if spread else none
    errors = error_of_shares(worlds, columns) if spread else none
    found: dict[str, dict[str, Any]] = {
        name: {"mean_nat": float(f"{m:.6g}"), "share": float(f"{s:.6g}")}
        for name, m, s in zip(layer.bands, mean, share, strict=True)
    }
    for name, row, error in zip(columns, of_areas, errors, strict=False):
        for key, numbers in (("of_area_variance", row), ("of_area_variance_error", error)):
            known = {each: float(f"{v:.4g}") for each, v in zip(names, numbers, strict=True) if v == v}
            if known:
                found[name][key] = known
    return found


def split_table(split: Mapping[str, Any]) -> str:
    """CSV text: effects by rows; by columns the share of each in the variance over the worlds of each class's
    counted area, and the Monte Carlo standard errors of these shares.
    """
    classes = next((list(row["of_area_variance"]) for row in split.values() if "of_area_variance" in row), [])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    kinds = ("of_area_variance", "of_area_variance_error")
    writer.writerow([*COLUMNS, *(f"{kind}: {name}" for kind in kinds for name in classes)])
    for effect, row in split.items():
        of_areas = (row.get(kind, {}).get(name, "") for kind in kinds for name in classes)
        writer.writerow([effect, row["mean_nat"], row["share"], *of_areas])
    return text.getvalue()
