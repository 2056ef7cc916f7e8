"""Calibration on left-out samples: the closed form against refits, and what follows from a temperature."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import softmax
from sklearn.metrics import log_loss

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA, Measured, load_model
from uncover.bayes.streams import stream
from uncover.estimators.calibration import calibrate, fit_temperature, held_out_log_joint
from uncover.estimators.groups import divide
from uncover.measurement.observation import Observation
from uncover.measurement.summary import Summariser
from uncover.models.membership import Membership

every_estimator = pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianNB])
every_kind = pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
every_prior = pytest.mark.parametrize("prior", ["weak", "evidence", "jeffreys"])


def draw(rng, n=24, R=3, p=2):
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 1, p)) * (1.0 + 0.5 * y[:, None, None]) + y[:, None, None]
    return X + 0.2 * rng.normal(size=(n, R, p)), y


def without(clf, X, y, left_out, weight=None):
    """The model fitted again without some samples, the weight of its prior held fixed."""
    w = np.ones(len(y)) if weight is None else weight
    kept = np.setdiff1d(np.arange(len(y)), left_out)
    prior = clf.prior
    if prior != "jeffreys":
        scale, dof = clf.prior_.scale, clf.prior_.dof
        if prior == "evidence" and isinstance(clf, BayesianQDA):  # its scale is made of all samples
            (before, n), (after, left) = (pooled_scatter(clf, X[i], y[i], w[i]) for i in (slice(None), kept))
            share = scale[0, 0, 0] / before[0, 0]
            np.testing.assert_allclose(scale, share * np.tile(before, (3, 1, 1)))
            scale, dof = share * after, dof - share * (n - left)
        K, p = len(clf.classes_), clf.prior_.n_features
        values = zip(
            (clf.prior_.mean, clf.prior_.strength, scale, dof),
            [(K, p), (K,), (K, p, p), (K,)],
            strict=True,
        )
        prior = NIW(*(np.broadcast_to(value, shape) for value, shape in values))
    again = type(clf)(prior=prior, realisations=clf.realisations, class_prior=clf.class_prior)
    return again.fit(X[kept], y[kept], None if weight is None else w[kept], classes=clf.classes_)


def as_counted(X, kind):
    """Repeats count by their means; a given prior would be that of the true values, not of the means."""
    return X.mean(axis=1) if kind == "repeats" else X


def pooled_scatter(clf, X, y, w):
    """Scatter about the class means, of the rows that count, and their weight."""
    if X.ndim == 3 and clf.realisations == "pooled":
        y, w, X = np.repeat(y, X.shape[1]), np.repeat(w, X.shape[1]), X.reshape(-1, X.shape[2])
    rows = X.mean(1) if X.ndim == 3 else X
    scatter = [np.cov(rows[y == k].T, aweights=w[y == k], ddof=0) * w[y == k].sum() for k in range(3)]
    return sum(scatter), w.sum()


def probabilities(log_joint):
    return softmax(log_joint, axis=-1).mean(1)


def hard(y, weight=None):
    return Membership(3, y, None, weight)


@pytest.mark.filterwarnings("ignore:X has 1 realisation of each sample:UserWarning")
@every_estimator
@every_prior
@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws"])
@pytest.mark.parametrize("R", [1, 3])
def test_leaving_one_out_is_a_refit_without_it(cls, prior, kind, R, rng):
    if kind == "draws" and R > 1:
        pytest.skip("the noise is known: refitted by parts, see below")
    X, y = draw(rng, R=R)
    clf = cls(prior=prior, realisations=kind, class_prior=0.7).fit(X, y)
    held_out = probabilities(held_out_log_joint(clf.model_, Observation(X), hard(y)))
    X = as_counted(X, kind)
    for i in (0, 7, 23):
        expected = without(clf, X, y, i).predict_proba(X[[i]])[0]
        np.testing.assert_allclose(held_out[i], expected, rtol=1e-8, atol=1e-12)


@every_estimator
def test_leaving_one_out_in_each_world(cls, rng):
    X, y = draw(rng)
    clf = cls(prior=NIW([0.0, 0.0], 0.3, np.eye(2), 5.0), realisations="shared").fit(X, y)
    held_out = probabilities(held_out_log_joint(clf.model_, Observation(X), hard(y)))
    for i in (1, 12):
        again = cls(prior=clf.prior, realisations="shared").fit(np.delete(X, i, 0), np.delete(y, i))
        np.testing.assert_allclose(held_out[i], again.predict_proba(X[[i]])[0], rtol=1e-8, atol=1e-12)


@pytest.mark.filterwarnings("ignore:X has 1 realisation of each sample:UserWarning")
@every_estimator
@pytest.mark.parametrize("kind", ["pooled", "repeats"])
@pytest.mark.parametrize("R", [1, 3])
def test_groups_are_left_out_together(cls, kind, R, rng):
    X, y = draw(rng, R=R)
    groups = rng.integers(0, 5, len(y))
    clf = cls(prior="evidence", realisations=kind).fit(X, y)
    held_out = probabilities(held_out_log_joint(clf.model_, Observation(X), hard(y), groups))
    X = as_counted(X, kind)
    for g in range(5):
        mine = np.flatnonzero(groups == g)
        expected = without(clf, X, y, mine).predict_proba(X[mine])
        np.testing.assert_allclose(held_out[mine], expected, rtol=1e-7, atol=1e-11)


@every_estimator
def test_weights_count(cls, rng):
    X, y = draw(rng, R=1)
    weight = rng.uniform(0.5, 3.0, len(y))
    clf = cls(prior="evidence").fit(X[:, 0], y, sample_weight=weight)
    held_out = probabilities(held_out_log_joint(clf.model_, Observation(X[:, 0]), hard(y, weight)))
    for i in (3, 10):
        expected = without(clf, X[:, 0], y, i, weight).predict_proba(X[[i], 0])[0]
        np.testing.assert_allclose(held_out[i], expected, rtol=1e-8)


@every_estimator
def test_a_weight_of_two_is_the_sample_twice_only_if_both_are_left_out(cls, rng):
    """Of two equal samples one tells of the other: left out one by one, they give a lower temperature."""
    X, y = draw(rng, n=36, R=1)
    weight = np.where(np.arange(36) < 12, 2, 1)
    rows = np.repeat(np.arange(36), weight)
    weighed = cls(calibration="loo").fit(X, y, sample_weight=weight)
    together = cls(calibration="loo").fit(X[rows], y[rows], groups=rows)
    alone = cls(calibration="loo").fit(X[rows], y[rows])
    assert together.temperature_ == pytest.approx(weighed.temperature_, rel=1e-9)
    assert alone.temperature_ < 0.95 * weighed.temperature_


@every_estimator
def test_soft_labels_are_taken_out_of_every_class(cls, rng):
    X, y = draw(rng, R=1)
    soft = 0.7 * np.eye(3)[y] + 0.1
    prior = NIW([0.0, 0.0], 0.3, np.eye(2), 5.0)
    clf = cls(prior=prior).fit(X[:, 0], label_proba=soft, label_meaning="posterior")
    held_out = probabilities(
        held_out_log_joint(clf.model_, Observation(X[:, 0]), Membership(3, None, soft, None))
    )
    for i in (0, 17):
        rest, labels = np.delete(X[:, 0], i, 0), np.delete(soft, i, 0)
        again = cls(prior=prior).fit(rest, label_proba=labels, label_meaning="posterior")
        np.testing.assert_allclose(held_out[i], again.predict_proba(X[[i], 0])[0], rtol=1e-8)


@every_estimator
def test_a_class_of_one_sample_is_unknown_without_it(cls, rng):
    X, y = draw(rng, R=1)
    y = np.where(np.arange(24) == 5, 2, y % 2)
    clf = cls(prior="evidence", calibration="loo").fit(X[:, 0], y)
    held_out = held_out_log_joint(clf.model_, Observation(X[:, 0]), hard(y))
    assert held_out[5, 0, 2] == -np.inf
    assert np.isfinite(np.delete(held_out, 5, 0)).all()
    assert np.isfinite(clf.temperature_)


@every_estimator
@pytest.mark.parametrize("grouped", [False, True])
def test_known_noise_is_refitted_by_parts(cls, grouped, rng):
    X, y = draw(rng, n=60, R=1)
    X, noise = X[:, 0], np.array([0.04, 0.04])
    groups = np.arange(60) // 6 if grouped else None
    clf = cls(prior="evidence", calibration="loo").fit(X, y, X_cov=noise, groups=groups)
    assert 0.05 < clf.temperature_ < 20
    fold = divide(np.searchsorted(clf.classes_, y), groups, 5, stream(0, "folds of calibration"))
    held_out = held_out_log_joint(clf.model_, Observation(X, Measured(X, noise).covariances), hard(y), groups)
    mine = np.flatnonzero(fold == 2)
    names = [getattr(clf.prior_, name) for name in NIW.parameters()]
    fixed = NIW(*(np.broadcast_to(v, s) for v, s in zip(names, [(3, 2), (3,), (3, 2, 2), (3,)], strict=True)))
    again = cls(prior=fixed).fit(X[fold != 2], y[fold != 2], X_cov=noise)
    expected = again.predict_proba(X[mine], X_cov=noise)
    np.testing.assert_allclose(probabilities(held_out)[mine], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("grouped", [False, True])
def test_the_order_of_samples_does_not_matter_to_the_parts(grouped, rng):
    """Parts by the number of a sample would be whole classes here, and each unknown without its part."""
    y = np.arange(300) % 5
    X = 0.5 * y[:, None] + rng.standard_t(2, size=(300, 3))
    groups, order = (np.arange(300) % 25 if grouped else None), rng.permutation(300)
    in_turn = BayesianNB(calibration="loo").fit(X, y, X_cov=[0.1] * 3, groups=groups)
    mixed = BayesianNB(calibration="loo").fit(
        X[order], y[order], X_cov=[0.1] * 3, groups=groups[order] if grouped else None
    )
    assert min(in_turn.temperature_, mixed.temperature_) > 1.5  # it is 1 where nothing can be learned


def test_the_temperature_is_the_best_one(rng):
    """Against SciPy, on probabilities that are twice as sure as they should be."""
    logits = 2.0 * rng.normal(size=(3000, 4))
    y = np.array([rng.choice(4, p=row) for row in softmax(0.5 * logits, axis=1)])

    def loss(u):
        return 3000 * log_loss(y, softmax(logits / np.exp(u), axis=1)) + 0.5 * u**2

    best = minimize_scalar(loss, bounds=(-3, 3), method="bounded")
    found = fit_temperature(logits[:, None], np.eye(4)[y])
    assert found == pytest.approx(np.exp(best.x), rel=1e-4)
    assert found == pytest.approx(2.0, rel=0.1)


def test_hard_labels_are_soft_ones_of_0_and_1(rng):
    """One view twice is the same view, by the code for several."""
    joint = 3.0 * rng.normal(size=(200, 1, 3))
    target = np.eye(3)[rng.integers(0, 3, 200)]
    assert fit_temperature(joint, target) == pytest.approx(
        fit_temperature(np.repeat(joint, 2, axis=1), target), rel=1e-5
    )


def test_the_temperature_stays_finite_where_nothing_is_wrong():
    sure = np.where(np.eye(2)[np.arange(40) % 2] > 0, 5.0, 0.0)[:, None]
    assert 0.1 < fit_temperature(sure, np.eye(2)[np.arange(40) % 2]) < 1.0


def test_a_prior_made_of_few_samples_does_not_flatter(rng):
    """As many samples as features, nearly: the common covariance fits each sample that it was made of."""
    y = np.arange(60) % 3
    X, new = rng.normal(size=(60, 20)), rng.normal(size=(3000, 20))
    clf = BayesianQDA(prior="evidence").fit(X, y)
    membership = hard(y)
    held_out = log_loss(y, probabilities(held_out_log_joint(clf.model_, Observation(X), membership)))
    truth = log_loss(rng.integers(0, 3, 3000), clf.predict_proba(new))
    assert held_out > 0.8 * truth


def test_the_scale_of_classes_is_the_best_one(rng):
    """Against SciPy: temperature and offsets of the highest posterior, on probabilities that need both."""
    logits = 2.0 * rng.normal(size=(800, 4))
    true = 0.5 * logits + np.array([1.0, 0.0, 0.0, -1.0])
    y = np.array([rng.choice(4, p=row) for row in softmax(true, axis=1)])
    T, scale = calibrate(logits[:, None], np.eye(4)[y])

    def loss(theta):
        P = softmax(logits / np.exp(theta[0]) + theta[1:], axis=1)
        return -np.log(P[np.arange(800), y]).sum() + 0.5 * (theta**2).sum()

    best = minimize(loss, np.zeros(5))
    assert pytest.approx(np.exp(best.x[0]), rel=2e-3) == T
    np.testing.assert_allclose(np.log(scale) / T, best.x[1:], atol=2e-3)
    offset = np.log(scale) / T - np.log(scale).mean() / T
    np.testing.assert_allclose(offset, [1.0, 0.0, 0.0, -1.0], atol=0.35)


def test_classes_have_no_scale_unless_the_evidence_says_so(rng):
    """Of honest models nearly none gets one; of crooked ones nearly all."""
    found = np.zeros(2)
    for _ in range(40):
        logits = 2.0 * rng.normal(size=(150, 3))
        for crooked in (0, 1):
            P = softmax(logits + crooked * np.array([1.0, 0.0, -1.0]), axis=1)
            y = np.array([rng.choice(3, p=row) for row in P])
            found[crooked] += np.any(calibrate(logits[:, None], np.eye(3)[y])[1] != 1.0)
    assert found[0] <= 4
    assert found[1] >= 36


def test_views_count_as_one_sample_for_the_scale(rng):
    joint = 2.0 * rng.normal(size=(300, 1, 3)) + np.array([1.0, 0.0, -1.0])
    target = np.eye(3)[rng.integers(0, 3, 300)]
    once, twice = (calibrate(np.repeat(joint, times, axis=1), target) for times in (1, 2))
    assert twice[0] == pytest.approx(once[0], rel=1e-4)
    np.testing.assert_allclose(twice[1], once[1], rtol=1e-4)


@every_estimator
@pytest.mark.parametrize("kind", ["pooled", "shared"])
def test_scales_of_classes_are_in_every_prediction(cls, kind, rng, tmp_path):
    """Skewed classes, one of them wide: what is said follows (s_k p(x, k))^(1/T), and is kept in files."""
    y = np.arange(300) % 2
    X = np.where(y[:, None], np.exp(1.5 * rng.normal(size=(300, 2))), 0.3 * rng.normal(size=(300, 2)))
    X = X[:, None] + 0.01 * rng.normal(size=(300, 2, 2))
    clf, plain = (cls(calibration=how, realisations=kind).fit(X, y) for how in ("loo", None))
    assert clf.class_scale_.shape == (2,)
    assert np.any(clf.class_scale_ != 1.0)
    if kind == "pooled":
        log_P = plain.predict_log_proba(X[:, 0])
        expected = softmax((log_P + np.log(clf.class_scale_)) / clf.temperature_, axis=1)
        np.testing.assert_allclose(clf.predict_proba(X[:, 0]), expected, atol=1e-10)
    np.testing.assert_allclose(clf.score_samples(X), plain.score_samples(X))
    summary = Summariser(clf).summarise(np.moveaxis(X[:60], 0, 2))
    np.testing.assert_allclose(summary.probability.T, clf.predict_proba(X[:60]), atol=1e-10)
    budget = clf.uncertainty(X[:20], n_draws=10)
    np.testing.assert_allclose(budget.model + budget.measurement + budget.overlap, budget.total, atol=1e-9)
    clf.save(tmp_path / "m.uncover")
    np.testing.assert_array_equal(load_model(tmp_path / "m.uncover").predict_proba(X), clf.predict_proba(X))


@every_estimator
@every_kind
def test_a_temperature_divides_the_log_odds_everywhere(cls, kind, rng, tmp_path):
    X, y = draw(rng, n=60)
    plain, clf = cls(realisations=kind).fit(X, y), cls(realisations=kind, calibration="loo").fit(X, y)
    assert plain.temperature_ == 1.0
    T = clf.temperature_
    assert T != 1.0
    one = X[:, 0] if kind != "draws" else X
    if kind in ("repeats", "draws"):  # one view: the odds are those of the plain model to the power 1/T
        log_P = plain.predict_log_proba(one)
        np.testing.assert_allclose(clf.predict_proba(one), softmax(log_P / T, axis=1), atol=1e-12)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(clf.score_samples(X), plain.score_samples(X))
    np.testing.assert_allclose(clf.typicality(X), plain.typicality(X))
    clf.save(tmp_path / "m.uncover")
    back = load_model(tmp_path / "m.uncover")
    assert back.temperature_ == T
    np.testing.assert_array_equal(back.predict_proba(X), clf.predict_proba(X))


@every_estimator
@every_kind
def test_the_budget_of_a_calibrated_model_adds_up(cls, kind, rng):
    X, y = draw(rng, n=60)
    clf = cls(realisations=kind, calibration="loo").fit(X, y)
    budget = clf.uncertainty(X[:20], n_draws=20, n_true_values=8)
    P = clf.predict_proba(X[:20])
    np.testing.assert_allclose(budget.total, -(P * np.log(P)).sum(1), atol=1e-9)
    np.testing.assert_allclose(budget.model + budget.measurement + budget.overlap, budget.total, atol=1e-9)
    assert min(budget.model.min(), budget.measurement.min(), budget.overlap.min()) >= 0


@every_estimator
@every_kind
def test_maps_have_the_calibrated_probabilities(cls, kind, rng):
    X, y = draw(rng, n=60)
    clf = cls(realisations=kind, calibration="loo").fit(X, y)
    summary = Summariser(clf).summarise(np.moveaxis(X, 0, 2))
    np.testing.assert_allclose(summary.probability.T, clf.predict_proba(X), atol=1e-10)
    parts = summary.model + summary.measurement + summary.overlap
    np.testing.assert_allclose(parts, summary.total, atol=1e-9)


def test_calibration_helps_where_classes_are_not_gaussian(rng):
    """Correlated features under naive Bayes: far too sure, and the temperature says so."""
    y = np.arange(2000) % 2
    X = (rng.normal(size=(2000, 1)) + y[:, None]) + 0.3 * rng.normal(size=(2000, 12))
    train, test = slice(0, 1000), slice(1000, None)
    plain = BayesianNB().fit(X[train], y[train])
    calibrated = BayesianNB(calibration="loo").fit(X[train], y[train])
    assert calibrated.temperature_ > 4
    before, after = (log_loss(y[test], m.predict_proba(X[test])) for m in (plain, calibrated))
    assert after < 0.6 * before


def test_what_cannot_be_calibrated_is_refused(rng):
    X, y = draw(rng, R=1)
    X = X[:, 0]
    with pytest.raises(ValueError, match="calibration must be None or \"loo\"; got 'platt'"):
        BayesianQDA(calibration="platt").fit(X, y)
    with pytest.raises(ValueError, match="partial_fit cannot calibrate"):
        BayesianQDA(calibration="loo").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="label_noise says that these are wrong"):
        BayesianQDA(calibration="loo", label_noise="learn").fit(X, y)
    with pytest.raises(ValueError, match="groups are left out together"):
        BayesianQDA().fit(X, y, groups=y)
    with pytest.raises(ValueError, match=r"one entry for each of the 24 samples, got shape \(23,\)"):
        BayesianQDA(calibration="loo").fit(X, y, groups=y[1:])
    with pytest.raises(ValueError, match="one group only"):
        BayesianQDA(calibration="loo").fit(X, y, groups=np.zeros(24))
