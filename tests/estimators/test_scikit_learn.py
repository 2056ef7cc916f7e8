"""The estimators are scikit-learn estimators, in full, and so is input with realisations."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from uncover.estimators.discriminant import estimator_of
from uncover.models.registry import CLASS_MODELS

ESTIMATORS = [estimator_of(model) for model in CLASS_MODELS.values()]


@pytest.mark.filterwarnings("ignore:class\\(es\\) .* have no variance of their own:UserWarning")
@pytest.mark.filterwarnings("ignore:prior=.weak. is too sure with few samples:UserWarning")
@pytest.mark.filterwarnings("ignore:feature\\(s\\) .* are constant and are ignored:UserWarning")
@pytest.mark.filterwarnings("ignore:class\\(es\\) .* have no sample of positive weight:UserWarning")
@parametrize_with_checks([cls() for cls in ESTIMATORS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def problem(rng):
    truth = rng.normal(size=(120, 3)) + 2.0 * (np.arange(120) % 3)[:, None]
    X = truth[:, None, :] + 0.3 * rng.normal(size=(120, 5, 3))
    return X, np.array(["a", "b", "c"])[np.arange(120) % 3]


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", ["pooled", "repeats", "draws", "shared"])
def test_realisations_pass_through_model_selection(cls, kind, problem):
    X, y = problem
    clf = cls(realisations=kind)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    assert X_train.shape[1:] == (5, 3)
    assert clf.fit(X_train, y_train).score(X_test, y_test) > 0.8
    assert cross_val_score(clf, X, y, scoring="neg_log_loss", error_score="raise").mean() > -0.6
    assert cross_val_predict(clf, X, y, method="predict_proba").shape == (120, 3)
    search = GridSearchCV(clf, {"class_prior": [0.5, 1.0, 5.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.score(X, y) > 0.8
    calibrated = CalibratedClassifierCV(clf, cv=3).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1.0)
