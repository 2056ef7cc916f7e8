"""Heights and masks on a scene: of the right place, in any geometry, and refused where they cannot be."""

import geometries
import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from uncover.cli import main
from uncover.pipeline import FitOptions, RealiseOptions, fit_model, open_labels, realise_scene
from uncover.raster import Quality, SceneError, SceneOptions, Window, open_scene
from uncover.raster.quality import mask_values
from uncover.raster.tiles import TileCache
from uncover.studies.landscape import LandscapeOptions, write_scene

CELL = 128


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("embedded"), LandscapeOptions(size=200))


@pytest.fixture(scope="module")
def product(files):
    return files.product(2020)


def heights(scene, dem, cell=(0, 0)):
    realised = realise_scene(scene, RealiseOptions(aod=0.12, draws=1, dem=str(dem)))
    return realised._geometry(cell[0], [cell[1]]).altitude.item()


def expected(scene, function, cell=(0, 0)):
    """Mean of a function over the pixel centres of a cell of 128 pixels of 10 m, in km."""
    grid = scene.grid
    rows, cols = np.indices((CELL, CELL)) + 0.5
    rows, cols = rows + CELL * cell[0], cols + CELL * cell[1]
    inside = (rows < 200) & (cols < 200)
    x, y = grid.transform[2] + 10 * cols[inside], grid.transform[5] - 10 * rows[inside]
    return function(x, y).mean() / 1000


@pytest.fixture
def ground(product):
    """A slope whose heights stay between the bounds on this scene."""
    left, bottom, _, _ = open_scene(product).grid.bounds
    return lambda x, y: 200.0 + 0.75 * (x - left) + 0.375 * (y - bottom)


@pytest.mark.parametrize("bands", [("B02", "B05"), ("B05", "B02"), ("B05", "B8A")])
@pytest.mark.parametrize("kind", geometries.KINDS)
def test_heights_are_those_of_the_place(product, tmp_path, ground, bands, kind):
    scene = open_scene(product, SceneOptions(bands=bands))
    dem = geometries.write(tmp_path / "dem.tif", kind, open_scene(product).grid, ground, "float32")
    ten = open_scene(product)
    for cell in ((0, 0), (1, 1)) if "B02" in bands else ((0, 0),):
        want = expected(ten, ground, cell)
        if "B02" not in bands:  # a cell of 128 pixels of 20 m is all of this scene
            rows, cols = np.indices((100, 100)) + 0.5
            x, y = scene.grid.transform[2] + 20 * cols, scene.grid.transform[5] - 20 * rows
            want = ground(x, y).mean() / 1000
        # Nearest neighbour in pixels of up to 60 m on this slope: half a pixel is 25 m at most.
        exact = kind == "same" and "B02" in bands
        assert heights(scene, dem, cell) == pytest.approx(want, abs=1e-6 if exact else 0.006)


def test_a_crop_has_the_heights_of_the_whole(product, tmp_path, ground):
    scene = open_scene(product, SceneOptions(bands=("B05", "B02")))
    dem = geometries.write(tmp_path / "dem.tif", "size", scene.grid, ground, "float32")
    options = RealiseOptions(aod=0.12, draws=2, dem=str(dem))
    whole = realise_scene(scene, options).read().values
    part = Window(140, 131, 50, 60)
    cut = realise_scene(scene.crop(part), options).read().values
    np.testing.assert_allclose(cut, whole[:, :, *part.slices], atol=2e-5)


def test_the_first_band_has_no_influence_on_the_others(product, tmp_path, ground):
    dem = geometries.write(tmp_path / "dem.tif", "size", open_scene(product).grid, ground, "float32")
    made = {}
    for bands in (("B02", "B05"), ("B05", "B02")):
        scene = open_scene(product, SceneOptions(bands=bands))
        worlds = realise_scene(scene, RealiseOptions(aod=0.12, draws=1, dem=str(dem))).read().values
        made[bands[0]] = worlds[0, bands.index("B02")]
    np.testing.assert_array_equal(made["B02"], made["B05"])


def test_land_below_the_sea_is_as_low_as_it_is(product, tmp_path):
    scene = open_scene(product)
    dem = geometries.write(tmp_path / "dem.tif", "same", scene.grid, lambda x, y: 0 * x - 430.0, "int16")
    assert heights(scene, dem) == pytest.approx(-0.43)


@pytest.mark.parametrize(
    ("value", "words"),
    [(-32768, "from -32768 to 120"), (-600, "from -600 to 120"), (29000, "from 120 to 29000")],
)
def test_voids_and_feet_are_refused(product, tmp_path, value, words):
    scene = open_scene(product)

    def ground(x, y):
        return np.where(x < scene.grid.bounds[0] + 100, value, 120.0)

    dem = geometries.write(tmp_path / "dem.tif", "same", scene.grid, ground, "int16")
    made = CliRunner().invoke(
        main, ["realise", str(product), "--aod", "0.1", "--dem", str(dem), "--out", str(tmp_path / "c.zarr")]
    )
    assert made.exit_code == 1
    (line,) = made.stderr.splitlines()
    assert words in line and "set the nodata of its voids, convert feet to metres" in line


def test_declared_voids_are_left_out(product, tmp_path):
    scene = open_scene(product)

    def ground(x, y):
        return np.where(x < scene.grid.bounds[0] + 100, -32768, 120.0)

    dem = geometries.write(tmp_path / "dem.tif", "same", scene.grid, ground, "int16", nodata=-32768)
    with pytest.warns(UserWarning, match="has heights on about 95% of the scene"):  # 190 of 200 columns
        assert heights(scene, dem) == pytest.approx(0.12)


def blob(grid):
    left, _, _, top = grid.bounds
    return lambda x, y: ((x - left - 900) ** 2 + (y - top + 700) ** 2 < 500**2).astype(float)


@pytest.mark.parametrize("kind", geometries.KINDS)
def test_a_mask_in_any_geometry_blanks_what_it_covers(product, tmp_path, kind):
    plain = open_scene(product)
    mask = geometries.write(tmp_path / "mask.tif", kind, plain.grid, blob(plain.grid), "uint8")
    inside = geometries.at_centres(mask, plain.grid) != 0
    assert 5000 < inside.sum() < 12000
    block, before = open_scene(product, SceneOptions(mask=mask)).read(), plain.read()
    np.testing.assert_array_equal(block.quality & np.uint16(Quality.MASKED) != 0, inside)
    assert not block.valid[inside].any()
    np.testing.assert_array_equal(block.reflectance[:, ~inside], before.reflectance[:, ~inside])


@pytest.mark.filterwarnings("ignore:the model is too sure")  # few fields, and not the subject here
def test_masked_pixels_have_no_class_and_train_nothing(files, product, tmp_path):
    scene = open_scene(product)
    mask = geometries.write(tmp_path / "mask.tif", "same", scene.grid, blob(scene.grid), "uint8")
    inside = geometries.at_centres(mask, scene.grid) != 0
    options = FitOptions(model="published", labels=files.truth(2020), scene=SceneOptions(mask=mask))
    training = fit_model([product], options)
    with rasterio.open(files.truth(2020)) as source:
        truth = source.read(1)
    assert training.model.class_count_.sum() == ((truth > 0) & ~inside).sum()
    training.save(tmp_path / "m.uncover")
    words = ["map", tmp_path / "m.uncover", product, "--mask", mask, "--out", tmp_path / "map"]
    made = CliRunner().invoke(main, [str(word) for word in words])
    assert made.exit_code == 0, made.output
    with rasterio.open(tmp_path / "map" / "class.tif") as source:
        np.testing.assert_array_equal(source.read(1) == 0, inside)


@pytest.mark.filterwarnings("ignore:the model is too sure")
@pytest.mark.parametrize("command", ["fit", "map", "realise"])
def test_a_mask_that_lies_elsewhere_is_refused(files, product, tmp_path, command):
    scene = open_scene(product)
    far = scene.grid.crop(Window(0, 0, 50, 50))
    mask = geometries.write(tmp_path / "mask.tif", "same", far, blob(far), "uint8")
    with rasterio.open(mask, "r+") as file:
        file.transform = file.transform @ rasterio.Affine.translation(1000, 0)
    fit_model([product], FitOptions(model="published", labels=files.truth(2020))).save(tmp_path / "m.uncover")
    words = {
        "fit": ["fit", product, "--labels", files.truth(2020), "--out", "again.uncover"],
        "map": ["map", tmp_path / "m.uncover", product, "--out", tmp_path / "map"],
        "realise": ["realise", product, "--aod", 0.1, "--out", tmp_path / "c.zarr"],
    }[command]
    made = CliRunner().invoke(main, [str(word) for word in (*words, "--mask", mask)])
    assert made.exit_code == 1
    (line,) = made.stderr.splitlines()
    assert "does not overlap the scene" in line and "give a mask of the same place" in line


def test_a_mask_of_a_part_says_so(product, tmp_path):
    scene = open_scene(product)
    part = scene.grid.crop(Window(0, 0, 100, 200))
    mask = geometries.write(tmp_path / "mask.tif", "same", part, blob(part), "uint8")
    with pytest.warns(UserWarning, match=r"covers about 50% of the scene; the rest of it is not masked"):
        open_scene(product, SceneOptions(mask=mask))
    cut = SceneOptions(mask=mask, bbox=part.bounds, bbox_crs=part.crs)
    assert open_scene(product, cut).grid.shape == (100, 200)  # all of what is left is covered


@pytest.mark.parametrize("kind", geometries.KINDS)
def test_labels_in_any_geometry(product, tmp_path, kind):
    grid = open_scene(product).grid
    file = geometries.write(
        tmp_path / "labels.tif", kind, grid, lambda x, y: 1 + (x // 300 + y // 400) % 3, "uint8", nodata=0
    )
    found = open_labels(file).on(grid).labels(grid.window, TileCache(1 << 26))
    np.testing.assert_array_equal(found, geometries.at_centres(file, grid))


def test_an_elevation_model_of_another_place_is_refused(product, tmp_path):
    scene = open_scene(product)
    dem = geometries.write(tmp_path / "dem.tif", "same", scene.grid, lambda x, y: 0 * x + 100, "int16")
    with rasterio.open(dem, "r+") as file:
        file.transform = file.transform @ rasterio.Affine.translation(0, 5000)
    with pytest.raises(SceneError, match="does not overlap the scene"):
        heights(scene, dem)


def raster(path, scene, values):
    grid = scene.grid
    step = rasterio.Affine(*grid.transform)
    shape = {"count": values.shape[0], "height": values.shape[1], "width": values.shape[2]}
    with rasterio.open(
        path, "w", driver="GTiff", dtype=values.dtype, crs=grid.crs, transform=step, **shape
    ) as out:
        out.write(values)
    return path


def test_a_mask_has_one_band(product, tmp_path):
    scene = open_scene(product)
    path = raster(tmp_path / "two.tif", scene, np.zeros((2, 200, 200), np.uint8))
    with pytest.raises(SceneError, match=r"has 2 bands; a mask is one: say which with --mask .*two\.tif:1"):
        open_scene(product, SceneOptions(mask=path))
    assert open_scene(product, SceneOptions(mask=f"{path}:2")).grid == scene.grid


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_a_mask_of_everything_leaves_nothing(product, tmp_path, value):
    scene = open_scene(product)
    path = raster(tmp_path / "mask.tif", scene, np.full((1, 200, 200), value, np.float32))
    assert not open_scene(product, SceneOptions(mask=path)).read().valid.any()


def test_a_scene_classification_is_no_mask_unless_its_codes_are_named(product, tmp_path):
    """All that is not 0 would blank the scene: refused, with the options that settle it."""
    scene = open_scene(product)
    codes = np.random.default_rng(0).choice([2, 4, 5, 6, 3, 8, 9, 10], (1, 200, 200)).astype(np.uint8)
    path = raster(tmp_path / "classes.tif", scene, codes)
    with pytest.raises(SceneError, match=r"looks like a scene classification .*--mask-values 3,8-10"):
        open_scene(product, SceneOptions(mask=path))
    left_out = open_scene(product, SceneOptions(mask=path, mask_values=mask_values("3,8-10"))).read()
    before = scene.read()
    wanted = before.valid & ~np.isin(codes[0], [3, 8, 9, 10])
    np.testing.assert_array_equal(left_out.valid, wanted)
    meant = open_scene(product, SceneOptions(mask=path, mask_values=mask_values("scl"))).read()
    np.testing.assert_array_equal(meant.valid, before.valid)
    np.testing.assert_array_equal(meant.quality & np.uint16(Quality.SHADOW) > 0, codes[0] == 3)
    yes_or_no = raster(tmp_path / "SCL_mask.tif", scene, (codes == 3).astype(np.uint8))
    assert open_scene(product, SceneOptions(mask=yes_or_no)).grid == scene.grid


CATEGORIES = "<CategoryNames>{}</CategoryNames>".format(
    "".join(f"<Category>{name}</Category>" for name in ("no data", "saturated", "dark", "", "VEGETATION"))
)


@pytest.mark.parametrize(
    ("name", "codes", "description", "legend"),
    [
        ("a.tif", (3, 4, 9), None, ""),  # no 0: nothing would be left
        ("a.tif", (4,), "SCL", ""),
        ("a.tif", (0, 4), "scl", ""),
        ("scl_20m.tif", (0, 4), None, ""),
        ("a.tif", (0, 4), None, CATEGORIES),
    ],
)
def test_a_scene_classification_is_known_by_band_legend_or_codes(
    product, tmp_path, name, codes, description, legend
):
    scene = open_scene(product)
    values = np.random.default_rng(0).choice(codes, (1, 200, 200)).astype(np.uint8)
    path = raster(tmp_path / name, scene, values)
    with rasterio.open(path, "r+") as file:
        file.descriptions = (description,)
    if legend:
        aux = f'<PAMDataset><PAMRasterBand band="1">{legend}</PAMRasterBand></PAMDataset>'
        (tmp_path / f"{name}.aux.xml").write_text(aux)
    with pytest.raises(SceneError, match=r"looks like a scene classification .*--mask-values scl"):
        open_scene(product, SceneOptions(mask=path))
    assert open_scene(product, SceneOptions(mask=path, mask_values=mask_values("4"))).grid == scene.grid


def test_labels_under_an_own_mask_are_said_to_be_so(product, files, tmp_path):
    scene = open_scene(product)
    path = raster(tmp_path / "mask.tif", scene, np.ones((1, 200, 200), np.uint8))
    options = FitOptions(labels=files.truth(2020), scene=SceneOptions(mask=path), model="published")
    with pytest.raises(ValueError, match=r"all classes: own mask [\d,]+\); .*what --mask leaves out$"):
        fit_model([product], options)


def test_mask_values_that_are_not_in_the_mask_are_one_line(product, tmp_path):
    """In the place of the scene: a value that is elsewhere in the mask counts for nothing."""
    scene = open_scene(product)
    left, bottom, right, top = scene.grid.bounds
    box = (left, bottom, (left + right) / 2, top)
    codes = np.full((1, 200, 200), 4, np.uint8)
    codes[..., 190:] = 9
    path = raster(tmp_path / "classes.tif", scene, codes)
    how = SceneOptions(mask=path, mask_values=mask_values("8-9"), bbox=box, bbox_crs=scene.grid.crs)
    with pytest.warns(
        UserWarning, match=r"names 8, 9, and .*classes.tif holds none of them .*holds 4.*masks nothing"
    ):
        open_scene(product, how)
    whole = open_scene(product, SceneOptions(mask=path, mask_values=mask_values("8-9")))  # says nothing
    assert (whole.read().quality[:, 190:] & Quality.MASKED > 0).all()


@pytest.mark.parametrize("text", ["3,", "a", "10-8", "-3"])
def test_numbers_of_a_mask_that_are_none(text):
    with pytest.raises(ValueError, match=r"is no number or range; give 3,8-10, or scl"):
        mask_values(text)


def test_an_area_without_a_pixel_centre_is_refused(product, tmp_path):
    import pyogrio
    import shapely

    scene = open_scene(product)
    x, y = scene.grid.transform[2] + 100, scene.grid.transform[5] - 100
    shape = shapely.to_wkb(np.array([shapely.box(x + 0.5, y + 0.5, x + 2, y + 2)]))
    path, one = tmp_path / "a.gpkg", [np.array([1])]
    pyogrio.raw.write(path, shape, one, ["n"], geometry_type="Polygon", crs=scene.grid.crs, driver="GPKG")
    with pytest.raises(SceneError, match="holds no centre of a pixel of the scene"):
        open_scene(product, SceneOptions(aoi=path))


def test_heights_of_a_part_are_said(product, tmp_path):
    scene = open_scene(product)
    path = raster(tmp_path / "dem.tif", scene, np.full((1, 200, 150), 100, np.float32))
    with pytest.warns(UserWarning, match="has heights on about 75% of the scene"):
        realise_scene(scene, RealiseOptions(aod=0.12, draws=1, dem=str(path)))


def test_an_altitude_and_heights_exclude_each_other(product, tmp_path):
    more = ["--aod", "0.1", "--dem", "dem.tif", "--altitude", "0.2", "--out", str(tmp_path / "c.zarr")]
    made = CliRunner().invoke(main, ["realise", str(product), *more])
    assert "--altitude came with --dem" in made.output + str(made.exception)


def test_a_product_with_some_bands_is_described(product, tmp_path):
    import shutil

    part = shutil.copytree(product, tmp_path / product.name)
    for band in ("B05", "B12"):
        next(part.glob(f"GRANULE/*/IMG_DATA/*_{band}.jp2")).unlink()
    made = CliRunner().invoke(main, ["info", str(part)])
    assert made.exit_code == 0, made.output
    assert "missing bands: B05, B12" in made.output
    assert "bands: B02, B03, B04, B06, B07, B08, B8A, B11\n" in made.output
