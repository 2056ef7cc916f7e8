"""Labels that are not certain: probabilities of classes, and labels that are wrong."""

import numpy as np
import pytest
from benchmarks.known_noise import flipped_labels
from scipy.special import expit
from sklearn.metrics import log_loss

from uncover import NIW, BayesianClassifier, BayesianLDA, BayesianNB, BayesianQDA, load_model

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


@pytest.fixture
def problem(rng):
    y = np.arange(150) % 3
    X = 2.0 * rng.standard_normal((3, 3))[y] + rng.standard_normal((150, 3)) @ rng.standard_normal((3, 3))
    return X, y


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("X_cov", [None, [0.1, 0.2, 0.3]])
def test_hard_labels_are_the_special_case(cls, X_cov, problem):
    X, y = problem
    hard = cls().fit(X, y, X_cov=X_cov)
    soft = cls().fit(X, label_proba=np.eye(3)[y], X_cov=X_cov)
    np.testing.assert_allclose(soft.class_count_, hard.class_count_)
    np.testing.assert_allclose(
        soft.predict_log_proba(X, X_cov=X_cov), hard.predict_log_proba(X, X_cov=X_cov), atol=1e-9
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_probabilities_are_shares_of_a_sample(cls, problem, rng):
    """A soft label is the sample once in each class, with the share as weight."""
    X, _ = problem
    W = rng.dirichlet([0.5, 1.0, 2.0], len(X))
    soft = cls().fit(X, label_proba=W, label_meaning="posterior")
    spread = cls().fit(np.repeat(X, 3, axis=0), np.tile([0, 1, 2], len(X)), sample_weight=W.ravel())
    np.testing.assert_allclose(soft.means_, spread.means_, atol=1e-10)
    np.testing.assert_allclose(soft.covariances_, spread.covariances_, atol=1e-10)
    np.testing.assert_allclose(soft.predict_log_proba(X), spread.predict_log_proba(X), atol=1e-8)
    np.testing.assert_allclose(soft.predict_proba(X).sum(1), 1.0)


def test_moments_of_soft_labels_are_weighted_averages(problem, rng):
    X, _ = problem
    W = rng.dirichlet([1.0, 1.0, 1.0], len(X))
    clf = BayesianQDA().fit(X, label_proba=W, label_meaning="posterior")
    np.testing.assert_allclose(clf.class_count_, W.sum(0))
    np.testing.assert_allclose(clf.means_, [np.average(X, axis=0, weights=w) for w in W.T])


def test_columns_follow_the_names_of_the_classes(problem, rng):
    X, _ = problem
    W = rng.dirichlet([1.0, 1.0, 1.0], len(X))
    one = BayesianQDA().fit(X, label_proba=W, classes=["forest", "grass", "water"])
    two = BayesianQDA().fit(X, label_proba=W[:, [2, 0, 1]], classes=["water", "forest", "grass"])
    assert one.classes_.tolist() == two.classes_.tolist() == ["forest", "grass", "water"]
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), rtol=1e-12)


def test_bad_labels_are_refused_with_their_reason(problem):
    X, y = problem
    W = np.eye(3)[y]
    for options, message in (
        ({"label_proba": W * 0.9}, r"row 0 of label_proba sums to 0.9; .* sum to 1"),
        ({"label_proba": W * 1.1}, r"row 0 of label_proba has the value 1.1 for class .* between 0 and 1"),
        ({"label_proba": W[:10]}, r"needs the shape \(150, class\), one row a sample, got \(10, 3\)"),
        ({"label_proba": y}, r"needs the shape \(150, class\)"),
        ({"label_proba": W - 0.1}, r"row 0 of label_proba has the value -0.1 for class 1"),
        ({"label_proba": W * np.nan}, "row 0 of label_proba has the value nan"),
        ({"label_proba": W[:, :1] * 0 + 1}, "1 class, 0; a classifier needs at least 2"),
        ({"label_proba": W, "label_meaning": "guess"}, '"certainty" or "posterior"'),
        ({"label_proba": W, "y": y}, "give y or label_proba, not both"),
        ({"label_proba": W, "classes": ["a", "b"]}, "label_proba has 3 columns and classes has 2 names"),
        ({"label_proba": W, "classes": ["a", "b", "a"]}, "names one class twice"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianQDA().fit(X, **options)
    for noise, message in (
        ("guess", 'None, "learn" or a matrix'),
        (np.eye(2), r"needs the shape \(3, 3\)"),
        (np.full((3, 3), 0.5), "probabilities that sum to 1"),
        (np.full((3, 3), np.nan), "probabilities that sum to 1"),
    ):
        with pytest.raises(ValueError, match=message):
            BayesianQDA(label_noise=noise).fit(X, y)
    with pytest.raises(ValueError, match="label_noise goes with labels y"):
        BayesianQDA(label_noise="learn").fit(X, label_proba=W)


def annotated(rng, n, centres=(0.0, 2.0)):
    """Samples of two classes of variance 1, the classes, and certainties that are right as often as told."""
    y = rng.integers(0, 2, n)
    X = rng.standard_normal((n, 1)) + np.asarray(centres)[y][:, None]
    certainty = rng.uniform(0.5, 1.0, n)
    said = np.where(rng.random(n) < certainty, y, 1 - y)
    rho = np.where(said[:, None] == [0, 1], certainty[:, None], 1.0 - certainty[:, None])
    return X, y, rho


@pytest.mark.parametrize("prior", ["weak", "evidence", "jeffreys"])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_certainties_of_an_annotator_give_the_true_classes(cls, prior, rng):
    """By counting shares the means are 0.67 and 1.33, and the variance 1.9; the truth is 0, 2 and 1."""
    X, _, rho = annotated(rng, 3000)
    clf = cls(prior=prior).fit(X, label_proba=rho)
    np.testing.assert_allclose(clf.means_[:, 0], [0.0, 2.0], atol=0.12)
    np.testing.assert_allclose(np.broadcast_to(clf.covariances_, (2, 1, 1)).ravel(), 1.0, atol=0.12)
    as_shares = cls(prior=prior).fit(X, label_proba=rho, label_meaning="posterior")
    assert as_shares.means_[0, 0] > 0.5


def test_certainties_at_rest_are_the_rule_of_bayes(rng):
    """r_ik ∝ ρ_ik p(x_i | k), the density being that of the fitted model, gives the model back."""
    X, _, rho = annotated(rng, 400)
    weight = rng.uniform(0.5, 2.0, len(X))
    clf = BayesianQDA().fit(X, label_proba=rho, sample_weight=weight)
    density = [clf.posterior_[k].predictive().log_prob(X) for k in range(2)]
    r = rho * np.exp(density).T
    r *= weight[:, None] / r.sum(1, keepdims=True)
    np.testing.assert_allclose(clf.means_, [np.average(X, axis=0, weights=w) for w in r.T], atol=1e-4)
    np.testing.assert_allclose(clf.class_count_, weight @ rho, rtol=1e-12)


@pytest.mark.parametrize("prior", ["weak", "evidence"])
def test_certainties_that_hardly_differ_keep_the_base_rate(prior, rng, tmp_path):
    """One class in 20 samples, as all certainties say; with free shares the fit clustered: 0.47."""
    y = (np.arange(300) % 20 == 0).astype(int)
    X = rng.standard_normal((300, 1)) + 2.0 * y[:, None]
    clf = BayesianQDA(prior=prior).fit(X, label_proba=np.tile([0.95, 0.05], (300, 1)))
    share = clf.class_posterior_ / clf.class_posterior_.sum()
    assert share[1] == pytest.approx(16 / 302)
    assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(0.05, abs=0.02)
    clf.save(tmp_path / "model.uncover")
    kept = load_model(tmp_path / "model.uncover")
    np.testing.assert_array_equal(kept.predict_proba(X), clf.predict_proba(X))


@pytest.mark.filterwarnings("ignore:class.es. .* have no (sample|variance)")
@pytest.mark.parametrize("prior", ["weak", "evidence"])
def test_certainties_go_to_certain_labels_in_the_limit(prior, rng):
    X = rng.standard_normal((100, 1))
    P = [
        BayesianQDA(prior=prior).fit(X, label_proba=np.tile([1 - e, e], (100, 1))).predict_proba(X)[:, 1]
        for e in (0.0, 1e-9)
    ]
    np.testing.assert_allclose(P[1], P[0], atol=1e-3)


def test_weight_of_two_is_the_certain_sample_twice(rng):
    X, _, rho = annotated(rng, 60)
    twice = np.concatenate([X, X[:20]]), np.concatenate([rho, rho[:20]])
    weighted = BayesianQDA().fit(X, label_proba=rho, sample_weight=np.where(np.arange(60) < 20, 2.0, 1.0))
    repeated = BayesianQDA().fit(twice[0], label_proba=twice[1])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5)


def test_an_outlier_with_a_sure_label_keeps_it(rng):
    """Its probability under the label's class underflows; the label rules the other class out."""
    X, y, _ = annotated(rng, 60)
    rho = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    X[0], rho[0] = 1e6 * (1 - y[0]), np.eye(2)[y[0]]
    clf = BayesianQDA(prior=NIW([0.0], 1.0, [[1.0]], 1e6)).fit(X, label_proba=rho)
    assert np.isfinite(clf.predict_proba(X)).all()


def test_certainties_are_not_calibrated_with(rng):
    X, y, rho = annotated(rng, 60)
    with pytest.raises(ValueError, match='label_meaning="posterior" if label_proba is P'):
        BayesianQDA(calibration="loo").fit(X, label_proba=rho)
    sure = BayesianQDA(calibration="loo").fit(X, label_proba=np.eye(2)[y])
    assert sure.temperature_ == pytest.approx(BayesianQDA(calibration="loo").fit(X, y).temperature_)


def test_labels_that_are_never_wrong_change_nothing(problem):
    X, y = problem
    plain, sure = BayesianQDA().fit(X, y), BayesianQDA(label_noise=np.eye(3)).fit(X, y)
    np.testing.assert_allclose(sure.predict_log_proba(X), plain.predict_log_proba(X), atol=1e-9)


def test_a_known_confusion_is_kept_and_helps(problem, rng):
    X, y = problem
    X, y = np.concatenate([X] * 4), np.concatenate([y] * 4)
    X = X + 0.3 * rng.standard_normal(X.shape)
    confusion = np.array([[0.7, 0.3, 0.0], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]])
    labels = np.array([rng.choice(3, p=confusion[k]) for k in y])
    clf = BayesianQDA(label_noise=confusion).fit(X, labels)
    np.testing.assert_array_equal(clf.label_confusion_, confusion)
    ignoring = BayesianQDA().fit(X, labels)
    assert log_loss(y, clf.predict_proba(X)) < 0.8 * log_loss(y, ignoring.predict_proba(X))


def test_one_step_of_learning_is_the_rule_of_bayes(problem, rng):
    """At rest, soft labels r_ik ∝ Θ_k,y P(k|x) give back the model and the confusion."""
    X, y = problem
    labels = np.where(rng.random(len(y)) < 0.2, rng.integers(0, 3, len(y)), y)
    clf = BayesianQDA(label_noise="learn").fit(X, labels)
    r = clf.label_confusion_[:, labels].T * clf.predict_proba(X)
    r /= r.sum(1, keepdims=True)
    counts = np.stack([np.bincount(labels, r[:, k], 3) for k in range(3)])
    np.testing.assert_allclose(clf.label_confusion_, counts / counts.sum(1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(clf.class_count_, r.sum(0), atol=1e-3)
    np.testing.assert_allclose(clf.means_, [np.average(X, axis=0, weights=w) for w in r.T], atol=1e-5)


def test_one_label_in_five_wrong():
    """A short run of `benchmarks.known_noise.flipped_labels`."""
    found = flipped_labels(n_problems=3)
    assert found["ratio, learned"] < 1.05
    assert found["ratio, ignored"] > 1.5
    assert found["rmse of the confusion"] < 0.02
    assert found["largest z"] < 3.5  # of 48 entries
    assert found["largest difference from the flips drawn"] < 0.01


def test_learning_from_few_samples_warns(rng):
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 2)) + 2.0 * y[:, None]
    with pytest.warns(UserWarning, match="20 samples of a class; with fewer than 30"):
        BayesianQDA(label_noise="learn").fit(X, y)


# ---- the recommended classifier --------------------------------------------------------------------------


def test_hard_labels_are_the_special_case_of_the_pool(problem):
    X, y = problem
    P = [
        BayesianClassifier().fit(X, label_proba=np.eye(3)[y]).predict_proba(X[:20]),
        BayesianClassifier(label_noise=np.eye(3)).fit(X, y).predict_proba(X[:20]),
    ]
    for found in P:
        np.testing.assert_allclose(found, BayesianClassifier().fit(X, y).predict_proba(X[:20]), atol=1e-12)


def test_the_pool_learns_from_certainties_what_it_learns_from_true_labels(tmp_path):
    """An annotator who is right as often as he says, against the truth and against what he said."""
    lost = np.zeros((3, 3))
    for i in range(3):
        rng = np.random.default_rng(i)
        y, c = rng.integers(0, 2, 1200), rng.uniform(0.5, 1.0, 1200)
        said = np.where(rng.random(1200) < c, y, 1 - y)
        rho = np.where(said[:, None] == [0, 1], c[:, None], 1.0 - c[:, None])
        X, some, rest = rng.normal(size=(1200, 2)) + 2.0 * y[:, None] * [1, 0], slice(200), slice(200, None)
        given = ({"y": y[some]}, {"label_proba": rho[some]}, {"y": said[some]})
        fitted = [BayesianClassifier().fit(X[some], **labels) for labels in given]
        lost[i] = [log_loss(y[rest], clf.predict_proba(X[rest])) for clf in fitted]
    truth, certainties, as_said = lost.mean(0)
    assert certainties < truth + 0.04
    assert as_said > truth + 0.1
    fitted[1].save(tmp_path / "soft.uncover")
    kept = load_model(tmp_path / "soft.uncover")
    np.testing.assert_array_equal(kept.predict_proba(X[rest]), fitted[1].predict_proba(X[rest]))


def test_the_pool_takes_shares_of_samples(problem, rng):
    """Labels that are P(class | x) of the true classes are worth more than one draw of each."""
    X = rng.normal(size=(1400, 1))
    P = np.stack([expit(-3 * X[:, 0]), expit(3 * X[:, 0])], axis=1)
    some, rest, named = slice(60), slice(60, None), {"label_meaning": "posterior", "classes": ["a", "b"]}
    soft = BayesianClassifier().fit(X[some], label_proba=P[some], **named)
    hard = BayesianClassifier().fit(X[some], (rng.random(60) < P[some, 1]).astype(int))
    losses = (-(P[rest] * np.log(clf.predict_proba(X[rest]))).sum(1) for clf in (soft, hard))
    far = [np.mean(loss + (P[rest] * np.log(P[rest])).sum(1)) for loss in losses]
    assert far[0] < 0.5 * far[1]
    assert soft.class_count_.sum() == pytest.approx(60)


def test_the_pool_with_labels_of_which_some_are_wrong(rng, tmp_path):
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 3.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    said = np.where(rng.random(300) < 0.25, rng.integers(0, 3, 300), y)
    clf, plain = BayesianClassifier(label_noise="learn").fit(X, said), BayesianClassifier().fit(X, said)
    assert log_loss(y, clf.predict_proba(X)) < log_loss(y, plain.predict_proba(X)) - 0.03
    matrix = np.where(np.eye(3) > 0, 0.8, 0.1)
    BayesianClassifier(label_noise=matrix).fit(X, said).save(tmp_path / "noise.uncover")
    np.testing.assert_allclose(load_model(tmp_path / "noise.uncover").label_noise, matrix)
