"""Comparing models: the same splits for all, groups kept apart, intervals by their formula."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from uncover import BayesianClassifier, BayesianLDA, BayesianQDA, Measured, compare
from uncover.estimators.groups import groups_for


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was trained and asked on; X's last column is the number of the sample."""

    seen: list = []  # noqa: RUF012 (of all clones together)

    def fit(self, X, y, groups=None):
        self.classes_ = np.unique(y)
        self.train_ = X[:, -1].astype(int)
        self.groups_ = groups
        return self

    def predict_proba(self, X):
        Recorder.seen.append((self.train_, X[:, -1].astype(int), self.groups_))
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def draw(rng, n=90):
    y = np.array(["a", "b", "c"])[np.arange(n) % 3]
    return rng.normal(size=(n, 2)) + (np.arange(n) % 3)[:, None], y


def test_scores_are_those_of_scikit_learn_on_its_splits(rng):
    X, y = draw(rng)
    found = compare(X, y, {"LDA": LinearDiscriminantAnalysis()}, folds=3, repeats=2)
    splits = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0).split(X, y)
    for s, (train, test) in enumerate(splits):
        P = LinearDiscriminantAnalysis().fit(X[train], y[train]).predict_proba(X[test])
        assert found.scores["cross_entropy"][0, s] == pytest.approx(log_loss(y[test], P))
        brier = brier_score_loss(y[test], P, scale_by_half=False) / 3
        assert found.scores["brier"][0, s] == pytest.approx(brier)


def test_differences_are_paired_and_their_interval_is_the_corrected_one(rng):
    X, y = draw(rng)
    found = compare(X, y, {"Q": BayesianQDA(), "same": BayesianQDA(), "L": BayesianLDA()}, repeats=3)
    assert found.difference("brier", "Q", "same") == (0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match="there is no model 'R'; there are"):
        found.difference("brier", "R", "Q")
    d = found.scores["brier"][2] - found.scores["brier"][0]
    half = stats.t.ppf(0.975, 14) * np.sqrt(d.var(ddof=1) * (1 / 15 + 1 / 4))
    expected = [d.mean(), d.mean() - half, d.mean() + half]
    np.testing.assert_allclose(found.difference("brier", "L", "Q"), expected)


def test_groups_never_train_and_test_in_one_split(rng):
    X, y = draw(rng)
    groups = np.arange(90) // 5
    Recorder.seen.clear()
    compare(np.c_[X, np.arange(90)], y, {"r": Recorder()}, groups=groups, repeats=2)
    assert len(Recorder.seen) == 10
    for train, test, given in Recorder.seen:
        assert not set(groups[train]) & set(groups[test])
        np.testing.assert_array_equal(given, groups[train])


def test_realisations_measured_and_frames(rng):
    X, y = draw(rng)
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["u", "v"])
    several = X[:, None] + 0.1 * rng.normal(size=(90, 3, 2))
    for data in (frame, several, Measured(X, [0.01, 0.01]), X.tolist()):
        found = compare(data, y, [BayesianQDA(), BayesianLDA()], repeats=1)
        assert found.names == ("BayesianQDA", "BayesianLDA")
        assert np.isfinite(found.scores["cross_entropy"]).all()


def test_the_table_has_the_best_first_and_prints(rng):
    X, y = draw(rng)
    found = compare(X, y, [BayesianQDA(), BayesianLDA(), BayesianClassifier()], repeats=1, folds=3)
    rows = found.table()
    assert rows[0]["model"] == found.best()
    assert [row["cross_entropy"] for row in rows] == sorted(found.mean("cross_entropy").values())
    text = str(found)
    assert len(text.splitlines()) == 4
    assert "…" in text


def test_a_rare_class_limits_the_folds(rng):
    X, y = draw(rng)
    y[y == "c"] = "a"
    y[:3] = "rare"
    assert compare(X, y, [BayesianQDA()], repeats=1).folds == 3
    y[:2] = "a"
    with pytest.raises(ValueError, match="a class has 1 of the samples; each needs 2"):
        compare(X, y, [BayesianQDA()])
    with pytest.raises(ValueError, match="give a dictionary with names"):
        compare(X, y, [BayesianQDA(), BayesianQDA()])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.arange(50) % 2}, "one label for each of the 90 samples of X, got shape .50,."),
        ({"groups": np.arange(50)}, "one entry for each of the 90 samples"),
        ({"groups": [None, *range(89)]}, "groups has no value for sample 0"),
    ],
)
def test_what_does_not_belong_together_is_refused(rng, change, words):
    data = {"X": rng.normal(size=(90, 2)), "y": np.arange(90) % 2} | change
    with pytest.raises(ValueError, match=words):
        compare(**data, models=[BayesianQDA()])


def test_an_unknown_score_is_refused(rng):
    found = compare(rng.normal(size=(40, 2)), np.arange(40) % 2, [BayesianQDA()], repeats=1, folds=2)
    with pytest.raises(ValueError, match="there is no score 'auc'; there are cross_entropy, brier"):
        found.best("auc")


def test_defaults_take_realisations_and_groups_reach_the_end_of_a_pipeline(rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3, 2)) + 2.0 * y[:, None, None]
    found = compare(X, y, repeats=1, folds=2, groups=np.arange(60) // 2, random_state=None)
    assert found.names == ("BayesianClassifier", "BayesianQDA")
    grouped = BayesianQDA(calibration="loo")
    assert groups_for(make_pipeline(StandardScaler(), grouped), y) == {"bayesianqda__groups": y}
    assert groups_for(grouped, y) == {"groups": y}
    assert groups_for(BayesianQDA(), y) == groups_for(StandardScaler(), y) == groups_for(grouped, None) == {}
