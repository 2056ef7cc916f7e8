"""The table of areas: each class on the map, and in each world of the measurement."""

from __future__ import annotations

import csv
import io

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme


def area_table(areas: NDArray[np.float64], scheme: Scheme, georeferenced: bool) -> str:
    """CSV text; areas in hectares, or in pixels where the map has no reference system.

    The mean and the standard deviation over the worlds say what the error that pixels share does to an area:
    it does not average out.

    >>> areas = np.array([[3.0, 1.0], [300.0, 100.0], [200.0, 200.0], [400.0, 0.0]])
    >>> print(area_table(areas, Scheme.of_names(["forest", "water"]), True).splitlines()[1])
    1,forest,3,0.03,0.75,2,0.03,0.0141421,0.02,0.04
    """
    unit = "ha" if georeferenced else "pixels"
    pixels, whole, worlds = areas[0], areas[1], areas[2:]
    scale = 1e-4 if georeferenced else 1.0
    total = whole.sum()
    n = len(worlds)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"mean_{unit}", f"standard_deviation_{unit}", *(f"world_{i}_{unit}" for i in range(1, n + 1))]
    writer.writerow(["code", "class", "pixels", f"area_{unit}", "share", "worlds", *names])
    for k, entry in enumerate(scheme.classes):
        each = worlds[:, k] * scale
        spread = float(each.std(ddof=1)) if n > 1 else 0.0
        numbers = [whole[k] * scale, whole[k] / total if total else 0.0]
        row = [entry.code, entry.name, int(pixels[k]), *(f"{v:.9g}" for v in numbers), n]
        writer.writerow([*row, f"{each.mean():.9g}", f"{spread:.6g}", *(f"{v:.9g}" for v in each)])
    return text.getvalue()
