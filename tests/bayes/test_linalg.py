"""Batched triangular algebra, whatever the scales of the features."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uncover.bayes.linalg import cholesky, invert_triangle, log_det_of_root


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 12), batch=st.sampled_from([(), (3,), (2, 2)]))
def test_inverse_of_a_triangle_with_mixed_scales(seed, p, batch):
    rng = np.random.default_rng(seed)
    root = np.tril(rng.normal(size=(*batch, p, p)), -1) + 2.0 * p * np.eye(p)
    scale = 10.0 ** rng.uniform(-8, 8, p)
    inverse = invert_triangle(scale[:, None] * root)
    identity = (inverse * scale) @ root
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(p), identity.shape), atol=1e-13)
    assert not np.triu(inverse, 1).any()


@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 8))
def test_cholesky_does_not_change_when_features_are_rescaled(seed, p):
    """Rescaling by powers of two is exact in floating point, and so must be the factor."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(p, p + 3))
    matrix = a @ a.T
    scale = 2.0 ** rng.integers(-26, 27, p)
    plain = cholesky(matrix, "a matrix")
    np.testing.assert_allclose(
        cholesky(matrix * scale * scale[:, None], "a matrix"), scale[:, None] * plain, rtol=1e-12
    )
    np.testing.assert_allclose(2 * log_det_of_root(plain), np.linalg.slogdet(matrix)[1], rtol=1e-10)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "its diagonal has the value 0"),
        ([[1.0, 0.0], [0.0, -2.0]], "its diagonal has the value -2"),
        ([[1.0, 2.0], [2.0, 1.0]], "smallest eigenvalue, after scaling to unit diagonal, is -1"),
        ([[1e-16, 2.0], [2.0, 1e16]], "smallest eigenvalue, after scaling to unit diagonal, is -1"),
    ],
)
def test_a_matrix_that_is_not_positive_definite_is_named_with_the_reason(matrix, words):
    with pytest.raises(ValueError, match="Ψ of class 'water' is not positive definite") as caught:
        cholesky(np.array(matrix), "Ψ of class 'water'")
    assert words in str(caught.value)


def test_one_bad_matrix_among_good_ones_is_an_error():
    with pytest.raises(ValueError, match="not positive definite"):
        cholesky(np.stack([np.eye(2), -np.eye(2), np.eye(2)]), "a matrix")
