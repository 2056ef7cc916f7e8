"""The picture of the landing page: real land (tile T11UPT), its map and the uncertainty of the map.

`python tools/real_land_picture.py PNG [FOLDER]`. Reads ../shared/data/tile_t11upt (Sentinel-2B, 2020-08-04),
maps a window of it by the recommended model with three commands, and draws. FOLDER keeps what the commands
write; a map that is there is drawn again.
"""

import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
import rasterio
from embedded_scene_pictures import classes, save
from matplotlib.patches import Patch
from PIL import Image
from rasterio.windows import from_bounds

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DATA = Path(__file__).parents[2] / "shared" / "data" / "tile_t11upt"
#: West, south, east and north of the window, in metres of UTM zone 11N.
WINDOW = (689940, 5731440, 706740, 5748240)
#: Reflectance that is drawn white, the gamma, and the entropy that is drawn brightest (two equal classes).
WHITE, GAMMA, MOST = 0.18, 0.6, np.log(2)
#: Codes, names and colours of the land cover raster.
LEGEND = {
    1: ("built-up", "#C2526B"),
    2: ("vegetation", "#7FA65A"),
    3: ("bare soil", "#E2CF95"),
    4: ("water", "#2F6DB5"),
}


def make_map(folder: Path) -> None:
    """Labels from the land cover raster, a model, and the map of the window."""
    table = ['name = "landcover"', "nodata = [0, -999]"]
    for code, (name, colour) in LEGEND.items():
        table += ["[[classes]]", f"code = {code}", f'name = "{name}"', f'colour = "{colour}"']
    (folder / "classes.toml").write_text("\n".join(table) + "\n", encoding="utf-8")
    scene = [str(DATA / "reflectance_60m.tif"), *["--level", "L2A", "--scale", "0.0001", "--offset", "0"]]
    labels = f"--scheme classes.toml --like {scene[0]} --pixel-purity 1 --spacing 300 --out labels.tif"
    uncover("labels", str(DATA / "landcover.tif"), *labels.split(), cwd=folder)
    fit = "--labels labels.tif --count 4000 --model recommended --block 1200 --out model.uncover"
    uncover("fit", *scene, *fit.split(), cwd=folder)
    where = ["--bbox", *map(str, WINDOW), "--bbox-crs", "EPSG:32611"]
    what = [scene[0], "--level", "L2A", "--date", "2020-08-04"]
    uncover("map", "model.uncover", *what, *where, "--out", "map", cwd=folder)


def uncover(*arguments: str, cwd: Path) -> None:
    """Run one command."""
    subprocess.run([sys.executable, "-m", "uncover.cli", *arguments], cwd=cwd, check=True)


def true_colour() -> np.ndarray:
    """Red, green and blue of the window, stretched."""
    with rasterio.open(DATA / "reflectance_60m.tif") as dataset:
        bands = [dataset.descriptions.index(name) + 1 for name in ("B04", "B03", "B02")]
        values = dataset.read(bands, window=from_bounds(*WINDOW, dataset.transform)) / 1e4
    return np.clip(values / WHITE, 0, 1).transpose(1, 2, 0) ** GAMMA


def draw(folder: Path) -> Image.Image:
    """Three panels: the scene, the most probable class, the uncertainty of the class."""
    with rasterio.open(folder / "map" / "class.tif") as dataset:
        legend = json.loads(dataset.tags()["UNCOVER_SCHEME"])["classes"]
    with rasterio.open(folder / "map" / "uncertainty.tif") as dataset:
        total = dataset.read(1) * dataset.scales[0]
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10})
    figure = plt.figure(figsize=(8.4, 3.5), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(1, 0.035), hspace=0.02)
    axes = [figure.add_subplot(grid[0, i]) for i in range(3)]
    axes[0].imshow(true_colour(), interpolation="nearest")
    axes[1].imshow(classes(folder / "map" / "class.tif"), interpolation="nearest")
    shown = axes[2].imshow(total, cmap="magma", vmin=0, vmax=MOST, interpolation="nearest")
    titles = ("Sentinel-2, 4 August 2020", "Most probable class", "Uncertainty of the class (nat)")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=11)
        axis.set_axis_off()
    below = figure.add_subplot(grid[1, :2])
    below.set_axis_off()
    below.legend(
        handles=[Patch(facecolor=one["colour"], label=one["name"]) for one in legend],
        ncols=4, loc="upper center", frameon=False, handlelength=1, columnspacing=0.9, handletextpad=0.4,
        fontsize=10, borderaxespad=0,
    )  # fmt: skip
    bar = figure.colorbar(shown, cax=figure.add_subplot(grid[1, 2]), orientation="horizontal", extend="max")
    bar.set_ticks([0, 0.2, 0.4, 0.6])
    side = len(total)
    axes[0].plot([side - 62, side - 12], [side - 12] * 2, color="white", linewidth=3, solid_capstyle="butt")
    axes[0].text(side - 37, side - 19, "3 km", color="white", ha="center", va="bottom")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=150)
    return Image.open(drawn).convert("RGB")


def main(goal: str, kept: str | None = None) -> None:
    """Make the map where there is none, and draw it."""
    if not DATA.is_dir():
        print("no picture of real land: ../shared/data/tile_t11upt is not here")
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(kept or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "map").is_dir():
            make_map(folder)
        save(draw(folder), Path(goal))


if __name__ == "__main__":
    main(*sys.argv[1:])
