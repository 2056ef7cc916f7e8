"""Small scenes and models for tests of maps."""

import hashlib
from pathlib import Path

import numpy as np
import rasterio
from rasterio.transform import Affine

from uncover import BayesianQDA
from uncover.measurement import Features
from uncover.raster import Grid

BANDS = ("B02", "B03", "B04", "B08")
CLASSES = ("forest", "grassland", "water")
MEANS = np.array([[0.03, 0.05, 0.03, 0.30], [0.06, 0.09, 0.08, 0.25], [0.05, 0.04, 0.02, 0.02]])
SPREAD = np.array([0.01, 0.012, 0.014, 0.04])


def grid(height, width, crs="EPSG:32633"):
    return Grid(crs, (10.0, 0.0, 300000.0, 0.0, -10.0, 5000000.0), width, height)


def reflectance(height, width, seed=0):
    """Patches of classes with noise, (band, row, col)."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, 3, (height // 16 + 1, width // 16 + 1))
    classes = np.kron(patches, np.ones((16, 16), int))[:height, :width]
    values = MEANS[classes] + rng.normal(size=(height, width, 4)) * SPREAD
    return np.moveaxis(values, 2, 0).astype(np.float32)


def write_scene(path, values, where=None, names=BANDS, **profile):
    place = where or grid(*values.shape[1:])
    profile = {"dtype": str(values.dtype), "crs": place.crs, "nodata": None} | profile
    scales, offsets = profile.pop("scale", None), profile.pop("offset", 0.0)
    with rasterio.open(
        path, "w", driver="GTiff", width=place.width, height=place.height, count=len(values),
        transform=Affine(*place.transform), **profile,
    ) as file:  # fmt: skip
        file.update_tags(PROCESSING_LEVEL="Level-2A")  # before the pixels, so that the header stays in front
        file.write(values)
        if names is not None:
            for i, name in enumerate(names, start=1):
                file.set_band_description(i, name)
        if scales is not None:
            file.scales, file.offsets = (scales,) * len(values), (offsets,) * len(values)
    return Path(path)


def fitted(realisations="pooled", worlds=None, n=600, seed=1, cls=BayesianQDA):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = MEANS[y] + rng.normal(size=(n, 4)) * SPREAD
    if worlds is not None:
        X = X[:, None, :] + rng.normal(size=(1, worlds, 4)) * 0.003
    model = cls(realisations=realisations).fit(X, np.array(CLASSES)[y])
    model.feature_names_in_ = np.array(BANDS, dtype=object)
    return model


def save_model(path, model, scene="trained-here"):
    provenance = {"sources": [{"name": scene}]}
    features = Features.of_level(BANDS, "L2A").as_dict()
    model.save(path, units="reflectance", provenance=provenance, features=features)
    return Path(path)


def contents(folder):
    """Hash of every file of a product, but the one that tells of the run."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != "run.json"
    }
