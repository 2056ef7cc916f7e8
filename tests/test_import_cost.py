"""What importing takes: heavy libraries only where they are needed, none of them for arrays on a device."""

import subprocess
import sys

import numpy as np
import pytest
import rasterio
from rasterio.transform import Affine

from uncover import BayesianClassifier, BayesianMDA, BayesianQDA, ConformalSets

HEAVY = "rasterio", "dask", "xarray", "zarr", "pandas", "matplotlib", "pyogrio", "shapely"

BLOCKED = f"""
import importlib, importlib.abc, pkgutil, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
for package in ("bayes", "engines", "models", "estimators", "atmosphere"):
    package = "uncover." + package
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(found.__path__, package + "."):
        importlib.import_module(module.name)

import numpy as np
from uncover import BayesianQDA
from uncover.measurement.summary import Summariser

rng = np.random.default_rng(0)
y = np.arange(90) % 3
X = rng.normal(size=(90, 4, 2)) + 3.0 * y[:, None, None]
model = BayesianQDA(realisations="shared").fit(X, y)
P = model.predict_proba(X)
assert np.allclose(P.T, Summariser(model).summarise(X.transpose(1, 2, 0)).probability)
print("ok")
"""

LIGHT = f"""
import sys
import uncover
found = [name for name in {(*HEAVY, "sklearn", "scipy", "scipy.stats", "click")!r} if name in sys.modules]
print(*found)
"""


def run(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_classification_needs_no_raster_library():
    assert run(BLOCKED) == "ok"


def test_importing_uncover_imports_nothing_heavy():
    assert run(LIGHT) == ""


def test_importing_uncover_takes_little_longer_than_numpy():
    took = run(
        "import time, numpy; start = time.process_time(); import uncover; print(time.process_time() - start)"
    )
    assert float(took) < 0.3


def test_a_scene_can_be_opened_before_scikit_learn_is_imported():
    assert run("import sys, uncover.pipeline.mapping; print('sklearn' in sys.modules)") == "False"


READS_PIXELS = """
import sys
import numpy as np
from uncover.measurement.pooled import make_summariser
from uncover.models.files import load_fitted
make_summariser(load_fitted(sys.argv[1])).summarise(np.zeros((1, 2, 5)))
print([name for name in ("sklearn", "pandas", "scipy.stats") if name in sys.modules])
"""


@pytest.mark.parametrize(
    "model",
    [BayesianQDA(), BayesianMDA(), BayesianClassifier(), ConformalSets(BayesianClassifier(), coverage=0.5)],
)
def test_pixels_are_read_without_scikit_learn(model, tmp_path, rng):
    y = np.arange(40) % 2
    model.fit(rng.normal(size=(40, 2)) + y[:, None], y).save(tmp_path / "m.uncover")
    assert run(READS_PIXELS, tmp_path / "m.uncover") == "[]"


def test_rasters_are_described_without_scipy(tmp_path):
    """`uncover info` starts at once: SciPy takes longer to import than all that it reads of a raster."""
    path = tmp_path / "a.tif"
    profile = {"driver": "GTiff", "width": 4, "height": 3, "count": 1, "transform": Affine.scale(10.0, -10.0)}
    with rasterio.open(path, "w", dtype="uint8", crs="EPSG:32633", **profile) as file:
        file.write(np.ones((1, 3, 4), np.uint8))
    code = (
        "import sys\nfrom uncover.cli import main\n"
        "main(['info', sys.argv[1]], standalone_mode=False)\n"
        "print([name for name in ('scipy', 'pandas', 'sklearn', 'xarray', 'dask') if name in sys.modules])"
    )
    assert run(code, str(path)).splitlines()[-1] == "[]"
