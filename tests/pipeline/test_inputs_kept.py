"""No command overwrites what it reads, and none translates labels a second time."""

import numpy as np
import pytest

from label_maps import GRID, write_map
from map_cases import fitted, reflectance, save_model, write_scene
from map_products import write_points
from uncover.labels import load_scheme
from uncover.pipeline import check_apart, write_labels


@pytest.fixture
def inputs(tmp_path, years):
    (tmp_path / "p.csv").write_text("a,b,class\n" + "1,2,x\n2,1,x\n3,5,y\n4,3,y\n" * 5)
    save_model(tmp_path / "m.uncover", fitted())
    write_scene(tmp_path / "scene.tif", reflectance(40, 50))
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "labels lcm2018.tif lcm2019.tif --scheme ukceh-lulucf --out lcm2018.tif",
        "labels lcm2018.tif --probability lcm2019.tif:2 --scheme ukceh-lulucf --out lcm2019.tif",
        "labels lcm2018.tif --scheme ukceh-lulucf --out a.tif --report lcm2018.tif",
        "labels lcm2018.tif --scheme ukceh-lulucf --out a.tif --test-out ./a.tif",
        "labels lcm2018.tif --like lcm2019.tif --scheme ukceh-lulucf --out link.tif",
        "fit p.csv --out p.csv",
        "fit p.csv --out ./p.csv",
        "fit scene.tif --labels lcm2018.tif:1 --out lcm2018.tif",
        "map m.uncover scene.tif --out scene.tif",
        "map m.uncover scene.tif --out m.uncover",
        "realise scene.tif --aod 0.1 --out scene.tif",
    ],
)
def test_the_output_is_no_input(refused, inputs, command):
    (inputs / "link.tif").symlink_to(inputs / "lcm2019.tif")
    before = {path: path.read_bytes() for path in inputs.iterdir()}
    line = refused(*command.split())
    assert "which would be lost; name another file" in line
    assert {path: path.read_bytes() for path in inputs.iterdir()} == before


def test_evaluations_and_reports_keep_what_they_read(run, refused, inputs):
    made = run("map", "m.uncover", "scene.tif", "--out", "map")
    assert made.exit_code == 0, made.output
    rows = np.arange(20)
    write_points(inputs / "points.gpkg", rows, rows, np.array(["forest", "water"] * 10))
    (inputs / "evaluation").mkdir()
    (inputs / "evaluation" / "areas.csv").write_text("stratum,area_ha\nforest,1\nwater,1\n")
    how = ("--class-field", "class", "--design", "stratified", "--reference")
    for more in (
        (*how, "points.gpkg", "--stratum-areas", "evaluation/areas.csv", "--out", "evaluation"),
        (*how, "points.gpkg", "--out", "points.gpkg"),
    ):
        assert "which would be lost" in refused("evaluate", "map", *more)
    for goal in ("map/class.tif", "lcm2018.tif"):
        assert "which would be lost" in refused("report", "map", "--labels", "lcm2018.tif", "--out", goal)
    for _ in range(2):  # the page of a folder may be made again
        assert run("report", "map", "--out", "map/report.html").exit_code == 0


def test_hard_links_are_the_same_file(tmp_path):
    (tmp_path / "a.tif").write_text("x")
    (tmp_path / "b.tif").hardlink_to(tmp_path / "a.tif")
    with pytest.raises(ValueError, match="is an input too"):
        check_apart(tmp_path / "b.tif", None, tmp_path / "a.tif")
    check_apart(tmp_path / "c.tif", tmp_path / "a.tif", tmp_path)


def test_labels_are_not_translated_twice(run, refused, tmp_path):
    codes = np.ones(GRID.shape, np.uint8)
    codes[:, ::2] = 2
    write_labels(tmp_path / "labels.tif", codes, GRID, load_scheme("lulucf-study"))
    write_scene(tmp_path / "scene.tif", reflectance(*GRID.shape), GRID)
    for command in (("labels", "labels.tif"), ("fit", "scene.tif", "--labels", "labels.tif")):
        line = refused(*command, "--scheme", "ukceh-lulucf", "--out", "out")
        assert "classes of the scheme 'lulucf-study'" in line and "codes of 'ukceh'" in line
    assert run("labels", "labels.tif", "--scheme", "lulucf-study", "--out", "again.tif").exit_code == 0
    write_map(tmp_path / "lcm.tif", codes)
    for scheme in ("codes", "ukceh"):  # nameless codes, and those that the table is for
        own = None if scheme == "codes" else load_scheme(scheme)
        if own is not None:
            write_labels(tmp_path / "lcm.tif", codes, GRID, own)
        assert run("labels", "lcm.tif", "--scheme", "ukceh-lulucf", "--out", f"{scheme}.tif").exit_code == 0


def test_outputs_that_exist_are_kept_unless_they_are_to_be_replaced(run, refused, tmp_path):
    """`fit` and `map` are tested with their own laws."""
    codes = np.ones(GRID.shape, np.uint8)
    codes[:, ::2] = 2
    write_labels(tmp_path / "labels.tif", codes, GRID, load_scheme("lulucf-study"))
    command = ("labels", "labels.tif", "--scheme", "lulucf-study", "--out", "out.tif", "--report", "r.json")
    assert run(*command).exit_code == 0
    before = (tmp_path / "out.tif").read_bytes()
    assert "out.tif exists already; replace it with --overwrite" in refused(*command)
    (tmp_path / "out.tif").unlink()
    assert "r.json exists already" in refused(*command)
    assert run(*command, "--overwrite").exit_code == 0
    assert (tmp_path / "out.tif").read_bytes() == before
