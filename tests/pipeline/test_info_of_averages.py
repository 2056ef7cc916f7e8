"""Models that are made of other models: `info` describes them, `map` says that it cannot use them."""

import numpy as np
import pytest

from uncover import BayesianClassifier, BayesianMDA
from uncover.pipeline.describing import _model
from uncover.pipeline.mapping import MapOptions, Prepared
from uncover.raster.errors import SceneError


@pytest.mark.parametrize("cls", [BayesianClassifier, BayesianMDA])
def test_info_describes_and_map_refuses(cls, rng, tmp_path):
    y = np.array(["a", "b"])[np.arange(60) % 2]
    X = rng.normal(size=(60, 2)) + 3.0 * (np.arange(60) % 2)[:, None]
    file = tmp_path / "m.uncover"
    cls().fit(X, y).save(file)
    found = _model(file)
    assert found.facts["estimator"] == cls.__name__
    assert found.facts["classes"] == {"a": 30, "b": 30}
    with pytest.raises(SceneError, match=f"this is a {cls.__name__}"):
        Prepared.of(file, tmp_path / "scene.tif", MapOptions())
