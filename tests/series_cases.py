"""A small place on several dates, with classes that differ by season, clouds, and labels."""

import numpy as np

from map_cases import grid, write_scene

DATES = ("2024-03-10", "2024-05-21", "2024-07-30", "2024-10-05")
BANDS = ("B03", "B04", "B08", "B12")
CLASSES = ("forest", "cereal", "maize", "water")
# Greenness of each class on each date: cereal is green in May and bare in July, maize the reverse.
GREEN = np.array([[0.55, 0.8, 0.8, 0.6], [0.6, 0.9, 0.2, 0.25], [0.2, 0.25, 0.9, 0.3], [0.0, 0.0, 0.0, 0.0]])
SHAPE = (70, 130)


def means(date):
    """Mean reflectance of each class on a date, (class, band)."""
    green = GREEN[:, date, None]
    found = (1 - green) * [0.09, 0.12, 0.20, 0.22] + green * [0.07, 0.03, 0.42, 0.10]
    found[-1] = [0.05, 0.03, 0.02, 0.01]
    return found


def classes(shape=SHAPE, seed=0):
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, len(CLASSES), (shape[0] // 10 + 1, shape[1] // 10 + 1))
    return np.kron(patches, np.ones((10, 10), int))[: shape[0], : shape[1]]


def values(date, truth, seed=0, spread=0.03):
    rng = np.random.default_rng((seed, date))
    found = means(date)[truth] * (1 + 2 * spread * rng.normal(size=(*truth.shape, 1)))
    found += spread * rng.normal(size=(*truth.shape, len(BANDS)))
    return np.moveaxis(found, 2, 0).astype(np.float32)


def clouds(date, shape=SHAPE, share=0.4, seed=0):
    """Blobs that cover about this share of a date."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng((seed, 7, date))
    field = gaussian_filter(rng.normal(size=shape), 6)
    return field > np.quantile(field, 1 - share)


class Place:
    """Files of the place: a scene and a mask for each date, and labels."""

    def __init__(self, folder, shape=SHAPE, share=0.4, dates=(0, 1, 2, 3), **grid_options):
        self.folder, self.truth, self.days = folder, classes(shape), [DATES[i] for i in dates]
        self.grid = grid(*shape, **grid_options)
        self.values = [values(i, self.truth) for i in dates]
        self.clouds = [clouds(i, shape, share) for i in dates]
        self.scenes, self.mask = [], str(folder / "mask-{date}.tif")
        for day, planes, cloudy in zip(self.days, self.values, self.clouds, strict=True):
            shown = np.where(cloudy, np.float32(0.6), planes)  # a cloud is bright
            self.scenes.append(write_scene(folder / f"scene-{day}.tif", shown, self.grid, BANDS))
            mask = np.where(cloudy, 9, 4).astype(np.uint8)[None]
            write_scene(folder / f"mask-{day}.tif", mask, self.grid, ["SCL"])
        labels = np.where(np.random.default_rng(5).random(shape) < 0.3, self.truth + 1, 0)
        self.labels = write_scene(folder / "labels.tif", labels.astype(np.uint8)[None], self.grid, None)
        names = ",".join(f"{i + 1}={name}" for i, name in enumerate(CLASSES))
        self.label_options = ["--labels", self.labels, "--classes", names]
        self.masked = ["--mask", self.mask, "--mask-values", "scl"]

    def features(self, dates=None):
        """Features of all pixels with gaps, (pixel, feature)."""
        each = [np.where(c, np.nan, v) for v, c in zip(self.values, self.clouds, strict=True)]
        return np.concatenate(each).reshape(len(each) * len(BANDS), -1).T
