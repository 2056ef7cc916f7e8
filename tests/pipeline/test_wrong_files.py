"""A file in the place of another is one line that says what it is, and what is needed."""

import os

import numpy as np
import pytest

from label_maps import GRID
from map_cases import BANDS, fitted, reflectance, save_model, write_scene
from uncover import BayesianQDA
from uncover.files import reader
from uncover.labels import load_scheme
from uncover.pipeline import write_labels
from uncover.raster import Grid, SceneError
from uncover.raster.area import window_of


@pytest.fixture
def files(tmp_path, years):
    (tmp_path / "pixels.csv").write_text("B02,B03,class\n" + "1,2,x\n2,1,x\n3,5,y\n4,3,y\n" * 5)
    save_model(tmp_path / "m.uncover", fitted())
    write_scene(tmp_path / "scene.tif", reflectance(*GRID.shape), GRID)
    codes = np.ones(GRID.shape, np.uint8)
    write_labels(tmp_path / "labels.tif", codes, GRID, load_scheme("lulucf-study"))
    write_scene(tmp_path / "plain.tif", codes[None], GRID, names=None)
    (tmp_path / "S2A.SAFE").mkdir()


MODEL_FIRST = "the model comes first: uncover map MODEL SCENE"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("map scene.tif m.uncover --out map", f"scene.tif is a scene; {MODEL_FIRST}"),
        ("map S2A.SAFE m.uncover --out map --dry-run", f"S2A.SAFE is a scene; {MODEL_FIRST}"),
        ("map plain.tif m.uncover --out map", f"plain.tif is no model file; {MODEL_FIRST}"),
        ("map m.uncover pixels.csv --out map", "pixels.csv is a table of samples, not a scene; uncover map"),
        ("map m.uncover labels.tif --out map", "labels.tif is a raster of classes, not a scene"),
        ("fit m.uncover --out n.uncover", "m.uncover is a model, not a scene; uncover fit takes scenes"),
        (
            "fit labels.tif --labels scene.tif --scale 1 --out n.uncover",
            "labels.tif is a raster of classes, not a scene; uncover fit takes scenes, cubes and tables of "
            "samples; give labels by --labels",
        ),
        (
            "fit scene.tif --labels pixels.csv --out n.uncover",
            "pixels.csv is a table of samples, not a label",
        ),
        ("fit scene.tif --labels m.uncover --out n.uncover", "m.uncover is a model, not a label map"),
        ("labels scene.tif --out l.tif", "scene.tif is a scene, not a label map; give a raster of classes"),
        ("labels S2A.SAFE --out l.tif", "S2A.SAFE is a scene, not a label map"),
        ("map m.uncover scene.tif --mask . --out map", ". cannot be opened as a raster"),
        ("evaluate . --reference labels.tif --bins 2147483648 --out e", "a curve has 1000 at most"),
        (
            "labels lcm2018.tif --probability lcm2018.tif --scheme ukceh-lulucf --out l.tif",
            "--probability lcm2018.tif is the band of the classes themselves; name that of the "
            "probabilities, such as lcm2018.tif:2",
        ),
    ],
)
def test_the_line_says_what_the_file_is(refused, files, command, said):
    assert said in refused(*command.split())


@pytest.mark.parametrize(
    "command",
    [
        "map pipe.tif scene.tif --out new", "map m.uncover pipe.tif --out new",
        "map m.uncover scene.tif --mask pipe.tif --out new", "info pipe.tif", "labels pipe.tif --out new.tif",
        "fit scene.tif --labels pipe.tif --out new", "labels plain.tif --out pipe.tif --overwrite",
        "fit scene.tif --labels labels.tif --out pipe.tif --overwrite",
    ],
)  # fmt: skip
def test_a_pipe_is_no_file(refused, files, tmp_path, command):
    os.mkfifo(tmp_path / "pipe.tif")
    assert "is a pipe or a device; give a file" in refused(*command.split())


@pytest.mark.parametrize(
    "command", [["info", "b\udcff.tif"], ["map", "m.uncover", "scene.tif", "--out", "b\udcff"]]
)
def test_a_name_that_is_not_utf_8_is_refused_at_once(refused, files, tmp_path, command):
    (tmp_path / "b\udcff.tif").write_bytes((tmp_path / "scene.tif").read_bytes())
    assert r"\udcff' is not UTF-8; rename it" in refused(*command).replace(".tif", "")


def test_a_box_outside_is_shown_as_it_was_typed():
    grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=100, height=100)
    with pytest.raises(SceneError, match=r"the area \(-170, 1, -169, 2\).*--bbox-crs"):
        window_of(grid, (-170, 1, -169, 2), "EPSG:4326")


def test_missing_values_name_the_remedy(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r'contains NaN.*missing="marginalise"'):
        BayesianQDA(missing="error").fit(X, y)


def test_a_model_saved_nowhere_is_one_clear_line(tmp_path):
    model = fitted()
    assert tuple(model.feature_names_in_) == BANDS
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*gone; make it first"):
        model.save(tmp_path / "gone" / "m.uncover")


def test_a_reader_does_its_work_where_it_is_guarded():
    with pytest.raises(TypeError, match="lines yields"):

        @reader
        def lines(path):
            yield path


def test_what_a_library_says_of_a_file_gets_its_name():
    @reader
    def number(path):
        return float("x")

    with pytest.raises(ValueError, match=r"^a.csv is damaged, or not what it should be \(ValueError: could"):
        number("a.csv")
