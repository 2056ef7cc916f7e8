"""`uncover report`: one file that holds everything, and one clear line where that cannot be."""

import csv
import json
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from map_cases import BANDS, CLASSES, fitted, save_model, write_scene
from report_cases import WORLDS
from uncover import BayesianQDA, pipeline
from uncover.cli import main
from uncover.pipeline.contents import Contents
from uncover.pipeline.mapping import MapOptions
from uncover.progress import listening
from uncover.report.map_report import make_report
from uncover.report.pixels import Spectra, Stories
from uncover.report.style import OKABE_ITO
from uncover.report.summary import SIDE, summarise
from uncover.report.viewer import indexed_png, photograph, ramp_png, stories_data


def run(*arguments):
    return CliRunner().invoke(main, ["report", *map(str, arguments)])


def test_report_is_one_file_and_the_same_bytes_every_time(case, page, tmp_path):
    result = run(case.folder, "--out", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{tmp_path / 'r.html'}\n"
    assert result.stderr == ""
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert (tmp_path / "r.html").read_bytes() == page.read_bytes()


def test_a_report_says_how_far_it_is(case, tmp_path):
    said = []
    with listening(lambda *step: said.append(step)):
        make_report(case.folder, tmp_path / "told.html")
    names = list(dict.fromkeys(name for name, _, _ in said))
    assert names == ["reading the map", "reading pixels", "reading pictures", "comparing", "drawing"]
    for name in ("reading pixels", "reading pictures", "drawing"):
        mine = [(done, total) for each, done, total in said if each == name]
        assert [done for done, _ in mine] == list(range(mine[0][1]))


def test_no_map_makes_a_page_of_ten_megabytes(rng):
    """Pictures of pure noise, and as many stories as are ever stored, leave room for everything else."""
    spectra = rng.random((33, 33, 100, 10), np.float32)
    stories = Stories(
        rows=np.arange(64),
        cols=np.arange(64),
        classes=rng.integers(1, 9, (64, 64)).astype(np.uint8),
        probability=rng.random((8, 64, 64)),
        uncertainty=rng.random((6, 64, 64)),
        quality=np.zeros((64, 64), np.uint16),
        spectra=Spectra(spectra.mean(axis=2), spectra, None, np.ones((33, 33, 100), np.uint8)),
    )
    noise = rng.random((SIDE, SIDE))
    size = 6 * len(ramp_png(noise, 1.0))
    size += 2 * len(indexed_png((8 * noise).astype(np.uint8), OKABE_ITO))
    size += 2 * len(photograph((255 * rng.random((SIDE, SIDE, 3))).astype(np.uint8)))
    size += len(json.dumps(stories_data(stories)))
    assert size < 9_000_000


def test_report_has_all_sections_and_numbers(case, page):
    html = page.read_text("utf-8")
    for name in ("scene", "model", "map", "accuracy", "areas", "unknown", "provenance"):
        assert f'<section id="{name}"' in html
    for name in ("class-shares", "band-statistics", "principal-components", "confusion-1", "reliability-1",
                 "areas-figure", "worlds-figure", "detection-figure"):  # fmt: skip
        assert f'<figure id="{name}"' in html
    assert "model&#39;s own parameters" in html
    facts = json.loads((case.folder / "evaluation" / "evaluation.json").read_text())
    assert f"{facts['accuracy']['overall accuracy']['value']:.3f}" in html
    assert json.loads((case.folder / "map" / "item.json").read_text())["properties"]["uncover:run"] in html


def test_evaluations_of_several_models_stand_side_by_side(case, page, tmp_path):
    """Claims are means over samples, from the curves; the figure and the table have all models."""
    assert '<section id="claims"' not in page.read_text("utf-8")
    shutil.copytree(case.folder, tmp_path / "case")
    entries = [{"place": "here", "model": name, "evaluation": "evaluation"} for name in ("one", "another")]
    (tmp_path / "case" / "comparison.json").write_text(json.dumps(entries))
    assert run(tmp_path / "case").exit_code == 0
    html = (tmp_path / "case" / "report.html").read_text("utf-8")
    section = html[html.index('<section id="claims"') : html.index('<section id="accuracy"')]
    facts = json.loads((case.folder / "evaluation" / "evaluation.json").read_text())
    with open(case.folder / "evaluation" / "reliability.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["curve"] == "top label" and int(row["samples"])]
    samples = np.array([int(row["samples"]) for row in rows])
    claimed = samples @ np.array([float(row["mean_probability"]) for row in rows]) / samples.sum()
    right = facts["accuracy"]["overall accuracy"]["value"]
    for text in (
        f"{claimed:.3f}",
        f"{claimed - right:+.3f}",
        f"{facts['scores']['cross_entropy']['value']:.3f}",
    ):
        assert section.count(f">{text}") == 2, text
    assert '<figure id="claims-figure"' in section and "another" in section
    (tmp_path / "case" / "comparison.json").write_text("[1]")
    refused = run(tmp_path / "case")
    assert refused.exit_code == 1 and "is not a list of place, model and evaluation" in refused.stderr


def test_a_map_of_another_scene_has_a_report_with_its_crossed_worlds(case, tmp_path):
    shutil.copytree(case.folder / "cube.zarr", tmp_path / "cube.zarr")
    model = save_model(tmp_path / "model.uncover", fitted("shared", WORLDS), scene="another-scene")
    pipeline.map_scene(model, tmp_path / "cube.zarr", tmp_path / "map", MapOptions(threads=1))
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    html = (tmp_path / "report.html").read_text("utf-8")
    assert "pixels have no spectrum" not in html
    worlds = summarise(Contents.of(tmp_path)).stories.spectra.worlds
    assert worlds.shape[2] == WORLDS * WORLDS == (tmp_path / "map" / "areas.csv").read_text().count(",world_")
    assert set(np.unique(worlds)) <= set(range(1 + len(CLASSES))) and (worlds > 0).any(axis=2).all()


def test_every_picture_has_an_alternative(page):
    html = page.read_text("utf-8")
    images = re.findall(r"<img[^>]*>", html)
    assert images and all(re.search(r'alt="[^"]{15,}"', image) for image in images)
    svgs = re.findall(r"<svg[^>]*>", html)
    assert svgs and all('role="img"' in svg and re.search(r'aria-label="[^"]{4,}"', svg) for svg in svgs)
    assert html.count("<figcaption>") == html.count("<figure")


def test_paths_and_hosts_stay_out(case, page):
    html = page.read_text("utf-8")
    assert str(case.folder) not in html
    assert json.loads((case.folder / "map" / "run.json").read_text())["host"] + "<" not in html


def test_a_product_alone_says_what_is_not_there(case, tmp_path):
    shutil.copytree(case.folder / "map", tmp_path / "map")
    result = run(tmp_path / "map")
    assert result.exit_code == 0, result.output
    html = (tmp_path / "map" / "report.html").read_text("utf-8")
    assert "no labels are there" in html and "--labels" in html
    assert "has not been compared" in html and "uncover evaluate" in html
    assert all(name in html for name in CLASSES)


def test_labels_and_evaluations_from_elsewhere(case, tmp_path):
    shutil.copytree(case.folder / "map", tmp_path / "map")
    given = ("--labels", case.folder / "labels.tif", "--evaluation", case.folder / "evaluation")
    assert run(tmp_path / "map", *given, "--out", tmp_path / "r.html").exit_code == 0
    html = (tmp_path / "r.html").read_text("utf-8")
    assert 'id="labels-picture"' in html and 'id="confusion-1"' in html


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda f: f / "nowhere", "is not a folder"),
        (lambda f: f, "holds no map"),
        (lambda f: f / "evaluation", "is an evaluation; give the folder of its map"),
    ],
)
def test_folders_that_are_no_map_are_one_clear_line(case, tmp_path, make, said):
    shutil.copytree(case.folder / "evaluation", tmp_path / "evaluation")
    before = sorted(tmp_path.rglob("*"))
    result = run(make(tmp_path))
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1 and said in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("map/item.json", "{", "not the JSON it should be"),
        ("map/item.json", "{}", "missing required field `properties`"),
        ("map/areas.csv", "a,b\n1,2\n", "is not the table of areas"),
        ("map/class.tif", "nonsense", "cannot be opened as a raster"),
        ("map/model.uncover", "nonsense", "model.uncover"),
        ("evaluation/evaluation.json", "{}", "not a readable evaluation"),
        ("evaluation/reliability.csv", "curve\nx\n", "not a readable evaluation"),
    ],
)
def test_damaged_files_are_one_clear_line(case, tmp_path, name, content, said):
    for folder in ("map", "evaluation"):
        shutil.copytree(case.folder / folder, tmp_path / folder)
    (tmp_path / name).write_text(content)
    result = run(tmp_path)
    assert result.exit_code == 1, result.output
    assert len(result.stderr.splitlines()) == 1 and said in result.stderr, result.stderr
    assert not (tmp_path / "report.html").exists()


def test_help_has_an_example():
    assert "uncover report map" in run("--help").stdout


def odd_map(folder, values, classes, n=40, seed=2):
    """A map of few bands by a model of whatever classes, with nodata where values are NaN."""
    rng = np.random.default_rng(seed)
    y = np.arange(n * len(classes)) % len(classes)
    X = rng.normal(0.1 * y[:, None], 0.04, (len(y), len(values)))
    model = BayesianQDA().fit(X, np.array(classes)[y])
    model.feature_names_in_ = np.array(BANDS[: len(values)], dtype=object)
    scene = write_scene(folder / "scene.tif", values, names=BANDS[: len(values)], nodata=np.nan)
    save_model(folder / "m.uncover", model)
    return pipeline.map_scene(folder / "m.uncover", scene, folder / "map", pipeline.MapOptions(threads=1))


@pytest.mark.parametrize("classes", [("a <b>&$x$", "ß"), tuple(f"class number {i}" for i in range(14))])
def test_two_bands_nodata_and_names_of_any_kind(tmp_path, classes):
    values = np.random.default_rng(0).random((2, 30, 40)).astype(np.float32) * 0.3
    values[:, :15] = np.nan
    made = make_report(odd_map(tmp_path, values, classes))
    html = made.read_text("utf-8")
    assert "<b>" not in html
    assert "Bands B02, B03, B02 in red, green and blue" in html
    if len(classes) > 10:
        assert "hard to tell apart" in html


def test_a_map_of_nothing_is_one_clear_line(tmp_path):
    with pytest.warns(UserWarning, match="class"):
        made = odd_map(tmp_path, np.full((2, 20, 30), np.nan, np.float32), ("a", "b"))
    result = run(made)
    assert result.exit_code == 1
    assert "has a class (no data)" in result.stderr and "nothing to report" in result.stderr
