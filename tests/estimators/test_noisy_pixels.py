"""Pixels whose noise is known, read fast: by machine code or NumPy, against the densities and exact draws."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import entr, softmax
from scipy.stats import multivariate_normal

from map_cases import BANDS, fitted, grid, reflectance
from uncover import BayesianLDA, BayesianQDA
from uncover.bayes.covariances import Covariances
from uncover.engines import class_densities, class_densities_with_noise
from uncover.measurement.observation import Observation
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import Summariser, corrected
from uncover.raster import classify
from uncover.raster.observed import WindowReading

CLASSES = 3
PARTS = ("probability", "typicality", "total", "measurement", "model", "overlap", "margin", "disagreement")


def scene(n, p, realisations, seed, spread=0.4):
    """Planes (realisation, feature, pixel) of three classes; errors of a realisation go together."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    means = np.random.default_rng(99).normal(size=(CLASSES, p))
    error = spread * rng.normal(size=(realisations, p, 1)) * (1 + 0.3 * rng.normal(size=(1, p, n)))
    return (means[y] + rng.normal(size=(n, p))).T + error, y


def trained(kind, p=4, n=900, realisations=6, cls=BayesianQDA):
    planes, y = scene(n, p, realisations, seed=1)
    return cls(realisations=kind, random_state=0).fit(planes.transpose(2, 0, 1), y)


def covariances(n, p, seed=3):
    root = 0.4 * np.random.default_rng(seed).normal(size=(n, p, p))
    return root @ root.swapaxes(1, 2) / p


def cases(p):
    """Models with pixels in every form in which noise can be known: keywords of `summarise`."""
    planes, _ = scene(70, p, 6, seed=2)
    rng = np.random.default_rng(4)
    size = (6, 1, p)
    atmosphere = [0.01 * rng.normal(size=size), 1 + 0.1 * rng.random(size), 0.1 * rng.random(size)]
    single = {"planes": planes[:1], "noise": Covariances.read(covariances(70, p), 70, p)}
    return {
        "another scene": ("shared", {"planes": planes}),
        "made inside": ("shared", {"planes": planes[:1], "coefficients": np.concatenate(atmosphere, axis=1)}),
        "draws": ("draws", {"planes": planes}),
        "given": ("draws", single),
        "given, and shared": ("pooled", single | {"systematic": 0.1 * np.eye(p)}),
        "one for all": ("draws", {"planes": planes[:1], "noise": Covariances.read(np.full(p, 0.2), 70, p)}),
        "each realisation": ("pooled", {"planes": planes, "systematic": 0.1 * np.eye(p)}),
        "repeats": ("repeats", {"planes": planes[:2], "systematic": 0.1 * np.eye(p)}),
    }


@pytest.mark.parametrize("p", [4, 5])
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA])
@pytest.mark.parametrize("name", list(cases(4)))
def test_machine_code_and_numpy_agree(name, cls, p, monkeypatch):
    kind, given = cases(p)[name]
    model = trained(kind, p, cls=cls)
    compiled = Summariser(model, paired=False, method="fast").summarise(**given)
    for module in (class_densities_with_noise, class_densities):
        monkeypatch.setattr(module, "machine_code", lambda: None)
    plain = Summariser(model, paired=False, method="fast").summarise(**given)
    for part in PARTS:
        assert np.allclose(getattr(compiled, part), getattr(plain, part), rtol=0, atol=1e-9), part
    assert np.array_equal(compiled.world_classes, plain.world_classes)


@pytest.mark.parametrize("name", list(cases(4)))
def test_probabilities_are_those_of_the_matched_student_t(name):
    kind, given = cases(4)[name]
    model = trained(kind)
    found = Summariser(model, paired=False, method="fast").summarise(**given)
    values = given["planes"]
    if "coefficients" in given:
        values = corrected(values[0], given["coefficients"])
    points = values.transpose(2, 0, 1) if len(values) > 1 else values[0].T
    inputs = Observation(points, given.get("noise"), given.get("systematic"))
    predictor = Predictor(model.model_, paired=False, method="fast")
    common, readings = predictor.systematic(inputs.systematic), predictor.readings(inputs.structure)
    sights = [predictor.measured(inputs, reading, np.ones(4, bool), common) for reading in readings]
    probability = np.mean([softmax(sight.log_joint(), axis=1) for sight in sights], axis=0)
    typicality = np.mean([sight.typicality() for sight in sights], axis=0)
    assert np.allclose(found.probability.T, probability, rtol=0, atol=1e-9)
    assert np.allclose(found.typicality, typicality.max(axis=1), rtol=0, atol=1e-9)
    parts = np.stack([found.measurement, found.model, found.overlap])
    assert np.all(parts >= 0)
    assert np.allclose(parts.sum(axis=0), found.total, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["another scene", "draws", "given", "given, and shared", "each realisation", "repeats"]
)
def test_the_measurement_part_is_that_of_exact_draws(name):
    """On average over pixels, with many draws; 300 samples a class, where a Student t is almost Gaussian."""
    kind, given = cases(4)[name]
    model = trained(kind)
    fast = Summariser(model, paired=False, method="fast").summarise(**given).measurement
    drawn = []
    for seed in range(4):  # the points of "fast" are not random
        drawing = replace(model.model_, seed=seed)
        summariser = Summariser(drawing, paired=False, method="exact", n_true_values=800)
        drawn.append(summariser.summarise(**given).measurement)
    by_seed = np.mean(drawn, axis=1)
    tolerance = 5 * by_seed.std(ddof=1) + 0.01 * by_seed.mean()
    assert by_seed.mean() > 0.01
    assert abs(fast.mean() - by_seed.mean()) < tolerance
    assert tolerance < 0.1 * by_seed.mean()
    assert np.abs(fast - np.mean(drawn, axis=0)).max() < 0.03


def gaussian_information(points, means, scales, noise, n, rng):
    """I(class; true value | measured value) of Gaussian classes of equal shares, by n plain draws a class."""
    total = scales[:, None] + noise[None]
    joint = np.stack(
        [
            multivariate_normal.logpdf(points - m, np.zeros(len(m)), T[0])
            for m, T in zip(means, total, strict=True)
        ],
        axis=1,
    )
    P = softmax(joint, axis=1)
    left = np.zeros(len(points))
    for k, (m, S) in enumerate(zip(means, scales, strict=True)):
        gain = S @ np.linalg.inv(S + noise[0])
        root = np.linalg.cholesky(S - gain @ S)
        for i, x in enumerate(points):
            chi = m + gain @ (x - m) + rng.standard_normal((n, len(m))) @ root.T
            at = np.stack(
                [multivariate_normal.logpdf(chi, a, B) for a, B in zip(means, scales, strict=True)], axis=1
            )
            left[i] += P[i, k] * entr(softmax(at, axis=1)).sum(axis=1).mean()
    return entr(P).sum(axis=1) - left


@pytest.mark.parametrize(("p", "noise"), [(4, 0.4), (6, 0.8), (10, 0.5)])
def test_the_measurement_part_against_plain_monte_carlo(p, noise):
    """Large training samples, so that classes are Gaussian; against 4,000 plain draws a class."""
    rng = np.random.default_rng(p)
    means, y = 0.6 * rng.normal(size=(3, p)), np.arange(60_000) % 3
    roots = np.eye(p) + 0.3 * rng.normal(size=(3, p, p))
    scales = roots @ roots.swapaxes(1, 2)
    X = means[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(len(y), p)))
    model = BayesianQDA().fit(X, y)
    C = noise**2 * np.eye(p)[None]
    points = X[:60] + noise * rng.normal(size=(60, p))
    found = Summariser(model, method="fast").summarise(points.T[None], noise=Covariances.read(C[0], 60, p))
    means, scales = np.asarray(model.means_), np.asarray(model.covariances_)
    expected = gaussian_information(points, means, scales, C, 4000, rng)
    error = found.measurement - expected
    assert abs(error.mean()) < 0.02 * expected.mean()
    assert np.sqrt((error**2).mean()) < 0.05 * expected.mean()


@pytest.mark.parametrize("p", [4, 5])
@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA])
def test_without_noise_it_is_the_plain_reading(cls, p):
    model = trained("pooled", p, cls=cls)
    planes = scene(70, p, 1, seed=2)[0]
    summariser = Summariser(model, method="fast")
    plain = summariser.summarise(planes)
    none = summariser.summarise(planes, noise=Covariances.read(np.zeros(p), 70, p))
    for part in PARTS:
        # Without noise p-values of an odd number of features come from a table, to 1e-7.
        bound = 1e-7 if part == "typicality" and p % 2 else 1e-9
        assert np.allclose(getattr(none, part), getattr(plain, part), rtol=0, atol=bound), part


def test_singular_noise_moves_the_true_value_along_itself_only():
    """Noise in one band that does not tell the classes apart gives the true value nothing to say."""
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 2
    X = rng.normal(size=(2000, 2)) + np.stack([1.5 * y, 0 * y], axis=1)
    summariser = Summariser(BayesianQDA(random_state=0).fit(X, y), method="fast")
    points = rng.normal(0.75, 1.0, size=(1, 2, 200))
    silent, telling = (
        summariser.summarise(points, noise=Covariances.read(variance, 200, 2)).measurement.mean()
        for variance in ([0.0, 1.0], [1.0, 0.0])
    )
    assert silent < 0.01 < 0.1 < telling


@pytest.mark.parametrize("name", ["another scene", "made inside", "given"])
def test_a_pixel_is_read_the_same_wherever_it_lies(name):
    kind, given = cases(4)[name]
    summariser = Summariser(trained(kind), paired=False, method="fast")
    whole = summariser.summarise(**given)
    some = np.r_[60:69, 3, 31:34]
    noise = given.get("noise")
    part = given | {"planes": np.ascontiguousarray(given["planes"][..., some])}
    again = summariser.summarise(**part | ({} if noise is None else {"noise": noise[some]}))
    for name in (*PARTS, "world_classes"):
        assert np.array_equal(getattr(again, name), getattr(whole, name)[..., some]), name


def test_a_map_of_another_scene_is_read_fast():
    """All layers of a small map are those of the summariser, whatever the chunks."""
    model = fitted("shared", worlds=5)
    rng = np.random.default_rng(5)
    values = (reflectance(20, 30)[None] + 0.004 * rng.normal(size=(5, 4, 1, 1))).astype(np.float32)
    layers = classify(_Cube(values), model, paired=False, dtype="float32")
    summary = Summariser(model, paired=False, method="fast").summarise(values.reshape(5, 4, -1))
    assert np.allclose(layers["probability"].reshape(3, -1), summary.probability, rtol=0, atol=1e-6)
    found = layers["uncertainty"].reshape(len(layers["uncertainty"]), -1)
    assert np.allclose(found[:2], [summary.total, summary.measurement], rtol=0, atol=1e-6)


class _Cube:
    """Realisations in memory, as a scene."""

    identity, bands, realisations, systematic, bytes_per_pixel = "elsewhere", BANDS, 5, None, 100
    dates, worlds = (), None

    def __init__(self, values):
        self.values, self.grid = values, grid(*values.shape[2:])

    def read(self, window):
        rows, cols = window.slices
        return WindowReading(window, self.values[:, :, rows, cols], np.zeros(window.shape, np.uint16))

    def facts(self):
        return {"source": "memory"}
