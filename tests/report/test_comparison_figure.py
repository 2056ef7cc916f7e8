"""The figure of a comparison shows what its table says."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from numpy.testing import assert_allclose

from uncover.estimators.comparison import METRICS, Comparison
from uncover.report import comparison_figure, save_figure


@pytest.fixture
def found(rng):
    """Four models: the second is the best of all, the first hardly worse, the others are."""
    base = np.array([0.33, 0.30, 0.45, 0.60])[:, None] + 0.02 * rng.normal(size=10)
    scores = {name: base + 0.02 * rng.normal(size=(4, 10)) for name in (*METRICS, "seconds")}
    return Comparison(("close", "best", "worse", "worst"), scores, folds=5, floor=1e-6)


def marks(axes):
    """Mean difference of each row, and whether its mark is filled."""
    points = [line for line in axes.lines if line.get_linestyle() == "None"]
    return {
        round(float(p.get_ydata()[0])): (float(p.get_xdata()[0]), p.get_markerfacecolor() != "white")
        for p in points
    }


def test_it_shows_differences_and_intervals_best_first(found):
    figure = comparison_figure(found, ("cross_entropy", "brier"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Cross-entropy in nats", "Brier score"]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["best", "close", "worse", "worst"]
    for axes, metric in zip(figure.axes, ("cross_entropy", "brier"), strict=True):
        lines = [c for c in axes.collections if isinstance(c, LineCollection)]
        ends = {round(float(path[0, 1])): path[:, 0] for c in lines for path in c.get_segments()}
        for row, name in enumerate(names[1:], start=1):
            mean, low, high = found.difference(metric, name, "best")
            assert_allclose(ends[row], [low, high])
            assert marks(axes)[row] == (pytest.approx(mean), low > 0)
        assert marks(axes)[0][0] == 0.0
        shown = [text.get_text() for text in axes.texts]
        assert shown == [f"{found.mean(metric)[name]:#.3g}" for name in names]


def test_the_best_is_that_of_each_score(found):
    scores = dict(found.scores) | {"error": found.scores["error"][::-1].copy()}
    figure = comparison_figure(Comparison(found.names, scores, 5, 1e-6), ("brier", "error"))
    best = [min(row for row, (at, _) in marks(axes).items() if at == 0.0) for axes in figure.axes]
    assert best == [0, 2]  # in the order of the first score "worse" is third


def test_one_far_away_does_not_hide_the_others(found):
    scores = dict(found.scores)
    scores["brier"] = scores["brier"] + np.array([0, 0, 0, 500.0])[:, None]
    (axes,) = comparison_figure(Comparison(found.names, scores, 5, 1e-6), ("brier",)).axes
    assert axes.get_xscale() == "symlog"
    (plain,) = comparison_figure(found, ("brier",)).axes
    assert plain.get_xscale() == "linear"


def test_the_same_bytes_every_time(found, tmp_path):
    for name in ("a.svg", "b.svg"):
        save_figure(comparison_figure(found), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_an_unknown_score_is_refused(found):
    with pytest.raises(ValueError, match=r"no score .'f1'.; choose from cross_entropy"):
        comparison_figure(found, ("brier", "f1"))
