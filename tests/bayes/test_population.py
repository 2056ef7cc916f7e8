"""The density of a further class: against numerical integration, and its laws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, polygamma
from scipy.stats import invgamma, norm

from uncover.bayes.components import Components
from uncover.bayes.niw import NIW
from uncover.bayes.population import UnknownOdds, _dof_of_spread, further_class


def classes_of(means, covariance=None, count=200.0):
    """Posteriors of classes whose covariance is known well."""
    means = np.asarray(means, np.float64)
    p = means.shape[1]
    W = np.eye(p) if covariance is None else covariance
    return NIW(means, np.full(len(means), count), 1e6 * W[None], np.array([1e6 + p + 1]))


def by_integration(means, x, count):
    """log p₀ of one feature, W = 1: sums over τ², b and the variance B between classes, the mean exact."""
    K, scatter = len(means), ((means - means.mean()) ** 2).sum()
    terms, weights = [], []
    for ratio in 2.0 ** np.arange(-4, 21):
        for b in 2.0 ** np.arange(8):
            level = (np.arange(400) + 0.5) / 400
            M = invgamma.ppf(level, b / 2, scale=b * (ratio + 1 / count) / 2)
            weights.append(-0.5 * (K - 1) * np.log(M) - scatter / (2 * M))
            terms.append(norm.logpdf(x[:, None], means.mean(), np.sqrt((1 + 1 / K) * M + 1 - 1 / count)))
    weight = np.concatenate(weights)
    return logsumexp(np.concatenate(terms, axis=1) + weight - logsumexp(weight), axis=1)


@pytest.mark.parametrize("means", [[-3.0, 3.0], [0.0, 2.0, 7.0], [-4.0, -1.0, 0.5, 2.0, 3.0, 6.0, 7.0, 12.0]])
def test_density_is_that_of_the_hierarchical_model(means):
    means = np.array(means)
    spread = means.std()
    x = means.mean() + spread * np.linspace(-6.0, 6.0, 25)
    found = further_class(classes_of(means[:, None]), Components.single(len(means))).log_prob(x[:, None])
    assert np.abs(found - by_integration(means, x, 200.0)).max() < 0.2  # nat: one Student t for a mixture


def test_density_moves_with_the_features():
    rng = np.random.default_rng(0)
    means, x = 3 * rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    A = rng.normal(size=(3, 3)) * np.array([[1e-4], [1.0], [1e4]])
    plain = further_class(classes_of(means), Components.single(4)).log_prob(x)
    moved = further_class(classes_of(means @ A.T + 7.0, A @ A.T), Components.single(4))
    expected = plain - np.linalg.slogdet(A)[1]
    np.testing.assert_allclose(moved.log_prob(x @ A.T + 7.0), expected, rtol=0, atol=1e-6)


def test_fewer_classes_have_heavier_tails():
    rng = np.random.default_rng(1)
    means = 5 * rng.normal(size=(20, 2))
    dof = [float(further_class(classes_of(means[:K]), Components.single(K)).dof) for K in (1, 2, 4, 20)]
    assert dof == sorted(dof)
    assert dof[0] < 1 < 10 < dof[-1]


def test_more_features_than_classes():
    rng = np.random.default_rng(2)
    means = np.zeros((3, 12))
    means[:, :2] = 6 * rng.normal(size=(3, 2))  # ten features in which no two classes differ
    found = further_class(classes_of(means), Components.single(3))
    scale = found.root @ found.root.T
    assert (np.diagonal(scale)[2:] < np.diagonal(scale)[:2].min()).all()
    assert np.isfinite(found.log_prob(rng.normal(size=(4, 12)))).all()


def test_a_class_counts_once_however_many_components_it_has():
    means = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    twice = NIW(means[[0, 0, 1, 2]], np.array([100.0, 100, 200, 200]), 1e6 * np.eye(2)[None], np.array([1e6]))
    one = NIW(means, np.full(3, 200.0), 1e6 * np.eye(2)[None], np.array([1e6]))
    a = further_class(twice, Components(np.array([0, 0, 1, 2])))
    b = further_class(one, Components.single(3))
    np.testing.assert_allclose(a.log_prob(means), b.log_prob(means), atol=1e-12)


@pytest.mark.parametrize("share", [0.03, 0.4, 0.95])
def test_share_of_a_mixture_is_found_within_its_uncertainty(share):
    rng = np.random.default_rng(3)
    new = rng.random(4000) < share
    x = np.where(new, rng.normal(2.0, 1.5, 4000), rng.normal(size=4000))
    ratio = norm.logpdf(x, 2.0, 1.5) - norm.logpdf(x)
    found = UnknownOdds(np.stack([ratio, np.zeros(4000)], -1)[:, None], np.ones(4000, int)).share()
    assert abs(found.share - share) < 3 * found.standard_uncertainty < 0.1


def test_share_at_the_ends_and_without_information():
    n = np.ones(50, int)
    assert UnknownOdds(np.full((50, 1, 2), -800.0), n).share().share == 0.0
    assert UnknownOdds(np.full((50, 1, 2), 800.0), n).share().share == 1.0
    assert UnknownOdds(np.zeros((50, 1, 2)), n).share().standard_uncertainty == pytest.approx(12**-0.5)


def test_degrees_of_freedom_of_a_spread():
    assert_allclose(_dof_of_spread(float(polygamma(1, 3.5))), 7.0)


def test_of_each_sample_a_root_of_the_geometric_mean_counts():
    odds = UnknownOdds(np.array([[[0.0, 0.0]], [[12.0, 8.0]]]), np.array([4, 4]))
    expected = [0.05, 0.05 * np.exp(5) / (0.05 * np.exp(5) + 0.95)]
    assert_allclose(odds.probability(0.05), expected)
