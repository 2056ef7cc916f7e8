"""Products with labels, and one small problem as arrays and as a table, for tests of fitting."""

import numpy as np
import pandas

from label_maps import patchy, write_map
from safe_trees import TEN, build_safe
from uncover.labels import load_scheme
from uncover.models.files import read_model_file
from uncover.raster import Grid

SCHEME = load_scheme("lulucf")


def safe_with_labels(folder, product="L2A_04.00", seed=0):
    """A SAFE tree whose bands depend on the class, and three years of a UKCEH map on its grid."""
    tree = build_safe(folder, product, seed=seed)
    rng = np.random.default_rng(seed)
    codes = patchy(4, (tree.size, tree.size), [1, 3, 4, 20], patch=12, noise=0)
    for band, metres in TEN.items():
        step = metres // 10
        level = 1200 + 300 * codes[::step, ::step].astype(int) % 1900
        tree.write(band, (level + rng.integers(0, 800, level.shape)).astype(np.uint16))
    clouds = np.full((tree.size // 2, tree.size // 2), 4, np.uint8)
    clouds[20:50, 30:60] = 9
    if tree.level == "L2A":
        tree.write("SCL", clouds)
    grid = Grid(tree.crs, (10, 0, tree.origin[0], 0, -10, tree.origin[1]), tree.size, tree.size)
    files = []
    for year in (2018, 2019, 2020):
        drifting = np.where(rng.random(codes.shape) < 0.05, 14, codes).astype(np.uint8)
        percent = rng.integers(90, 101, codes.shape).astype(np.uint8)
        files.append(write_map(folder / f"lcm{year}.tif", drifting, percent, grid=grid))
    return tree, files, np.kron(clouds == 4, np.ones((2, 2), bool))


def contents_of(path):
    """What a model file holds, but for the record of where the optical depth was taken from."""
    document, arrays = read_model_file(path)
    for source in document["provenance"]["sources"]:
        source.pop("uncertainty", None)
    return document, {name: array.tobytes() for name, array in arrays.items()}


def names_of(codes):
    return np.array(["", *SCHEME.names])[codes]


def table_of(values, codes, realisations=False):
    where = codes > 0
    frames = []
    for r in range(values.shape[2] if realisations else 1):
        frame = pandas.DataFrame(values[where][:, r].astype(float), columns=["a", "b", "c", "d"])
        frames.append(
            frame.assign(land_cover=names_of(codes[where]), sample=np.arange(len(frame)), realisation=r)
        )
    together = pandas.concat(frames)
    return together if realisations else together.drop(columns=["sample", "realisation"])
