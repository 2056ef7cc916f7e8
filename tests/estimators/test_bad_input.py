"""Bad input: each a clear error or a documented result."""

import numpy as np
import pytest

from uncover import NIW, BayesianClassifier, BayesianLDA, BayesianMDA, BayesianNB, BayesianQDA

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
every_estimator = pytest.mark.parametrize("cls", ESTIMATORS)
rng = np.random.default_rng(0)
y = np.arange(30) % 3
X = rng.normal(size=(30, 2)) + y[:, None]
X3 = X[:, None, :] + 0.1 * rng.normal(size=(30, 4, 2))
PRIOR = NIW([0.0, 0.0], 1.0, np.eye(2), 4.0)


def spoiled(X, value):
    X = X.copy()
    X.flat[7] = value
    return X


BAD_FIT = {
    "NaN in a realisation": (
        spoiled(X3, np.nan),
        y,
        {},
        "several realisations must have all features: X has NaN",
    ),
    "infinity": (spoiled(X, np.inf), y, {}, "Input X contains infinity"),
    "one sample": (X[:1], y[:1], {}, "y has 1 class, 0; a classifier needs at least 2"),
    "no sample": (X[:0], y[:0], {}, "0 sample"),
    "no feature": (X[:, :0], y, {}, "0 feature"),
    "no realisation": (
        X3[:, :0],
        y,
        {},
        r"X of shape \(30, 0, 2\) has 0 realisations; each sample needs at least 1",
    ),
    "four dimensions": (X3[None], y, {}, "X has 4 dimensions; it needs"),
    "labels too short": (X, y[:5], {}, "inconsistent numbers of samples"),
    "no labels": (X, None, {}, "requires y to be passed"),
    "NaN as label": (X, np.where(y == 0, np.nan, y), {}, "Input y contains NaN"),
    "measured numbers as labels": (X, X[:, 0], {}, "Unknown label type: continuous"),
    "labels of mixed kinds": (X, np.array([1, "a", None], object)[y], {}, "Unknown label type"),
    "negative weight": (X, y, {"sample_weight": spoiled(np.ones(30), -1)}, "Negative values"),
    "zero weights": (X, y, {"sample_weight": np.zeros(30)}, "at least one non-zero"),
    "NaN weight": (X, y, {"sample_weight": spoiled(np.ones(30), np.nan)}, "sample_weight contains NaN"),
    "weights too short": (X, y, {"sample_weight": np.ones(3)}, "sample_weight"),
    "weights of next to nothing": (
        X,
        y,
        {"sample_weight": np.full(30, 1e-3)},
        "sum of these.* number 0.03 in all.*scale the weights up",
    ),
    "all constant": (np.ones((30, 2)), y, {}, "every feature of X is constant"),
    "too large to square": (X * 1e200, y, {}, "squares of X leave the range"),
    "text": (np.full((30, 2), "a"), y, {}, "could not convert string"),
}


@every_estimator
@pytest.mark.parametrize("what", BAD_FIT)
def test_fit_refuses(cls, what):
    X, y, more, words = BAD_FIT[what]
    with pytest.raises(ValueError, match=words):
        cls().fit(X, y, **more)


@pytest.mark.parametrize("cls", [*ESTIMATORS, BayesianMDA, BayesianClassifier])
def test_one_class_is_one_clear_line(cls):
    """Advice to name more classes is given only where there is a `partial_fit` that takes it."""
    with pytest.raises(ValueError, match="at least 2 classes") as refused:
        cls().fit(X, np.full(30, "water"))
    later = " (partial_fit takes classes= where more come later)" if hasattr(cls, "partial_fit") else ""
    assert str(refused.value) == f"y has 1 class, 'water'; a classifier needs at least 2 classes{later}."


BAD_PARAMETERS = {
    "unknown prior": (
        {"prior": "strong"},
        'prior must be "weak" or .*"jeffreys" or a NIW, or one NIW for each class; got \'strong\'',
    ),
    "no prior": ({"prior": None}, "prior must be .* got None"),
    "prior for other features": (
        {"prior": NIW([0.0], 1.0, [[1.0]], 3.0)},
        r"prior is for \[1\] features, X has 2",
    ),
    "too few priors": ({"prior": [PRIOR, PRIOR]}, "one NIW for each of the 3 classes, got 2"),
    "things that are no priors": ({"prior": [1, 2, 3]}, "one NIW for each of the 3 classes.*among them int"),
    "a class without prior": ({"prior": {0: PRIOR, 1: PRIOR}}, r"no NIW for the class\(es\) \[2\]"),
    "negative class prior": ({"class_prior": -1.0}, "class_prior must be positive and finite, got -1"),
    "zero class prior": ({"class_prior": 0.0}, "class_prior must be positive"),
    "class prior of wrong length": ({"class_prior": [1.0, 2.0]}, r"each of the 3 classes, got shape \(2,\)"),
    "class prior as text": ({"class_prior": "flat"}, "class_prior must be a number"),
    "unknown realisations": ({"realisations": "repeat"}, "realisations must be .*\"repeats\".* got 'repeat'"),
    "realisations as list": ({"realisations": ["repeats"]}, "realisations must be"),
}


@every_estimator
@pytest.mark.parametrize("what", BAD_PARAMETERS)
def test_bad_parameters(cls, what):
    parameters, words = BAD_PARAMETERS[what]
    with pytest.raises(ValueError, match=words):
        cls(**parameters).fit(X, y)


def test_a_shared_covariance_has_one_prior():
    other = NIW([0.0, 0.0], 1.0, 2 * np.eye(2), 4.0)
    with pytest.raises(ValueError, match=r"one covariance for all classes.*use BayesianQDA"):
        BayesianLDA(prior=[PRIOR, PRIOR, other]).fit(X, y)


def test_a_scale_that_is_not_positive_definite():
    with pytest.raises(ValueError, match=r"not positive definite.*smallest eigenvalue"):
        NIW([0.0, 0.0], 1.0, [[1.0, 2.0], [2.0, 1.0]], 4.0)


def test_too_few_degrees_of_freedom():
    with pytest.raises(ValueError, match=r'dof > 1 for 2 features, got 0\.5\. Raise dof or use prior="weak"'):
        NIW([0.0, 0.0], 1.0, np.eye(2), 0.5)


@every_estimator
def test_prediction_refuses(cls):
    clf = cls(missing="error").fit(X, y)
    for method in (clf.predict, clf.predict_proba, clf.score_samples, clf.typicality, clf.uncertainty):
        with pytest.raises(ValueError, match="Input X contains NaN"):
            method(spoiled(X, np.nan))
        with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2"):
            method(X[:, :1])
        with pytest.raises(ValueError, match=r"X has 5 features, but .* is expecting 2"):
            method(np.ones((3, 2, 5)))
        with pytest.raises(ValueError, match="0 realisations"):
            method(X3[:, :0])
        with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
            method(X[0])


@every_estimator
def test_what_is_not_fitted_says_so(cls):
    for call in (
        lambda c: c.predict(X),
        lambda c: c.describe(),
        lambda c: c.sample_posterior(),
        lambda c: c.uncertainty(X),
    ):
        with pytest.raises(ValueError, match="not fitted yet"):
            call(cls())


def test_the_number_of_draws_is_positive():
    clf = BayesianQDA().fit(X, y)
    with pytest.raises(ValueError, match="n_draws and n_true_values must be at least 1, got 0"):
        clf.uncertainty(X, n_draws=0)


@pytest.mark.parametrize("seed", [-1, 0.5, "a", np.random.RandomState(0)])
def test_a_seed_is_a_number(seed):
    with pytest.raises(ValueError, match="seed must be a non-negative integer or None"):
        BayesianQDA(random_state=seed).fit(X, y).sample_posterior()


# ---- partial_fit ------------------------------------------------------------------------------------------


@every_estimator
def test_partial_fit_refuses(cls):
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        cls().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"y has the class\(es\) \[2\], which are not among.*\[0, 1\]"):
        cls().partial_fit(X, y, classes=[0, 1])
    clf = cls().partial_fit(X, y, classes=[0, 1, 2])
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match=r"y has the class\(es\) \[3\], which are not among"):
        clf.partial_fit(X, y + 1)
    with pytest.raises(ValueError, match=r"\[0, 1\] in this call to partial_fit and were \[0, 1, 2\]"):
        clf.partial_fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match="X has 1 features"):
        clf.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="1 class, 0"):
        cls().partial_fit(X[y == 0], y[y == 0], classes=[0])
    np.testing.assert_array_equal(clf.predict_proba(X), before)  # a refused call changes nothing


@pytest.mark.parametrize("kind", ["repeats", "shared"])
def test_the_number_of_realisations_stays(kind):
    clf = BayesianQDA(realisations=kind).fit(X3, y)
    with pytest.raises(ValueError, match="X has 2 realisations, the samples before had 4"):
        clf.partial_fit(X3[:, :2], y)


def test_the_number_of_pooled_realisations_may_vary():
    clf = BayesianQDA().fit(X3, y).partial_fit(X3[:, :2], y)
    assert clf.measurement_.number == 0
    assert "A varying number of realisations" in clf.describe()


def test_draws_need_all_samples_at_once():
    """Their spread is known noise, which is taken out of the classes in rounds over all samples."""
    with pytest.raises(ValueError, match=r"partial_fit cannot take known noise.*draws.*Use fit"):
        BayesianQDA(realisations="draws").partial_fit(X3, y, classes=[0, 1, 2])


def test_nothing_is_predicted_before_samples_differ():
    clf = BayesianQDA()
    with pytest.warns(UserWarning, match="every feature has been constant so far"):
        clf.partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not fitted yet"):
        clf.predict(X)
    assert clf.partial_fit(X[1:], y[1:]).score(X, y) > 0.5


# ---- documented results -----------------------------------------------------------------------------------


@every_estimator
def test_a_constant_feature_is_ignored_with_a_warning(cls):
    wide = np.column_stack([X[:, 0], np.full(30, 0.3), X[:, 1]])
    with pytest.warns(UserWarning, match=r"feature\(s\) 1 are constant and are ignored"):
        clf = cls().fit(wide, y)
    np.testing.assert_array_equal(clf.ignored_features_, [False, True, False])
    np.testing.assert_allclose(clf.predict_proba(wide), cls().fit(X, y).predict_proba(X), atol=1e-13)
    assert clf.means_[0, 1] == pytest.approx(0.3)
    assert clf.covariances_.shape == (3, 3, 3)
    wide[:, 1] = 99.0
    np.testing.assert_allclose(clf.predict_proba(wide), cls().fit(X, y).predict_proba(X), atol=1e-13)


@every_estimator
def test_a_feature_constant_in_one_class_borrows_its_variance(cls):
    wide = np.column_stack([X, np.where(y == 0, 0.5, rng.normal(size=30))])
    if cls is BayesianLDA:
        clf = cls()
        with pytest.warns(UserWarning, match="no variance of their own"):
            clf.fit(wide, y)
    else:
        with pytest.warns(
            UserWarning, match=r"class\(es\) 0 have no variance of their own in feature\(s\) 2"
        ):
            clf = cls().fit(wide, y)
    assert np.isfinite(clf.predict_log_proba(wide)).all()


@every_estimator
@pytest.mark.parametrize("copies", [1, 20_000])
def test_duplicated_features_do_no_harm(cls, copies):
    """The scatter is singular; the prior is not. Also where the prior is outweighed by 2e5 samples."""
    twin = np.column_stack([X, X])
    clf = cls().fit(np.tile(twin, (copies, 1)), np.tile(y, copies))
    probability = clf.predict_proba(twin)
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(1), 1.0)
    assert clf.score(twin, y) >= 0.5


@every_estimator
def test_a_class_of_one_sample(cls):
    few = np.concatenate([np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:1]])
    with pytest.warns(UserWarning, match=r"class\(es\) 2 have no variance of their own in feature\(s\) 0, 1"):
        clf = cls().fit(X[few], y[few])
    probability = clf.predict_proba(X)
    assert np.isfinite(probability).all()
    assert (probability[:, 2] > 0).all()


@every_estimator
def test_a_class_whose_weights_are_all_zero_is_a_class_without_samples(cls):
    weight = (y != 1).astype(float)
    with pytest.warns(
        UserWarning, match=r"class\(es\) 1 have no sample of positive weight and get probability 0"
    ):
        clf = cls().fit(X, y, sample_weight=weight)
    assert clf.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(clf.predict_proba(X)[:, 1], 0.0)
    with pytest.warns(UserWarning, match=r"class\(es\) 1 have no sample"):
        cls().fit(X, label_proba=np.eye(3)[np.where(y == 1, 0, y)])


def test_a_prior_of_ones_own_knows_a_class_without_samples():
    own = NIW(np.zeros(2), 1.0, np.eye(2), 4.0)
    clf = BayesianQDA(prior=own).fit(X, y, sample_weight=(y != 1).astype(float))
    assert (clf.predict_proba(X)[:, 1] > 0).all()


ODD = ["", " ", "a\nb", "ü—☃", "<b>&amp;</b>", 'quo"te', "o'k\\", "%s{}", "-1", "None"]


@every_estimator
def test_labels_with_odd_characters(cls, tmp_path):
    labels = np.array(ODD)[np.arange(60) % len(ODD)]
    clf = cls().fit(np.random.default_rng(1).normal(size=(60, 2)), labels)
    assert clf.classes_.tolist() == sorted(ODD)
    assert set(clf.predict(X)) <= set(ODD)
    page = clf.describe()
    assert "'a\\nb'" in page  # a line break stays inside its line
    assert "''" in page  # a blank name can be seen
    assert "ü—☃" in page


@every_estimator
def test_values_beyond_reason_are_merely_far(cls):
    clf = cls().fit(X, y)
    far = np.array([[1e300, -1e300], [1e150, 0.0]])
    assert np.isfinite(clf.predict_proba(far)).all()
    np.testing.assert_array_equal(clf.typicality(far), 0.0)


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@every_estimator
def test_partial_fit_that_fails_changes_nothing(cls):
    with pytest.raises(ValueError, match="class_prior"):  # found out last of all
        clf = cls(class_prior=-1.0)
        clf.partial_fit(X, y, classes=[0, 1, 2])
    assert vars(clf) == vars(cls(class_prior=-1.0))
    clf = cls().partial_fit(X, y, classes=[0, 1, 2])
    before, P = dict(vars(clf)), clf.predict_proba(X)
    for late in (1e200 * X, X[:, :1]):
        with pytest.raises(ValueError):
            clf.partial_fit(late, y)
        assert vars(clf).keys() == before.keys() and clf.model_ is before["model_"]
        np.testing.assert_array_equal(clf.predict_proba(X), P)
