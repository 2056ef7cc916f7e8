"""Values that carry their covariance through scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from uncover import BayesianLDA, BayesianNB, BayesianQDA, Measured
from uncover.measurement.transforms import MeasuredScaler

ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]


@pytest.fixture
def problem(rng):
    y = np.array(["a", "b", "c"])[np.arange(90) % 3]
    X = 2.0 * rng.standard_normal((3, 3))[np.arange(90) % 3] + rng.standard_normal((90, 3))
    variance = rng.uniform(0.1, 1.0, X.shape)
    return X + np.sqrt(variance) * rng.standard_normal(X.shape), y, variance


@pytest.mark.parametrize(
    "rows", [slice(3, 9), [0, 5, 2], np.arange(90) % 2 == 0, -1, np.int64(4), slice(None, None, -1)]
)
def test_rows_keep_their_covariances(rows, problem):
    X, _, variance = problem
    for cov, meant in ((variance, variance), ([1.0, 2.0, 3.0], np.tile([1.0, 2.0, 3.0], (90, 1)))):
        part = Measured(X, cov, systematic=[0.1, 0.2, 0.3])[rows]
        chosen = np.atleast_2d(X[rows])
        np.testing.assert_array_equal(part.X, chosen)
        found = np.broadcast_to(part.covariances.variances(), chosen.shape)
        np.testing.assert_array_equal(found, np.atleast_2d(meant[rows]))
        np.testing.assert_array_equal(part.systematic, np.diag([0.1, 0.2, 0.3]))
        assert len(part) == part.shape[0] == len(chosen)


def test_as_many_rows_as_features(problem):
    """Three rows of equal variances look like one matrix; cut from a Measured they stay variances."""
    X, y, _ = problem
    whole = Measured(X, np.full((90, 3), 0.25))
    part = whole[:3]
    np.testing.assert_array_equal(part.covariances.of_each(3), np.tile(0.25 * np.eye(3), (3, 1, 1)))
    clf = BayesianQDA().fit(whole, y)
    np.testing.assert_allclose(clf.predict_proba(part), clf.predict_proba(whole)[:3], rtol=1e-12)
    with pytest.raises(ValueError, match="could be the variances of 3 samples or a covariance of 3 features"):
        clf.predict_proba(X[:3], X_cov=np.full((3, 3), 0.25))


def test_concatenation_undoes_cutting(problem):
    X, _, variance = problem
    for cov in (variance, variance[0], np.diag(variance[0]), variance[:, :, None] * np.eye(3), None):
        whole = Measured(X, cov, systematic=np.eye(3))
        again = Measured.concatenate([whole[:20], whole[20:23], whole[23:]])
        np.testing.assert_array_equal(again.X, X)
        np.testing.assert_array_equal(again.systematic, np.eye(3))
        if cov is None:
            assert again.covariances is None
        else:
            np.testing.assert_allclose(
                again.covariances.of_each(90), whole.covariances.of_each(90), atol=1e-15
            )


def test_what_cannot_be_put_together_is_refused(problem):
    X, _, variance = problem
    with pytest.raises(ValueError, match="come from different scenes"):
        Measured.concatenate([Measured(X, systematic=[1, 1, 1]), Measured(X, systematic=[1, 1, 2])])
    with pytest.raises(ValueError, match="come from different scenes"):
        Measured.concatenate([Measured(X, systematic=[1, 1, 1]), Measured(X)])
    with pytest.raises(ValueError, match="give zeros there"):
        Measured.concatenate([Measured(X, variance), Measured(X)])


def test_bad_input_is_refused(problem):
    X, _, variance = problem
    measured = Measured(X, variance)
    for make, error, message in (
        (lambda: np.asarray(measured), TypeError, "use .X for the values"),
        (lambda: measured[:, 0], IndexError, "indexed by rows only"),
        (lambda: Measured(X[:, 0]), ValueError, r"\(sample, realisation, feature\), got \(90,\)"),
        (lambda: Measured(X, np.ones(4)), ValueError, "does not fit 90 samples of 3 features"),
        (lambda: Measured(X, systematic=np.ones((90, 3))), ValueError, "it is one for all samples"),
        (lambda: Measured(X, systematic=-np.ones(3)), ValueError, "must not be negative"),
        (lambda: StandardScaler().fit(measured), TypeError, "MeasuredScaler"),
    ):
        with pytest.raises(error, match=message):
            make()


def test_it_can_be_pickled_and_shown(problem):
    X, _, variance = problem
    again = pickle.loads(pickle.dumps(Measured(X, variance, systematic=np.eye(3))))
    np.testing.assert_array_equal(again.X, X)
    np.testing.assert_array_equal(again.covariances.variances(), variance)
    assert repr(again) == (
        "Measured(shape=(90, 3), a covariance for each sample and a systematic covariance)"
    )
    assert repr(Measured(X)) == "Measured(shape=(90, 3), no covariance)"


def test_names_of_columns_survive(problem):
    pandas = pytest.importorskip("pandas")
    X, y, variance = problem
    frame = pandas.DataFrame(X, columns=["blue", "green", "red"], index=np.arange(90) + 7)
    clf = BayesianQDA().fit(Measured(frame, variance), y)
    assert clf.feature_names_in_.tolist() == ["blue", "green", "red"]
    part = Measured(frame, variance)[10:20]
    np.testing.assert_array_equal(part.X.to_numpy(), X[10:20])
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(Measured(frame[["red", "green", "blue"]], variance))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_model_selection_does_not_lose_the_covariance(cls, problem):
    X, y, variance = problem
    measured, clf = Measured(X, variance), cls()
    train, test, y_train, _ = train_test_split(measured, y, random_state=0)
    rows, test_rows = train_test_split(np.arange(90), random_state=0)
    np.testing.assert_array_equal(train.covariances.variances(), variance[rows])
    expected = cls().fit(X[rows], y[rows], X_cov=variance[rows])
    np.testing.assert_allclose(
        clf.fit(train, y_train).predict_proba(test),
        expected.predict_proba(X[test_rows], X_cov=variance[test_rows]),
        rtol=1e-12,
    )
    folds = list(KFold(3).split(X))
    scores = cross_val_score(clf, measured, y, cv=folds, scoring="neg_log_loss", error_score="raise")
    P = cross_val_predict(clf, measured, y, cv=folds, method="predict_proba")
    by_hand = np.empty_like(P)
    for a, b in folds:
        model = cls().fit(X[a], y[a], X_cov=variance[a])
        by_hand[b] = model.predict_proba(X[b], X_cov=variance[b])
    np.testing.assert_allclose(P, by_hand, rtol=1e-10)
    picked = by_hand[np.arange(90), np.searchsorted(["a", "b", "c"], y)]
    np.testing.assert_allclose(scores, [np.log(picked[b]).mean() for _, b in folds], rtol=1e-8)


def test_searching_and_calibrating(problem):
    X, y, variance = problem
    measured = Measured(X, variance)
    search = GridSearchCV(
        BayesianQDA(), {"class_prior": [0.5, 5.0]}, scoring="neg_log_loss", cv=3, error_score="raise"
    ).fit(measured, y)
    assert search.predict_proba(measured).shape == (90, 3)
    calibrated = CalibratedClassifierCV(BayesianQDA(), cv=3).fit(measured, y)
    np.testing.assert_allclose(calibrated.predict_proba(measured).sum(1), 1.0)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_probabilities_do_not_depend_on_units(cls, problem):
    X, y, variance = problem
    units = np.array([1e-3, 1.0, 1e4])
    for cov, systematic in ((variance, None), (variance, 0.3 * np.ones(3)), (variance[0], np.eye(3))):
        measured = Measured(
            X * units, cov * units**2, None if systematic is None else np.eye(3) * units**2 / 4
        )
        piped = make_pipeline(MeasuredScaler(), cls()).fit(measured, y)
        plain = cls().fit(measured, y)
        np.testing.assert_allclose(piped.predict_proba(measured), plain.predict_proba(measured), atol=1e-6)
    scaler = MeasuredScaler().fit(measured)
    there = scaler.transform(measured)
    np.testing.assert_allclose(there.X.std(0), 1.0)
    back = scaler.inverse_transform(there)
    np.testing.assert_allclose(back.X, measured.X, rtol=1e-12)
    np.testing.assert_allclose(back.systematic, measured.systematic, rtol=1e-12)
    np.testing.assert_allclose(back.covariances.matrices(), measured.covariances.matrices(), rtol=1e-12)
    np.testing.assert_allclose(scaler.transform(measured.X), there.X)
