"""Models and protocol of the studies, against computations that share no code with them."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import confusion_matrix, f1_score, fbeta_score, log_loss

from uncover import BayesianQDA
from uncover.studies.models import MODELS, PAPER, FullRankQDA, PooledClassifier
from uncover.studies.protocol import FLOOR, BootstrapPlan, Split, _timed, assess, assess_each, scored
from uncover.studies.synthetic import draw_problem, measure


@pytest.fixture
def split(rng):
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 4, 3)) + 1.2 * y[:, None, None]
    return Split(X[:90], y[:90], X[90:], y[90:], np.array([0.5, 0.3, 0.2]), paired=True)


def test_the_models_are_those_of_the_protocol():
    forest, network = (MODELS[name].make(0).estimator for name in ("RF", "NN"))
    assert forest.n_estimators == 100
    settings = {name: getattr(network, name) for name in ("hidden_layer_sizes", "activation", "solver")}
    assert settings == {"hidden_layer_sizes": (10,), "activation": "relu", "solver": "lbfgs"}
    assert (network.max_iter, network.alpha) == (1000, 0.0)
    assert PAPER == ("BQDA", "QDA", "RF", "NN", "LDA")
    assert all(MODELS[name].ours for name in MODELS if name not in PAPER)


@pytest.mark.parametrize("name", ["BQDA", "QDA", "LDA", "QDA pooled", "BQDA repeats", "BQDA shared", "LR"])
def test_scores_are_those_of_the_predicted_probabilities(name, split):
    found = assess(name, split, seed=3)
    model = MODELS[name].make(0).fit(split.X, split.y)  # these have no randomness but the permutation
    if name in ("QDA", "LDA", "LR"):
        model.random_state = _seed_used(name)
    p = model.predict_proba(split.X_test)
    y, q = split.y_test, split.shares
    truth = np.eye(3)[y]
    each = {beta: fbeta_score(y, p.argmax(1), beta=beta, average=None) for beta in (1, 2)}
    entropy = -(q * np.log(q)).sum()
    expected = {
        "f1": q @ each[1],
        "f2": q @ each[2],
        "cross_entropy": log_loss(y, p),
        "brier": ((p - truth) ** 2).mean(),
        "cross_entropy_norm": log_loss(y, p) / entropy,
        "brier_norm": ((p - truth) ** 2).sum(1).mean() / (q * (1 - q)).sum(),
    }
    assert_allclose([found["scores"][m] for m in expected], list(expected.values()), rtol=1e-9)
    assert_allclose(np.transpose(found["confusion"]), confusion_matrix(y, p.argmax(1)))
    for metric, (low, high) in found["intervals"].items():
        assert low <= found["scores"][metric] <= high
    assert f1_score(y, p.argmax(1), average="macro") > 0.5


def _seed_used(name):
    from uncover.studies.protocol import model_seed

    return model_seed(3, name)


@pytest.mark.parametrize("name", ["BQDA shared", "NN", "QDA"])
def test_one_fit_serves_several_test_sets(name, split):
    other = replace(split, X_test=split.X_test[::2], y_test=split.y_test[::2], paired=True)
    together = assess_each(name, [split, other], seed=3)
    for found, one in zip(together, (split, other), strict=True):
        alone = assess(name, one, seed=3)
        assert found["scores"] == alone["scores"] and found["confusion"] == alone["confusion"]
    assert together[0]["fit_seconds"] == together[1]["fit_seconds"]


def test_a_true_class_of_probability_zero_is_counted_not_hidden(split):
    p = np.full((150, 3), 1 / 3)
    p[7] = 0.0
    p[7, (split.y_test[7] + 1) % 3] = 1.0
    with np.errstate(divide="ignore"):
        found = scored(split, np.log(p), BootstrapPlan(draws=20))
    assert found["zeros"] == 1
    assert_allclose(found["scores"]["cross_entropy"], (149 * np.log(3) - np.log(FLOOR)) / 150)


def test_what_cannot_be_trained_is_a_result(split):
    few = Split(split.X[:6], split.y[:6], split.X_test, split.y_test, split.shares)
    found = assess("QDA", few, seed=0)
    assert not found["trained"]
    assert found["why"] == (
        "class 0 has 2 samples; QDA of 3 features needs at least 4 with a covariance of full rank."
    )
    assert assess("BQDA", few, seed=0)["trained"]


def test_classes_that_training_lacks_get_no_probability(split):
    two = split.y != 1
    part = Split(split.X[two], split.y[two], split.X_test, split.y_test, split.shares)
    found = assess("LDA", part, seed=0)
    assert found["trained"] and found["zeros"] == int((split.y_test == 1).sum())
    assert np.array(found["confusion"])[1].sum() == 0


def test_draws_of_two_models_are_of_the_same_samples(split):
    plan = BootstrapPlan(draws=50, keep=True)
    a, b = (assess(name, split, 0, plan)["replicates"]["brier"] for name in ("BQDA", "QDA pooled"))
    assert np.corrcoef(a, b)[0, 1] > 0.99
    assert np.std(np.subtract(a, b)) < 0.1 * np.std(a)


def test_full_rank_qda_is_qda_whatever_the_units(rng):
    y = np.repeat([0, 1], 60)
    X = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 3)) + y[:, None]
    plain = QuadraticDiscriminantAnalysis().fit(X, y).predict_proba(X)
    for unit in (1.0, 1e-4, 1e4):
        assert_allclose(FullRankQDA().fit(unit * X, y).predict_proba(unit * X), plain, rtol=1e-6)
    doubled = np.c_[X, X[:, 0] + X[:, 1]]
    with pytest.raises(ValueError, match="full rank"):
        FullRankQDA().fit(doubled, y)


def test_with_a_hundred_pooled_realisations_qda_is_bqda_to_four_digits(rng):
    problem = draw_problem(10, rng, n_per_class=400)
    X = measure(problem.X, 1.0, 100, rng)
    train, truth = problem.train, np.eye(4)[problem.y[~problem.train]]
    brier = [
        ((model.fit(X[train], problem.y[train]).predict_proba(X[~train]) - truth) ** 2).mean()
        for model in (BayesianQDA(), PooledClassifier(FullRankQDA()))
    ]
    assert brier[0] > 0.001
    assert round(brier[0], 4) == round(brier[1], 4)


def test_the_first_use_of_a_model_is_not_charged_with_what_it_loads():
    """Brief work is timed when it is warm; long work once."""
    calls = []

    def work(first, later):
        calls.append(1)
        end = time.process_time() + (first if len(calls) == 1 else later)
        while time.process_time() < end:
            pass
        return len(calls)

    done, seconds, _ = _timed(partial(work, 0.3, 0.01))
    assert done == 1 and len(calls) == 4 and 0.01 <= seconds < 0.1
    calls.clear()
    _, seconds, _ = _timed(partial(work, 1.05, 0.01))
    assert len(calls) == 1 and seconds > 1
