"""Every command takes a scene in every form: files one by one, a glob, a folder; facts once in scene.toml."""

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, reflectance, write_scene
from safe_trees import write_raster


@pytest.fixture
def folder(tmp_path):
    """Digital numbers in one file for each band, and labels elsewhere."""
    (tmp_path / "bands").mkdir()
    values = np.rint(reflectance(60, 70).clip(0.001) * 1e4).astype(np.uint16)
    for name, plane in zip(BANDS, values, strict=True):
        path = write_scene(tmp_path / "bands" / f"{name}.tif", plane[None], names=None)
        with rasterio.open(path, "r+") as dataset:
            dataset.update_tags(PROCESSING_LEVEL="")
    labels = np.kron([[1, 2]], np.ones((60, 35), np.uint8))[None].astype(np.uint8)
    write_scene(tmp_path / "labels.tif", labels, names=None)
    return tmp_path / "bands"


def test_files_glob_and_folder_give_one_map(run, folder, tmp_path):
    files = [folder / f"{name}.tif" for name in BANDS]
    forms = {"files": files, "glob": [f"{folder}/*.tif"], "folder": [folder]}
    assert run("info", folder, "--level", "L2A", "--scale", 1e-4, "--write-scene").exit_code == 0
    maps = []
    for name, sources in forms.items():
        made = run(
            "fit", *sources, "--labels", "labels.tif", "--model", "published", "--out", f"{name}.uncover"
        )
        assert made.exit_code == 0, made.output
        made = run("map", f"{name}.uncover", *sources, "--out", name)
        assert made.exit_code == 0, made.output
        with rasterio.open(tmp_path / name / "class.tif") as dataset:
            maps.append(dataset.read(1))
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2])
    assert "bands: B02, B03, B04, B08" in run("info", *files).output


def test_the_model_knows_the_scale(run, folder, tmp_path):
    stated = ("--level", "L2A", "--scale", 1e-4)
    assert (
        run(
            "fit", folder, *stated, "--labels", "labels.tif", "--model", "published", "--out", "m.uncover"
        ).exit_code
        == 0
    )
    made = run("map", "m.uncover", folder, "--level", "L2A", "--out", "map")
    assert made.exit_code == 0, made.output
    assert "those of the training data are taken, 0.0001 and 0" in made.stderr


def test_what_cannot_be_done_is_one_line(run, refused, folder):
    assert "nothing to write to" in refused("info", folder, "--write-scene")
    assert "2 scenes came; uncover info takes one" in refused("info", folder, "labels.tif")
    assert run("info", folder, "--resolution", 30).exit_code == 2
    assert "numbers without a scale" in run("info", folder).output


def test_sensor_and_date_are_stated_in_every_command(run, folder, tmp_path):
    stated = ("--level", "L2A", "--scale", 1e-4, "--sensor", "S2B", "--date", "2020-06")
    assert "platform: Sentinel-2B" in run("info", folder, *stated).output
    made = run("fit", folder, *stated, "--labels", "labels.tif", "--model", "published", "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    made = run("map", "m.uncover", folder, *stated, "--out", "map")
    assert made.exit_code == 0, made.output
    assert '"start_datetime": "2020-06-01T00:00:00Z"' in (tmp_path / "map/item.json").read_text("utf-8")
    how = ("--aod", 0.1, "--draws", 2, "--angles", 30, 5, 100)
    made = run("realise", folder, *stated, *how, "--out", "cube.zarr")
    assert made.exit_code == 0, made.output


def test_info_takes_a_stack_for_the_scene_that_scene_toml_says_it_is(run, folder, tmp_path):
    with rasterio.open(folder / "B02.tif") as file:
        profile, plane = file.profile, file.read(1)
    (tmp_path / "stack").mkdir()
    with rasterio.open(tmp_path / "stack/all.tif", "w", **profile | {"count": 3}) as file:
        file.write(np.stack([plane] * 3))
        file.descriptions = ("B02", "B03", "B04")
    assert run("info", "stack/all.tif").output.startswith("raster\n")
    (tmp_path / "stack/scene.toml").write_text('scale = 0.0001\noffset = 0\nlevel = "L2A"\n')
    made = run("info", "stack/all.tif")
    assert made.output.startswith("scene\n") and "(stated by scene.toml)" in made.output


def test_info_lists_the_codes_of_a_raster_of_labels(run, folder, tmp_path):
    codes = np.kron([[-999, 1], [2, 2]], np.ones((10, 10), np.int16)).astype(np.int16)
    write_scene(tmp_path / "codes.tif", codes[None], names=None)
    shown = run("info", "codes.tif").output
    assert "as labels it has codes" in shown
    assert "  codes\n    -999: 100\n    1: 100\n    2: 200\n" in shown
    assert "codes" not in run("info", folder / "B02.tif").output


@pytest.mark.parametrize(("sizes", "said"), [((20,), True), ((20, 60), False)])
def test_info_says_where_a_mask_has_other_pixels_than_the_map(run, tmp_path, sizes, said):
    planes = {60: np.full((1, 40, 40), 1500, np.uint16), 20: np.full((1, 120, 120), 4, np.uint8)}
    for name, metres, values in [("B04", 60, planes[60]), *(("SCL", m, planes[m] % 12) for m in sizes)]:
        path = tmp_path / "bands" / f"T11UPT_20200804T183919_{name}_{metres}m.jp2"
        write_raster(path, values, (600000, 5800020), metres, "EPSG:32611", 64)
    made = run("info", "bands")
    assert f"SCL_{max(sizes)}m.jp2" in made.output
    assert ("SCL_20m.jp2 (other pixel size: nearest neighbour)" in made.output) == said
