"""Known noise that goes to nothing changes nothing, and nowhere on the way is there a step."""

import numpy as np
import pytest

from uncover import BayesianClassifier, Measured, load_model
from uncover.estimators.fit_pool import LEAST_NOISE

pytestmark = pytest.mark.filterwarnings("ignore:feature .* same units")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    centre = 0.36 * rng.standard_normal((3, 3))
    y = np.arange(90) % 3
    X = np.exp(0.3 * rng.standard_normal((90, 3)) + centre[y])
    return X[:60], y[:60], X[60:]


def answers(problem, noise):
    X, y, new = problem
    clf = BayesianClassifier().fit(X, y, X_cov=np.full(3, noise))
    return clf, clf.predict_proba(new, X_cov=np.full(3, noise))


def test_noise_of_nothing_changes_nothing(problem):
    """It changed probabilities by up to 0.28, because other members answered."""
    X, y, new = problem
    plain = BayesianClassifier().fit(X, y)
    noisy, found = answers(problem, 1e-30)
    np.testing.assert_allclose(found, plain.predict_proba(new), atol=1e-6)
    np.testing.assert_allclose(
        noisy.typicality(new, X_cov=np.full(3, 1e-30)), plain.typicality(new), atol=1e-6
    )
    one, two = noisy.uncertainty(new, X_cov=np.full(3, 1e-30)), plain.uncertainty(new)
    np.testing.assert_allclose(one.total, two.total, atol=1e-6)
    np.testing.assert_allclose(one.model + one.measurement + one.overlap, one.total, atol=1e-12)
    measured = BayesianClassifier().fit(Measured(X, np.full(3, 1e-30)), y)
    np.testing.assert_allclose(measured.predict_proba(Measured(new, np.full(3, 1e-30))), found, atol=1e-9)


def test_noise_of_zero_is_no_noise(problem):
    X, y, new = problem
    plain = BayesianClassifier().fit(X, y).predict_proba(new)
    _, found = answers(problem, 0.0)
    np.testing.assert_allclose(found, plain, atol=1e-10)


def test_the_step_where_noise_begins_to_count_is_small(problem):
    """Below it members learn from X as it is, above it some from drawn true values too."""
    X, y, _ = problem
    within = np.mean([X[y == k].var(0, ddof=1) for k in range(3)], axis=0).min()
    edge = LEAST_NOISE * within / (1.0 + LEAST_NOISE)
    before, after = (answers(problem, edge * factor) for factor in (0.99, 1.01))
    assert {m.reading for m in before[0].model_.members} == {"closed", "draws"}
    assert "exact" in {m.reading for m in after[0].model_.members}
    assert np.abs(before[1] - after[1]).mean() < 0.02


def test_a_noisy_input_is_read_through_its_noise_by_a_model_of_clean_samples(problem):
    X, y, new = problem
    clf = BayesianClassifier().fit(X, y, X_cov=np.full(3, 1e-30))
    both = np.array([[1e-30] * 3, [0.3] * 3])
    found = clf.predict_proba(new[[0, 0]], X_cov=both)
    assert found[1].max() < found[0].max()
    np.testing.assert_allclose(found[:1], clf.predict_proba(new[:1], X_cov=both[0]), atol=1e-9)


def test_a_model_file_keeps_the_noise(problem, tmp_path):
    _, _, new = problem
    clf, found = answers(problem, 1e-2)
    clf.save(tmp_path / "model.uncover")
    again = load_model(tmp_path / "model.uncover")
    np.testing.assert_array_equal(again.predict_proba(new, X_cov=np.full(3, 1e-2)), found)
