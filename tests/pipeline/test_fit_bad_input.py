"""What cannot be fitted: one clear line, and nothing left behind."""

import numpy as np
import pytest

from command_lines import replaced
from fit_cases import safe_with_labels, table_of
from label_maps import write_map
from map_cases import grid, write_scene
from uncover import load_model
from uncover.raster import Grid, Window


def test_rows_that_lack_a_band_are_left_out_aloud(problem, run, tmp_path):
    codes, values, _ = problem
    frame = table_of(values, codes)
    frame.iloc[3, 1] = np.nan
    frame.to_csv(tmp_path / "pixels.csv", index=False)
    made = run("fit", "pixels.csv", "--out", "model.uncover")
    assert made.exit_code == 0
    assert made.stderr.splitlines() == [
        f"Warning: pixels.csv: 1 of {len(frame)} rows lack a band or a class and are left out"
    ]
    assert load_model(tmp_path / "model.uncover").class_count_.sum() == len(frame) - 1


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda f: f.rename(columns={"land_cover": "thing"}), "no column called class or label"),
        (lambda f: f[f["realisation"] < 2].drop(index=7), "every sample needs one row of each"),
        (
            lambda f: f.assign(land_cover=np.where(f["realisation"] == 1, "forest", f["land_cover"])),
            "different classes",
        ),
        (lambda f: f.assign(a="x"), "no column for band a"),
        (lambda f: f[f["land_cover"] == "forest"], "at least two"),
        (lambda f: f.iloc[:0], "has no rows"),
        (lambda f: f.assign(b=np.inf), "infinite"),
        (
            lambda f: f.assign(polygon=np.where(f.index > 2, 1.0, np.nan)),
            "rows have no value in the column 'polygon'; fill them in",
        ),
    ],
)
def test_a_faulty_table_is_refused(problem, refused, tmp_path, edit, complaint):
    codes, values, _ = problem
    frame = table_of(values, codes, realisations=True).reset_index(drop=True)
    edit(frame).to_csv(tmp_path / "pixels.csv", index=False)
    bands = ["--bands", "a,b,c,d"] if complaint != "no column for band a" else ["--bands", "a,e"]
    complaint = "no column for band e" if complaint == "no column for band a" else complaint
    assert complaint in refused("fit", "pixels.csv", *bands, "--out", "model.uncover")


def test_text_in_a_band_is_refused(problem, refused, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).assign(a="x").to_csv(tmp_path / "pixels.csv", index=False)
    line = refused("fit", "pixels.csv", "--bands", "a,b", "--out", "model.uncover")
    assert "the column 'a' does not hold numbers" in line


@pytest.mark.parametrize("name", ["pixels.parquet", "pixels.csv"])
def test_a_table_that_is_none_is_refused(refused, tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1\x00\xff\xfe broken")
    assert name in refused("fit", name, "--out", "model.uncover")


def test_a_truncated_table_is_refused(problem, refused, tmp_path, cut):
    codes, values, _ = problem
    table_of(values, codes).to_parquet(tmp_path / "pixels.parquet")
    cut(tmp_path / "pixels.parquet", 0.9)
    assert "pixels.parquet cannot be read as a table" in refused(
        "fit", "pixels.parquet", "--out", "model.uncover"
    )


def test_labels_that_do_not_meet_the_scene_are_refused(problem, refused, tmp_path):
    far = Grid("EPSG:32630", (10, 0, 700000, 0, -10, 5700000), width=60, height=45)
    write_map(tmp_path / "far.tif", problem[0], grid=far)
    line = refused("fit", "scene.tif", "--bands", "a,b,c,d", "--labels", "far.tif", "--out", "model.uncover")
    assert "far.tif does not overlap" in line


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ([], "say with --labels"),
        (["--labels", "nowhere.tif"], "nowhere.tif does not exist"),
        (["--labels", "labels.tif", "--fraction", 2], "fraction of training pixels is 2"),
        (["--labels", "labels.tif", "--count", 10**6], "1000000 training pixels are wanted"),
        (["--labels", "labels.tif", "--out", "nowhere/model.uncover"], "there is no folder"),
        (["--labels", "labels.tif", "--bbox", 10, 50, 11, 51], "lies outside"),
        (["--labels", "labels.tif", "--class-prior", -1], "class_prior must be positive"),
        (["--labels", "labels.tif", "--class-prior", "forest=1"], "--class-prior has the classes forest"),
        (["--labels", "labels.tif", "--class-prior", "forest=a,b=c"], "give forest=0.6,water=0.4"),
    ],
)
def test_other_bad_input_is_refused(problem, refused, more, complaint):
    given = replaced("--bands", "a,b,c,d", "--scheme", "lulucf", "--out", "model.uncover", *more)
    assert complaint in refused("fit", "scene.tif", *given)


def test_scenes_with_different_bands_or_given_twice_are_refused(problem, refused, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).to_csv(tmp_path / "one.csv", index=False)
    table_of(values, codes).drop(columns="d").to_csv(tmp_path / "two.csv", index=False)
    assert "no column for band d" in refused("fit", "one.csv", "two.csv", "--out", "model.uncover")
    assert "one.csv is given twice" in refused("fit", "one.csv", "one.csv", "--out", "model.uncover")


def test_tiles_of_one_datatake_are_two_scenes(run, refused, tmp_path):
    """Both have its identity, and they show two places; the same place is given twice."""
    values, codes = np.random.default_rng(0).uniform(0, 0.3, (4, 20, 40)), np.ones((20, 40), np.uint8)
    codes[:, ::2] = 3
    whole = grid(20, 40)
    write_map(tmp_path / "labels.tif", codes, grid=whole)
    for name, col in (("west", 0), ("east", 20)):
        part = Window(0, col, 20, 20)
        write_scene(tmp_path / f"{name}.tif", values[:, :, col : col + 20].astype("f4"), whole.crop(part))
    words = ["--labels", "labels.tif", "--model", "published", "--scene-id", "GS2A_1", "--out", "m.uncover"]
    made = run("fit", "west.tif", "east.tif", *words)
    assert made.exit_code == 0, made.output
    assert sum(load_model(tmp_path / "m.uncover").class_count_) == codes.size
    assert "GS2A_1 is given twice" in refused("fit", "west.tif", "west.tif", *words, "--overwrite")


def test_a_code_is_a_class_or_ignored(problem, refused):
    line = refused(
        "fit", "scene.tif", "--bands", "a,b,c,d", "--labels", "labels.tif", "--out", "model.uncover",
        "--classes", "1=forest,3=grass", "--ignore", "03,4",
    )  # fmt: skip
    assert "--classes and --ignore both name 3; a value is a class or is ignored" in line


def test_draws_that_differ_in_number_are_refused(problem, refused, tmp_path):
    codes, values, _ = problem
    table_of(values, codes).to_csv(tmp_path / "one.csv", index=False)
    table_of(values, codes, realisations=True).to_csv(tmp_path / "three.csv", index=False)
    line = refused("fit", "one.csv", "three.csv", "--realisations", "draws", "--out", "model.uncover")
    assert "the samples have 1 and 3 realisations" in line


def test_a_class_under_clouds_is_named(refused, tmp_path):
    tree, _, clear = safe_with_labels(tmp_path)
    codes = np.where(clear, 1, 3).astype(np.uint8)
    grid = Grid(tree.crs, (10, 0, tree.origin[0], 0, -10, tree.origin[1]), tree.size, tree.size)
    write_map(tmp_path / "hidden.tif", codes, grid=grid)
    line = refused(
        "fit", "--model", "published", tree.path, "--labels", "hidden.tif", "--scheme", "ukceh-lulucf",
        "--out", "model.uncover",
    )  # fmt: skip
    assert "class 'cropland' has 3600 labelled pixels and none of them is usable" in line


@pytest.mark.parametrize("share", [0.97, 0.5])
def test_a_truncated_band_is_refused_and_no_model_is_left(refused, tmp_path, cut, share):
    tree, maps, _ = safe_with_labels(tmp_path)
    cut(tree.band_file("B04"), share)
    line = refused(
        "fit", tree.path, "--labels", maps[0], "--scheme", "ukceh-lulucf", "--out", "model.uncover"
    )
    assert "B04" in line


def test_a_product_without_a_band_that_was_asked_for_is_refused(refused, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path)
    tree.band_file("B11").unlink()
    labels = ("--labels", maps[0], "--scheme", "ukceh-lulucf")
    line = refused("fit", tree.path, *labels, "--bands", "B04,B11", "--out", "model.uncover")
    assert "B11" in line


def test_a_product_of_an_unknown_baseline_is_refused(refused, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path)
    tree.edit(r"<PROCESSING_BASELINE>[\d.]+<", "<PROCESSING_BASELINE>unknown<")
    line = refused(
        "fit", tree.path, "--labels", maps[0], "--scheme", "ukceh-lulucf", "--out", "model.uncover"
    )
    assert "'unknown'" in line and "--offset -0.1" in line


def test_an_area_outside_the_scene_is_refused(refused, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path)
    line = refused(
        "fit", tree.path, "--labels", maps[0], "--scheme", "ukceh-lulucf", "--bbox", 10, 10, 11, 11,
        "--out", "model.uncover",
    )  # fmt: skip
    assert "lies outside the scene" in line
