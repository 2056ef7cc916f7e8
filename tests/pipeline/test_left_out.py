"""The default model, the blocks that are left out by default, and what left-out samples say of a model."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fit_cases import contents_of, names_of, table_of
from label_maps import write_map
from uncover import BayesianClassifier, BayesianQDA, load_model
from uncover.labels import autocorrelation_length
from uncover.pipeline import FitOptions, fit_model, left_out, training_sources
from uncover.pipeline.ground import FEWEST_BLOCKS, FEWEST_OF_A_CLASS, Squares, choose_blocks
from uncover.pipeline.left_out import TooSureWarning, left_out_check, mean_with_interval, warn_of_excess
from uncover.pipeline.training_sources import Batch
from uncover.progress import listening
from uncover.raster import Grid


def few_labels(codes, path, share=0.15):
    few = np.where(np.random.default_rng(0).random(codes.shape) < share, codes, 0)
    write_map(path, few, nodata=0)
    return few


def test_the_default_is_the_recommended_model_and_says_what_was_fitted(problem, run, tmp_path):
    codes, values, _ = problem
    few = few_labels(codes, tmp_path / "labels.tif")
    given = ("scene.tif", "--labels", "labels.tif", "--scheme", "lulucf", "--bands", "a,b,c,d")
    made = run("fit", *given, "--block", 0, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    model, lines = load_model("m.uncover"), made.stdout.splitlines()
    assert isinstance(model, BayesianClassifier)
    wanted = BayesianClassifier().fit(values[few > 0][:, 0], names_of(few[few > 0]))
    assert_allclose(model.weights_, wanted.weights_, rtol=1e-6)
    head = next(i for i, line in enumerate(lines) if line.startswith("model: BayesianClassifier"))
    shares = [int(line.split("%")[0]) for line in lines[head + 1 : head + 1 + len(model.members_)]]
    assert shares == sorted(shares, reverse=True) and 95 <= sum(shares) <= 105
    assert "randomised trees" in made.stdout and "blocks of" not in made.stdout
    assert " are right and " in lines[-1] and "in blocks" not in lines[-1]
    told = run("info", "m.uncover").stdout
    assert "randomised trees" in told and "left out" in told and "claimed" in told


@pytest.mark.filterwarnings("ignore::uncover.pipeline.left_out.TooSureWarning")
def test_a_fit_says_how_many_members_it_has_fitted_and_how_far_it_is_checked(problem, tmp_path):
    codes, _, options = problem
    few_labels(codes, tmp_path / "labels.tif", share=0.05)
    said, phases = [], []
    with listening(lambda *step: said.append(step)):
        fit_model(
            [tmp_path / "scene.tif"], replace(options, model="recommended", block=0), None, phases.append
        )
    assert phases[:2] == ["opening", "reading"] and phases[-1] == "checking"
    for name, parts in (("fitting members", 1), ("checking with samples left out", left_out.PARTS)):
        mine = [(done, total) for each, done, total in said if each == name]
        total = mine[0][1]
        assert total >= 4 * parts and [done for done, _ in mine] == list(range(total))
        assert {each for _, each in mine} == {total}


def test_published_is_another_name_of_qda(problem, run, tmp_path):
    given = ("scene.tif", "--labels", "labels.tif", "--scheme", "lulucf", "--bands", "a,b,c,d")
    for name in ("published", "qda"):
        assert run("fit", *given, "--model", name, "--out", f"{name}.uncover").exit_code == 0
    assert isinstance(load_model("published.uncover"), BayesianQDA)
    assert contents_of(tmp_path / "published.uncover") == contents_of(tmp_path / "qda.uncover")


def test_blocks_are_three_autocorrelation_lengths():
    fields = np.random.default_rng(0).integers(1, 5, (40, 40)).repeat(10, 0).repeat(10, 1)
    codes = fields.astype(np.uint8)
    grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), *codes.shape[::-1])
    length = autocorrelation_length(codes, (10.0, 10.0))
    found = choose_blocks(codes, grid, length, None, None)
    assert found.side == pytest.approx(3 * length, abs=10.1) and found.reach == found.side
    assert found.buffer == pytest.approx(0.25 * found.side, abs=0.1)
    assert str(found).endswith("m, from the range of the scene's autocorrelation")


def test_blocks_are_smaller_where_there_would_be_too_few():
    codes = np.ones((80, 80), np.uint8)
    codes[:, 40:] = 2
    grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 80, 80)
    length = autocorrelation_length(codes, (10.0, 10.0))
    found = choose_blocks(codes, grid, length, None, None)
    assert found.side < found.reach and "the range of the scene's autocorrelation is" in str(found)
    number = Squares.of(grid, found.side).numbers(grid.window)
    assert len(np.unique(number)) >= FEWEST_BLOCKS
    assert all(len(np.unique(number[codes == k])) >= FEWEST_OF_A_CLASS for k in (1, 2))
    larger = Squares.of(grid, 2 * found.side).numbers(grid.window)
    assert len(np.unique(larger)) < FEWEST_BLOCKS


def test_a_class_in_one_corner_does_not_make_blocks_smaller_than_its_own():
    fields = np.random.default_rng(0).integers(1, 5, (40, 40)).repeat(10, 0).repeat(10, 1)
    codes = fields.astype(np.uint8)
    grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 400, 400)
    alone = choose_blocks(codes, grid, 64.0, None, None)
    codes[:4, :4] = 9  # one block, however small
    assert choose_blocks(codes, grid, 64.0, None, None) == alone


def test_there_are_no_blocks_of_single_pixels():
    codes = np.zeros((60, 60), np.uint8)
    codes[::20, ::20] = 1
    codes[10::20, ::20] = 2
    grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), 60, 60)
    assert choose_blocks(codes, grid, autocorrelation_length(codes, (10.0, 10.0)), None, None) is None
    assert choose_blocks(np.ones((60, 60), np.uint8), grid, 50.0, 0, None) is None


def test_the_default_blocks_are_those_of_the_same_side(problem, tmp_path):
    _, _, options = problem
    options = replace(options, calibration="loo")
    found = fit_model([tmp_path / "scene.tif"], options)
    side = found.provenance["block"]
    given = fit_model([tmp_path / "scene.tif"], replace(options, block=side))
    single = fit_model([tmp_path / "scene.tif"], replace(options, block=0))
    assert found.model.temperature_ == given.model.temperature_ != single.model.temperature_
    assert f"left out together: blocks of {side:.0f} m" in found.summary()
    assert "block" not in single.provenance


def test_no_more_pixels_than_help_are_drawn_and_rare_classes_keep_theirs(problem, tmp_path, monkeypatch):
    codes, _, options = problem
    monkeypatch.setattr(training_sources, "MOST_DRAWN", 300)
    monkeypatch.setattr(training_sources, "LEAST_DRAWN", 60)
    rare = codes.copy()
    rare[(codes == 1) & (np.random.default_rng(0).random(codes.shape) < 0.8)] = 0
    write_map(tmp_path / "labels.tif", rare, nodata=0)
    drawn = training_sources.open_sources([tmp_path / "scene.tif"], replace(options, model="recommended"))[0]
    there = {name: int((names_of(rare) == name).sum()) for name in drawn.drawn}
    assert drawn.available == sum(there.values()) > 1000
    assert drawn.drawn["forest"] == 60 < there["forest"]
    others = {name: n for name, n in drawn.drawn.items() if name != "forest"}
    for name, n in others.items():
        assert n == pytest.approx(300 * there[name] / drawn.available, abs=1)
    asked = replace(options, model="recommended", draw=replace(options.draw, count=500))
    assert sum(training_sources.open_sources([tmp_path / "scene.tif"], asked)[0].drawn.values()) == 500
    every = training_sources.open_sources([tmp_path / "scene.tif"], options)[0]
    assert sum(every.drawn.values()) == drawn.available


def grouped(rng, groups, size, between, classes=2):
    """Samples of groups whose means differ: (values, classes, groups)."""
    group = np.repeat(np.arange(groups), size)
    code = group % classes
    mean = code[:, None] * 1.5 + between * rng.normal(size=(groups, 4))[group]
    return Batch(mean + rng.normal(size=(len(group), 4)), np.array(["a", "b"])[code], group)


def test_the_interval_holds_the_mean_as_often_as_it_says(rng):
    """Groups of unequal sizes whose values move together, 95 % of 600 simulations."""
    held, naive = 0, 0
    for _ in range(600):
        group = np.repeat(np.arange(40), rng.integers(2, 30, 40))
        values = rng.normal(size=40)[group] + rng.normal(size=len(group))
        mean, low, high = mean_with_interval(values, group)
        assert mean == pytest.approx(values.mean())
        held += low < 0 < high
        margin = 1.96 * values.std() / np.sqrt(len(values))
        naive += abs(values.mean()) < margin
    assert 0.92 < held / 600 < 0.975  # three standard errors of the simulation
    assert naive / 600 < 0.7  # else the above would show nothing


def test_a_model_of_few_places_is_too_sure_of_others_and_is_warned_of():
    rng = np.random.default_rng(0)
    samples = grouped(rng, groups=24, size=60, between=3.0)
    found = left_out_check(BayesianQDA(), samples, lambda part: part.values, calibrates=False)
    assert (found["samples"], found["groups"]) == (1440, 24)
    excess = found["excess"]
    assert excess["value"] == pytest.approx(found["claimed"] - found["right"], abs=1e-12)
    with pytest.warns(TooSureWarning, match=r"it claims \d+\.\d% and is right in \d+\.\d%"):
        warn_of_excess(found, "published")
    elsewhere = grouped(rng, groups=800, size=5, between=3.0)
    P = BayesianQDA().fit(samples.values, samples.classes).predict_proba(elsewhere.values)
    true = P.max(1).mean() - (P.argmax(1) == np.unique(elsewhere.classes, return_inverse=True)[1]).mean()
    assert true > 0.02 and excess["lower"] < true < excess["upper"]


def test_a_model_of_independent_samples_is_not_warned_of(rng):
    samples = replace(grouped(rng, groups=6000, size=1, between=0.0), groups=None)
    found = left_out_check(BayesianQDA(), samples, lambda part: part.values, calibrates=False)
    assert found["groups"] is None and found["samples"] == 2000  # one third says enough
    assert abs(found["excess"]["value"]) < 0.02
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_excess(found, "published")


def test_left_out_scores_are_those_of_models_without_the_part(rng):
    from sklearn.metrics import log_loss

    from uncover.bayes.streams import stream
    from uncover.estimators.groups import divide

    samples = grouped(rng, groups=30, size=10, between=0.3)
    found = left_out_check(BayesianQDA(), samples, lambda part: part.values, calibrates=False)
    code = np.unique(samples.classes, return_inverse=True)[1]
    part = divide(code, samples.groups, left_out.PARTS, stream(0, "parts left out"))
    P = np.empty((300, 2))
    for number in range(left_out.PARTS):
        out = part == number
        assert not set(samples.groups[out]) & set(samples.groups[~out])
        P[out] = (
            BayesianQDA().fit(samples.values[~out], samples.classes[~out]).predict_proba(samples.values[out])
        )
    assert found["right"] == pytest.approx((P.argmax(1) == code).mean())
    assert found["claimed"] == pytest.approx(P.max(1).mean())
    assert found["log loss"] == pytest.approx(log_loss(code, P))


@pytest.mark.parametrize("more", [("--label-noise", 0.1), ()])
def test_what_is_not_checked_says_why(problem, run, tmp_path, more):
    codes, values, _ = problem
    table = table_of(values, codes)
    (table if more else table.groupby("land_cover").head(4)).to_csv("pixels.csv", index=False)
    made = run("fit", "pixels.csv", "--model", "published", *more, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    why = "the labels to compare with may be wrong" if more else "samples are too few"
    assert made.stdout.splitlines()[-1].startswith("not checked with samples left out: ")
    assert why in made.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--prior", "evidence"), "or choose --model published, lda, nb or mda"),
        (("--calibrate",), "or choose --model published, lda, nb or mda"),
        (("--label-noise", 0.1, "--coverage", 0.9), "--coverage compares predictions with labels"),
    ],
)
def test_options_that_the_default_does_not_take_say_what_to_do(problem, refused, tmp_path, more, words):
    codes, values, _ = problem
    table_of(values, codes).to_csv(tmp_path / "pixels.csv", index=False)
    assert words in refused("fit", "pixels.csv", *more, "--out", "m.uncover")


def test_the_default_of_the_options_is_that_of_the_command():
    from uncover.cli.fit import fit

    option = next(each for each in fit.params if each.name == "model")
    assert option.default == FitOptions().model == "recommended"
    assert FitOptions(model="published").model == "qda"
