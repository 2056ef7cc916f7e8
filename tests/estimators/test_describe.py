"""What a fitted model says about itself."""

import re

import numpy as np
import pytest

from uncover import NIW, BayesianLDA, BayesianNB, BayesianQDA

SOURCES = ["class prior", "model prior", "measurement", "model posterior", "class posterior"]
ESTIMATORS = [BayesianQDA, BayesianLDA, BayesianNB]
KINDS = ["pooled", "repeats", "draws", "shared"]


@pytest.fixture
def problem(rng):
    y = np.array(["grass", "water", "wood"])[np.arange(60) % 3]
    return rng.normal(size=(60, 4, 2)) + (np.arange(60) % 3)[:, None, None], y


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", ["weak", NIW([0.0, 0.0], 1.0, np.eye(2), 4.0)])
def test_the_page_has_the_five_sources_and_the_classes(cls, kind, prior, problem):
    clf = cls(realisations=kind, prior=prior).fit(*problem)
    assert list(clf.sources_) == SOURCES
    page = clf.describe()
    for number, source in enumerate(SOURCES, start=1):
        assert f"{number}. {source.capitalize()}." in page
    for name in (
        "grass",
        "water",
        "wood",
        cls.__name__,
        "4 realisations",
        "Dirichlet",
        "Normal-inverse-Wishart",
    ):
        assert name in page
    assert not re.search(r"\b(nan|inf)\b", page)
    assert page.endswith("\n")
    assert max(len(line) for line in page.splitlines()) < 200
    assert page == clf.describe()


def test_the_sources_are_what_they_say(problem):
    X, y = problem
    clf = BayesianQDA(realisations="repeats", class_prior=[1.0, 2.0, 3.0]).fit(X, y)
    sources = clf.sources_
    np.testing.assert_array_equal(sources["class prior"], [1, 2, 3])
    np.testing.assert_array_equal(sources["class posterior"], [21, 22, 23])
    assert sources["model prior"] is clf.prior_
    assert sources["model posterior"] is clf.posterior_
    assert sources["measurement"].realisations == "repeats"
    within = (X - X.mean(1, keepdims=True)).reshape(-1, 2)
    np.testing.assert_allclose(sources["measurement"].covariance, within.T @ within / 180)
    deviation = np.sqrt(np.diag(within.T @ within / 180))
    assert f"{deviation[0]:.4g}, {deviation[1]:.4g}" in clf.describe()
    assert "180 degrees of freedom" in clf.describe()


def test_means_and_covariances_are_posterior_expectations(rng):
    y = np.arange(5000) % 2
    X = rng.multivariate_normal([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]], 5000) + 3.0 * y[:, None]
    clf = BayesianQDA().fit(X, y)
    for k in (0, 1):
        np.testing.assert_allclose(clf.means_[k], X[y == k].mean(0), rtol=1e-12)
        np.testing.assert_allclose(clf.covariances_[k], np.cov(X[y == k].T), rtol=2e-3, atol=2e-3)


def test_the_common_error_is_measured_between_worlds(rng):
    y = np.arange(90) % 3
    error = rng.normal(size=(400, 2)) * [0.5, 2.0]
    X = rng.normal(size=(90, 1, 2)) + y[:, None, None] + error
    measurement = BayesianQDA(realisations="shared").fit(X, y).measurement_
    np.testing.assert_allclose(measurement.covariance, np.cov(error.T), rtol=1e-10)
    assert measurement.number == 400


def test_names_of_features_are_on_the_page(problem):
    pd = pytest.importorskip("pandas")
    X, y = problem
    clf = BayesianQDA().fit(pd.DataFrame(X[:, 0], columns=["B02", "B8A"]), y)
    assert "2 features: B02, B8A" in clf.describe()
    assert "One value for each sample" in clf.describe()
    with pytest.warns(UserWarning, match="B8A are constant"):
        clf.fit(pd.DataFrame({"B02": X[:, 0, 0], "B8A": 1.0}), y)
    assert "Ignored, because constant or dependent on others: B8A" in clf.describe()


def test_the_weak_prior_is_named_where_it_is_too_sure(rng):
    y = np.arange(16) % 2
    X = rng.normal(size=(16, 3)) + y[:, None]
    assert 'prior="evidence"' in BayesianQDA().fit(X, y).describe()
    assert "Note" not in BayesianQDA(prior="evidence").fit(X, y).describe()
    many = np.tile(X, (10, 1)) + rng.normal(size=(160, 3))
    assert "Note" not in BayesianQDA().fit(many, np.tile(y, 10)).describe()


def test_far_too_few_samples_for_the_weak_prior_are_a_warning(rng):
    y = np.repeat([0, 1], 5)
    X = rng.normal(size=(10, 100))
    with pytest.warns(UserWarning, match=r"5 for 100 features; BayesianClassifier is more honest"):
        BayesianQDA().fit(X, y)


def test_pooled_realisations_say_what_the_measurement_part_is(problem):
    assert "not all that a perfect measurement" in " ".join(BayesianQDA().fit(*problem).describe().split())
