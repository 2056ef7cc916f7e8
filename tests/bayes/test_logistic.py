"""Logistic regression against scikit-learn and against refits without the sample."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from uncover.bayes.logistic import Logistic


def draw(rng, n=80, p=3, K=3):
    codes = np.arange(n) % K
    return rng.normal(size=(n, p)) + 0.8 * codes[:, None], codes, np.eye(K)[codes]


@pytest.mark.parametrize("precision", [0.1, 1.0, 10.0])
def test_probabilities_are_those_of_scikit_learn(precision, rng):
    x, codes, targets = draw(rng)
    peer = LogisticRegression(C=1 / precision, tol=1e-10, max_iter=5000).fit(x, codes)
    ours = softmax(Logistic.fit(x, targets, precision).log_odds(x), axis=1)
    np.testing.assert_allclose(ours, peer.predict_proba(x), atol=2e-4)  # our intercepts have a weak prior


def test_leaving_one_out_is_a_refit_to_second_order(rng):
    x, _, targets = draw(rng)
    model = Logistic.fit(x, targets, 1.0)
    odds = softmax(model.leave_one_out(x, targets), axis=1)
    plain = softmax(model.log_odds(x), axis=1)
    errors, differences = [], []
    for i in range(0, 80, 7):
        kept = np.arange(80) != i
        again = softmax(Logistic.fit(x[kept], targets[kept], 1.0).log_odds(x[[i]]), axis=1)[0]
        errors.append(np.abs(odds[i] - again).max())
        differences.append(np.abs(plain[i] - again).max())
    assert max(errors) < 0.1 * max(differences)


def test_leaving_groups_out_is_a_refit_to_second_order(rng):
    x, _, targets = draw(rng)
    groups = np.arange(80) // 8
    model = Logistic.fit(x, targets, 1.0)
    odds = softmax(model.leave_groups_out(x, targets, groups), axis=1)
    plain = softmax(model.log_odds(x), axis=1)
    for g in (0, 5):
        mine = groups == g
        again = softmax(Logistic.fit(x[~mine], targets[~mine], 1.0).log_odds(x[mine]), axis=1)
        assert np.abs(odds[mine] - again).max() < 0.35 * np.abs(plain[mine] - again).max()
    single = model.leave_groups_out(x, targets, np.arange(80))
    np.testing.assert_allclose(single, model.leave_one_out(x, targets), atol=1e-8)


def test_a_row_twice_is_a_row_of_weight_two(rng):
    x, _, targets = draw(rng, n=30)
    weight = rng.integers(1, 4, 30)
    weighed = Logistic.fit(x, targets, 1.0, weight.astype(float))
    twice = Logistic.fit(np.repeat(x, weight, axis=0), np.repeat(targets, weight, axis=0), 1.0)
    np.testing.assert_allclose(weighed.coefficients, twice.coefficients, atol=1e-6)


def test_separable_classes_stay_finite(rng):
    x = np.concatenate([rng.normal(size=(20, 2)) - 50, rng.normal(size=(20, 2)) + 50])
    model = Logistic.fit(x, np.eye(2)[np.repeat([0, 1], 20)], 1e-2)
    assert np.isfinite(model.coefficients).all()


@pytest.fixture
def apart(monkeypatch):
    """All classes count as many: each knows its own second derivatives only."""
    monkeypatch.setattr("uncover.bayes.logistic.MOST_TOGETHER", 2)


def test_many_classes_have_the_same_probabilities(rng, monkeypatch):
    x, _, targets = draw(rng, n=300, K=6)
    together = Logistic.fit(x, targets, 0.1)
    monkeypatch.setattr("uncover.bayes.logistic.MOST_TOGETHER", 2)
    apart = Logistic.fit(x, targets, 0.1)
    assert apart.hessian.shape == (6, 4, 4) and together.hessian.shape == (24, 24)
    np.testing.assert_allclose(*(softmax(m.log_odds(x), axis=1) for m in (together, apart)), atol=1e-6)


@pytest.mark.parametrize("precision", [0.1, 1.0, 10.0])
def test_of_many_classes_little_is_lost(precision, rng, monkeypatch):
    """Left out, they score as refits do; information is a little too large, never too small by much."""
    K, n = 24, 1200
    codes = np.arange(n) % K
    x, targets = rng.normal(size=(K, 6))[codes] + 0.7 * rng.normal(size=(n, 6)), np.eye(K)[codes]
    together = Logistic.fit(x, targets, precision)
    monkeypatch.setattr("uncover.bayes.logistic.MOST_TOGETHER", 2)
    apart = Logistic.fit(x, targets, precision)
    P = softmax(together.log_odds(x), axis=1)
    plain = -np.log(P[np.arange(n), codes]).mean()
    scores = [
        -np.log(softmax(model.leave_one_out(x, targets), axis=1)[np.arange(n), codes]).mean()
        for model in (together, apart)
    ]
    assert abs(scores[1] - scores[0]) < 0.1 * (scores[0] - plain)
    exact, found = (model.information(x, P) for model in (together, apart))
    assert 1.0 < found.mean() / exact.mean() < 1.1
    assert np.corrcoef(exact, found)[0, 1] > 0.98


def test_groups_of_many_classes_of_one_sample_are_samples(apart, rng):
    x, _, targets = draw(rng, K=5)
    model = Logistic.fit(x, targets, 1.0)
    single = model.leave_groups_out(x, targets, np.arange(80))
    np.testing.assert_allclose(single, model.leave_one_out(x, targets), atol=1e-8)
