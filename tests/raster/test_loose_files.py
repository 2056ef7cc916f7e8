"""Scenes from loose files: folders, globs, lists, NumPy arrays, and what their names and scene.toml state."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner
from rasterio.transform import from_origin

from safe_trees import shared, write_raster
from uncover.cli import main
from uncover.pipeline import RealiseOptions, realise_scene
from uncover.raster import Quality, SceneError, SceneOptions, Window, open_scene
from uncover.raster.align import RasterBand
from uncover.raster.loose_files import gathered
from uncover.raster.names import same_datatake
from uncover.raster.opening import grid_of, write_scene_file
from uncover.raster.scene_file import StatedFacts
from uncover.raster.tiles import TileCache

ORIGIN, CRS = (600000, 5800020), "EPSG:32611"
NAME = "T11UPT_20200804T183919_{}_{}m.jp2"


def band(folder: Path, name: str, value: int, metres: float = 60, size: int = 40, **other) -> Path:
    planes = np.full((1, size, size), value, np.uint16)
    planes[0, :4] = 300  # dark enough for an offset of 0
    place = {"origin": ORIGIN, "crs": CRS} | other
    write_raster(folder / name, planes, place["origin"], metres, place["crs"], 64)
    return folder / name


@pytest.fixture
def product_files(tmp_path):
    """Files of a Level-2A product, without anything of the product around them."""
    for i, name in enumerate(("B01", "B02", "B04", "B11")):
        band(tmp_path, NAME.format(name, 60), 1000 + i)
    band(tmp_path, NAME.format("B02", 20), 1500, metres=20, size=120)
    band(tmp_path, NAME.format("SCL", 60), 9)
    band(tmp_path, NAME.format("AOT", 60), 120)
    return tmp_path


def test_a_folder_of_band_files_is_a_scene(product_files):
    scene = open_scene(product_files)
    assert scene.bands == ("B02", "B04", "B11")
    assert (scene.identity, scene.level) == ("T11UPT_20200804T183919", "L2A")
    assert f"{scene.sensing_time:%Y-%m-%d %H:%M:%S}" == "2020-08-04 18:39:19"
    assert scene.grid.resolution == (20, 20)
    found = scene.read()
    assert found.reflectance[0, 60, 60] == pytest.approx(0.15)
    assert found.reflectance[2, 60, 60] == pytest.approx(0.1003)
    assert (found.quality[20:, :] == 4).all()  # SCL 9 is cloud
    assert scene.mean_aot() == pytest.approx((36 * 120 + 4 * 300) / 40 * 1e-3)


@pytest.mark.parametrize(
    ("names", "identity"),
    [
        ("2020-08-04-00:00_Sentinel-2_L2A_{}_(Raw).tiff", "2020-08-04-00:00_Sentinel-2_L2A_(Raw)"),
        ("T11UPT_20200804T183919_{}_60m.tif", "T11UPT_20200804T183919"),
        ("{}.TIF", "B02"),
    ],
)
def test_a_scene_is_called_as_its_files_are_but_for_their_bands(tmp_path, names, identity):
    for name in ("B02", "B04"):
        band(tmp_path, names.format(name), 1000)
    assert open_scene(tmp_path, SceneOptions(scale=1e-4)).identity == identity
    assert open_scene(tmp_path, SceneOptions(scale=1e-4, scene_id="mine")).identity == "mine"


def test_an_empty_file_is_called_empty(tmp_path):
    (tmp_path / "B02.tif").touch()
    with pytest.raises(SceneError, match=r"B02.tif is empty, 0 bytes; fetch it again"):
        open_scene(tmp_path / "B02.tif")


def test_a_pixel_size_can_be_asked_for(product_files):
    scene = open_scene(product_files, SceneOptions(resolution=60))
    assert scene.grid.resolution == (60, 60)
    assert scene.read().reflectance[0, 30, 30] == pytest.approx(0.1001)


def test_a_glob_a_list_and_a_folder_are_the_same_scene(product_files):
    names = sorted(str(path) for path in product_files.glob("*_60m.jp2"))
    by_list, by_glob = open_scene(names), open_scene(f"{product_files}/*_60m.jp2")
    folder = open_scene(product_files, SceneOptions(resolution=60, bands=("B01", "B02", "B04", "B11")))
    for scene in (by_list, by_glob):
        assert scene.bands == folder.bands
        np.testing.assert_array_equal(scene.read().reflectance, folder.read().reflectance)
    with pytest.raises(SceneError, match=r"no file matches .*nothing"):
        open_scene(f"{product_files}/nothing*")


def test_short_names_and_other_kinds_of_files(tmp_path):
    for name in ("B2.tif", "b03.tif", "scene_B8A.tif"):
        band(tmp_path, name, 2000)
    band(tmp_path, "mask.tif", 1)
    assert open_scene(tmp_path, SceneOptions(scale=1e-4, offset=0)).bands == ("B02", "B03", "B8A")


def test_a_vrt_is_a_scene(tmp_path):
    band(tmp_path, "B02.tif", 2000)
    (tmp_path / "stack.vrt").write_text(
        f'<VRTDataset rasterXSize="40" rasterYSize="40"><SRS>{CRS}</SRS>'
        f"<GeoTransform>{ORIGIN[0]}, 60, 0, {ORIGIN[1]}, 0, -60</GeoTransform>"
        '<VRTRasterBand dataType="UInt16" band="1"><Description>B02</Description><Scale>0.0001</Scale>'
        '<SimpleSource><SourceFilename relativeToVRT="1">B02.tif</SourceFilename></SimpleSource>'
        "</VRTRasterBand></VRTDataset>"
    )
    scene = open_scene(tmp_path / "stack.vrt")
    assert scene.read().reflectance[0, 20, 20] == pytest.approx(0.2)


def test_names_with_a_date_since_the_offset_have_it(tmp_path):
    band(tmp_path, "T29UNU_20221005T115411_B02_60m.jp2", 2000)
    assert open_scene(tmp_path).read().reflectance[0, 20, 20] == pytest.approx(0.1)


def test_several_names_make_one_scene_for_each_date(tmp_path):
    files = [f"{year}/T11UPT_{year}0804T183919_{b}.jp2" for year in (2019, 2020) for b in ("B02", "B03")]
    assert gathered(files) == [tuple(files[:2]), tuple(files[2:])]
    assert gathered(["a.SAFE", "b.tif"]) == ["a.SAFE", "b.tif"]
    assert gathered(["a_B02.tif", "b_B02.tif"]) == ["a_B02.tif", "b_B02.tif"]


def test_the_scene_toml_of_another_scene_is_not_overwritten(tmp_path):
    one, other = (band(tmp_path, name, 2000) for name in ("a.tif", "b.tif"))
    written = write_scene_file(one, SceneOptions(scale=1e-4, level="L2A", scene_id='with "quotes"'))
    assert open_scene(one).identity == 'with "quotes"'
    with pytest.raises(SceneError, match="is about another scene"):
        write_scene_file(other, SceneOptions(scale=1e-3))
    write_scene_file(one, SceneOptions(date="2020-08-04"))
    assert open_scene(one).date == "2020-08-04"
    assert open_scene(one).level == "L2A"
    assert written == tmp_path / "scene.toml"


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("x_20200804_B02.tif", "x_20200814_B02.tif"), "holds band files of 2 dates .2020-08-04, 2020-08-14"),
        (("B02.tif", "b2.tiff"), "holds band B02 twice"),
        (("T11UPT_B02.tif", "T11UPU_B03.tif"), "holds the tiles T11UPT, T11UPU"),
        (("landcover.tif",), "is no scene: .*rasters: landcover.tif"),
        ((), "is no scene: .*rasters: none"),
    ],
)
def test_a_folder_that_is_no_scene_is_one_line(tmp_path, names, complaint):
    for name in names:
        band(tmp_path, name, 2000)
    with pytest.raises(SceneError, match=complaint) as error:
        open_scene(tmp_path, SceneOptions(scale=1e-4, offset=0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("other", [{"crs": "EPSG:32612"}, {"origin": (606000, 5800020)}])
def test_bands_of_different_grids_are_refused(tmp_path, other):
    band(tmp_path, "B02.tif", 2000)
    band(tmp_path, "B03.tif", 2000, **other)
    with pytest.raises(SceneError, match=r"B03.tif lies on another grid than B02.tif"):
        open_scene(tmp_path, SceneOptions(scale=1e-4, offset=0))


def test_the_grid_of_a_folder_needs_no_scale(tmp_path):
    band(tmp_path, "B02.tif", 2000)
    assert grid_of(tmp_path).resolution == (60, 60)


STATED = 'level = "L2A"\nsensor = "S2B"\ndate = 2020-08-04\nangles = [40, 5, 100]\nscale = 0.0001\n'


def test_scene_toml_states_what_the_data_do_not(tmp_path):
    band(tmp_path, "B02.tif", 2000)
    (tmp_path / "scene.toml").write_text(STATED)
    for source in (tmp_path, tmp_path / "B02.tif"):
        scene = open_scene(source)
        assert (scene.level, scene.platform, scene.date) == ("L2A", "Sentinel-2B", "2020-08-04")
        assert scene.read().reflectance[0, 20, 20] == pytest.approx(0.2)
        assert scene.angles().sun_zenith[0, 0] == pytest.approx(40)
        assert scene.angles().relative_azimuth[0, 0] == pytest.approx(100)
    # What the user says at once comes before it.
    assert open_scene(tmp_path, SceneOptions(scale=2e-4)).read().reflectance[0, 20, 20] == pytest.approx(0.4)


def test_a_scale_of_nothing_is_refused(tmp_path):
    (tmp_path / "scene.toml").write_text("scale = 0\n")
    with pytest.raises(SceneError, match="scale is 0"):
        StatedFacts.beside(tmp_path / "scene.tif")


def test_scene_toml_names_the_bands_of_a_stack(tmp_path):
    write_raster(tmp_path / "a.tif", np.full((3, 9, 9), 0.2, np.float32), ORIGIN, 60, CRS, 64)
    (tmp_path / "scene.toml").write_text('bands = ["B2", "B3", "B4"]\n')
    assert open_scene(tmp_path / "a.tif").bands == ("B02", "B03", "B04")
    assert open_scene(tmp_path / "a.tif", SceneOptions(bands=("B04",))).bands == ("B04",)


@pytest.mark.parametrize("kind", ["stack", "folder"])
def test_scene_toml_chooses_among_bands_that_have_names(tmp_path, kind):
    for i, name in enumerate(("B02", "B03", "B04")):
        band(tmp_path, f"{name}.tif", 1000 * (i + 1))
    source = tmp_path
    if kind == "stack":
        source = tmp_path / "stack.tif"
        write_raster(
            source,
            np.stack([np.full((40, 40), v, np.uint16) for v in (1000, 2000, 3000)]),
            ORIGIN,
            60,
            CRS,
            64,
        )
        with rasterio.open(source, "r+") as dataset:
            dataset.descriptions = ("B02", "B03", "B04")
    (tmp_path / "scene.toml").write_text('scale = 0.0001\noffset = 0\nbands = ["B4", "B2"]\n')
    scene = open_scene(source)
    assert scene.bands == ("B04", "B02")
    assert scene.read().reflectance[:, 20, 20] == pytest.approx([0.3, 0.1])
    assert open_scene(source, SceneOptions(bands=("B03",))).bands == ("B03",)
    (tmp_path / "scene.toml").write_text('scale = 0.0001\noffset = 0\nbands = ["B4", "B12"]\n')
    said = r"states bands = B4, B12, and the metadata of scene \w+ B02, B03, B04: the metadata are taken"
    with pytest.warns(UserWarning, match=said):
        assert open_scene(source).bands == ("B02", "B03", "B04")


def test_nodata_of_metadata_wins_over_scene_toml(tmp_path):
    place = {"driver": "GTiff", "width": 4, "height": 4, "count": 1, "dtype": "float32", "crs": CRS}
    for name, nodata in (("silent.tif", None), ("stated.tif", -1.0)):
        with rasterio.open(
            tmp_path / name, "w", nodata=nodata, transform=from_origin(*ORIGIN, 60, 60), **place
        ) as file:
            file.write(np.tile(np.array([[-1.0, -9.0, 0.2, 0.3]], np.float32), (4, 1))[None])
    (tmp_path / "scene.toml").write_text("nodata = -9\n")
    known = np.isfinite(open_scene(tmp_path / "silent.tif").read().reflectance[0, 0])
    assert known.tolist() == [True, False, True, True]
    with pytest.warns(UserWarning, match="states nodata = -9, and the metadata of scene stated -1"):
        known = np.isfinite(open_scene(tmp_path / "stated.tif").read().reflectance[0, 0])
    assert known.tolist() == [False, True, True, True]


def test_what_is_written_to_scene_toml_is_checked_first(product_files, tmp_path):
    for wrong, complaint in (
        (SceneOptions(date="2020-02-30"), "--date 2020-02-30 is no date"),
        (SceneOptions(date="yesterday"), "--date yesterday is no date"),
        (SceneOptions(angles=(-30, 5, 100)), "angles -30, 5, 100: zenith angles go from 0 to 90 degrees"),
        (SceneOptions(level="L1C"), "has the level L2A by its metadata and --level L1C came"),
        (SceneOptions(bands=("B02", "B12")), "has no band B12"),
    ):
        with pytest.raises(SceneError, match=complaint):
            write_scene_file(product_files, wrong)
        assert not (product_files / "scene.toml").exists()
    write_scene_file(product_files, SceneOptions(bands=("B04", "B02"), date="2020-08-04"))
    assert open_scene(product_files).bands == ("B04", "B02")


def test_the_mask_of_the_pixel_size_that_is_mapped_is_taken(product_files):
    """SCL of 20 m says cloud, that of 60 m snow; a map of 60 m takes its own."""
    band(product_files, NAME.format("SCL", 20), 9, metres=20, size=120)
    band(product_files, NAME.format("SCL", 60), 11)
    assert (open_scene(product_files).read().quality[100:] == Quality.CLOUD).all()  # 20 m, because of B02
    scene = open_scene(product_files, SceneOptions(bands=("B04", "B11")))
    assert scene.grid.resolution == (60, 60)
    assert (scene.read().quality[20:] == Quality.SNOW).all()


def test_the_day_of_a_file_is_in_its_name_where_nothing_else_states_it(tmp_path):
    """An option wins, then scene.toml; the worlds do not depend on the day: they are of the content."""
    days = {"s_2015-08-30.tif": "2015-08-30", "s_20200804T183919.tif": "2020-08-04T18:39:19Z", "s.tif": None}
    worlds = set()
    for name, day in days.items():
        path = band(tmp_path, name, 2000)
        scene = open_scene(path, SceneOptions(level="L1C", sensor="S2A", bands=("B02",), scale=1e-4))
        assert (scene.date, scene.sensing_time is None) == (day, "T" not in name)
        assert scene.dated_by == ("metadata" if day is None else "the name of the file")
        assert open_scene(path, SceneOptions(date="2016-01-01", scale=1e-4)).date == "2016-01-01"
        assert open_scene(path, SceneOptions(date="2016-01-01", scale=1e-4)).dated_by == "metadata"
        made = realise_scene(scene, RealiseOptions(aod=0.1, draws=3, angles=(40.0, 5.0, 100.0)))
        worlds.add(made.read(Window(0, 0, 2, 2)).values.tobytes())
    assert len(worlds) == 1
    (tmp_path / "scene.toml").write_text("date = 2014-01-01\n")
    assert open_scene(tmp_path / "s_2015-08-30.tif", SceneOptions(scale=1e-4)).date == "2014-01-01"


def test_scene_toml_of_another_file_says_nothing(tmp_path):
    band(tmp_path, "B02.tif", 2000)
    band(tmp_path, "B03.tif", 2000)
    (tmp_path / "scene.toml").write_text('source = "B03.tif"\nscale = 0.0001\n')
    with pytest.raises(SceneError, match="without a scale"):
        open_scene(tmp_path / "B02.tif")


def test_a_scene_toml_of_a_file_that_is_not_there_says_so(tmp_path):
    path = band(tmp_path, "B02.tif", 2000)
    (tmp_path / "scene.toml").write_text('source = "b02.tif"\nlevel = "L2A"\n')
    with pytest.warns(UserWarning, match=r"source = 'b02.tif', and no such file is beside it.*correct the"):
        assert open_scene(path, SceneOptions(scale=1e-4)).level is None
    shown = CliRunner().invoke(main, ["info", str(path), "--scale", "0.0001"])
    assert shown.exit_code == 0 and shown.stderr.count("no such file is beside it") == 1


def test_metadata_win_over_scene_toml_and_it_says_so(product_files):
    (product_files / "scene.toml").write_text('level = "L1C"\ndate = "2019-01-01"\nsensor = "S2B"\n')
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        scene = open_scene(product_files)
    assert (scene.level, scene.sensing_time.year, scene.platform) == ("L2A", 2020, "Sentinel-2B")
    lines = sorted(str(each.message) for each in said)
    assert len(lines) == 2
    assert "states date = 2019-01-01, and the metadata of scene T11UPT_20200804T183919 2020" in lines[0]
    assert "states level = L1C" in lines[1]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("levels = 1", "has the key 'levels'; it may have source, level"),
        ("level = [", "is not a readable TOML file"),
        ('level = "L3"', "level is L1C or L2A"),
        ("angles = [1, 2]", "angles are three"),
        ('offset = "-0.1"', 'offset = "-0.1" is not a number without quotes; write it so'),
        ("level = 2", "level = 2 is not a text in quotes"),
        ('angles = ["a", 1, 2]', "angles are three: sun zenith"),
        ("bands = 3", r'bands = 3 is not a list of names, such as \["B02", "B03"\]'),
        ('date = "2020-13-01"', r"scene.toml: date 2020-13-01 is no date; give 2020-06-01"),
        ('date = "2020-06/2019"', "date 2020-06/2019 ends before it begins"),
    ],
)
def test_a_wrong_scene_toml_is_one_line(tmp_path, text, complaint):
    band(tmp_path, "B02.tif", 2000)
    (tmp_path / "scene.toml").write_text(text)
    with pytest.raises(SceneError, match=complaint):
        open_scene(tmp_path)


def test_numpy_arrays_are_scenes(tmp_path):
    values = np.random.default_rng(0).uniform(0, 0.4, (2, 7, 9, 13)).astype(np.float32)
    np.save(tmp_path / "dates.npy", values)
    scene, other = (open_scene(f"{tmp_path}/dates.npy:{date}") for date in (1, 2))
    assert scene.bands[7:9] == ("B08", "B8A")
    np.testing.assert_array_equal(other.read().reflectance, np.moveaxis(values[1], 2, 0))
    assert scene.source_id != other.source_id
    np.save(tmp_path / "plain.npy", values[0, :, :, :3])
    assert open_scene(tmp_path / "plain.npy").grid.shape == (7, 9)


@pytest.mark.parametrize("kind", ["?", "i1", "u2", ">i4", "i8", "u8", "f4", ">f8"])
def test_numbers_of_every_kind_are_read(tmp_path, kind):
    """Labels that NumPy made are int64 unless somebody says otherwise."""
    values = (np.arange(63).reshape(7, 9) % 2).astype(kind)
    np.save(tmp_path / "a.npy", values)
    layer = RasterBand.open(tmp_path / "a.npy")
    found, known = layer.read(layer.info.grid, layer.info.grid.window, TileCache())
    np.testing.assert_array_equal(found, values)
    assert known.all()


@pytest.mark.parametrize(
    ("name", "array", "complaint"),
    [
        ("a.npy", np.zeros((2, 3, 4, 5), np.float32), "has 2 dates; choose one"),
        ("a.npy:3", np.zeros((2, 3, 4, 5), np.float32), "date 3 was asked for"),
        ("a.npy", np.zeros(5), "is an array of shape"),
        ("a.npy", np.zeros((3, 4), complex), "type complex128"),
    ],
)
def test_arrays_that_are_no_scene(tmp_path, name, array, complaint):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(SceneError, match=complaint):
        open_scene(f"{tmp_path}/{name}")


def test_band_files_of_a_real_product_are_the_product(tmp_path):
    """The files of a real Level-2A tile, by their names alone and by the product's metadata."""
    (product,) = shared("safe_l2a_real").glob("*.SAFE")
    for file in product.glob("GRANULE/*/IMG_DATA/R60m/*"):
        (tmp_path / file.name).symlink_to(file)
    loose = open_scene(tmp_path)
    with pytest.warns(UserWarning, match="has no image of B03, B05, B06, B07, B08, B12"):
        whole = open_scene(product)
    assert (loose.bands, loose.level) == (whole.bands, whole.level)
    assert same_datatake(loose.source_id, whole.source_id)  # the datatake of one is in the names of the other
    for scene in (loose, whole):  # SCL is there at 20 m too
        sources = [scene.masks[0].source, scene.water_vapour_layer.source]
        assert all(source.grid == whole.grid for source in sources)
    assert loose.aot_layer.source.grid == whole.grid
    assert whole.aot_layer.source.grid.resolution == (20.0, 20.0)  # its mean is what the metadata state
    window = type(whole.grid.window)(600, 1200, 64, 64)
    np.testing.assert_allclose(
        loose.read(window).reflectance, whole.read(window).reflectance, atol=1e-6, equal_nan=True
    )
