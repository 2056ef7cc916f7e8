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
