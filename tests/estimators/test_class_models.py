"""A class model is one file and one line of the registry: all else takes it from there."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.estimator_checks import check_estimator

from uncover import BayesianQDA, load_model
from uncover.bayes.niw import NIW, Gaussians
from uncover.bayes.priors import weak_prior
from uncover.bayes.student_t import StudentT
from uncover.cli import main
from uncover.estimators.discriminant import estimator_of
from uncover.models.class_model import ClassModel
from uncover.models.files import load_fitted
from uncover.models.registry import CLASS_MODELS
from uncover.raster import Grid, classify, scene_from_array


@dataclass(frozen=True)
class SphericalNIW(NIW):
    """One variance for all features: σ² ~ IG(p(ν−p+1)/2, pψ/2), Ψ = ψI."""

    def __post_init__(self):
        scale = np.asarray(self.scale, float)
        p = scale.shape[-1]
        mean_variance = np.trace(scale, axis1=-2, axis2=-1) / p
        object.__setattr__(self, "scale", mean_variance[..., None, None] * np.eye(p))
        super().__post_init__()

    def _marginal(self, factor):
        dof = self.dof - self.n_features + 1
        stretch = np.sqrt(factor / dof)
        return StudentT(self.mean, stretch[..., None, None] * self.root, self.n_features * dof)

    @property
    def expected_covariance(self):
        p = self.n_features
        return p * self.scale / (p * (self.dof - p + 1) - 2)[..., None, None]

    def draw(self, n, rng):
        p, batch = self.n_features, self.batch_shape
        chi2 = rng.chisquare(np.broadcast_to(p * (self.dof - p + 1), batch), (n, *batch))
        sigma = np.sqrt(p * self.scale[..., 0, 0] / chi2)
        normal = rng.standard_normal((n, *batch, p))
        mean = self.mean + (sigma / np.sqrt(self.strength))[..., None] * normal
        return Gaussians(mean, np.eye(p) / sigma[..., None, None], -p * np.log(sigma))


class Spheres(ClassModel):
    """Classes that are spheres: one variance for all features of a class."""

    name, estimator = "spheres", "BayesianSpheres"
    distributions = (SphericalNIW,)

    def weak_prior(self, moments, variance=None):
        return self.given_prior(weak_prior(moments, variance))

    def given_prior(self, prior):
        return SphericalNIW(prior.mean, prior.strength, prior.scale, prior.dof)

    def update(self, prior, moments):
        return prior.update(moments)


@pytest.fixture
def spheres(monkeypatch):
    """The registry with one line more."""
    monkeypatch.setitem(CLASS_MODELS, "spheres", Spheres())
    return estimator_of(CLASS_MODELS["spheres"])


def draw(rng, n=120, R=None):
    y = np.array(["left", "middle", "right"])[np.arange(n) % 3]
    shape = (n, 2) if R is None else (n, R, 2)
    centre = 0.1 * (np.arange(n) % 3).reshape(-1, *(1,) * (len(shape) - 1))
    return (rng.normal(size=shape) * 0.02 + centre + 0.1), y


def by_definition(X, y, new):
    """Student t of spheres about the class means, one variance from all features of a class."""
    classes, p = np.unique(y), X.shape[1]
    joint = []
    for k in classes:
        mine = X[y == k]
        n, mean = len(mine), mine.mean(0)
        prior = weak_prior_scale(X, y, k)
        scale = (prior.trace() + ((mine - mean) ** 2).sum()) / p
        dof = p * (p + 2 + n - p + 1)
        spread = scale * (n + 1) / n * p / dof
        q = ((new - mean) ** 2).sum(1) / spread
        t = StudentT.from_scale(mean, spread * np.eye(p), dof)
        assert_allclose(t.log_prob(mean) - t.log_prob(new), 0.5 * (dof + p) * np.log1p(q / dof), rtol=1e-9)
        joint.append(np.log(n + 1.0) + t.log_prob(new))
    joint = np.stack(joint, axis=1)
    P = np.exp(joint - joint.max(1, keepdims=True))
    return P / P.sum(1, keepdims=True)


def weak_prior_scale(X, y, k):
    """diag(C_k)/K^(2/p), the documented scale of the weak prior."""
    variance = X[y == k].var(0, ddof=1)
    return np.diag(variance) / len(np.unique(y)) ** (2 / X.shape[1])


def test_probabilities_are_those_of_the_definition(spheres, rng):
    X, y = draw(rng)
    new = X[:20] + 0.02
    assert_allclose(spheres().fit(X, y).predict_proba(new), by_definition(X, y, new), atol=1e-10)


def test_it_is_a_scikit_learn_estimator(spheres, rng):
    X, y = draw(rng)
    clf = spheres().fit(X, y)
    assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))
    halves = spheres().partial_fit(X[:70], y[:70], classes=np.unique(y)).partial_fit(X[70:], y[70:])
    assert_allclose(halves.predict_proba(X), clf.predict_proba(X), atol=1e-12)
    with pytest.warns(UserWarning):  # of samples that are too few, which the checks have
        check_estimator(spheres(), on_fail="raise")


@pytest.mark.parametrize("kind", ["pooled", "repeats", "shared"])
def test_realisations_and_budget(spheres, kind, rng):
    X, y = draw(rng, R=4)
    clf = spheres(realisations=kind).fit(X, y)
    budget = clf.uncertainty(X[:20], n_draws=100)
    assert_allclose(budget.measurement + budget.model + budget.overlap, budget.total, atol=1e-12)
    assert clf.score(X, y) > 0.9


def test_what_it_does_not_have_is_said(spheres, rng):
    X, y = draw(rng)
    for wrong, options in (("X_cov", {"X_cov": [1e-4, 1e-4]}), ("evidence", {})):
        clf = spheres(prior="evidence" if wrong == "evidence" else "weak")
        with pytest.raises(ValueError, match=f"BayesianSpheres .*{wrong}"):
            clf.fit(X, y, **options)


def test_model_file(spheres, rng, tmp_path):
    X, y = draw(rng)
    clf = spheres().fit(X, y)
    clf.save(tmp_path / "m.uncover")
    again = load_model(tmp_path / "m.uncover")
    assert type(again) is spheres
    assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert_array_equal(load_fitted(tmp_path / "m.uncover").means_, clf.means_)


def test_command_line_and_map(spheres, rng, tmp_path):
    X, y = draw(rng)
    table = tmp_path / "pixels.csv"
    rows = [f"{a:.17g},{b:.17g},{name}" for (a, b), name in zip(X, y, strict=True)]
    table.write_text("\n".join(["B3,B4,class", *rows]))
    out = tmp_path / "m.uncover"
    done = CliRunner().invoke(main, ["fit", str(table), "--model", "spheres", "--out", str(out)])
    assert done.exit_code == 0, done.output
    model, clf = load_model(out), spheres().fit(X, y)
    assert_allclose(model.means_, clf.means_, rtol=1e-12)
    assert_allclose(model.posterior_.scale, clf.posterior_.scale, rtol=1e-12)
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=5, height=4)
    values = X[:20].T.reshape(2, 4, 5).astype(np.float32)
    with pytest.warns(UserWarning, match="--level"):
        layers = classify(scene_from_array(values, grid, ("B03", "B04")), load_fitted(out))
    best = 1 + clf.predict_proba(values.reshape(2, -1).T.astype(float)).argmax(1)
    assert_array_equal(layers["class"][0].ravel(), best)


def test_every_line_of_the_registry_has_an_estimator():
    for name, model in CLASS_MODELS.items():
        assert model.name == name
        assert estimator_of(model).__name__ == model.estimator
    assert estimator_of(CLASS_MODELS["qda"]) is BayesianQDA
