"""Arrays of torch and CuPy go in and come out; what they say is what NumPy arrays say."""

from importlib.util import find_spec

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from uncover import BayesianLDA, BayesianNB, BayesianQDA, UncertaintyBudget
from uncover.estimators import device_moments, inputs
from uncover.estimators.arrays import namespace, on_device, to_host

N, R, P = 300, 4, 5
BOTH = pytest.mark.parametrize("kind", ["float32", "float64"])
SHAPES = pytest.mark.parametrize("shape", [(N, P), (N, R, P)], ids=["one value", "realisations"])


def _places():
    """From a NumPy array to an array of another kind, or in another place: whatever there is here."""
    found = {}
    if find_spec("torch"):
        import torch

        found["torch on the processor"] = torch.from_numpy
        if torch.cuda.is_available():
            found["torch on a device"] = lambda array: torch.from_numpy(array).cuda()
    if find_spec("cupy"):
        import cupy

        found["CuPy"] = cupy.asarray
    return found


PLACES = _places()
if not PLACES:
    pytest.skip("neither torch nor CuPy is installed", allow_module_level=True)


@pytest.fixture(params=PLACES)
def place(request):
    return PLACES[request.param]


@pytest.fixture
def data(rng):
    y = rng.integers(0, 3, N)
    truth = 1.5 * rng.normal(size=(3, P))[y] + rng.normal(size=(N, P))
    return truth[:, None, :] + 0.4 * rng.normal(size=(N, R, P)), y


@pytest.fixture
def model(data):
    return BayesianQDA(realisations="pooled").fit(*data)


def both(X, kind, place):
    """X as a NumPy array and as a tensor."""
    array = X.astype(kind)
    return array, place(array)


def close(found, expected, kind, bound=1e-5):
    assert on_device(found)
    assert str(found.dtype).removeprefix("torch.") == kind
    assert_allclose(to_host(found), expected, rtol=0, atol=bound if kind == "float32" else 1e-10)


@BOTH
@SHAPES
def test_tensors_say_what_arrays_say(model, data, kind, shape, place):
    X = data[0] if len(shape) == 3 else data[0][:, 0]
    array, tensor = both(X, kind, place)
    exact = array.astype(np.float64)
    close(model.predict_proba(tensor), model.predict_proba(exact), kind)
    sure = model.predict_proba(exact).min(axis=1) > 1e-3
    close(model.predict_log_proba(tensor)[sure], model.predict_log_proba(exact)[sure], kind, 1e-2)
    close(model.score_samples(tensor), model.score_samples(exact), kind, 1e-4)
    for per_class in (False, True):
        found = model.typicality(tensor, per_class=per_class)
        assert on_device(found) and found.dtype == tensor.dtype
        wanted = model.typicality(exact, per_class=per_class)
        assert_allclose(to_host(found), wanted, rtol=0, atol=2e-5)
    assert_array_equal(to_host(model.predict(tensor)), model.predict(array))


@BOTH
def test_worlds_and_one_covariance(data, kind, place):
    X, y = data
    array, tensor = both(X, kind, place)
    for model in (BayesianQDA(realisations="shared"), BayesianLDA()):
        model.fit(X, y)
        close(model.predict_proba(tensor), model.predict_proba(array.astype(float)), kind)


def test_single_precision_looks_twice(rng, place):
    """At correlation 0.999 and far from zero, single precision alone would miss the bound."""
    y = rng.integers(0, 3, 4000)
    common = rng.normal(size=(4000, 1))
    X = 30.0 + np.sqrt(0.999) * common + np.sqrt(0.001) * rng.normal(size=(4000, P)) + 0.02 * y[:, None]
    model = BayesianQDA().fit(X, y)
    array, tensor = both(X, "float32", place)
    close(model.predict_proba(tensor), model.predict_proba(array.astype(float)), "float32")


@BOTH
@SHAPES
@pytest.mark.parametrize("realisations", ["pooled", "repeats", "shared"])
@pytest.mark.parametrize("labels", ["hard", "weighted", "soft"])
def test_fitting_tensors_is_fitting_arrays(data, rng, kind, shape, realisations, labels, place):
    X, y = data[0] if len(shape) == 3 else data[0][:, 0], data[1]
    array, tensor = both(1000.0 + X, kind, place)
    weight = rng.random(N) if labels == "weighted" else None
    soft = {"label_proba": rng.dirichlet(np.ones(3), N)} if labels == "soft" else {}
    known = () if soft else (y, weight)
    expected = BayesianQDA(realisations=realisations).fit(array.astype(float), *known, **soft)
    found = BayesianQDA(realisations=realisations).fit(tensor, *known, **soft)
    for name in ("mean", "strength", "scale", "dof"):
        assert_allclose(getattr(found.posterior_, name), getattr(expected.posterior_, name), rtol=1e-9)
    assert found.n_features_in_ == P


def test_samples_stay_on_the_device(data, monkeypatch, place):
    """Only sums are brought over, never the samples."""

    def small(array):
        assert np.size(array) < N if not on_device(array) else np.prod(array.shape) < N
        return to_host(array)

    for module in (device_moments, inputs):
        monkeypatch.setattr(module, "to_host", small)
    X, y = place(np.tile(data[0], (10, 1, 1))), np.tile(data[1], 10)
    model = BayesianQDA().fit(X, y)
    model.partial_fit(X, y)
    model.uncertainty(X, n_draws=3)


def test_tensors_in_parts_are_tensors_at_once(data, model, place):
    X, y = data
    tensor = place(X)
    again = BayesianQDA().partial_fit(tensor[:100], place(y[:100]), classes=[0, 1, 2])
    again.partial_fit(tensor[100:], y[100:])
    assert_allclose(again.posterior_.scale, model.posterior_.scale, rtol=1e-10)


@pytest.mark.parametrize(
    "options", [{"calibration": "loo"}, {"label_noise": "learn"}, {"realisations": "draws"}], ids=str
)
def test_what_needs_the_samples_themselves_brings_them_over(data, options, place):
    X, y = data
    X = X if "realisations" in options else X[:, 0]
    found = BayesianQDA(**options).fit(place(X), place(y))
    assert_array_equal(found.posterior_.mean, BayesianQDA(**options).fit(X, y).posterior_.mean)


def test_names_of_classes_come_as_arrays(data, place):
    X, y = data
    model = BayesianQDA().fit(X, np.array(["a", "b", "c"])[y])
    assert_array_equal(model.predict(place(X)), model.predict(X))


@BOTH
@pytest.mark.parametrize("realisations", ["pooled", "shared", "draws", "one value"])
def test_the_budget_comes_as_tensors(data, kind, realisations, place):
    one = realisations == "one value"
    X, y = data[0][:, 0] if one else data[0], data[1]
    model = BayesianQDA(realisations="pooled" if one else realisations).fit(X, y)
    array, tensor = both(X, kind, place)
    found = model.uncertainty(tensor, n_draws=10)
    assert isinstance(found, UncertaintyBudget)
    for name, part in vars(model.uncertainty(array.astype(float), n_draws=10)).items():
        close(getattr(found, name), part, kind, 1e-4)
    total = found.model + found.measurement + found.overlap
    assert_allclose(to_host(total), to_host(found.total), atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda X: X[..., :3], "5 features"),
        (lambda X: X[0, 0], "needs \\(sample, feature\\)"),
        (lambda X: namespace(X).astype(X, namespace(X).int64), "float32 or float64"),
        (lambda X: X / (X - X), "NaN or infinity"),
        (lambda X: X[:0], "at least one"),
    ],
)
def test_wrong_tensors_are_named(model, data, wrong, message, place):
    tensor = wrong(place(data[0]))
    with pytest.raises(ValueError, match=message):
        model.predict_proba(tensor)
    if message != "5 features":
        with pytest.raises(ValueError, match=message):
            BayesianQDA().fit(tensor, data[1])


def test_models_of_true_values_take_tensors_as_exact(data, place):
    model = BayesianQDA(realisations="draws").fit(*data)
    with pytest.warns(UserWarning, match="taken as exact"):
        model.predict_proba(place(data[0][:, 0]))


def test_what_a_device_cannot_do_is_said(data, model, place):
    tensor = place(data[0])
    with pytest.raises(ValueError, match="X_cov is not taken"):
        model.predict_proba(tensor, X_cov=np.ones(P))
    with pytest.raises(ValueError, match="copy X to the host"):
        BayesianNB().fit(*data).predict_proba(tensor)
