"""Finding the parts of a class: by evidence, against counting by hand and simulated truth."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from uncover.bayes.components import find_components, log_evidence_of_components
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW


def parts(rng, centres, n=60, p=3):
    return np.concatenate([rng.normal(size=(n, p)) * np.resize([1, 0.5, 2], p) + c for c in centres])


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_number_of_parts_is_found(number, rng):
    centres = [(0, 0, 0), (9, 9, 0), (-9, 9, 9), (9, -9, -9)][:number]
    codes = find_components(parts(rng, centres))
    assert len(np.unique(codes)) == number
    truth = np.repeat(np.arange(number), 60)
    pairs = {(int(a), int(b)) for a, b in zip(codes, truth, strict=True)}
    assert len(pairs) == number  # the parts are the true ones, in some order


def test_one_gaussian_is_rarely_split(rng):
    found = [len(np.unique(find_components(rng.normal(size=(80, 4))))) for _ in range(30)]
    assert np.mean(np.array(found) == 1) > 0.9


def test_evidence_of_an_assignment_is_that_of_its_parts(rng):
    x = rng.normal(size=(9, 2))
    codes = np.array([0, 0, 0, 1, 1, 1, 1, 0, 1])
    whole = Moments.of(x)
    scale = (whole.covariance + 1e-6 * np.diag(whole.variance)) / 2.0
    prior = NIW(whole.mean, 0.01, scale, 4.0)
    each = sum(float(prior.log_evidence(Moments.of(x[codes == c]))) for c in range(2))
    assignment = gammaln(2) - gammaln(11) + gammaln(5) + gammaln(6) + np.log(2)
    assert log_evidence_of_components(x, codes) == pytest.approx(each + assignment)


def test_probabilities_of_all_assignments_sum_to_one():
    """Of the assignment alone: Σ over all of Π Γ(n_c+1) Γ(G)/Γ(n+G) is 1."""
    n, G = 6, 3
    total = 0.0
    for codes in product(range(G), repeat=n):
        counts = np.bincount(codes, minlength=G)
        total += np.exp(gammaln(G) - gammaln(n + G) + gammaln(counts + 1.0).sum())
    assert total == pytest.approx(1.0)


def test_scale_order_and_weights(rng):
    x = parts(rng, [(0, 0, 0), (9, 9, 0)], n=30)
    codes = find_components(x)
    np.testing.assert_array_equal(find_components(x * [1e-4, 1.0, 1e4] + 5.0), codes)
    order = rng.permutation(60)
    np.testing.assert_array_equal(find_components(x[order]), codes[order])
    weight = rng.integers(1, 4, 60)
    twice = find_components(np.repeat(x, weight, axis=0))
    np.testing.assert_array_equal(np.repeat(find_components(x, weight.astype(float)), weight), twice)


def test_few_samples_and_constant_features(rng):
    assert (find_components(rng.normal(size=(5, 3))) == 0).all()
    assert (find_components(np.ones((40, 2))) == 0).all()
    x = np.c_[np.concatenate([rng.normal(size=30), rng.normal(size=30) + 20]), np.ones(60)]
    assert len(np.unique(find_components(x))) == 2
