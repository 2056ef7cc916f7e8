import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from uncover.measurement.correlation import CorrelationWarning, nearest_correlation, read_correlation


def random_correlation(rng, p, rank):
    a = rng.normal(size=(p, rank))
    a /= np.linalg.norm(a, axis=1)[:, None]
    return a @ a.T


@given(st.integers(0, 10_000), st.integers(2, 14))
def test_nothing_happens_to_a_correlation_matrix(seed, p):
    matrix = random_correlation(np.random.default_rng(seed), p, p + 3)
    np.testing.assert_allclose(read_correlation(matrix), matrix, atol=1e-12)


def test_rounding_to_two_decimals_is_always_repaired(rng):
    """A true matrix within rounding exists, so the nearest one is accepted, whatever was rounded."""
    repaired = 0
    for _ in range(40):
        p = int(rng.integers(3, 13))
        rounded = random_correlation(rng, p, 2).round(2)
        if np.linalg.eigvalsh(rounded)[0] >= -1e-9:
            continue
        with pytest.warns(CorrelationWarning, match="entries change by up to"):
            matrix = read_correlation(rounded, "corr.csv")
        repaired += 1
        assert np.linalg.eigvalsh(matrix)[0] > -1e-9
        assert np.array_equal(np.diagonal(matrix), np.ones(p))
        assert np.linalg.norm(matrix - rounded) <= 0.005 * np.sqrt(p * (p - 1))
    assert repaired > 20


def test_the_nearest_is_nearer_than_others(rng):
    broken = random_correlation(rng, 6, 2).round(1)
    nearest = nearest_correlation(broken)
    distance = np.linalg.norm(nearest - broken)
    for _ in range(200):
        other = 0.99 * nearest + 0.01 * random_correlation(rng, 6, 3)
        assert np.linalg.norm(other - broken) >= distance - 1e-9


def test_the_nearest_of_a_correlation_matrix_is_itself(rng):
    matrix = random_correlation(rng, 5, 7)
    np.testing.assert_allclose(nearest_correlation(matrix), matrix, atol=1e-10)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "as many rows as columns"),
        (np.ones(3), "as many rows as columns"),
        (np.array([[1, np.nan], [np.nan, 1]]), "NaN"),
        (np.array([[1, 1.2], [1.2, 1]]), r"1.2 in entry \(1, 2\); correlations lie in"),
        (np.array([[1, 0.2], [0.2, 0.9]]), "0.9 on its diagonal, in row 2"),
        (np.array([[1, 0.2], [0.3, 1]]), "not symmetric"),
        (np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]), "rounding to two decimals cannot"),
    ],
)
def test_what_is_no_correlation_matrix_is_refused(matrix, message):
    with pytest.raises(ValueError, match=message) as error:
        read_correlation(matrix, "corr.csv")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("corr.csv")


def test_the_nearest_of_highams_example():
    found = nearest_correlation([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    assert_allclose(found, [[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]], atol=5e-5)
