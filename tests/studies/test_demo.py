"""The demonstration at small size: the whole chain, by the command line."""

import json
import re

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from command_lines import replaced
from uncover import load_model
from uncover.cli import main
from uncover.report.plots import percent
from uncover.studies.landscape.kinds import TRAINED


def demo(out, *more):
    return CliRunner().invoke(
        main, ["demo", *replaced("--size", "120", "--draws", "3", "--out", str(out), *more)]
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return out, demo(out)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_the_demonstration_runs_and_says_that_its_data_are_simulated(ran):
    out, result = ran
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("SIMULATED DATA")
    assert str(out / "report.html") in result.stdout
    assert (out / "report.html").stat().st_size < 10_000_000
    steps = [line.split(":")[0] for line in result.stderr.splitlines() if not line.startswith("Warning")]
    assert steps[:4] == ["scene", "labels", "fit (recommended)", "map (recommended)"]
    assert not list(out.glob("*.partial"))
    models = [load_model(out / name) for name in ("model.uncover", "model-published.uncover")]
    assert [type(model).__name__ for model in models] == ["BayesianClassifier", "BayesianQDA"]
    assert tuple(models[0].classes_) == tuple(models[1].classes_) == tuple(sorted(TRAINED))


def test_the_report_shows_what_both_models_claim_and_what_came_true(ran):
    """Numbers of the table are counted here from the layers of both maps."""
    out, _ = ran
    page = re.sub(r"\s+", " ", (out / "report.html").read_text("utf-8"))
    with rasterio.open(out / "scene" / "truth-2020.tif") as true:
        truth = true.read(1)
    known = np.isin(truth, [1, 2, 3, 5])
    for folder, model in (("map", "recommended"), ("map-published", "published")):
        with rasterio.open(out / folder / "class.tif") as mapped:
            right = (mapped.read(1) == truth)[known].mean()
        with rasterio.open(out / folder / "probability.tif") as layer:
            claimed = 1e-4 * layer.read().max(0)[known].mean()
        words = f"2020, the scene that trained the models, {model}: claims {percent(claimed)}, right"
        assert f"{words} {percent(right)}" in page
        assert f"{claimed:.3f}" in page and f"{claimed - right:+.3f}" in page
    assert page.count("2021, a year later") >= 4


def test_the_screen_and_the_report_tell_two_populations_apart_with_the_same_words(ran):
    out, result = ran
    page = (out / "report.html").read_text("utf-8")
    numbers = json.loads((out / "numbers.json").read_text("utf-8"))
    populations = {
        "pixels of trained classes": numbers["right"],
        "all pixels, never-trained classes included": numbers["right_all"],
    }
    for words, right in populations.items():
        assert f"{right:>9.1%}  overall accuracy of {words}" in result.stdout
        headline = rf"<dt>overall accuracy of {words}</dt><dd>{re.escape(percent(right))}<"
        assert re.search(headline, page), words


def test_the_scene_alone(tmp_path):
    result = demo(tmp_path / "out", "--only-scene")
    assert result.exit_code == 1 and "--draws came with --only-scene" in result.stderr
    result = CliRunner().invoke(
        main, ["demo", "--size", "120", "--only-scene", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["scene", "steps.json"]


def test_its_numbers_are_those_of_its_files(ran):
    out, result = ran
    numbers = json.loads((out / "numbers.json").read_text("utf-8"))
    with rasterio.open(out / "map" / "class.tif") as mapped, rasterio.open(
        out / "scene" / "truth-2020.tif"
    ) as true:  # fmt: skip
        classes, truth = mapped.read(1), true.read(1)
    known = np.isin(truth, [1, 2, 3, 5])
    assert numbers["right"] == pytest.approx((classes == truth)[known].mean(), abs=1e-9)
    assert numbers["right_all"] == pytest.approx((classes == truth).mean(), abs=1e-9)
    with rasterio.open(out / "map" / "probability.tif") as layer:
        assert numbers["claimed"] == pytest.approx(1e-4 * layer.read().max(0)[known].mean(), abs=1e-6)
    with rasterio.open(out / "map" / "uncertainty.tif") as layer:
        typicality = 1e-4 * layer.read(layer.descriptions.index("typicality") + 1)
    assert numbers["found"] == pytest.approx((typicality[~known] < 0.001).mean(), abs=1e-9)
    assert numbers["false_alarms"] == pytest.approx((typicality[known] < 0.001).mean(), abs=1e-9)
    assert numbers["separation"] == pytest.approx(
        roc_auc_score(~known.ravel(), -typicality.ravel()), abs=1e-6
    )
    assert len([line for line in result.stdout.splitlines() if line.startswith("   ")]) == 12


def test_what_is_there_is_not_made_again_and_what_is_damaged_is(ran):
    out, first = ran
    before = times(out)
    again = demo(out)
    assert (again.exit_code, again.stdout, again.stderr) == (0, first.stdout, "")
    assert times(out) == before
    (out / "labels.tif").write_bytes(b"not a raster")
    mended = demo(out)
    assert (mended.exit_code, mended.stdout) == (0, first.stdout)
    steps = [line.split(":")[0] for line in mended.stderr.splitlines()]
    assert steps == ["labels"]  # they came out as before, so that nothing after them had to be done


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--size", "121"], "even number"),
        (["--size", "100"], "120 or more"),
        (["--seed", "-1"], "0 or more"),
        (["--draws", "0"], "1 or more"),
    ],
)
def test_bad_options_are_one_clear_line_and_leave_nothing(tmp_path, options, said):
    result = demo(tmp_path / "out", *options)
    assert result.exit_code != 0
    assert said in result.stderr.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_a_place_that_is_no_folder_is_one_clear_line(tmp_path, place):
    (tmp_path / "file").write_text("")
    result = demo(tmp_path / place)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
