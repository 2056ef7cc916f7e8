"""Pictures of the embedded scene for the documentation: `python tools/embedded_scene_pictures.py SCENE DIR`.

SCENE is the folder `scene` that `uncover demo` made; needs Pillow.
"""

import sys
from pathlib import Path

import numpy as np
import rasterio
from PIL import Image

from uncover.pipeline import RealiseOptions, SceneOptions, realise_scene
from uncover.raster import open_scene
from uncover.studies.landscape import SceneFiles

#: Reflectance of red, green and blue that is drawn white, and the gamma: as an eye would have it.
WHITE = np.array([0.16, 0.15, 0.13])[:, None, None]
GAMMA = 0.75
WIDTH, CROP = 720, 360
#: Where the detail lies, as shares of the side.
DETAIL = (0.46, 0.55)


def true_colour(files: SceneFiles, year: int) -> np.ndarray:
    """Red, green and blue of a product, corrected at the reported optical depth and stretched."""
    known = files.facts["years"][str(year)]
    options = RealiseOptions(aod=known["reported_aod"], uncertainty=0.0, draws=1)
    bands = SceneOptions(bands=("B04", "B03", "B02"))
    values = realise_scene(open_scene(files.product(year), bands), options).read().values[0]
    return (255 * np.clip(values / WHITE, 0, 1) ** GAMMA).astype(np.uint8).transpose(1, 2, 0)


def classes(path: Path) -> np.ndarray:
    """A raster of codes in its own colours."""
    with rasterio.open(path) as dataset:
        codes, table = dataset.read(1), dataset.colormap(1)
    palette = np.array([table.get(code, (0, 0, 0, 0))[:3] for code in range(256)], np.uint8)
    return palette[codes]


def beside(*planes: np.ndarray) -> Image.Image:
    """Pictures side by side with a white gap."""
    gap = np.full((planes[0].shape[0], 8, 3), 255, np.uint8)
    return Image.fromarray(np.hstack([part for plane in planes for part in (plane, gap)][:-1]))


def smaller(plane: np.ndarray, width: int, how: Image.Resampling) -> np.ndarray:
    """The same with another number of pixels."""
    return np.asarray(Image.fromarray(plane).resize((width, width), how))


def save(picture: Image.Image, path: Path) -> None:
    """As a small PNG: 256 colours are enough for the eye here."""
    picture.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main(source: str, goal: str) -> None:
    """Write the two pictures."""
    files, out = SceneFiles.open(source), Path(goal)
    colour = {year: true_colour(files, year) for year in (2020, 2021)}
    overview = smaller(colour[2020], WIDTH, Image.Resampling.BOX)
    truth = smaller(classes(files.truth(2020)), WIDTH, Image.Resampling.NEAREST)
    save(beside(overview, truth), out / "embedded-scene.png")
    side = min(CROP, len(colour[2020]))
    top, left = (int(share * (len(colour[2020]) - side)) for share in DETAIL)
    cut = (slice(top, top + side), slice(left, left + side))
    kinds = classes(files.kinds(2020))
    parts = [smaller(p[cut], 480, Image.Resampling.NEAREST) for p in (colour[2020], colour[2021], kinds)]
    save(beside(*parts), out / "embedded-scene-detail.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
