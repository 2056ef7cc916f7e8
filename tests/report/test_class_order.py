"""Classes keep their own probabilities where codes are not in the order of names: report and evaluation."""

import numpy as np
import pytest
import rasterio

from map_cases import BANDS, CLASSES, fitted
from report_cases import HEIGHT, WIDTH, WORLDS, _scene, write_scene_cube
from uncover import ConformalSets, pipeline
from uncover.labels import LandClass, Scheme
from uncover.measurement import Features
from uncover.pipeline.contents import Contents
from uncover.pipeline.map_product import MapProduct
from uncover.raster import Window
from uncover.raster.tiles import TileCache
from uncover.report.summary import summarise

CODES = {"forest": 7, "grassland": 2, "water": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Maps in all formats, with sets, by a model whose classes are not in the order of their codes."""
    folder = tmp_path_factory.mktemp("order")
    values = _scene()[1]
    write_scene_cube(folder / "cube.zarr", values)
    model = fitted("shared", WORLDS)
    sample = np.moveaxis(values[:, :, ::5, ::5].reshape(WORLDS, 4, -1), 2, 0).astype(float)
    names = model.feature_names_in_
    del model.feature_names_in_
    sets = ConformalSets(model, coverage=0.8).calibrate(sample, model.predict(sample))
    model.feature_names_in_ = names
    scheme = Scheme("codes", tuple(LandClass(c, name, f"#aabb{c:02d}") for name, c in CODES.items()))
    sets.save(
        folder / "m.uncover", units="reflectance", features=Features.of_level(BANDS, "L2A").as_dict(),
        provenance={"sources": [{"name": "made-scene"}], "scheme": scheme.as_dict()},
    )  # fmt: skip
    for form in ("cog", "zarr", "netcdf"):
        options = pipeline.MapOptions(threads=1, format=form, paired=True)
        pipeline.map_scene(folder / "m.uncover", folder / "cube.zarr", folder / form, options)
    return folder


@pytest.fixture(scope="module")
def layers(folder):
    """Layers as rasterio reads them: codes, probabilities and membership by the name of the class."""

    def named(file, prefix=""):
        with rasterio.open(folder / "cog" / file) as source:
            return dict(
                zip((n.removeprefix(prefix) for n in source.descriptions), source.read(), strict=True)
            )

    return named("class.tif")["class"], named("probability.tif"), named("sets.tif", "in_set_")


@pytest.mark.parametrize("form", ["cog", "zarr", "netcdf"])
def test_every_story_has_its_most_probable_class(folder, layers, form):
    codes, probability, _ = layers
    summary = summarise(Contents.of(folder / form))
    stories = summary.stories
    at = np.ix_(stories.rows, stories.cols)
    own = np.take_along_axis(stories.probability, stories.classes[None].astype(int) - 1, axis=0)[0]
    np.testing.assert_allclose(own, stories.probability.max(axis=0), atol=1.01e-4)  # but for ties in steps
    assert [entry.code for entry in summary.classes] == [CODES[name] for name in summary.names]
    np.testing.assert_array_equal(np.array([c.code for c in summary.classes])[stories.classes - 1], codes[at])
    for k, name in enumerate(summary.names):
        np.testing.assert_allclose(stories.probability[k], probability[name][at] * 1e-4, atol=1e-7)
    disagreeing = (stories.spectra.worlds != stories.classes[..., None]).mean()
    assert disagreeing < 0.05  # most worlds agree with the map


@pytest.mark.parametrize("form", ["cog", "zarr", "netcdf"])
def test_evaluation_reads_every_class_under_its_own_name(folder, layers, form):
    codes, probability, inside = layers
    product, cache = MapProduct.open(folder / form), TileCache(1 << 20)
    assert dict(zip(product.names, product.codes, strict=True)) == CODES and set(CODES) == set(CLASSES)
    window = Window(0, 0, HEIGHT, WIDTH)
    numbers = product.class_numbers(window, cache)
    np.testing.assert_array_equal(np.array(product.codes)[numbers], codes)
    rows, cols = (a.ravel() for a in np.indices(codes.shape))
    found, members = (read(window, rows, cols, cache) for read in (product.probabilities, product.in_sets))
    for k, name in enumerate(product.names):
        np.testing.assert_allclose(found[:, k], probability[name].ravel() * 1e-4, atol=1e-9)
        np.testing.assert_array_equal(members[:, k], inside[name].ravel() == 1)


@pytest.mark.parametrize("form", ["zarr", "netcdf"])
@pytest.mark.parametrize("step", [1, 5])
def test_thinned_layers_of_a_dataset_are_means_of_their_blocks_and_codes_in_the_middle(folder, form, step):
    product = MapProduct.open(folder / form)
    with rasterio.open(folder / "cog" / "uncertainty.tif") as source:
        total = np.where(source.read(1) == source.nodata, np.nan, source.read(1) * 1e-4)
    with rasterio.open(folder / "cog" / "class.tif") as source:
        codes = source.read(1)
    found, middle = product.thinned("total", step), product.thinned("class", step)
    assert found.shape == middle.shape == (-(-HEIGHT // step), -(-WIDTH // step))
    for i, j in np.ndindex(found.shape):
        rows, cols = (slice(step * k, step * (k + 1)) for k in (i, j))
        assert found[i, j] == pytest.approx(np.nanmean(total[rows, cols]), abs=1e-6)
        row, col = min(step * i + step // 2, HEIGHT - 1), min(step * j + step // 2, WIDTH - 1)
        assert middle[i, j] == codes[row, col]
