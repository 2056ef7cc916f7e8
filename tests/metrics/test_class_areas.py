"""Uncertainty of areas against a simulation of all that is unknown in them."""

import numpy as np
import pytest
from scipy.special import softmax

from uncover.metrics.class_areas import CAUSES, AreaSums, share_limits

K, N, DRAWS = 3, 4000, 6000


def case(seed=0):
    """Log odds of pixels, their areas, and how drawn models and worlds move the log odds of each of them."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, K)) * 2, rng.uniform(0.5, 1.5, N), rng.normal(size=(2, N, K))


def moved(log_odds, directions, amounts):
    """Probabilities with common amounts of each direction: (draw, pixel, class)."""
    return softmax(log_odds + amounts[:, None, None] * (1.0 + directions), axis=-1)


def test_variances_are_those_of_drawn_classes():
    """Classes drawn with drawn worlds, models and shares have areas of the stated standard deviation."""
    log_odds, area, directions = case()
    rng = np.random.default_rng(1)
    small, alpha = 0.1, np.array([40.0, 60.0, 50.0])
    P = softmax(log_odds, axis=-1)
    draws = [moved(log_odds, directions[i], small * rng.normal(size=400)) for i in range(2)]
    sums = AreaSums.of(P.T, area)
    some = slice(None, None, 4)
    each = [np.einsum("dnk,n->dk", found[:, some], area[some]) for found in draws]
    rows = AreaSums(sums.expected, sums.own, sums.products, area[some].sum(), *each).as_rows()
    from scipy.special import polygamma

    stated = AreaSums.of_rows(rows, 400).uncertainty(np.diag(polygamma(1, alpha)))
    # the same by simulation: everything is drawn, then the class of every pixel
    shares = np.log(rng.dirichlet(alpha, DRAWS))
    shares -= shares.mean(0)
    found = np.empty((DRAWS, K))
    for i in range(DRAWS):
        amounts = small * rng.normal(size=2)
        shift = sum(a * (1.0 + d) for a, d in zip(amounts, directions, strict=True))
        Q = softmax(log_odds + shift + shares[i], axis=-1)
        classes = (Q.cumsum(1) < rng.random((N, 1))).sum(1)
        found[i] = np.bincount(classes, area, minlength=K)
    np.testing.assert_allclose(stated.standard, found.std(axis=0), rtol=0.12)
    assert set(stated.variances) == set(CAUSES)
    low, high = stated.interval()
    inside = ((low <= found) & (found <= high)).mean(0)
    assert (inside > 0.92).all()


def test_sums_add_up_over_blocks():
    log_odds, area, _ = case()
    P = softmax(log_odds, axis=-1).T
    whole, parts = AreaSums.of(P, area), [AreaSums.of(P[:, i::2], area[i::2]) for i in range(2)]
    np.testing.assert_allclose(whole.as_rows(), sum(part.as_rows() for part in parts))


def test_one_class_for_certain_has_no_uncertainty():
    P = np.array([[1.0, 1.0], [0.0, 0.0]])
    found = AreaSums.of(P, np.ones(2)).uncertainty(np.eye(2))
    np.testing.assert_array_equal(found.standard, 0.0)
    np.testing.assert_array_equal(found.interval(), [[2.0, 0.0], [2.0, 0.0]])
    np.testing.assert_array_equal(AreaSums.of(np.eye(2), np.full(2, 100.0)).uncertainty().standard, 0.0)


def test_estimated_shares_say_how_uncertain_areas_are():
    """Areas of estimated shares are as uncertain as these, and the parts of model and worlds are among it."""
    log_odds, area, _ = case()
    sums = AreaSums.of(softmax(log_odds, axis=-1).T, area)
    hidden, model = np.diag([0.02, 0.03, 0.02]) ** 2, np.diag([0.01, 0.0, 0.01]) ** 2
    worlds = np.diag([0.0, 0.02, 0.01]) ** 2
    found = sums.uncertainty(shares=(hidden, model, worlds))
    total = np.sqrt(np.diag(hidden + model + worlds))
    np.testing.assert_allclose(found.standard / area.sum(), total, rtol=1e-9)
    np.testing.assert_allclose(found.part("measurement") / area.sum(), [0.0, 0.02, 0.01])


@pytest.mark.parametrize("error", [1e-3, 0.1, 1.0])
def test_limits_stay_within_the_total(error):
    low, high = share_limits(np.array([0.01, 5.0, 9.99]), np.full(3, error), 10.0)
    assert (low >= 0).all() and (high <= 10.0).all() and (low < high).all()
