"""The commands of docs/first-hour.md, run as they are written, on real data."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import rasterio

from safe_trees import shared
from uncover.atmosphere import Geometry, LookupTable, State

PAGE = Path(__file__).parents[2] / "docs/first-hour.md"
#: What each section needs, and the map that it ends with.
SECTIONS = {
    "A folder of rasters and polygons": ("tile_t11upt", "canada"),
    "A table of samples and a stack": ("sen2_amazon", "amazon"),
    "An array of NumPy": ("s2_l1c_reference", "array"),
    "A product that was downloaded in part": ("safe_l2a_real", "ireland"),
}


def transcript(section):
    """Commands of a section in order, each with the lines that the page shows below it."""
    text = PAGE.read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    blocks = "\n".join(re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    parts = [part.splitlines() for part in blocks.split("$ uncover ")[1:]]
    return [(shlex.split(line), shown) for line, *shown in parts]


def commands(section):
    """Commands of a section, in order."""
    return [command for command, _ in transcript(section)]


def wording(lines):
    """Lines without their numbers, which differ a little between kinds of processors, and their blanks."""
    # A busy machine needs minutes, and says once a minute how far it is.
    bare = (re.sub(r"^time .*", "time", line) for line in lines if not re.match(r"(fit|map|report): ", line))
    return {" ".join(re.sub(r"[-+<>]?[\d.,]*\d", "#", line).split()) for line in bare}


def bring(name, folder):
    """The data beside the commands; folders are real ones, as scene.toml is written into one."""
    data = shared(name)
    if name == "safe_l2a_real":
        (product,) = data.glob("*.SAFE")
        (folder / "product.SAFE").symlink_to(product)
        (folder / "scl.jp2").symlink_to(next(product.glob("GRANULE/*/IMG_DATA/R60m/*SCL_60m.jp2")))
        return
    (folder / name).mkdir()
    for file in data.iterdir():
        (folder / name / file.name).symlink_to(file)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("section", [*SECTIONS, pytest.param("A whole tile", marks=pytest.mark.slow)])
def test_the_commands_make_a_map_with_a_report(run, tmp_path, section):
    name, made = SECTIONS.get(section, ("safe_l2a_real", "tile"))
    bring(name, tmp_path)
    for command, shown in transcript(section):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert shown and wording(shown) - {""} == wording(result.output.splitlines()) - {""}
    assert (tmp_path / made / "report.html").is_file()
    with rasterio.open(tmp_path / made / "class.tif") as dataset:
        assert len(np.unique(dataset.read(1))) > 2


def test_at_most_four_commands_make_a_map_with_a_report():
    for section in SECTIONS:
        names = [command[0] for command in commands(section)]
        assert names[: names.index("report") + 1].count("map") == 1
        assert names.index("report") < 4


@pytest.mark.filterwarnings("default")
def test_the_offset_left_in_a_real_table_is_refused(run, tmp_path):
    bring("sen2_amazon", tmp_path)
    made = run("fit", "sen2_amazon/pixels_sen2.csv", "--level", "L2A", "--out", "m.uncover")
    assert "the lowest values of 12 of 12 columns lie near 0.1" in made.stderr
    options = ("--level", "L2A", "--offset", -0.1, "--out", "map")
    made = run("map", "m.uncover", "sen2_amazon/sen2.tif", *options)
    assert made.exit_code == 1
    assert "0% of the pixels of scene sen2 lie near a class of the model, and 78% with 0.1" in made.stderr


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("date", [1, 2])
def test_the_terminal_says_that_a_hazy_map_cannot_be_believed(run, tmp_path, date):
    """The first date is cloudy, the second hazy: nothing there is like the third, which trained the model."""
    bring("s2_l1c_reference", tmp_path)
    fit = next(command for command in commands("An array of NumPy") if command[0] == "fit")
    assert run(*fit).exit_code == 0
    made = run(
        "map", "array.uncover", f"s2_l1c_reference/l1c_reflectance.npy:{date}", "--level", "L1C", "--out", "m"
    )
    assert made.exit_code == 0, made.output
    share = float(re.search(r"unlike +([\d.]+) % of the mapped area", made.stderr).group(1))
    assert share > 95
    assert re.search(
        r"^Warning: [\d.]+ % of the mapped area is unlike anything .* do not believe", made.stderr, re.M
    )


@pytest.mark.filterwarnings("default")
def test_the_terminal_says_that_a_map_under_smoke_cannot_be_believed(run, tmp_path):
    """A real scene, and the same under 0.8 more of optical depth: by 6S, through the surface."""
    data = np.load(shared("s2_l1c_reference") / "l1c_reflectance.npy")[2]
    bands = [band for band in range(13) if band != 10]  # 6S has no cirrus band
    table, geometry = LookupTable("S2A"), Geometry(35.0, 5.0, 100.0)
    surface = table.correct(data[..., bands].astype(float), State(aod=0.12), geometry)
    for name, depth in (("clear", 0.12), ("smoke", 0.92)):
        np.save(
            tmp_path / f"{name}.npy", table.simulate(surface, State(aod=depth), geometry).astype(np.float32)
        )
    labels = ("--labels", shared("s2_l1c_reference") / "lulc.npy", "--ignore", 0)
    assert run("fit", "clear.npy", "--level", "L1C", *labels, "--out", "m.uncover").exit_code == 0
    for name, said in (("clear", False), ("smoke", True)):
        made = run("map", "m.uncover", f"{name}.npy", "--level", "L1C", "--out", name)
        assert made.exit_code == 0, made.output
        assert ("unlike anything the model was trained on: do not believe" in made.stderr) == said
        facts = json.loads((tmp_path / name / "item.json").read_text())["properties"]["uncover:facts"]
        assert (facts["unlike"] > 0.9) == said


@pytest.mark.filterwarnings("default")
def test_a_stack_of_surface_reflectance_has_worlds(run, tmp_path):
    """Level, sensor and angles are stated once; the optical depth is that of the layer beside the stack."""
    bring("tile_t11upt", tmp_path)
    stated = ("--level", "L2A", "--sensor", "S2B", "--scale", 1e-4, "--angles", 36, 5, 100)
    assert run("info", "tile_t11upt", *stated, "--write-scene").exit_code == 0
    box = ("--bbox", 676000, 5750000, 680000, 5755000, "--bbox-crs", "EPSG:32611", "--draws", 3)
    made = run("realise", "tile_t11upt", "--product-aod", *box, "--bands", "B02,B8A", "--out", "c.zarr")
    assert made.exit_code == 0, made.output
    assert "3 realisations of 2 bands" in made.output


@pytest.mark.filterwarnings("default")
def test_labels_take_the_grid_of_a_folder(run, tmp_path):
    bring("tile_t11upt", tmp_path)
    shapes = ("tile_t11upt/landcover.shp", "--class-field", "MC_name")
    made = run("labels", *shapes, "--like", "tile_t11upt", "--out", "labels.tif")
    assert made.exit_code == 0, made.output
    with rasterio.open(tmp_path / "labels.tif") as dataset:
        assert dataset.shape == (560, 566)


def test_info_describes_products_without_a_single_image(run):
    """Metadata of five real baselines, Sentinel-2C with RADIO_ADD_OFFSET among them."""
    for product in shared("s2_metadata").glob("*.SAFE"):
        made = run("info", product)
        assert made.exit_code == 0, made.output
        assert f"processing baseline: {product.name[28:30]}.{product.name[30:32]}" in made.output
        assert "missing bands: B02, B03" in made.output
