"""One clone for each realisation: who predicts what, and what an ensemble of one is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from uncover import BayesianQDA, RealisationEnsemble

ESTIMATORS = [LinearDiscriminantAnalysis(), BayesianQDA(), RandomForestClassifier(5)]


@pytest.mark.filterwarnings("ignore:class\\(es\\) .* have no variance of their own:UserWarning")
@pytest.mark.filterwarnings("ignore:feature\\(s\\) .* are constant and are ignored:UserWarning")
@parametrize_with_checks([RealisationEnsemble(LogisticRegression())])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def problem(rng):
    y = np.arange(90) % 3
    truth = rng.normal(size=(90, 2)) + 2.0 * y[:, None]
    return truth[:, None, :] + 0.3 * rng.normal(size=(90, 6, 2)), np.array(["a", "b", "c"])[y]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_probabilities_are_the_mean_over_permuted_pairs(estimator, problem):
    """Against a loop written out here, with models fitted here; the permutation is a true one."""
    X, y = problem
    ensemble = RealisationEnsemble(estimator, random_state=3).fit(X[:60], y[:60])
    pairs = ensemble.pairs(6)
    assert [model for model, _ in pairs] == list(range(6))
    assert sorted(realisation for _, realisation in pairs) == list(range(6))
    if isinstance(estimator, RandomForestClassifier):
        models = ensemble.estimators_  # their seeds are the ensemble's own affair
    else:
        models = [type(estimator)().fit(X[:60, r], y[:60]) for r in range(6)]
    each = [models[model].predict_proba(X[60:, realisation]) for model, realisation in pairs]
    assert_allclose(ensemble.predict_proba(X[60:]), np.mean(each, axis=0), rtol=1e-12)


@pytest.mark.parametrize("n_test", [1, 2, 4, 6, 7, 13])
def test_every_model_and_every_realisation_takes_part_evenly(problem, n_test):
    X, y = problem
    ensemble = RealisationEnsemble(LinearDiscriminantAnalysis()).fit(X, y)
    pairs = ensemble.pairs(n_test)
    for taken, n in zip(zip(*pairs, strict=True), (6, n_test), strict=True):
        often = np.bincount(taken, minlength=n)
        assert often.min() >= 1 and np.ptp(often) <= 1
    new = np.repeat(X[:5, :1], n_test, axis=1)
    assert_allclose(ensemble.predict_proba(new).sum(1), 1.0)


def test_one_realisation_is_the_plain_classifier(problem):
    X, y = problem
    plain = LinearDiscriminantAnalysis().fit(X[:, 0], y)
    for one in (X[:, 0], X[:, :1]):
        ensemble = RealisationEnsemble(LinearDiscriminantAnalysis()).fit(one, y)
        assert_array_equal(ensemble.predict_proba(X[:, 0]), plain.predict_proba(X[:, 0]))
    # Trained on one realisation, it predicts each new one, as an average of predictions.
    mean = np.mean([plain.predict_proba(X[:, r]) for r in range(6)], axis=0)
    assert_allclose(ensemble.predict_proba(X), mean, rtol=1e-12)


def test_seeds_decide_and_clones_differ(problem):
    X, y = problem
    forest = make_pipeline(StandardScaler(), RandomForestClassifier(5))
    same = np.repeat(X[:, :1], 3, axis=1)
    first, again, other = (
        RealisationEnsemble(forest, random_state=seed).fit(same, y).predict_proba(X) for seed in (1, 1, 2)
    )
    assert_array_equal(first, again)
    assert np.abs(first - other).max() > 0
    seeds = {m[-1].random_state for m in RealisationEnsemble(forest).fit(same, y).estimators_}
    assert len(seeds) == 3
    assert forest[-1].random_state is None  # the one given is never touched


def test_it_goes_through_model_selection_with_weights(problem):
    X, y = problem
    ensemble = RealisationEnsemble(LogisticRegression())
    assert cross_val_score(ensemble, X, y, error_score="raise").mean() > 0.8
    half = np.arange(90) < 60
    weighted = ensemble.fit(X, y, sample_weight=half.astype(float)).predict_proba(X)
    assert_allclose(weighted, ensemble.fit(X[half], y[half]).predict_proba(X), atol=1e-4)
    assert_array_equal(ensemble.predict(X), ensemble.classes_[ensemble.predict_proba(X).argmax(1)])


def test_bad_input_is_one_clear_line(problem):
    X, y = problem
    with pytest.raises(ValueError, match="Perceptron has no predict_proba"):
        RealisationEnsemble(Perceptron()).fit(X, y)
    with pytest.raises(ValueError, match="3 features, but RealisationEnsemble is expecting 2"):
        RealisationEnsemble(LogisticRegression()).fit(X, y).predict(np.zeros((4, 6, 3)))
