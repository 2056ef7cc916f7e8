"""Known covariances of samples: what users may give, and that every form means the same matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uncover.bayes.covariances import Covariances

laws = settings(derandomize=True, deadline=None, max_examples=50)


def random_matrices(rng, n, p):
    a = rng.standard_normal((n, p, p + 1))
    return a @ np.swapaxes(a, 1, 2)


def random_form(seed, n, p):
    """A covariance in one of the forms that users give, and the matrices that it stands for."""
    rng = np.random.default_rng(seed)
    form = ["(p,)", "(n, p)", "(p, p)", "(n, p, p)", "multiples", "multiples of variances"][seed % 6]
    matrices, variances = random_matrices(rng, n, p), rng.uniform(0.0, 3.0, (n, p))
    factor = rng.uniform(0.0, 2.0, n)
    given = {
        "(p,)": variances[0],
        "(n, p)": variances,
        "(p, p)": matrices[0],
        "(n, p, p)": matrices,
        "multiples": factor[:, None, None] * matrices[0],
        "multiples of variances": factor[:, None] * variances[0],
    }[form]
    of_variances = given.ndim == 1 or (given.ndim == 2 and form != "(p, p)")
    meant = given[..., :, None] * np.eye(p) if of_variances else given
    return given, np.broadcast_to(meant, (n, p, p))


sizes = {"seed": st.integers(0, 10_000), "n": st.integers(1, 7), "p": st.integers(1, 5)}


@laws
@given(**sizes)
def test_every_form_stands_for_its_matrices(seed, n, p):
    given_, meant = random_form(seed, n, p)
    if given_.shape == (p, p) == (n, p) and p > 1 and seed % 6 in (1, 5) and np.allclose(given_, given_.T):
        return  # symmetric variances of n = p samples: taken as one covariance, as documented
    if n == p == 1 and given_.ndim == 2:
        return  # one number
    read = Covariances.read(given_, n, p)
    np.testing.assert_allclose(read.of_each(n), meant, atol=1e-11)
    diagonal = np.diagonal(meant, axis1=1, axis2=2)
    np.testing.assert_allclose(np.broadcast_to(read.variances(), (n, p)), diagonal, atol=1e-11)
    assert read.is_diagonal == (not np.any(meant * (1 - np.eye(p))))


@laws
@given(**sizes)
def test_rows_features_and_units_are_those_of_the_matrices(seed, n, p):
    given_, _ = random_form(seed, n, p)
    read = Covariances.read(given_, n, p)
    meant = read.of_each(n)
    rng = np.random.default_rng(seed)
    rows, keep = rng.integers(0, n, 4), rng.random(p) < 0.6
    np.testing.assert_array_equal(read[rows].of_each(4), meant[rows])
    np.testing.assert_array_equal(read[: n // 2].of_each(n // 2), meant[: n // 2])
    np.testing.assert_allclose(read.select_features(keep).of_each(n), meant[:, keep][:, :, keep])
    scale = rng.uniform(0.1, 10.0, p)
    np.testing.assert_allclose(read.divided_by(scale).of_each(n), meant / (scale[:, None] * scale))


@laws
@given(**sizes)
def test_joining_parts_is_joining_matrices(seed, n, p):
    first = Covariances.read(random_form(seed, n, p)[0], n, p)
    second = Covariances.read(random_form(seed + 1, n + 1, p)[0], n + 1, p)
    joined = Covariances.join([(first, n), (second, n + 1), (first, n)])
    meant = np.concatenate([first.of_each(n), second.of_each(n + 1), first.of_each(n)])
    np.testing.assert_allclose(joined.of_each(3 * n + 1), meant, atol=1e-11)


def test_multiples_of_one_matrix_are_found_and_others_are_not(rng):
    base = random_matrices(rng, 1, 3)[0]
    factor = np.array([0.0, 1.0, 2.5, 1e-6])
    found = Covariances.read(factor[:, None, None] * base, 4, 3)
    assert found.own is None
    np.testing.assert_allclose(found.of_each(4), factor[:, None, None] * base, rtol=1e-12)
    nearly = factor[:, None, None] * base
    nearly[2] += 1e-6 * np.eye(3)
    assert Covariances.read(nearly, 4, 3).own is not None
    assert Covariances.read(np.zeros((4, 3)), 4, 3).factor is None


def test_as_many_samples_as_features(rng):
    p = 4
    variances = rng.uniform(1, 2, (p, p))
    np.testing.assert_array_equal(Covariances.read(variances, p, p).variances(), variances)
    one = random_matrices(rng, 1, p)[0]
    np.testing.assert_array_equal(Covariances.read(one, p, p).matrices(), one[None])
    # Symmetric but for rounding is symmetric.
    one[0, 1] *= 1 + 1e-15
    assert one[0, 1] != one[1, 0]
    assert Covariances.read(one, p, p).factor is None
    np.testing.assert_array_equal(Covariances.read(one, p, p).matrices(), one[None])
    # The same number everywhere could be either.
    with pytest.raises(
        ValueError, match=r"could be the variances of 4 samples or a covariance of 4 features"
    ):
        Covariances.read(np.full((p, p), 0.1), p, p)
    Covariances.read(np.full((p + 1, p), 0.1), p + 1, p)  # not with another number of samples
    Covariances.read(np.zeros((p, p)), p, p)  # and zero is zero


BAD = {
    "shape": (np.ones(4), r"shape \(4,\) does not fit 5 samples of 3 features.*needs \(3,\) or \(5, 3\)"),
    "each sample one variance": (np.ones(5), r"one variance for each sample needs X_cov\[:, None\]"),
    "flattened": (np.ones((5, 9)), r"flattened covariances need reshape\(5, 3, 3\)"),
    "number": (np.array(0.1), r"shape \(\) does not fit"),
    "negative": (np.array([1.0, -0.5, 1.0]), r"variances must not be negative, got -0.5"),
    "covariances as variances": (
        -np.ones((5, 3)),
        r"covariances have the shape \(sample, feature, feature\)",
    ),
    "NaN": (np.array([1.0, np.nan, 1.0]), "NaN or infinity"),
    "infinite": (np.diag([1.0, np.inf, 1.0]), "NaN or infinity"),
    "asymmetric": (np.array([[1.0, 0.2, 0], [0.1, 1.0, 0], [0, 0, 1]]), "covariance 0 is not symmetric"),
    "indefinite": (np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]]), "covariance 0 is indefinite: .* is -1"),
    "negative diagonal": (np.diag([1.0, -1.0, 1.0]), "covariance 0 is indefinite"),
    "one of many asymmetric": (
        np.eye(3) + np.array([0, 0, 0, 1, 0])[:, None, None] * np.eye(3, k=1),
        "covariance 3 is not symmetric; use",
    ),
    "one of many indefinite": (
        np.eye(3) - 3 * np.array([0, 0, 1, 0, 0])[:, None, None] * (np.eye(3, k=1) + np.eye(3, k=-1)),
        "covariance 2 is indefinite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_its_reason(name):
    covariance, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        Covariances.read(covariance, 5, 3)


def test_tiny_units_are_not_taken_for_rounding():
    """Asymmetry and indefiniteness are judged in the features' own units."""
    units = np.array([1e-9, 1.0, 1e9])
    good = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.1], [0.2, 0.1, 1.0]]) * units[:, None] * units
    np.testing.assert_array_equal(Covariances.read(good, 5, 3).matrices()[0], good)
    bad = good.copy()
    bad[0, 1] *= -1
    with pytest.raises(ValueError, match="not symmetric"):
        Covariances.read(bad, 5, 3)
    indefinite = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]) * units[:, None] * units
    with pytest.raises(ValueError, match="indefinite"):
        Covariances.read(indefinite, 5, 3)


def test_singular_covariances_are_welcome(rng):
    a = rng.standard_normal((6, 3, 1))
    rank_one, nothing = a @ np.swapaxes(a, 1, 2), np.zeros((3, 3))
    np.testing.assert_array_equal(Covariances.read(rank_one, 6, 3).matrices(), rank_one)
    np.testing.assert_array_equal(Covariances.read(nothing, 6, 3).of_each(6), np.zeros((6, 3, 3)))
