"""The picture of the README: a scene, its map and the uncertainty of the map, side by side.

`python tools/map_picture.py DEMO PNG`, where DEMO is the folder that `uncover demo` made.
"""

import io
import json
import sys
from pathlib import Path

import matplotlib
import numpy as np
import rasterio
from embedded_scene_pictures import DETAIL, classes, save, true_colour
from matplotlib.patches import Patch
from PIL import Image

from uncover.studies.landscape import SceneFiles

matplotlib.use("Agg")
from matplotlib import pyplot as plt

#: Pixels of 10 m along a side of the cut, and what is drawn as the brightest uncertainty.
SIDE, MOST = 300, 1.0


def scheme(path: Path) -> list[dict]:
    """Classes of a map with their names and colours."""
    with rasterio.open(path) as dataset:
        return json.loads(dataset.tags()["UNCOVER_SCHEME"])["classes"]


def main(demo: str, goal: str) -> None:
    """Draw the three panels."""
    folder, files = Path(demo), SceneFiles.open(Path(demo) / "scene")
    colour, mapped = true_colour(files, 2020), classes(folder / "map" / "class.tif")
    with rasterio.open(folder / "map" / "uncertainty.tif") as dataset:
        total = dataset.read(1) * dataset.scales[0]
    top, left = (int(share * (len(total) - SIDE)) for share in DETAIL)
    cut = np.s_[top : top + SIDE, left : left + SIDE]
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9})
    figure = plt.figure(figsize=(9.6, 3.7), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 0.03), hspace=0.02)
    axes = [figure.add_subplot(grid[0, i]) for i in range(3)]
    axes[0].imshow(colour[cut])
    axes[1].imshow(mapped[cut], interpolation="nearest")
    shown = axes[2].imshow(total[cut], cmap="magma", vmin=0, vmax=MOST, interpolation="nearest")
    titles = ("Sentinel-2 scene, simulated", "Most probable class", "Uncertainty of the class (nat)")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
    below = figure.add_subplot(grid[1, 1])
    below.set_axis_off()
    patches = [Patch(facecolor=one["colour"], label=one["name"]) for one in scheme(folder / "map/class.tif")]
    below.legend(
        handles=patches, ncols=4, loc="upper center", frameon=False, handlelength=1, columnspacing=0.9,
        handletextpad=0.4, fontsize=8.5, borderaxespad=0,
    )  # fmt: skip
    figure.colorbar(shown, cax=figure.add_subplot(grid[1, 2]), orientation="horizontal")
    axes[0].plot([SIDE - 115, SIDE - 15], [SIDE - 12] * 2, color="white", linewidth=3, solid_capstyle="butt")
    axes[0].text(SIDE - 65, SIDE - 20, "1 km", color="white", ha="center", va="bottom")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=150)
    save(Image.open(drawn).convert("RGB"), Path(goal))


if __name__ == "__main__":
    main(*sys.argv[1:])
