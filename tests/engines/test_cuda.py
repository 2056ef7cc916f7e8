"""The kernel on a graphics processor against the processor's, where there is a device."""

from dataclasses import fields, replace

import numpy as np
import pytest
from class_cases import Classes, every_world, path
from numpy.testing import assert_allclose
from scipy.special import softmax

from emulated_cuda import COMPILER, device, emulated
from uncover.bayes.budget import entropy
from uncover.bayes.components import Components
from uncover.bayes.inversion import surface_reflectance
from uncover.engines import cuda
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.cuda import (
    DrawnModels,
    entropy_given_draws,
    p_values_on_device,
    probability_on_device,
    summarise_on_device,
)
from uncover.engines.few_worlds import few_worlds
from uncover.estimators.discriminant import BayesianLDA
from uncover.measurement.predictor import Predictor

SCALE, OFFSET = 1e-4, -0.01


@pytest.fixture(scope="module", autouse=True)
def cupy():
    """CuPy where there is a device; elsewhere kernels run on the processor, thread by thread."""
    found = device()
    if found is not None:
        yield found
    elif COMPILER is None:
        pytest.skip("there is no device, and no C++ compiler to emulate one")
    else:
        with emulated() as stand_in:
            yield stand_in


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
def test_layers_are_those_of_the_formulas(kind, p, K, n_worlds, cupy):
    classes, numbers, coefficients, X = problem(p, K, n_worlds, 1500, kind)
    densities = classes.densities
    pairs = every_world(densities, n_worlds)
    layers = summarise_on_device(
        densities, cupy.asarray(numbers), pairs, coefficients=coefficients,
        scale=np.full(p, SCALE), offset=np.full(p, OFFSET),
    )  # fmt: skip
    assert_layers(layers, expected_layers(classes, X, pairs))


def smooth_problem(rng, p, K, n_worlds, n, n_models=1, spread=0.06):
    """Classes, numbers (feature, pixel) and coefficients of worlds that one effect makes, smoothly."""
    classes = Classes.random(rng, p, K, centre=0.25, spread=spread)
    classes = replace(classes, worlds=classes.worlds * n_models, variances=classes.variances * n_models)
    effect = np.sort(rng.normal(0, 0.3, n_worlds))[:, None] * np.linspace(1.0, 0.3, p)
    air = [0.1 * np.exp(0.1 * effect), 0.8 - 0.05 * effect, 0.1 + 0.02 * effect]
    coefficients = np.stack(air, axis=1)
    path, slope, albedo = coefficients[n_worlds // 2]
    x = classes.draw(rng, n)[:, 0]
    toa = path + slope * x / (1 - albedo * x)
    return classes, np.clip((toa.T - OFFSET) / SCALE, 0, 60_000), coefficients


@pytest.mark.parametrize(("kind", "p", "K", "n_models"), [("uint16", 4, 3, 1), ("float32", 5, 2, 25)])
def test_many_worlds_follow_from_few_where_one_effect_makes_them(kind, p, K, n_models, cupy, monkeypatch):
    rng = np.random.default_rng(p)
    classes, numbers, coefficients = smooth_problem(rng, p, K, 25, 900, n_models)
    numbers = np.round(numbers).astype(kind) if kind == "uint16" else numbers.astype(kind)
    densities = classes.densities
    pairs = every_world(densities, 25)
    assert few_worlds(densities, pairs, coefficients).weights.shape[1] <= 10
    units = {"coefficients": coefficients, "scale": np.full(p, SCALE), "offset": np.full(p, OFFSET)}
    read = count_pixels_read(monkeypatch)
    found = summarise_on_device(densities, cupy.asarray(numbers), pairs, **units)
    assert read[0] < 450  # the others follow
    X = np.stack([surface_reflectance(numbers.T * SCALE + OFFSET, *each) for each in coefficients], axis=1)
    assert_layers(found, expected_layers(classes, X, pairs))
    assert np.mean(found.world_classes.get() != classes.plainly(X, pairs).best) < 1e-3


def count_pixels_read(monkeypatch):
    """Let few pixels be many; the numbers of pixels that are read in all worlds, call by call."""
    read, summarise = [], cuda._Problem._summarise

    def count(problem, chosen, *more):
        read.append(problem.count if chosen is None else len(chosen))
        summarise(problem, chosen, *more)

    monkeypatch.setattr(cuda, "MANY_PIXELS", 1)
    monkeypatch.setattr(cuda._Problem, "_summarise", count)
    return read


def test_where_few_worlds_do_not_suffice_all_are_read(cupy, monkeypatch):
    """Pixels that the classes lie far from on the curve of the worlds, and worlds that differ at random."""
    classes, numbers, coefficients = smooth_problem(np.random.default_rng(0), 4, 3, 25, 900)
    numbers = np.random.default_rng(1).uniform(500, 5000, numbers.shape).astype(np.float32)
    densities, read = classes.densities, count_pixels_read(monkeypatch)
    pairs = every_world(densities, 25)
    coarse = few_worlds(densities, pairs, coefficients)
    wrong = coarse._replace(weights=np.roll(coarse.weights, 1, axis=0))
    monkeypatch.setattr(cuda, "few_worlds", lambda *_: wrong)
    units = {"scale": np.full(4, SCALE), "offset": np.full(4, OFFSET)}
    layers = summarise_on_device(densities, cupy.asarray(numbers), pairs, coefficients=coefficients, **units)
    X = np.stack([surface_reflectance(numbers.T * SCALE + OFFSET, *each) for each in coefficients], axis=1)
    assert_layers(layers, {"probability": expected_layers(classes, X, pairs)["probability"]})
    assert sum(read) > 100
    monkeypatch.undo()
    scattered = problem(4, 3, 25, 10, "float32")[2]
    assert few_worlds(densities, pairs, scattered) is None


def test_what_correction_rounds_is_recomputed(cupy):
    """Values that lose digits by scaling and correcting, for classes that are narrow."""
    classes, numbers, coefficients = smooth_problem(np.random.default_rng(4), 4, 3, 25, 900, spread=0.03)
    numbers, pairs = np.round(numbers).astype(np.uint16), every_world(classes.densities, 25)
    units = {"coefficients": coefficients, "scale": np.full(4, SCALE), "offset": np.full(4, OFFSET)}
    layers = summarise_on_device(classes.densities, cupy.asarray(numbers), pairs, **units)
    X = np.stack([surface_reflectance(numbers.T * SCALE + OFFSET, *each) for each in coefficients], axis=1)
    assert_layers(layers, {"probability": expected_layers(classes, X, pairs)["probability"]})


def test_more_worlds_than_shared_memory_holds(cupy):
    classes, numbers, coefficients, X = problem(10, 6, 60, 700, "float64")
    pairs = every_world(classes.densities, 60)
    layers = summarise_on_device(
        classes.densities, cupy.asarray(numbers), pairs, coefficients=coefficients,
        scale=np.full(10, SCALE), offset=np.full(10, OFFSET),
    )  # fmt: skip
    assert_layers(layers, expected_layers(classes, X, pairs))


def test_without_coefficients_there_is_one_realisation(cupy):
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 6, 3)
    X = classes.draw(rng, 900)
    pairs = classes.densities.pairs(1)
    layers = summarise_on_device(classes.densities, cupy.asarray(X[:, 0].T), pairs)
    assert_layers(layers, expected_layers(classes, X, pairs))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_planes_may_be_realisations(kind, cupy):
    rng = np.random.default_rng(1)
    classes = Classes.random(rng, 7, 4, n_worlds=5)
    X = classes.draw(rng, 800, n_realisations=5).astype(kind)
    pairs = every_world(classes.densities, 5)
    layers = summarise_on_device(classes.densities, cupy.asarray(X.transpose(1, 2, 0)), pairs)
    assert_layers(layers, expected_layers(classes, X, pairs))


def test_the_class_of_every_world_is_kept(cupy):
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
def test_classes_of_several_components(kind, p, cupy):
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
def test_classes_of_one_covariance(kind, cupy):
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


def test_what_single_precision_cannot_is_recomputed(cupy):
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 10, 4, correlation=0.999, dof=(1e6, 1.1e6), spread=0.2)
    X = classes.draw(rng, 3000).astype(np.float32)
    pairs = classes.densities.pairs(1)
    layers = summarise_on_device(classes.densities, cupy.asarray(X[:, 0].T), pairs)
    wrong = np.abs(layers.probability.get().T - classes.probability(X, pairs)).max()
    assert wrong <= 1e-5


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("p", [6, 7])
def test_samples_get_probabilities_and_p_values(kind, p, cupy):
    rng = np.random.default_rng(p)
    classes = Classes.random(rng, p, 4, n_worlds=5)
    X = classes.draw(rng, 500, n_realisations=5).astype(kind)
    pairs = every_world(classes.densities, 5)
    found = probability_on_device(classes.densities, cupy.asarray(X), pairs)
    assert found.dtype == kind
    bound = 1e-5 if kind == "float32" else 1e-10
    assert_allclose(found.get(), classes.probability(X, pairs), rtol=0, atol=bound)
    p_values = classes.plainly(X, pairs).typicality.T / 5
    found = p_values_on_device(classes.densities, cupy.asarray(X), pairs)
    assert_allclose(found.get(), p_values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("p", [4, 5])
def test_p_values_may_be_read_from_other_densities(kind, p, cupy):
    """Near ones, and ones so far that the nearest class is seldom the most typical."""
    rng = np.random.default_rng(p)
    classes = Classes.random(rng, p, 4, n_worlds=3)
    planes = classes.draw(rng, 900, n_realisations=3).astype(kind).transpose(1, 2, 0)
    pairs, own = every_world(classes.densities, 3), classes.densities
    for other in (replace(own, whitening=0.9 * own.whitening, location=own.location + 0.1),
                  Classes.random(rng, p, 4, n_worlds=3).densities):  # fmt: skip
        typical = FastClassDensities(**{**vars_of(other), "origin": own.centre})
        densities = FastClassDensities(**{**vars_of(own), "typical": typical})
        with path("numpy"):
            expected = densities.summarise(planes.astype(np.float64), pairs)
        layers = summarise_on_device(densities, cupy.asarray(planes), pairs)
        assert_allclose(layers.probability.get(), expected.probability / 3, rtol=0, atol=1e-5)
        assert_allclose(layers.typicality.get(), expected.typicality.max(axis=0) / 3, rtol=0, atol=1e-4)
        X = cupy.asarray(np.ascontiguousarray(planes.transpose(2, 0, 1)))
        found = p_values_on_device(densities, X, pairs)
        assert_allclose(found.get(), expected.typicality.T / 3, rtol=0, atol=1e-4)


def vars_of(densities):
    return {field.name: getattr(densities, field.name) for field in fields(densities)}


def test_tensors_in_tensors_out(cupy):
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


@pytest.mark.parametrize("owner", [[0, 1, 2], [0, 0, 1]], ids=["classes", "components"])
def test_entropy_given_drawn_models(owner, cupy):
    rng = np.random.default_rng(4)
    n, K, p, D = 300, 3, 4, 11
    classes = Classes.random(rng, p, K)
    densities = replace(classes.densities, components=Components(np.array(owner)))
    drawn = Classes.random(rng, p, K, n_worlds=D).densities
    log_weight = np.log(rng.dirichlet(np.ones(K), D))
    X = classes.draw(rng, n)[:, 0]
    P = rng.dirichlet(np.ones(densities.n_classes), n)
    turned = np.linalg.qr(rng.normal(size=(p, p)))[0] @ drawn.whitening  # as drawn: no triangles
    models = DrawnModels(drawn.location, turned, log_weight)
    found = entropy_given_draws(densities, cupy.asarray(X), cupy.asarray(P), models, 1.3)
    q = np.stack([drawn.squared_distance(X, d) for d in range(D)], axis=1)
    odds = Components(np.array(owner), 1.3).log_odds(log_weight - 0.5 * q)
    table = P[:, None] * softmax(odds, axis=1)
    expected = entropy(table).sum(1) - entropy(table.sum(2))
    assert_allclose(found.get(), expected, rtol=1e-9, atol=1e-12)
