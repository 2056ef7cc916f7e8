"""The kernel on a graphics processor against the processor's, where there is a device."""

from dataclasses import replace

import numpy as np
import pytest
from class_cases import Classes, every_world, path
from numpy.testing import assert_allclose

from uncover.bayes.budget import entropy
from uncover.bayes.components import Components
from uncover.estimators.discriminant import BayesianLDA
from uncover.measurement.predictor import Predictor

cupy = pytest.importorskip("cupy", reason="the kernel needs CuPy and a device of NVIDIA")


def _devices():
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


pytestmark = pytest.mark.skipif(_devices() == 0, reason="CuPy is installed, but there is no device")

from uncover.engines.cuda import summarise_on_device  # noqa: E402

SCALE, OFFSET = 1e-4, -0.01


def problem(p, K, n_worlds, n, kind):
    """Classes, numbers (feature, pixel), coefficients, and surface reflectance in double precision."""
    rng = np.random.default_rng((p, K, n_worlds))
    classes = Classes.random(rng, p, K, n_worlds, centre=0.25, spread=0.03)
    low, high = np.array([[0.02], [0.6], [0.05]]), np.array([[0.1], [0.9], [0.2]])
    coefficients = rng.uniform(low, high, (n_worlds, 3, p))
    numbers = rng.uniform(500, 5000, (p, n)).round()
    toa = (numbers * SCALE + OFFSET).T
    X = np.stack([(toa - a) / (b + s * (toa - a)) for a, b, s in coefficients], axis=1)
    return classes, numbers.astype(kind), coefficients, X


def expected_layers(classes, X, pairs):
    """All layers from the plain formulas."""
    n = len(pairs.worlds)
    probability, typicality, inner, model = (part / n for part in classes.plainly(X, pairs)[:4])
    total = entropy(probability.T)
    measurement = total - inner
    ordered = np.sort(probability, axis=0)
    return {
        "probability": probability,
        "total": total,
        "measurement": np.maximum(measurement, 0),
        "model": model,
        "overlap": total - measurement - model,
        "margin": ordered[-1] - ordered[-2],
        "typicality": typicality.max(axis=0),
    }


def assert_layers(layers, expected):
    for name, values in expected.items():
        bound = 1e-5 if name in ("probability", "margin") else 1e-4
        assert_allclose(getattr(layers, name).get(), values, rtol=0, atol=bound, err_msg=name)


@pytest.mark.parametrize("kind", ["uint16", "float32", "float64"])
@pytest.mark.parametrize(("p", "K", "n_worlds"), [(1, 2, 3), (2, 3, 1), (7, 5, 4), (10, 4, 25), (13, 6, 2)])
def test_layers_are_those_of_the_formulas(kind, p, K, n_worlds):
    classes, numbers, coefficients, X = problem(p, K, n_worlds, 1500, kind)
    densities = classes.densities
    pairs = every_world(densities, n_worlds)
    layers = summarise_on_device(
        densities, cupy.asarray(numbers), pairs, coefficients=coefficients,
        scale=np.full(p, SCALE), offset=np.full(p, OFFSET),
    )  # fmt: skip
    assert_layers(layers, expected_layers(classes, X, pairs))


def test_more_worlds_than_shared_memory_holds():
    classes, numbers, coefficients, X = problem(10, 6, 60, 700, "float64")
    pairs = every_world(classes.densities, 60)
    layers = summarise_on_device(
        classes.densities, cupy.asarray(numbers), pairs, coefficients=coefficients,
        scale=np.full(10, SCALE), offset=np.full(10, OFFSET),
    )  # fmt: skip
    assert_layers(layers, expected_layers(classes, X, pairs))


def test_without_coefficients_there_is_one_realisation():
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 6, 3)
    X = classes.draw(rng, 900)
    pairs = classes.densities.pairs(1)
    layers = summarise_on_device(classes.densities, cupy.asarray(X[:, 0].T), pairs)
    assert_layers(layers, expected_layers(classes, X, pairs))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_planes_may_be_realisations(kind):
    rng = np.random.default_rng(1)
    classes = Classes.random(rng, 7, 4, n_worlds=5)
    X = classes.draw(rng, 800, n_realisations=5).astype(kind)
    pairs = every_world(classes.densities, 5)
    layers = summarise_on_device(classes.densities, cupy.asarray(X.transpose(1, 2, 0)), pairs)
    assert_layers(layers, expected_layers(classes, X, pairs))


def test_the_class_of_every_world_is_kept():
    classes, numbers, coefficients, X = problem(10, 4, 25, 3000, "float64")
    pairs = every_world(classes.densities, 25)
    layers = summarise_on_device(
        classes.densities, cupy.asarray(numbers), pairs, coefficients=coefficients,
        scale=np.full(10, SCALE), offset=np.full(10, OFFSET),
    )  # fmt: skip
    expected = classes.plainly(X, pairs).best
    assert np.mean(layers.world_classes.get() != expected) < 1e-4  # ties, to rounding
    disagreement = (layers.world_classes.get() != layers.probability.get().argmax(axis=0)).mean(axis=0)
    assert_allclose(layers.disagreement.get(), disagreement, atol=1e-6)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("p", [6, 7])
def test_classes_of_several_components(kind, p):
    rng = np.random.default_rng(2)
    classes = Classes.random(rng, p, 5, n_worlds=3)
    densities = replace(classes.densities, components=Components(np.array([0, 0, 1, 2, 2]), 1.3))
    planes = classes.draw(rng, 900, n_realisations=3).astype(kind).transpose(1, 2, 0)
    pairs = every_world(densities, 3)
    layers = summarise_on_device(densities, cupy.asarray(planes), pairs)
    with path("numpy"):
        expected = densities.summarise(planes.astype(np.float64), pairs)
    assert_allclose(layers.probability.get(), expected.probability / 3, rtol=0, atol=1e-5)
    assert_allclose(layers.typicality.get(), expected.typicality.max(axis=0) / 3, rtol=0, atol=1e-4)
    assert_allclose(layers.model.get(), expected.model / 3, rtol=0, atol=1e-4)
    assert np.mean(layers.world_classes.get() != expected.best) < 1e-3


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_classes_of_one_covariance(kind):
    rng = np.random.default_rng(3)
    y = np.arange(60) % 4
    model = BayesianLDA().fit(rng.normal(size=(60, 5)) + 0.7 * y[:, None], y)
    densities, pairs = Predictor(model.model_, paired=True, method="exact").densities(1, np.ones(5, bool))
    assert densities.between is not None
    planes = (rng.normal(size=(5, 900)) + 1.0).astype(kind)
    layers = summarise_on_device(densities, cupy.asarray(planes), pairs)
    with path("numpy"):
        expected = densities.summarise(planes[None].astype(np.float64), pairs)
    assert_allclose(layers.probability.get(), expected.probability, rtol=0, atol=1e-5)
    assert_allclose(layers.model.get(), expected.model, rtol=0, atol=1e-4)


def test_what_single_precision_cannot_is_recomputed():
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 10, 4, correlation=0.999, dof=(1e6, 1.1e6), spread=0.2)
    X = classes.draw(rng, 3000).astype(np.float32)
    pairs = classes.densities.pairs(1)
    layers = summarise_on_device(classes.densities, cupy.asarray(X[:, 0].T), pairs)
    wrong = np.abs(layers.probability.get().T - classes.probability(X, pairs)).max()
    assert wrong <= 1e-5


def test_tensors_in_tensors_out():
    torch = pytest.importorskip("torch", reason="tensors need torch")
    if not torch.cuda.is_available():
        pytest.skip("torch is installed without CUDA")
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 6, 3)
    X = classes.draw(rng, 900)
    tensor = torch.from_numpy(np.ascontiguousarray(X[:, 0].T)).cuda()
    layers = summarise_on_device(classes.densities, tensor, classes.densities.pairs(1))
    assert all(part.is_cuda for part in layers)
    expected = expected_layers(classes, X, classes.densities.pairs(1))
    assert_allclose(layers.probability.cpu().numpy(), expected["probability"], atol=1e-5)
