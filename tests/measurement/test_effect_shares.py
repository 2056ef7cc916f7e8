"""Shares of the effects: against brute force over all subsets, and what they must always do."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.special import entr, ndtri, softmax

from uncover.measurement.effect_shares import (
    error_of_shares,
    regressors,
    shares_of_information,
    shares_of_variance,
)
from uncover.measurement.quantity import DIMENSIONS, Quantity, draw_together

SIZES = {"aod": 0.9, "water-vapour": 0.5, "ozone": 0.15, "altitude": 0.0}
SLOPES = np.array([[1.0, 0.3, -0.4], [-0.2, 0.9, 0.1], [0.5, -0.5, 0.7], [0.0, 0.4, 1.0]])  # (effect, class)
LEVEL = np.random.default_rng(0).normal(size=(3, 40))  # (class, pixel)


def probabilities(scores):
    """Class probabilities (world, class, pixel) at scores (world, effect): log odds are linear in these."""
    sizes = np.array(list(SIZES.values()))
    return softmax((scores * sizes) @ SLOPES + LEVEL.T[:, None], axis=-1)


def brute_force(levels=7):
    """Shapley values over all orders of the effects, with exact means over a full grid of midpoints."""
    z = ndtri((np.arange(levels) + 0.5) / levels)
    grid = np.array(list(product(z, repeat=len(SIZES))))
    P = probabilities(grid).transpose(1, 2, 0).reshape(*[levels] * len(SIZES), 3, -1)

    def told(some):
        others = tuple(i for i in range(len(SIZES)) if i not in some)
        inner = entr(P.mean(axis=others) if others else P).sum(-2)
        return entr(P.mean(axis=tuple(range(len(SIZES))))).sum(-2) - inner.mean(axis=tuple(range(len(some))))

    shares, orders = np.zeros((len(SIZES), P.shape[-1])), list(permutations(range(len(SIZES))))
    for order in orders:
        for place, i in enumerate(order):
            before = tuple(sorted(order[:place]))
            shares[i] += (told(tuple(sorted((*before, i)))) - told(before)) / len(orders)
    return shares


def worlds(n, seed=0):
    quantities = [Quantity(name, 0.0, 1.0, lowest=-np.inf) for name in DIMENSIONS[:4]]
    return np.array([d.scores for d in draw_together(quantities, n, scene="s", seed=seed).values()]).T


@pytest.mark.parametrize(("n", "tolerance"), [(25, 0.06), (256, 0.02)])
def test_shares_are_those_of_brute_force(n, tolerance):
    exact, scores = brute_force(), worlds(n)
    columns = regressors(dict(zip(SIZES, scores.T, strict=True)))
    found = shares_of_information(probabilities(scores).transpose(1, 2, 0), columns)
    assert found.shape == exact.shape
    part, true = found.sum(1) / found.sum(), exact.sum(1) / exact.sum()
    np.testing.assert_allclose(part, true, atol=tolerance)
    assert np.abs(found / found.sum(0) - exact / exact.sum(0)).mean() < tolerance
    assert part[3] < 0.01  # an effect that changes nothing has no share, but for chance


def test_shares_add_up_and_are_never_negative():
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.3, 0.3, 0.3], (25, 200)).transpose(0, 2, 1)  # nothing that regression explains
    columns = regressors({"aod": rng.normal(size=25), "radiometry": rng.normal(size=(25, 4))})
    found = shares_of_information(P, columns)
    whole = entr(P.mean(0)).sum(0) - entr(P).sum(1).mean(0)
    np.testing.assert_allclose(found.sum(0), whole, atol=1e-12)
    assert (found >= 0).all()
    same = shares_of_information(np.repeat(P[:1], 25, axis=0), columns)
    np.testing.assert_allclose(same, 0.0, atol=1e-12)


def test_an_effect_alone_has_all_and_one_that_is_not_drawn_has_none():
    scores = worlds(25)
    P = probabilities(scores * [1, 0, 0, 0]).transpose(1, 2, 0)
    columns = regressors({"aod": scores[:, 0], "ozone": np.zeros(25)})
    assert list(columns) == ["aod"]
    whole = entr(P.mean(0)).sum(0) - entr(P).sum(1).mean(0)
    np.testing.assert_allclose(shares_of_information(P, columns)[0], whole, atol=1e-12)


def test_shares_of_areas_are_those_of_a_linear_model():
    scores = worlds(256)
    areas = 100 + scores @ np.array([[3.0, 0.0], [4.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    found = shares_of_variance(areas, regressors(dict(zip(SIZES, scores.T, strict=True))))
    np.testing.assert_allclose(found[:, 0], [9 / 25, 16 / 25, 0, 0], atol=0.02)
    np.testing.assert_allclose(found.sum(0), 1.0)
    assert (shares_of_variance(np.ones((256, 2)), regressors({"aod": scores[:, 0]})) == 0).all()


def test_shares_of_few_worlds_are_right_on_average_and_know_their_error():
    """Ten columns of 25 worlds explain much by chance: an effect without influence has no share by that."""
    truth, found, errors = np.array([0.8, 0.2, 0.0]), [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        z = {name: rng.normal(size=(25, n)) for name, n in (("aod", 1), ("ozone", 1), ("other", 8))}
        columns = {name: each - each.mean(axis=0) for name, each in z.items()}
        y = np.sqrt(0.8) * z["aod"] + np.sqrt(0.2) * z["ozone"] + 0.3 * rng.normal(size=(25, 1))
        found.append(shares_of_variance(y, columns)[:, 0])
        errors.append(error_of_shares(y, columns)[:, 0])
    assert np.abs(np.mean(found, axis=0) - truth).max() < 0.04
    # A jackknife of so many columns over-states the error, and does not under-state it.
    assert (np.sqrt(np.mean(np.square(errors), axis=0)) > 0.8 * np.std(found, axis=0))[:2].all()
