"""The instruments of the benchmarks: runs that go on, rivals by command, noise as it is stated, verdicts."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import gates, measured_noise, noise_problems
from benchmarks.probability_problems import PROBLEMS, draw_split
from benchmarks.rivals import parse_rival, rival_runs, run_rival
from benchmarks.runs import Runs, scores
from benchmarks.weighted_worlds import covers, temper

from uncover import BayesianClassifier
from uncover.bayes.streams import stream

SHARES = """
import sys
import numpy as np
data = np.load(sys.argv[1])
np.save(sys.argv[2], np.tile(np.bincount(data["y_train"]) / len(data["y_train"]), (len(data["X_test"]), 1)))
"""


def test_runs_go_on_where_they_were_stopped(tmp_path):
    asked = []

    def compute(*run):
        asked.append(run)
        return {"score": float(len(asked))}

    file = tmp_path / "runs.jsonl"
    Runs(file, compute).make([("a", 10), ("b", 10)], 2, ["x"])
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])  # stopped in the last line
    again = Runs(file, compute)
    again.make([("a", 10), ("b", 10)], 2, ["x"])
    assert asked[4:] == [("b", 10, 1, "x")]
    assert len(Runs(file, compute).found) == 4
    assert again.complete(("a", 10), ["x"], 5) == [0, 1]
    assert again.complete(("a", 10), ["x", "y"], 5) == []


def test_a_rival_is_asked_once_for_each_split(tmp_path):
    script = tmp_path / "shares.py"
    script.write_text(SHARES, encoding="utf-8")
    name, command = parse_rival(f"shares={sys.executable} {script}")
    runs = rival_runs(tmp_path / "rivals.jsonl")
    run_rival(runs, name, command, [("iris", 20)], 1, draw_split)
    split = draw_split("iris", 20, 0)
    share = np.unique(split.y, return_counts=True)[1] / len(split.y)
    expected = scores(np.tile(share, (len(split.y_test), 1)), split.y_test, np.unique(split.y))
    assert runs.found[("iris", 20, 0, name)]["cross_entropy"] == pytest.approx(expected["cross_entropy"])
    run_rival(runs, name, "false", [("iris", 20)], 1, draw_split)  # is not asked
    with pytest.raises(RuntimeError, match="false failed"):
        run_rival(runs, name, "false", [("iris", 20)], 2, draw_split)


@pytest.mark.parametrize("text", ["name", "=command", "name="])
def test_a_rival_needs_a_name_and_a_command(text):
    with pytest.raises(ValueError, match="NAME=COMMAND"):
        parse_rival(text)


@pytest.mark.parametrize("problem", ["iris", "wine", "digits", "breast cancer"])
def test_splits_of_small_tables_have_the_stated_size_and_all_classes(problem):
    for size in PROBLEMS[problem].sizes:
        split = draw_split(problem, size, 0)
        assert len(split.y) == size
        assert set(split.y) == set(split.y_test)
        rows = {tuple(row) for row in split.X}
        assert np.mean([tuple(row) in rows for row in split.X_test]) < 0.05  # iris has a double


def test_rules_of_gates_hear_a_rare_class_more_or_less(rng):
    """Members of a class of 10 beside 300 are strange by density; the rule of the pool hears them."""
    X, y = rng.standard_normal((310, 2)), np.repeat([0, 1], [10, 300])
    X[y == 0] += 4.0
    heard = {}
    for name, rule in gates.RULES.items():
        with gates.rule_of_gates(rule):
            pool = BayesianClassifier().fit(X, y).model_
            gaussian = next(i for i, member in enumerate(pool.members) if member.gaussian)
            joints = [member.model.log_joint(X[y == 0])[:, None] for member in pool.members]
            heard[name] = pool.gates(joints)[gaussian].mean()
    assert heard["before"] < 0.6 < heard["now"]
    assert heard["before"] < heard["constant"]


@pytest.mark.parametrize("noise", [*noise_problems.NOISE])
def test_simulated_noise_has_the_stated_variance(noise):
    """Values that are all 0 but for their noise: x²/variance has the mean 1."""
    zero = noise_problems.Simulated(lambda rng, y: np.zeros((len(y), 2)), 0.5)
    split = zero.split(noise, 4000, stream(0, "test"))
    for x, variance in ((split.X, split.variance), (split.X_test, split.variance_test)):
        z = x**2 / variance
        assert abs(z.mean() - 1.0) < 4 * z.std() / np.sqrt(z.size)


@pytest.mark.parametrize(("features", "independent"), [(1, False), (2, True)])
def test_classes_known_are_those_of_gaussians(features, independent):
    """Two Gaussian classes with noise have a closed form."""

    def draw(rng, y):
        return y[:, None] + rng.standard_normal((len(y), features))

    two = noise_problems.Simulated(draw, 0.7, independent=independent)
    split = two.split("equal", 10, stream(0, "test"))
    found = two.known_classes(split, stream(1, "test"))[:, 1]
    exact = 1 / (1 + np.exp((0.5 * features - split.X_test.sum(1)) / (1 + 0.49)))
    assert np.abs(found - exact).max() < 0.05
    assert np.abs(found - exact).mean() < 0.01


def test_true_values_have_the_moments_of_their_posterior():
    """One component: mean m + K(x − m) and covariance Σ − KΣ, K = Σ(Σ + S)⁻¹."""
    m, covariance = np.array([1.0, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    x, variance = np.array([[3.0, 0.0]]), np.array([[0.5, 4.0]])
    one = np.zeros(1), m[None], covariance[None], x, variance, np.ones((1, 1), dtype=bool), 40_000
    draws = measured_noise._draw_given(*one, rng=stream(0, "test"))[0]
    gain = covariance @ np.linalg.inv(covariance + np.diag(variance[0]))
    np.testing.assert_allclose(draws.mean(0), m + gain @ (x[0] - m), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), covariance - gain @ covariance, atol=0.03)


def test_logarithms_have_relative_uncertainties():
    X = np.array([[2.0, -1.0], [4.0, 3.0]])
    values, deviation, _ = noise_problems.in_logarithms(X, np.full((2, 2), 0.1), np.array([0, 1]))
    np.testing.assert_allclose(values, [[np.log(2), -1.0], [np.log(4), 3.0]])
    np.testing.assert_allclose(deviation, [[0.05, 0.1], [0.025, 0.1]])


def test_verdicts_follow_from_the_scores(tmp_path):
    """A classifier that gains by the noise and is near the best, and one that is neither."""
    level = {"moons": {measured_noise.TOLD: 0.9}, "rings": {measured_noise.TOLD: 1.3}}

    def compute(problem, kind, size, repeat, name):
        value = level[problem].get(name, 1.0) + 0.01 * repeat
        return {"cross_entropy": value, "brier": value}

    runs = Runs(tmp_path / "runs.jsonl", compute)
    cells = [("moons", "equal", 100), ("rings", "equal", 100)]
    tables = {table.name: table for table in measured_noise.make_tables(runs, cells, [], 3, 3)}
    by_problem = [
        dict(zip(tables["simulated, brier"].columns, row, strict=True))
        for row in tables["simulated, brier"].rows
    ]
    assert [(row["not worse"], row["within 10 %"]) for row in by_problem] == [("yes", "yes"), ("no", "no")]
    assert tables["verdicts"].rows[0] == ["simulated, cross-entropy", "not worse", 1, 2]


def test_tables_without_their_data_are_left_out(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("benchmarks.probability_problems.DATA", tmp_path)
    assert {name for name, *_ in noise_problems.measured_cells()} == {"breast cancer"}
    assert "Kepler is left out" in capsys.readouterr().out


def test_every_method_makes_probabilities():
    split = noise_problems.draw_noisy_split("bimodal", "heteroscedastic", 100, 0)
    few = SimpleNamespace(
        **{**vars(split), "X_test": split.X_test[:20], "variance_test": split.variance_test[:20]}
    )
    draws = measured_noise.draw_true_values(few)
    for name, (make, how) in measured_noise.methods(simulated=False).items():
        if "logistic" in name or name == measured_noise.TOLD:
            P = how(make, few, lambda: draws)
            assert P.shape == (20, 2)
            np.testing.assert_allclose(P.sum(1), 1.0)


@pytest.mark.parametrize("side", [1, 4, 8])
def test_pixels_that_tell_the_same_are_counted_once(rng, side):
    field = np.kron(rng.standard_normal((96 // side, 96 // side)), np.ones((side, side)))
    field[:6, :20] = np.nan
    assert temper(field.ravel(), field.shape) == pytest.approx(side**-2, rel=0.35)


def test_weighted_intervals_hold_the_depth_where_its_worlds_are_probable():
    depths, weights = np.array([0.3, 0.1, 0.2]), np.array([0.0, 1.0, 0.0])
    assert [covers(depths, weights, aod) for aod in (0.04, 0.06, 0.14, 0.16)] == [False, True, True, False]
    assert [covers(depths, np.full(3, 1 / 3), aod) for aod in (0.06, 0.34, 0.36)] == [True, True, False]
