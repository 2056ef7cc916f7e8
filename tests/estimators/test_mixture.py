"""BayesianMDA: classes of several parts, with all that the other class models have."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from uncover import BayesianMDA, BayesianQDA, load_model
from uncover.estimators.calibration import held_out_log_joint
from uncover.measurement.observation import Observation
from uncover.measurement.summary import Summariser
from uncover.models.membership import Membership

every_kind = pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])


@pytest.mark.filterwarnings("ignore:feature\\(s\\) .* are constant and are ignored:UserWarning")
@parametrize_with_checks([BayesianMDA()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(rng, n=160, R=3):
    """Class "crop" in two places, on both sides of "grass"."""
    part = np.arange(n) % 4
    y = np.array(["crop", "grass", "crop", "grass"])[part]
    centre = np.array([[0.0, 0.0], [5.0, 0.0], [10.0, 0.0], [5.0, 0.0]])[part]
    X = centre[:, None, :] + rng.normal(size=(n, 1, 2)) + 0.2 * rng.normal(size=(n, R, 2))
    return X, y


def test_parts_are_found_and_readable(rng):
    X, y = draw(rng, R=1)
    clf = BayesianMDA().fit(X[:, 0], y)
    crop = sorted((c for c in clf.components_ if c.label == "crop"), key=lambda c: c.mean[0])
    assert [c.label for c in clf.components_].count("grass") == 1
    np.testing.assert_allclose([c.mean[0] for c in crop], [0.0, 10.0], atol=0.6)
    np.testing.assert_allclose([c.share for c in crop], 0.5, atol=0.02)
    assert crop[0].covariance.shape == (2, 2)


def test_it_is_right_where_one_gaussian_is_not(rng):
    X, y = draw(rng, n=600, R=1)
    X = X[:, 0]
    mixture, gaussian = (
        log_loss(y[300:], model.fit(X[:300], y[:300]).predict_proba(X[300:]))
        for model in (BayesianMDA(), BayesianQDA())
    )
    assert mixture < 0.5 * gaussian


def test_without_parts_it_is_qda(rng):
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 3.0 * y[:, None]
    a, b = BayesianMDA().fit(X, y), BayesianQDA(prior="evidence").fit(X, y)
    assert len(a.components_) == 3
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(a.score_samples(X), b.score_samples(X), atol=1e-12)
    budget, other = a.uncertainty(X[:9], n_draws=20), b.uncertainty(X[:9], n_draws=20)
    np.testing.assert_allclose(budget.model, other.model, atol=1e-12)


def test_probabilities_are_sums_over_parts(rng):
    X, y = draw(rng, R=1)
    clf = BayesianMDA(class_prior=[1.0, 3.0]).fit(X[:, 0], y)
    model = clf.model_
    densities = model.posterior.predictive().log_prob(X[:, 0])
    each = softmax(np.log(model.concentration) + densities, axis=1)
    merged = np.stack([each[:, clf.model_.components.owner == k].sum(1) for k in range(2)], axis=1)
    np.testing.assert_allclose(clf.predict_proba(X[:, 0]), merged, atol=1e-12)
    np.testing.assert_allclose(clf.class_posterior_, [80 + 1.0, 80 + 3.0])
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X[:, 0])), merged, atol=1e-12)


@every_kind
@pytest.mark.parametrize("calibration", [None, "loo"])
def test_realisations_budget_typicality_and_files(kind, calibration, rng, tmp_path):
    X, y = draw(rng)
    clf = BayesianMDA(realisations=kind, calibration=calibration).fit(X, y)
    P = clf.predict_proba(X)
    assert log_loss(y, P) < 0.2
    budget = clf.uncertainty(X[:20], n_draws=20, n_true_values=8)
    np.testing.assert_allclose(budget.total, -(P[:20] * np.log(P[:20] + 1e-300)).sum(1), atol=1e-8)
    np.testing.assert_allclose(budget.model + budget.measurement + budget.overlap, budget.total, atol=1e-9)
    assert min(budget.model.min(), budget.measurement.min(), budget.overlap.min()) >= 0
    typical = clf.typicality(X, per_class=True)
    assert typical.shape == (160, 2)
    np.testing.assert_array_equal(typical.max(1), clf.typicality(X))
    clf.save(tmp_path / "m.uncover")
    back = load_model(tmp_path / "m.uncover")
    np.testing.assert_array_equal(back.predict_proba(X), P)
    assert [c.label for c in back.components_] == [c.label for c in clf.components_]
    assert back.temperature_ == clf.temperature_
    assert "BayesianMDA: 3 parts" in back.describe()
    np.testing.assert_allclose(back.class_count_, [80, 80] if kind != "pooled" else [240, 240])


def test_known_noise(rng):
    X, y = draw(rng, R=1)
    noise = np.array([0.05, 0.05])
    clf = BayesianMDA().fit(X[:, 0], y, X_cov=noise)
    clear, hazy = (clf.predict_proba(X[:, 0], X_cov=f * noise) for f in (1.0, 60.0))
    assert hazy.max(1).mean() < clear.max(1).mean()
    assert (clf.uncertainty(X[:9, 0], X_cov=60 * noise, n_draws=10).measurement > 0).all()


def test_calibration_is_a_refit_without_the_sample(rng):
    """The parts stay, and the prior; the sample's own weight is taken out of its part."""
    X, y = draw(rng, R=1)
    clf = BayesianMDA(prior="weak", calibration="loo").fit(X[:, 0], y)
    model = clf.model_
    densities = model.posterior.predictive().log_prob(X[:, 0])
    parts = (np.log(model.concentration) + densities).argmax(1)
    inner = BayesianQDA(prior=model.prior, class_prior=model.alpha).fit(X[:, 0], parts)
    held_out = held_out_log_joint(inner.model_, Observation(X[:, 0]), Membership(3, parts, None, None))
    again = BayesianQDA(prior=model.prior, class_prior=model.alpha)
    again.fit(X[1:, 0], parts[1:])
    joint = held_out[0, 0] - np.logaddexp.reduce(held_out[0, 0])
    np.testing.assert_allclose(joint, again.predict_log_proba(X[:1, 0])[0], atol=1e-8)
    assert 0.2 < clf.temperature_ < 5


def test_there_is_no_partial_fit():
    """The parts are found from all samples: a split of the data could give others."""
    assert not hasattr(BayesianMDA(), "partial_fit")


def test_classes_of_one_component_each_are_those_of_qda(rng):
    """The same numbers, to the bit: a class of one component is the ordinary case."""
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 3)) + 4.0 * np.eye(3)[y]
    mixture = BayesianMDA(calibration="loo").fit(X, y)
    single = BayesianQDA(prior="evidence", calibration="loo").fit(X, y)
    assert mixture.model_.components.trivial
    planes = X.T[None].astype(np.float32)
    for name in ("probability", "parts", "world_classes"):
        found, expected = (getattr(Summariser(clf).summarise(planes), name) for clf in (mixture, single))
        np.testing.assert_array_equal(found, expected, err_msg=name)
    np.testing.assert_array_equal(mixture.predict_proba(X), single.predict_proba(X))
