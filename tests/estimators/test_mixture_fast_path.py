"""BayesianMDA by the fast path: parts of classes folded into classes, by machine code and by NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax

from uncover import BayesianMDA, BayesianQDA
from uncover.bayes.components import Components
from uncover.bayes.covariances import Covariances
from uncover.engines import class_densities, class_densities_with_noise
from uncover.measurement.summary import Planes, Summariser

LAYERS = ("probability", "total", "measurement", "model", "overlap", "margin", "typicality")


def draw(rng, n, p, R):
    """Three classes, two of them in two places; (sample, realisation, feature)."""
    y = rng.integers(0, 3, n)
    apart = rng.integers(0, 2, n) * (y < 2) * 5.0
    centre = 1.5 * y[:, None] + apart[:, None] * np.where(np.arange(p) % 2, 1, -1)
    return (centre + rng.normal(size=(n, p)))[:, None] + 0.2 * rng.normal(size=(n, R, p)), y


def by_definition(model, X):
    """The probabilities, part by part and realisation by realisation."""
    joints = [
        model.model_.log_prior + model.posterior_.predictive().log_prob(X[:, r]) for r in range(X.shape[1])
    ]
    of_class = [
        [logsumexp(j[:, model.model_.components.owner == k], axis=1) for k in range(len(model.classes_))]
        for j in joints
    ]
    return np.mean([softmax(np.stack(o, axis=1) / model.temperature_, axis=1) for o in of_class], axis=0)


@pytest.fixture(params=["compiled", "numpy"])
def take(request, monkeypatch):
    monkeypatch.setattr(class_densities, "_FEW", 0)
    if request.param == "numpy":
        monkeypatch.setattr(class_densities, "machine_code", lambda: None)


@pytest.fixture(params=[4, 5], ids=["even", "odd"])
def problem(request, rng):
    X, y = draw(rng, 500, request.param, 3)
    model = BayesianMDA(calibration="loo").fit(X, y)
    model.model_ = model.model_.calibrated(1.7, model.class_scale_)  # so that it cannot be overlooked
    assert len(model.components_) == 5
    return model, draw(rng, 400, request.param, 3)[0]


def test_probabilities_are_those_of_the_definition(problem, take):
    model, X = problem
    found = model.predict_proba(X.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, by_definition(model, X), atol=1e-5)


@pytest.mark.slow  # compiles the other type
def test_probabilities_in_double_precision(problem, take):
    model, X = problem
    assert_allclose(model.predict_proba(X), by_definition(model, X), atol=1e-12)


def test_maps_say_what_the_estimator_says(problem, take):
    model, X = problem
    summary = Summariser(model).summarise(np.moveaxis(X, 0, 2).astype(np.float32))
    assert_allclose(summary.probability.T, by_definition(model, X), atol=1e-5)
    assert_allclose(summary.typicality, model.typicality(X), atol=1e-5)
    each = np.stack([by_definition(model, X[:, r : r + 1]).argmax(1) for r in range(3)])
    assert_array_equal(summary.world_classes, each)
    budget = model.uncertainty(X, n_draws=200)
    assert_allclose(summary.total, budget.total, atol=3e-5)
    assert_allclose(summary.measurement, budget.measurement, atol=3e-5)
    # The closed model part is to second order, the other one from draws.
    assert_allclose(summary.model.mean(), budget.model.mean(), rtol=0.15)


def test_both_paths_and_the_slow_one_agree(problem, monkeypatch):
    model, X = problem
    planes = np.moveaxis(X, 0, 2).astype(np.float32)
    compiled = Summariser(model).summarise(planes)
    slow = Summariser(model)._by_readings(Planes(planes), np.ones(X.shape[2], bool), None)
    monkeypatch.setattr(class_densities, "machine_code", lambda: None)
    plain = Summariser(model).summarise(planes)
    for name in LAYERS:
        assert_allclose(getattr(compiled, name), getattr(plain, name), atol=1e-5, err_msg=name)
        assert_allclose(getattr(slow, name), getattr(plain, name), atol=1e-6, err_msg=name)


def test_what_single_precision_cannot_is_computed_again(rng, take):
    """Parts as thin as paper, far from the origin: points beyond the bound of the error go to double."""
    X, y = draw(rng, 500, 4, 1)
    X = 500.0 + X @ (np.eye(4) + 30.0)
    model = BayesianMDA().fit(X[:, 0], y)
    points = X[:200].astype(np.float32)
    found = model.predict_proba(points[:, 0])
    assert_allclose(found, by_definition(model, points.astype(np.float64)), atol=2e-5)


def test_correction_in_the_kernel_is_correction_before_it(problem, take):
    model, X = problem
    toa = (X[:, 0].T[None] * 0.01 + 0.2).astype(np.float32)
    coefficients = np.array([[[0.05], [0.9], [0.1]], [[0.06], [0.85], [0.12]]]) * np.ones(
        (1, 1, toa.shape[1])
    )
    coefficients[:, 1] *= 0.01
    path, slope, albedo = np.moveaxis(coefficients, 1, 0)[..., None]
    values = (toa - path) / (slope + albedo * (toa - path))
    made = Summariser(model).summarise(toa, coefficients=coefficients)
    given = Summariser(model)._by_readings(Planes(values), np.ones(X.shape[2], bool), None)
    for name in LAYERS:
        assert_allclose(getattr(made, name), getattr(given, name), atol=2e-5, err_msg=name)


def test_known_noise_is_read_part_by_part(problem):
    """Noise that is next to nothing changes next to nothing."""
    model, X = problem
    planes = np.moveaxis(X[:20, :1], 0, 2).astype(np.float32)
    noise = Covariances(1e-10 * np.eye(X.shape[2]), None, None)
    with_noise = Summariser(model, method="fast").summarise(planes, noise=noise)
    without = Summariser(model).summarise(planes)
    for name in ("probability", "total", "typicality"):
        assert_allclose(getattr(with_noise, name), getattr(without, name), atol=1e-5, err_msg=name)
    assert with_noise.measurement.max() < 1e-4


@pytest.mark.parametrize("how", ["parts", "temperature"])
def test_noise_by_the_fast_path_is_noise_by_readings(rng, monkeypatch, how):
    """Mixtures, and class models of a temperature: the drawn part on average, all others to rounding."""
    X, y = draw(rng, 500, 4, 1)
    model = (BayesianMDA if how == "parts" else BayesianQDA)(calibration="loo").fit(X[:, 0], y)
    model.model_ = model.model_.calibrated(1.7, model.class_scale_)
    planes, noise = X[:200].transpose(1, 2, 0), Covariances(0.3 * np.eye(4) + 0.1, None, None)
    fast = Summariser(model, method="fast", n_true_values=64).summarise(planes, noise=noise)
    monkeypatch.setattr(class_densities_with_noise, "machine_code", lambda: None)
    plain = Summariser(model, method="fast", n_true_values=64).summarise(planes, noise=noise)
    slow = Summariser(model, method="fast", n_true_values=64)._by_readings(
        Planes(planes, noise=noise), np.ones(4, bool), None
    )
    for name in LAYERS:
        assert_allclose(getattr(fast, name), getattr(plain, name), atol=1e-9, err_msg=name)
    for name in ("probability", "total", "margin", "typicality"):
        assert_allclose(getattr(fast, name), getattr(slow, name), atol=1e-9, err_msg=name)
    assert_allclose(fast.measurement.mean(), slow.measurement.mean(), rtol=0.05)
    assert_allclose(fast.model.mean(), slow.model.mean(), rtol=0.02)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_arrays_of_torch(problem, dtype):
    torch = pytest.importorskip("torch", reason="arrays on a device are tested with torch on the processor")
    model, X = problem
    found = model.predict_proba(torch.from_numpy(X.astype(dtype)))
    assert_allclose(found.numpy(), by_definition(model, X), atol=1e-5 if dtype == "float32" else 1e-10)
    typical = model.typicality(torch.from_numpy(X.astype(dtype)), per_class=True)
    assert_allclose(typical.numpy(), model.typicality(X, per_class=True), atol=1e-5)
    evidence = model.score_samples(torch.from_numpy(X.astype(dtype)))
    assert_allclose(evidence.numpy(), model.score_samples(X), rtol=1e-4)
    there, here = (model.uncertainty(each, n_draws=20) for each in (torch.from_numpy(X.astype(dtype)), X))
    for name in ("total", "model", "measurement", "overlap"):
        assert_allclose(getattr(there, name).numpy(), getattr(here, name), atol=2e-5, err_msg=name)


def test_moments_of_classes_are_those_of_the_mixture(problem):
    model, _ = problem
    one = model.model_.components.owner == 0
    means, covariances = model.model_.component_means, model.model_.component_covariances
    share = model.model_.count[one] / model.model_.count[one].sum()
    draws = np.concatenate(
        [
            np.random.default_rng(k).multivariate_normal(mean, cov, int(200_000 * w))
            for k, (w, mean, cov) in enumerate(zip(share, means[one], covariances[one], strict=True))
        ]
    )
    assert_allclose(model.means_[0], draws.mean(0), atol=0.05)
    assert_allclose(model.covariances_[0], np.cov(draws.T), atol=0.15)


def test_components_far_away_stays_finite():
    joint = np.array([[-2000.0, -2001.0, -1000.0]])
    components = Components(np.array([0, 0, 1]), temperature=2.0)
    assert_allclose(components.log_odds(joint), [[(-2000.0 + np.log1p(np.exp(-1.0))) / 2, -500.0]])
