"""A small map with everything that a report can show."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from map_cases import BANDS, CLASSES, MEANS, SPREAD, fitted, grid, save_model
from map_products import write_points
from uncover import pipeline
from uncover.labels import Scheme
from uncover.pipeline.mapping import MapOptions
from uncover.raster import CubeBlock, CubeLayout, write_cube

HEIGHT, WIDTH, WORLDS = 72, 96, 4
#: What the truth holds: the classes of the model, and one that it was never trained on.
TRUTH = Scheme.of_names([*CLASSES, "snow"], name="truth")


@dataclass(frozen=True)
class Case:
    """A folder with a map, and the arrays that it was made of."""

    folder: Path
    truth: np.ndarray  # (row, col), codes of TRUTH
    values: np.ndarray  # (world, band, row, col)


def _scene():
    rng = np.random.default_rng(5)
    patches = np.kron(rng.integers(0, 3, (9, 12)), np.ones((8, 8), int))
    means = np.vstack([MEANS, [0.9, 0.9, 0.9, 0.8]])
    truth = patches.copy()
    truth[:10, :12] = 3
    base = np.moveaxis(means[truth] + rng.normal(size=(HEIGHT, WIDTH, 4)) * SPREAD, 2, 0)
    shift = rng.normal(size=(WORLDS, 4, 1, 1)) * 0.006
    return truth + 1, (base[None] + shift).astype(np.float32)


def write_scene_cube(path, values, quality=None):
    layout = CubeLayout(
        grid(HEIGHT, WIDTH), BANDS, realisations=len(values), identity="made-scene",
        coordinates={"aod": np.linspace(0.1, 0.2, len(values))}, attributes={"level": "L2A"},
    )  # fmt: skip
    quality = np.zeros((HEIGHT, WIDTH), np.uint16) if quality is None else quality
    write_cube(path, layout, lambda w: CubeBlock(w, values[:, :, *w.slices], quality[w.slices]))


def build(folder):
    """Scene, labels, model, map, truth and two evaluations, in the layout of the demonstration."""
    truth, values = _scene()
    folder.mkdir()
    write_scene_cube(folder / "cube.zarr", values)
    where = grid(HEIGHT, WIDTH)
    labels = np.where(np.random.default_rng(1).random(truth.shape) < 0.2, truth, 0).astype(np.uint8)
    labels[truth == 4] = 0
    pipeline.write_labels(folder / "labels.tif", labels, where, Scheme.of_names(CLASSES))
    pipeline.write_labels(folder / "truth.tif", truth.astype(np.uint8), where, TRUTH)
    model = save_model(folder / "model.uncover", fitted("shared", WORLDS), scene="made-scene")
    pipeline.map_scene(model, folder / "cube.zarr", folder / "map", MapOptions(threads=1, paired=True))
    rng = np.random.default_rng(3)
    places = rng.choice((HEIGHT - 12) * (WIDTH - 14), 150, replace=False)  # a pixel is one sample
    rows, cols = 12 + places // (WIDTH - 14), 14 + places % (WIDTH - 14)
    names = np.array([*CLASSES, "snow"])[truth[rows, cols] - 1]
    points = write_points(folder / "points.gpkg", rows, cols, names, grid=where)
    drawn = pipeline.EvaluateOptions(class_field="class", design="random", draws=50)
    pipeline.evaluate_map(folder / "map", points, drawn).write(folder / "evaluation")
    return Case(folder, truth, values)
