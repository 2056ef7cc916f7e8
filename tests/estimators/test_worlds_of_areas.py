"""Worlds of another scene: the classifier of the map, moved; and what the areas in them say of its errors."""

import numpy as np
import pytest
from benchmarks.areas import DRAWS, one_case, rms
from benchmarks.worlds import chosen_crossings
from scipy.stats import multivariate_t

from uncover import BayesianQDA
from uncover.measurement.summary import Summariser
from uncover.models.realisations import KINDS, Pairing

K, P, R = 3, 4, 7


def scene(seed, n, realisations=R):
    """Pixels (realisation, feature, pixel) whose error stretches and moves all values, and their classes."""
    rng = np.random.default_rng(seed)
    means, shift = np.random.default_rng(9).normal(size=(2, K, P))
    y = np.arange(n) % K
    error = rng.normal(size=(realisations, 1, 1))
    values = (means[y] + 0.7 * rng.normal(size=(n, P))).T
    return values * (1 + 0.1 * error) + 0.4 * error * shift[0][:, None], y


@pytest.fixture(scope="module")
def model():
    planes, y = scene(1, 300)
    return BayesianQDA(realisations="shared", random_state=3).fit(planes.transpose(2, 0, 1), y)


def by_hand(model, planes, pairs):
    """Classes by SciPy's t densities: scale S + (ν−2)/ν · (noise of class over worlds + noise of pixel)."""
    over_worlds = [np.cov(model.posterior_.mean[:, k].T) for k in range(K)]
    prior = model.class_posterior_ / model.class_posterior_.sum()
    found = np.empty((len(pairs), planes.shape[2]), int)
    for i, (r, s) in enumerate(pairs):
        density = model.model_.known_posterior(s).predictive()
        for n in range(planes.shape[2]):
            log = []
            for k in range(K):
                nu = float(np.broadcast_to(density.dof, K)[k])
                root = density.root[k]
                noise = over_worlds[k] + np.cov(planes[:, :, n].T)
                scale = root @ root.T + (nu - 2) / nu * noise
                log.append(
                    np.log(prior[k]) + multivariate_t(density.location[k], scale, nu).logpdf(planes[r, :, n])
                )
            found[i, n] = np.argmax(log)
    return found


@pytest.mark.slow
def test_each_world_is_the_classifier_of_the_map_moved(model):
    planes, _ = scene(2, 40)
    summariser = Summariser(model, paired=False, method="fast")
    found = summariser.summarise(planes)
    pairs = summariser.world_pairs(R)
    assert len(pairs) == len(found.world_classes)
    chosen = slice(None, None, 5)
    np.testing.assert_array_equal(found.world_classes[chosen], by_hand(model, planes, pairs[chosen]))


def test_fast_and_exact_maps_have_the_same_worlds(model):
    planes, _ = scene(2, 40)
    fast, exact = (Summariser(model, paired=False, method=m).summarise(planes) for m in ("fast", "exact"))
    np.testing.assert_array_equal(fast.world_classes, exact.world_classes)


def test_a_scene_without_error_has_the_worlds_of_the_model(model):
    planes, _ = scene(2, 40, realisations=1)
    found = Summariser(model, paired=False, method="fast").summarise(planes)
    assert len(found.world_classes) == R
    assert (found.world_classes != found.best).any()


@pytest.mark.parametrize(("worlds", "new"), [(25, 25), (25, 10), (10, 25), (3, 25), (1, 5), (5, 1)])
def test_realisations_are_read_with_several_worlds_evenly(worlds, new):
    pairs = KINDS["shared"].pairs(new, Pairing(worlds, paired=False, seed=0))
    assert len(set(pairs)) == len(pairs) or worlds != new
    for draws, n in zip(zip(*pairs, strict=True), (new, worlds), strict=True):
        counts = np.bincount(draws, minlength=n)
        assert counts.min() >= 1 and np.ptp(counts) <= max(1, counts.max() // 2)
    assert len(pairs) == max(worlds, new) * min(8, worlds, new)


@pytest.mark.parametrize("crossings", [1, 2, 4])
def test_fewer_crossings_are_among_those_that_are_made(crossings, monkeypatch):
    """The benchmark of crossings takes them from one map."""
    pairing = Pairing(DRAWS, paired=False, seed=0)
    made = np.array(KINDS["shared"].pairs(DRAWS, pairing))
    monkeypatch.setattr("uncover.models.realisations._CROSSINGS", crossings)
    wanted = np.array(KINDS["shared"].pairs(DRAWS, pairing))
    kept = made[chosen_crossings(len(made), crossings)]
    np.testing.assert_array_equal(kept, wanted)


def test_the_spread_of_areas_is_that_of_the_mapped_area():
    """Over repeated retrievals of both optical depths; unbroadened models said twice as much."""
    cases = [one_case(seed, same=False, repeats=12) for seed in range(10)]
    own, before, now = (rms([case[name] for case in cases]) for name in ("own", "old", "new"))
    assert 0.7 < now / own < 1.4
    assert before / own > 1.7
    assert np.mean([case["inside_new"] for case in cases]) > 0.9
    assert DRAWS == 25
