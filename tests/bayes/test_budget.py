"""Entropies, tables and their parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from uncover.bayes.budget import UncertaintyBudget, entropy, joint_table, split_by_draw


def test_entropy_is_that_of_scipy(rng):
    p = rng.dirichlet(np.ones(4), 20)
    np.testing.assert_allclose(entropy(p), stats.entropy(p, axis=-1), rtol=1e-13)
    assert entropy([1.0, 0.0]) == 0.0
    assert entropy(np.full(7, 1 / 7)) == pytest.approx(np.log(7))


@given(
    seed=st.integers(0, 2**32 - 1),
    S=st.integers(1, 40),
    K=st.integers(2, 6),
    spread=st.sampled_from([0.1, 3.0, 300.0, 3000.0]),
    sure=st.booleans(),
)
def test_the_parts_of_a_table_are_those_of_information_theory(seed, S, K, spread, sure):
    rng = np.random.default_rng(seed)
    log_weight = spread * rng.normal(size=(5, S, K)) - 1e4
    probability = rng.dirichlet(np.full(K, 0.01 if sure else 1.0), 5)
    table = joint_table(log_weight, probability)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(-2), probability, rtol=1e-12, atol=1e-300)
    information, rest = split_by_draw(table)
    assert (information >= 0).all()
    assert (rest >= 0).all()
    np.testing.assert_allclose(information + rest, entropy(probability), rtol=0, atol=1e-12)
    # I(s; k) as a Kullback–Leibler divergence of the table from the product of its margins.
    for one, found in zip(table, information, strict=True):
        s, k = np.nonzero(one)
        logs = np.log(one[s, k]) - np.log(one.sum(1)[s]) - np.log(one.sum(0)[k])
        assert found == pytest.approx((one[s, k] * logs).sum(), abs=1e-12)


def test_classes_of_no_probability_do_no_harm():
    log_weight = np.array([[0.0, -np.inf], [1.0, -np.inf]])
    table = joint_table(log_weight, np.array([1.0, 0.0]))
    np.testing.assert_array_equal(table[:, 1], 0.0)
    assert [float(part) for part in split_by_draw(table)] == [0.0, 0.0]


def test_draws_that_agree_carry_no_information():
    table = joint_table(np.zeros((9, 3)), np.array([0.2, 0.3, 0.5]))
    information, rest = split_by_draw(table)
    assert information == pytest.approx(0.0, abs=1e-15)
    assert rest == pytest.approx(stats.entropy([0.2, 0.3, 0.5]))


def test_budgets_are_cut_and_joined():
    parts = [np.arange(4.0) + i for i in range(4)]
    budget = UncertaintyBudget(*parts)
    again = UncertaintyBudget.join([budget[:1], budget[1:]])
    for name in ("total", "model", "measurement", "overlap"):
        np.testing.assert_array_equal(getattr(again, name), getattr(budget, name))
