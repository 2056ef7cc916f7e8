"""A pool on a graphics processor against the processor's, or its kernels where there is no device."""

import numpy as np
import pytest

from emulated_cuda import COMPILER, device, emulated
from uncover import BayesianClassifier
from uncover.measurement.pooled import PoolSummariser

K, P = 3, 4


@pytest.fixture(scope="module", autouse=True)
def place():
    """A device; or its kernels on the processor, thread by thread."""
    if device() is not None:
        yield
    elif COMPILER is None:
        pytest.skip("there is no device, and no C++ compiler to emulate one")
    else:
        with emulated():
            yield


def pixels(rng, n, worlds):
    """Samples of classes that overlap, in worlds of one smooth effect; the classes of the first."""
    y = rng.integers(0, K, n)
    truth = 1.0 + 0.15 * y[:, None] + 0.1 * rng.normal(size=(n, P)) + 0.05 * rng.gamma(2.0, size=(n, P))
    gains = 1.0 + 0.03 * np.linspace(-1, 1, worlds)[:, None] * np.linspace(0.5, 1, P)
    X = truth[:, None] * gains
    return (X[:, 0] if worlds == 1 else X).astype(np.float32), y


@pytest.mark.parametrize(
    ("worlds", "kind", "n"), [(1, "pooled", 600), (3, "pooled", 600), (7, "pooled", 1300), (4, "shared", 600)]
)
def test_a_pool_says_the_same_there(worlds, kind, n, rng):
    model = BayesianClassifier(realisations=kind).fit(*pixels(rng, 240, worlds)).model_
    assert len({type(member.model) for member in model.members}) >= 2
    X, _ = pixels(rng, n, worlds)
    planes = np.ascontiguousarray(np.moveaxis(X.reshape(n, worlds, P), 0, 2))
    there = PoolSummariser(model, device="cuda")
    there.check_device(worlds, noisy=False)
    expected, found = PoolSummariser(model).summarise(planes), there.summarise(planes)
    wrong = np.abs(found.probability - expected.probability).max(axis=0)
    assert np.quantile(wrong, 0.999) <= 1e-3
    assert np.median(wrong) <= 1e-5
    assert np.quantile(np.abs(found.parts - expected.parts), 0.995) <= 2e-3
    assert np.mean(found.world_classes != expected.world_classes) <= 2e-3
    assert found.world_classes.shape == expected.world_classes.shape
    assert np.mean(np.abs(found.disagreement - expected.disagreement) > 1e-6) <= 5e-3


def test_values_at_the_top_of_the_atmosphere_are_corrected(rng):
    model = BayesianClassifier(realisations="pooled").fit(*pixels(rng, 240, 3)).model_
    low, high = np.array([[0.02], [0.6], [0.05]]), np.array([[0.04], [0.7], [0.06]])
    coefficients = rng.uniform(low, high, (3, 3, P))
    planes = pixels(rng, 300, 1)[0].T[None]
    expected = PoolSummariser(model).summarise(planes, coefficients=coefficients)
    found = PoolSummariser(model, device="cuda").summarise(planes, coefficients=coefficients)
    assert np.quantile(np.abs(found.probability - expected.probability), 0.999) <= 1e-3


def test_noise_is_refused(rng):
    model = BayesianClassifier().fit(*pixels(rng, 100, 1)).model_
    with pytest.raises(ValueError, match="--device cuda maps pixels as they are"):
        PoolSummariser(model, device="cuda").check_device(1, noisy=True)
