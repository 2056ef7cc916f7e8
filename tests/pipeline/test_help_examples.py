"""The examples of `--help`, one after the other on the embedded scene: right maps, or a line that helps."""

import re
import shlex

import numpy as np
import pandas
import pyogrio
import pytest
import rasterio
import shapely
from click.testing import CliRunner
from rasterio.features import shapes

from uncover import load_model
from uncover.cli import main
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

# Accuracy of a map of this scene, of the classes that were trained, by a model that fits: 0.836 to 0.881.
EXPECTED = 0.82
AOD = 0.12


def examples(command):
    """The commands of a help text, as lists of words."""
    shown = CliRunner().invoke(main, [command, "--help"], terminal_width=200).stdout
    lines = re.sub(r"\\\n\s*", "", shown.split("Example", 1)[1]).splitlines()
    return [shlex.split(line.strip())[1:] for line in lines if line.strip().startswith("uncover ")]


FITS = range(len(examples("fit")))
MAPS = range(len(examples("map")))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The embedded scene, and what else the examples name, made of it."""
    folder = tmp_path_factory.mktemp("examples")
    files = write_scene(folder / "scene", LandscapeOptions(size=200))
    for year in (2018, 2019, 2020):
        (folder / f"lcm{year}.tif").symlink_to(folder / "scene" / "previous-maps" / f"lcm{year}.tif")
    (folder / "S2A_MSIL1C_….SAFE").symlink_to(files.product(2020).resolve())
    (folder / "test.tif").symlink_to(files.truth(2020).resolve())
    made = Place(folder)
    # Without wetlands, of which this part has too few; and squares for a scene of 2 km.
    made.instead = {"ukceh-lulucf": files.scheme, "500": "20"}
    made.run(*examples("labels")[0])
    surface = ["realise", "S2A_MSIL1C_….SAFE", "--aod", AOD, "--aod-uncertainty", 0, "--draws", 1]
    made.run(*surface, "--out", "one-world.zarr")
    made.write_stack()
    made.write_training()
    return made


class Place:
    """A folder in which commands are run."""

    def __init__(self, folder):
        self.folder, self.models, self.instead = folder, {}, {}

    def try_to(self, *words):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            return CliRunner().invoke(main, [str(self.instead.get(word, word)) for word in words])

    def run(self, *words):
        result = self.try_to(*words)
        assert result.exit_code == 0, (words, result.output, result.exception)
        return result

    def read(self, name, band=1):
        with rasterio.open(self.folder / name) as dataset:
            return dataset.read(band)

    def write_stack(self):
        """Surface reflectance by the embedded table, as numbers with +1000; and its noise."""
        import zarr

        group = zarr.open_group(str(self.folder / "one-world.zarr"), mode="r")
        bands, values = [str(b) for b in group["band"][...]], group["reflectance"][0]
        grid = open_scene(self.folder / "S2A_MSIL1C_….SAFE").grid
        self.grid, self.bands, self.values = grid, bands, values
        profile = {"driver": "GTiff", "crs": grid.crs, "transform": rasterio.Affine(*grid.transform)}
        with rasterio.open(
            self.folder / "scene.tif", "w", width=grid.width, height=grid.height, count=len(bands),
            dtype="uint16", nodata=0, **profile,
        ) as dataset:  # fmt: skip
            dataset.write(np.rint(values * 1e4 + 1000).astype(np.uint16))
            dataset.descriptions = bands
        rows = [f"{band},0.001" for band in bands]
        (self.folder / "noise.csv").write_text("\n".join(["band,u", *rows]))

    def write_training(self):
        """Polygons and a table of the labelled pixels."""
        labels, names = self.read("labels.tif"), {code: name for name, code in CODES.items()}
        where = shapes(labels, labels > 0, 4, rasterio.Affine(*self.grid.transform))
        found = [(shapely.geometry.shape(shape), names[int(code)]) for shape, code in where]
        pyogrio.raw.write(
            self.folder / "fields.gpkg", shapely.to_wkb([shape for shape, _ in found]),
            [np.array([name for _, name in found], dtype=object)], ["class"],
            geometry_type="Polygon", crs=self.grid.crs, driver="GPKG",
        )  # fmt: skip
        frame = pandas.DataFrame(self.values[:, labels > 0].T, columns=self.bands)
        frame["class"] = [names[code] for code in labels[labels > 0]]
        frame.to_csv(self.folder / "pixels.csv", index=False)

    def fit(self, number):
        """The model of an example, fitted once."""
        if number not in self.models:
            words = examples("fit")[number]
            words[-1] = f"model-{number}.uncover"
            self.models[number] = (self.run(*words), words[-1])
        return self.models[number][1]

    def accuracy(self, name, model):
        """Share of pixels of trained classes that are right, counted here, and how many have a class."""
        fitted, truth = load_model(self.folder / model), self.read("test.tif")
        scheme = fitted.provenance_["scheme"]
        codes = {c["name"]: c["code"] for c in scheme["classes"]} if scheme else {}
        names = [str(each) for each in fitted.classes_]
        mean = np.zeros(256, np.uint8)
        for number, each in enumerate(names, start=1):
            mean[codes.get(each, number)] = CODES[each]
        found = mean[self.read(f"{name}/class.tif")]
        known = np.isin(truth, [CODES[each] for each in names])
        return float((found == truth)[known].mean()), float((found > 0).mean())


CODES = {"forest": 1, "cropland": 2, "grassland": 3, "wetlands": 4, "settlements": 5, "other land": 6}


def at_the_top(words):
    """Whether an example takes an L1C product as it is; all others are of surface reflectance."""
    return any(word.endswith(".SAFE") for word in words) and "--aod" not in words


@pytest.mark.parametrize("mapping", MAPS)
@pytest.mark.parametrize("fitting", FITS)
def test_a_model_and_a_map_of_the_examples_go_together_or_say_what_is_missing(place, fitting, mapping):
    model, words = place.fit(fitting), examples("map")[mapping]
    out = f"map-{fitting}-{mapping}"
    words = [{"model.uncover": model, "map": out}.get(word, word) for word in words[1:]]
    result = place.try_to("map", *words)
    if at_the_top(examples("fit")[fitting]) != at_the_top(words):
        assert result.exit_code == 1, result.output
        errors = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
        assert len(errors) == 1 and "--aod" in errors[0], result.output
        return
    assert result.exit_code == 0, result.output
    if "--dry-run" not in words:
        accuracy, covered = place.accuracy(out, model)
        print(f"fit example {fitting}, map example {mapping}: accuracy {accuracy:.4f}")
        assert accuracy > EXPECTED and covered > 0.99
