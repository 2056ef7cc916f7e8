"""Prediction by the array API, on NumPy's own arrays: the same answers as on the host, without a device."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from uncover import BayesianLDA, BayesianMDA, BayesianQDA
from uncover.measurement.device import DevicePrediction


@pytest.mark.skipif(not hasattr(np.ndarray, "device"), reason="this NumPy does not have the array API")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("realisations", ["pooled", "shared"])
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianMDA])
def test_answers_are_those_of_the_host(cls, realisations, dtype, rng):
    y = np.arange(120) % 3
    X = 0.3 * rng.normal(size=(120, 4, 5)) + rng.normal(size=(120, 1, 5)) + 1.2 * y[:, None, None]
    model = cls(realisations=realisations).fit(X, y)
    found = DevicePrediction(model.fitted_value(), X.astype(dtype), paired=True)
    exact = 1e-12 if dtype == "float64" else 1e-5
    assert_allclose(found.probability(), model.predict_proba(X), rtol=0, atol=exact)
    assert_allclose(found.log_density(), model.score_samples(X), rtol=0, atol=10 * exact)
    assert_allclose(found.typicality(), model.typicality(X, per_class=True), rtol=0, atol=1e-6)
    budget, expected = found.budget(200), model.uncertainty(X, n_draws=200)
    assert_allclose(budget.total, expected.total, rtol=0, atol=exact)
    assert_allclose(budget.model, expected.model, rtol=0, atol=exact)
