"""The examples of `--help`, one after the other on the embedded scene: right maps, or a line that helps."""

import itertools
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas
import pyogrio
import pytest
import rasterio
import shapely
from click.testing import CliRunner
from rasterio.features import shapes

from map_products import write_points
from sen2cor_stand_in import install
from uncover import load_model
from uncover.cli import main
from uncover.raster import open_scene
from uncover.studies.landscape import LandscapeOptions, write_scene

# Accuracy of a map of this scene, of the classes that were trained, by a model that fits: 0.836 to 0.881.
EXPECTED = 0.82
AOD = 0.12
#: Worlds of the examples that draw them; time is in proportion to them.
WORLDS = ["--draws", "3"]


def examples(command):
    """The commands of a help text, as lists of words."""
    shown = CliRunner().invoke(main, [command, "--help"], terminal_width=200).stdout
    lines = re.sub(r"\\\n\s*", "", shown.split("Example", 1)[1]).splitlines()
    return [shlex.split(line.strip())[1:] for line in lines if line.strip().startswith("uncover ")]


FITS = range(len(examples("fit")))
#: Examples that are not run here, and why.
ELSEWHERE = {
    ("change", 0): "takes two maps; tests/pipeline/test_change.py",
    ("map", 5): "takes four tiles; tests/pipeline/test_mosaic.py",
    ("map", 6): "takes hundreds of worlds; tests/pipeline/test_adaptive_draws.py takes fewer effects",
    ("demo", 0): "takes a minute; tests/studies/test_demo.py runs it smaller",
    ("demo", 1): "takes a minute; tests/studies/test_demo.py runs it smaller",
    ("reproduce", 0): "takes minutes; tests/studies/test_reproduce.py runs it with fewer points and models",
    ("reproduce", 1): "takes minutes; tests/studies/test_own_study.py runs it with fewer models",
    ("reproduce", 2): "takes minutes; tests/studies/test_own_study.py runs it with fewer models",
    ("reproduce", 3): "probes every model; tests/studies/test_reproduce.py runs it with quick probes",
    ("scenes", 0): "asks a public server; tests/pipeline/test_catalogue.py asks one of this machine",
    ("scenes", 1): "asks a public server; tests/pipeline/test_catalogue.py asks one of this machine",
    ("view", 0): "serves until it is interrupted; tests/viewer/test_viewer_server.py",
    ("view", 1): "serves until it is interrupted; tests/viewer/test_viewer_browser.py",
    ("view", 2): "serves until it is interrupted; tests/viewer/test_viewer_server.py",
    ("view", 3): "writes a folder; tests/viewer/test_viewer_server.py",
}
MAPS = [n for n in range(len(examples("map"))) if ("map", n) not in ELSEWHERE]
OTHERS = [
    (command, number)
    for command in main.commands
    for number in range(len(examples(command)))
    if command not in ("fit", "map") and (command, number) not in ELSEWHERE
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The embedded scene, and what else the examples name, made of it."""
    folder = tmp_path_factory.mktemp("examples")
    files = write_scene(folder / "scene", LandscapeOptions(size=200, dates=4, clouds=0.0))
    for letter, product in zip("ABC", files.series, strict=False):
        (folder / f"{letter}.SAFE").symlink_to(product.resolve())
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
        """Polygons and a table of the labelled pixels; points of every class."""
        labels, names = self.read("labels.tif"), {code: name for name, code in CODES.items()}
        where = shapes(labels, labels > 0, 4, rasterio.Affine(*self.grid.transform))
        found = [(shapely.geometry.shape(shape), names[int(code)]) for shape, code in where]
        pyogrio.raw.write(
            self.folder / "fields.gpkg", shapely.to_wkb([shape for shape, _ in found]),
            [np.array([name for _, name in found], dtype=object)], ["class"],
            geometry_type="Polygon", crs=self.grid.crs, driver="GPKG",
        )  # fmt: skip
        west, _, _, north = self.grid.bounds
        parcels = [shapely.box(west + x, north - 400, west + x + 300, north) for x in (0, 500, 900)]
        pyogrio.raw.write(
            self.folder / "parcels.gpkg", shapely.to_wkb(parcels), [np.array(["a", "b", "c"], object)],
            ["parcel"], geometry_type="Polygon", crs=self.grid.crs, driver="GPKG",
        )  # fmt: skip
        frame = pandas.DataFrame(self.values[:, labels > 0].T, columns=self.bands)
        frame["class"] = [names[code] for code in labels[labels > 0]]
        frame.to_csv(self.folder / "pixels.csv", index=False)
        truth, rng = self.read("test.tif"), np.random.default_rng(0)
        places = [rng.permutation(np.argwhere(truth == code))[:60] for code in np.unique(labels[labels > 0])]
        rows, cols = np.concatenate(places).T
        classes = [names[code] for code in truth[rows, cols]]
        write_points(self.folder / "points.gpkg", rows, cols, classes, self.grid)

    def write_worlds(self, sen2cor):
        """Two corrections of the product that were made elsewhere; and one of them as any L2A product."""
        how = ["--correction", "sen2cor", "--sen2cor", sen2cor, "--draws", 2, "--keep-products"]
        self.run("realise", "S2A_MSIL1C_….SAFE", *how, "--out", "kept.zarr")
        kept = sorted((self.folder / "kept.zarr.sen2cor").rglob("*MSIL2A*.SAFE"))
        for number, product in enumerate(kept):
            (self.folder / f"world-{number}.SAFE").symlink_to(product)
        (self.folder / "S2A_MSIL2A_….SAFE").symlink_to(kept[0])

    def write_map(self):
        """The first map of the first model, and what it was compared with."""
        model = self.fit(0)
        (self.folder / "model.uncover").symlink_to(self.folder / model)
        self.run(*examples("map")[0], *WORLDS)
        self.run(*examples("evaluate")[0])

    def fit(self, number):
        """The model of an example, fitted once."""
        if number not in self.models:
            words = examples("fit")[number]
            words[-1] = name = f"model-{number}.uncover"
            words += WORLDS if "--aod" in words else []
            self.models[number] = (self.run(*words), name)
        return self.models[number][1]

    def accuracy(self, name, model, untrained=False):
        """Share of pixels of trained (or all) classes that are right, counted here; how many have a class."""
        fitted, truth = load_model(self.folder / model), self.read("test.tif")
        scheme = fitted.provenance_["scheme"]
        codes = {c["name"]: c["code"] for c in scheme["classes"]} if scheme else {}
        names = [str(each) for each in fitted.classes_]
        mean = np.zeros(256, np.uint8)
        for number, each in enumerate(names, start=1):
            mean[codes.get(each, number)] = CODES[each]
        with rasterio.open(self.folder / name / "class.tif") as dataset:
            found, (left, top) = mean[dataset.read(1)], dataset.transform @ (0, 0)
        col, row = (
            round(abs(a - b) / 10) for a, b in zip((left, top), self.grid.transform[2::3], strict=True)
        )
        truth = truth[row : row + found.shape[0], col : col + found.shape[1]]
        known = untrained | np.isin(truth, [CODES[each] for each in names])
        return float((found == truth)[known].mean()), float((found > 0).mean())


CODES = {"forest": 1, "cropland": 2, "grassland": 3, "wetlands": 4, "settlements": 5, "other land": 6}


def of_dates(words):
    """Whether an example is of several dates."""
    return "A.SAFE" in words


def at_the_top(words):
    """Whether an example takes an L1C product as it is; all others are of surface reflectance."""
    return any(word.endswith(".SAFE") for word in words) and "--aod" not in words


#: Pairs in which a pool sees every pixel through noise: minutes in all.
SLOW = ((0, 1), (1, 1), (2, 1), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 1))
PAIRS = [
    pytest.param(*pair, marks=[pytest.mark.slow] if pair in SLOW else [])
    for pair in itertools.product(FITS, MAPS)
]


@pytest.mark.parametrize(("fitting", "mapping"), PAIRS)
def test_a_model_and_a_map_of_the_examples_go_together_or_say_what_is_missing(place, fitting, mapping):
    model, words = place.fit(fitting), examples("map")[mapping]
    out = f"map-{fitting}-{mapping}"
    words = [{"model.uncover": model, "map": out}.get(word, word) for word in words[1:]]
    words += WORLDS if "--aod" in words and "--draws" not in words else []
    result = place.try_to("map", *words)
    if of_dates(examples("fit")[fitting]) and not of_dates(words):
        assert result.exit_code == 1, result.output
        errors = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
        assert len(errors) == 1 and re.search("trained on 2020|when it was measured", errors[0]), (
            result.output
        )
        return
    if at_the_top(examples("fit")[fitting]) != at_the_top(words):
        assert result.exit_code == 1, result.output
        errors = [line for line in result.stderr.splitlines() if not line.startswith("Warning: ")]
        assert len(errors) == 1 and "--aod" in errors[0], result.output
        return
    assert result.exit_code == 0, result.output
    if of_dates(words) and not of_dates(examples("fit")[fitting]):  # of other dates than the model's
        assert "show one place, and the model takes one of them" in result.stderr
        return
    if "--dry-run" not in words:
        accuracy, covered = place.accuracy(out, model)
        print(f"fit example {fitting}, map example {mapping}: accuracy {accuracy:.4f}")
        assert accuracy > EXPECTED and covered > 0.99


@pytest.fixture(scope="module")
def mapped(place, tmp_path_factory):
    """The same with a map, products that were corrected elsewhere, and Sen2Cor."""
    sen2cor = install(tmp_path_factory.mktemp("programs"))
    place.write_worlds(sen2cor)
    place.write_map()
    return place


@pytest.mark.parametrize(("command", "number"), OTHERS)
def test_the_other_examples_run(mapped, command, number):
    """As they stand, but for the names of what they write, which the next may need."""
    words = examples(command)[number]
    out = f"{command}-{number}{Path(words[words.index('--out') + 1]).suffix}" if "--out" in words else None
    if out:
        words[words.index("--out") + 1] = out
    given = [
        name
        for word in words
        for name in (sorted(p.name for p in mapped.folder.glob(word)) if "*" in word else [word])
    ]
    result = mapped.run(*given)
    assert result.stdout.strip() or out
    if out and "--dry-run" not in words:
        assert (mapped.folder / out).exists()
    if (command, number) in SAYS:
        assert SAYS[command, number] in result.stdout


#: A word of the answer that only the right one has.
SAYS = {
    ("realise", 0): "25 realisations of 10 bands",
    ("realise", 1): "L2A_Process",
    ("realise", 2): "2 realisations of 10 bands",
    ("info", 0): "settlements",
    ("info", 2): "settlements",
    ("info", 4): "settlements",
}


def test_the_labels_for_testing_give_the_accuracy_counted_here(mapped):
    words = examples("evaluate")[1]
    words[words.index("--out") + 1] = "against-labels"
    mapped.run(*words)
    found = json.loads((mapped.folder / "against-labels/evaluation.json").read_text(encoding="utf-8"))
    right, _ = mapped.accuracy("map", "model.uncover", untrained=True)
    assert found["accuracy"]["overall accuracy"]["value"] == pytest.approx(right, abs=1e-9)


def test_every_example_of_every_help_is_run_or_says_where():
    every = {(command, n) for command in main.commands for n in range(len(examples(command)))}
    pairs = {("fit", n) for n in FITS} | {("map", n) for n in MAPS}
    assert every == pairs | set(OTHERS) | set(ELSEWHERE)
    root = Path(__file__).parents[2]
    assert all((root / re.search(r"tests/\S+\.py", why).group()).is_file() for why in ELSEWHERE.values())
