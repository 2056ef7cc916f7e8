"""Models that are computed on request: cells of their own, and what they are made of."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from uncover.studies.cells import Run, Workers
from uncover.studies.landcover import land_cover_models
from uncover.studies.models import MODELS, study_models
from uncover.studies.synthetic import SCALES, SyntheticStudy, synthetic_cells

FURTHER = [name for name in study_models(further=True) if name not in study_models()]


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4, 2)) * 0.3 + rng.normal(size=(n, 1, 2)) + 2.0 * np.eye(3, 2)[y][:, None], y


def fitted(name, X, y, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations, small batches
        return MODELS[name].make(seed).fit(X, y)


def test_further_models_are_cells_of_their_own():
    plain = {cell.key: cell for cell in synthetic_cells(SCALES["quick"], 0)}
    more = {cell.key: cell for cell in synthetic_cells(SCALES["quick"], 0, further=True)}
    assert {key: more[key] for key in plain} == plain
    assert {cell.models for key, cell in more.items() if key not in plain} == {(name,) for name in FURTHER}
    assert set(land_cover_models(25, further=True)) - set(land_cover_models(25)) == set(FURTHER)
    study = SyntheticStudy("quick")
    assert set(replace(study, further=True).facts["models"]) == {*study.facts["models"], *FURTHER}


@pytest.mark.parametrize("name", FURTHER)
def test_the_same_seed_gives_the_same(name):
    X, y = problem()
    new, _ = problem(seed=1)
    P = fitted(name, X, y).predict_proba(new)
    assert P.shape == (60, 3)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_array_equal(P, fitted(name, X, y).predict_proba(new))
    assert np.abs(P - fitted(name, X, y, seed=1).predict_proba(new)).max() > 0
    assert (P.argmax(axis=1) == y).mean() > 0.6


def test_the_deep_ensemble_is_the_mean_of_its_networks():
    X, y = problem()
    new, _ = problem(seed=1)
    rows, labels = X.reshape(-1, 2), np.repeat(y, 4)
    scaler = StandardScaler().fit(rows)
    each = []
    for i in range(5):
        network = MLPClassifier(
            (32, 32), batch_size=256, max_iter=100, n_iter_no_change=5, random_state=7 + i
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network.fit(scaler.transform(rows), labels)
        each.append(
            network.predict_proba(scaler.transform(new.reshape(-1, 2))).reshape(60, 4, 3).mean(axis=1)
        )
    np.testing.assert_allclose(
        fitted("NN deep", X, y, seed=7).predict_proba(new), np.mean(each, axis=0), atol=1e-12
    )


def test_each_forest_has_a_training_set_of_its_own():
    X, y = problem()
    drawn = [member.estimators_samples_[0] for member in fitted("RF bootstrap", X, y).estimators_]
    assert len({tuple(samples) for samples in drawn}) == 4
    for samples in drawn:
        assert len(samples) == 60
        assert 25 < len(np.unique(samples)) < 50  # with replacement: 63 % on average


def test_titles_say_what_is_not_a_probability():
    assert "not probabilities" in MODELS["AdaBoost.M2 scores"].title
    assert "other reading" in MODELS["AdaBoost.M2 scores"].title
    assert all(MODELS[name].ours and MODELS[name].slow for name in FURTHER)


def test_a_folder_that_was_begun_without_them_goes_on_with_them(tmp_path):
    begun = Run.begin(SyntheticStudy("quick", data_sets=1), tmp_path / "study", Workers(1))
    first = begun.cells[0]
    begun.store.save(first.key, {"models": [{"model": name} for name in first.models]})
    more = Run.begin(SyntheticStudy("quick", data_sets=1, further=True), tmp_path / "study", Workers(1))
    assert len(more.cells) > len(begun.cells)
    assert len(more.missing()) == len(more.cells) - 1
