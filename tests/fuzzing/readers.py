"""One harness for each reader: minimal files, how they are changed, and what a command does with them."""

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing import mutations as by
from map_cases import BANDS, CLASSES, fitted, grid, reflectance, save_model, write_scene


@dataclass(frozen=True)
class Harness:
    """A reader: `make` puts files into a folder and says which are changed, and how; `read` reads them."""

    name: str
    make: Callable[[Path], list[tuple[str, Callable[[bytes, Any], bytes]]]]
    read: Callable[[Path], Any]
    weight: float = 1.0  # of slow readers smaller: they get fewer inputs


HARNESSES: dict[str, Harness] = {}


class Refused(ValueError):
    """What a command or a server answered, in its words."""


def harness(name, make, weight=1.0):
    """Register a reader with its corpus."""

    def register(read):
        HARNESSES[name] = Harness(name, make, read, weight)
        return read

    return register


def files(**contents):
    """A corpus of texts, by names in which _ stands for the dot."""

    def make(folder):
        made = []
        for name, (text, how) in contents.items():
            file = name.replace("__", ".")
            (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
            if how is not None:
                made.append((file, how))
        return made

    return make


# ---- TOML, JSON and CSV ----------------------------------------------------------------------------------

SCHEME = """name = "own"
title = "Own classes"
nodata = [0, 255]
[[classes]]
code = 1
name = "forest"
colour = "#117733"
[[classes]]
code = 7
name = "water"
parent = "wet"
"""
TABLE = """name = "table"
source = "scheme.toml"
target = "lulucf"
[[rules]]
from = [1]
to = "forest"
why = "trees"
[[rules]]
from = 7
to = 0
"""


@harness("class schemes", files(scheme__toml=(SCHEME, by.of_text)))
def _scheme(folder):
    from uncover.labels import load_scheme

    scheme = load_scheme(folder / "scheme.toml")
    return scheme.colour_table(), scheme.category_names()


@harness("translation tables", files(scheme__toml=(SCHEME, by.of_text), table__toml=(TABLE, by.of_text)))
def _table(folder):
    from uncover.labels import load_translation

    table = load_translation(folder / "table.toml")
    return table(np.array(table.source.codes)), [table.why(code) for code in table.source.codes]


def _carried_scheme(folder):
    from uncover.labels import Scheme
    from uncover.pipeline import write_labels

    codes = np.ones((8, 8), np.uint8)
    codes[:4] = 2
    write_labels(folder / "labels.tif", codes, grid(8, 8), Scheme.of_names(CLASSES))
    (folder / "scheme.json").write_text(json.dumps(Scheme.of_names(CLASSES).as_dict()))
    return [("scheme.json", by.of_json)]


@harness("schemes in label rasters", _carried_scheme)
def _label_raster(folder):
    from dataclasses import replace

    from uncover.pipeline.label_sources import scheme_in
    from uncover.raster.map_formats import SCHEME_TAG
    from uncover.raster.tiles import describe

    text = (folder / "scheme.json").read_text("utf-8", "replace")
    info = describe(folder / "labels.tif")
    return scheme_in(replace(info, tags={SCHEME_TAG: text}))


SCENE_TOML = """source = "scene.tif"
level = "L2A"
sensor = "S2A"
date = 2020-06-01T10:00:00Z
angles = [35.0, 5.0, 120.0]
scale = 0.0001
offset = -0.1
nodata = 0
bands = ["B02", "B03", "B04", "B08"]
scene_id = "one"
"""


def _stack_with_facts(folder):
    write_scene(folder / "scene.tif", (reflectance(8, 8) * 1e4).astype(np.uint16), names=None)
    (folder / "scene.toml").write_text(SCENE_TOML)
    return [("scene.toml", by.of_text)]


@harness("scene.toml", _stack_with_facts)
def _scene_toml(folder):
    from uncover.raster import open_scene

    return open_scene(folder / "scene.tif").read()


def _stac(folder):
    write_scene(folder / "blue.tif", (reflectance(8, 8)[:1] * 1e4).astype(np.uint16), names=None)
    raster = {"raster:bands": [{"nodata": 0, "scale": 0.0001, "offset": -0.1}]}
    assets = {key: {"href": "./blue.tif", "roles": ["data"], **raster} for key in ("blue", "red", "scl")}
    assets["red"] |= {"eo:bands": [{"name": "B04", "eo:common_name": "red"}], "bands": [{"name": "B04"}]}
    said = {"datetime": "2023-06-25T10:20:30Z", "platform": "sentinel-2a", "s2:processing_baseline": "05.09"}
    said |= {"s2:datatake_id": "GS2A_1_2_N05.09", "s2:product_type": "S2MSI2A", "constellation": "sentinel-2"}
    item = {"type": "Feature", "stac_version": "1.0.0", "id": "X", "properties": said, "assets": assets}
    (folder / "item.json").write_text(json.dumps(item))
    return [("item.json", by.of_json)]


@harness("STAC items", _stac)
def _item(folder):
    from uncover.raster import SceneOptions, open_scene

    return open_scene(folder / "item.json", SceneOptions(bands=("B02", "B04"))).read()


EFFECTS = {
    "bands": list(BANDS),
    "reference": [0.1, 0.1, 0.1, 0.3],
    "effects": [
        {"name": "noise", "standard_uncertainty": [0.01] * 4, "units": "1", "between_pixels": "random"},
        {
            "expanded_uncertainty": [2.0, 2.0, 2.0, 3.0],
            "k": 2,
            "units": "%",
            "between_pixels": "systematic",
            "between_scenes": "common",
            "correlation": [[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
            "name": "gain",
        },
    ],
}
NOISE = "band,u_abs,units,reference\nB02,0.01,1,0.1\nB03,0.01,1,0.1\nB04,0.02,1,0.1\nB08,0.01,1,0.3\n"
MATRIX = "band,B02,B03,B04,B08\nB02,1,0.5,0,0\nB03,0.5,1,0,0\nB04,0,0,1,0\nB08,0,0,0,1\n"


@harness("band uncertainty in JSON", files(noise__json=(json.dumps(EFFECTS), by.of_json)))
def _noise_json(folder):
    from uncover.measurement.band_files import read_band_uncertainty

    return read_band_uncertainty(folder / "noise.json")


@harness("band uncertainty in CSV", files(noise__csv=(NOISE, by.of_rows), matrix__csv=(MATRIX, by.of_rows)))
def _noise_csv(folder):
    from uncover.measurement.band_files import read_band_uncertainty

    how = {"between_pixels": "random", "correlation": folder / "matrix.csv"}
    return read_band_uncertainty(folder / "noise.csv", **how)


SAMPLES = "sample,realisation,date,polygon,B02,B03,class\n" + "".join(
    f"{i},{r},2020-06-0{1 + i % 2},{i // 2},0.{i}1,0.{r}2,{'forest' if i % 2 else 'water'}\n"
    for i in range(4)
    for r in range(2)
)


@harness("sample tables", files(samples__csv=(SAMPLES, by.of_rows)))
def _samples(folder):
    from uncover.pipeline import read_table

    return read_table(folder / "samples.csv")


POINTS = "lon,lat,crs,date,class\n" + "".join(
    f"{place},EPSG:4326,2020,{name}\n"
    for place, name in (("12.457073,45.125023", "forest"), ("12.457728,45.124587", "water"))
)


@harness("tables of points", files(points__csv=(POINTS, by.of_rows)))
def _points(folder):
    from uncover.raster.vectors import burn_vector, fields_of

    fields_of(folder / "points.csv")
    return burn_vector(folder / "points.csv", grid(8, 8), "class")


SHARES = "class,share\nforest,0.6\nwater,0.4\n"


@harness("tables of class shares", files(shares__csv=(SHARES, by.of_rows)))
def _shares(folder):
    from uncover.pipeline import read_class_shares
    from uncover.pipeline.class_shares import known_shares

    return known_shares(read_class_shares(str(folder / "shares.csv")), ["forest", "water"])


JOURNAL = '{"key": "k"}\n{"piece": "0", "note": null}\n{"piece": "1", "note": 12}\n'


@harness("journals", files(journal=(JOURNAL, by.of_lines)))
def _journal(folder):
    from uncover.pipeline import describe_file
    from uncover.raster.journal import Journal

    describe_file(folder)
    return Journal(folder / "journal", "k")


# ---- vector files and XML --------------------------------------------------------------------------------

GEOJSON = {
    "type": "FeatureCollection",
    "features": [
        {
            "type": "Feature",
            "properties": {"class": name},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[x, 45.124], [x, 45.126], [x + 0.001, 45.126], [x, 45.124]]],
            },
        }
        for name, x in (("forest", 12.4565), ("water", 12.4571))
    ],
}


@harness("GeoJSON", files(areas__geojson=(json.dumps(GEOJSON), by.of_json)))
def _geojson(folder):
    from uncover.raster.vectors import burn_vector, read_polygons

    read_polygons(folder / "areas.geojson", grid(8, 8))
    return burn_vector(folder / "areas.geojson", grid(8, 8), "class")


LEGEND = """<PAMDataset><PAMRasterBand band="1"><CategoryNames><Category></Category>
<Category>forest</Category><Category>water</Category></CategoryNames></PAMRasterBand></PAMDataset>"""
ATTRIBUTES = """<PAMDataset><PAMRasterBand band="1"><GDALRasterAttributeTable>
<FieldDefn index="0"><Name>Value</Name><Type>0</Type><Usage>5</Usage></FieldDefn>
<FieldDefn index="1"><Name>Class</Name><Type>2</Type><Usage>2</Usage></FieldDefn>
<Row index="0"><F>1</F><F>forest</F></Row><Row index="1"><F>2</F><F>water</F></Row>
</GDALRasterAttributeTable></PAMRasterBand></PAMDataset>"""


def _legends(folder):
    from label_maps import write_map

    for name, text in (("a.tif", LEGEND), ("b.tif", ATTRIBUTES)):
        write_map(folder / name, np.ones((8, 8), np.uint8), grid=grid(8, 8))
        (folder / f"{name}.aux.xml").write_text(text)
    return [("a.tif.aux.xml", by.of_text), ("b.tif.aux.xml", by.of_text)]


@harness("legends of rasters", _legends, 0.5)
def _legend(folder):
    from uncover.pipeline import open_labels

    return [open_labels(folder / name).scheme for name in ("a.tif", "b.tif")]


def _product(kind):
    def make(folder):
        from safe_trees import build_safe, shared

        if not shared("s2_metadata").is_dir():
            return []
        tree = build_safe(folder, kind, size=48, tile=48)
        tree.path.rename(folder / "product.SAFE")
        every = [path.relative_to(folder) for path in (folder / "product.SAFE").rglob("*.*")]
        return [(str(path), by.of_text) for path in every if path.suffix in (".xml", ".gml")]

    return make


def _read_product(folder):
    from uncover.raster import open_scene

    return open_scene(folder / "product.SAFE").read()


harness("L2A products", _product("L2A_04.00"), 0.1)(_read_product)
harness("L1C products with GML masks", _product("L1C_03.01"), 0.08)(_read_product)


# ---- binary files ----------------------------------------------------------------------------------------


def _grib(folder):
    from uncover.atmosphere.grib import constant_aod

    time = datetime(2020, 6, 1, 12, tzinfo=UTC)
    (folder / "cams").write_bytes(constant_aod(0.2, time, 14.0, 44.0, 16.0, 46.0))
    section = b"\x00\x00\x00\x15\x01" + bytes(16)
    data = section + (b"\x00\x00\x00\x22\x04" + bytes([0, 0, 0, 0, 20, 102]) + bytes(23))
    data += b"\x00\x00\x00\x15\x05" + bytes(6) + b"\x3e\x00\x00\x00" + b"\x80\x01" + bytes(4) + b"7777"
    head = b"GRIB\x00\x00\x00\x02" + (16 + len(data)).to_bytes(8, "big")
    (folder / "edition2").write_bytes(head + data)
    return [("cams", by.of_bytes), ("edition2", by.of_bytes)]


@harness("GRIB files", _grib)
def _read_grib(folder):
    from uncover.atmosphere.grib import aod_at, shift_aod

    for name in ("cams", "edition2"):
        shift_aod((folder / name).read_bytes(), 0.1)
    return aod_at((folder / "cams").read_bytes(), 15.0, 45.0, datetime(2020, 6, 1, 12, tzinfo=UTC))


def _models(folder):
    from uncover import BayesianClassifier, BayesianMDA
    from uncover.models.files import read_model_file

    made = []
    for name, cls in (("qda", None), ("mda", BayesianMDA), ("pool", BayesianClassifier)):
        model = fitted(n=90) if cls is None else fitted(n=90, cls=_quiet(cls))
        save_model(folder / f"{name}.uncover", model)
        document, arrays = read_model_file(folder / f"{name}.uncover")
        np.savez(folder / f"{name}.npz", **{key.replace("/", "|"): array for key, array in arrays.items()})
        (folder / f"{name}.json").write_text(json.dumps(document))
        made += [(f"{name}.json", by.of_json), (f"{name}.uncover", by.of_bytes), (f"{name}.npz", _of_arrays)]
    return made


def _quiet(cls):
    """A class whose fits say nothing."""

    def make(**parameters):
        parameters.pop("realisations", None)
        return cls(**parameters)

    return make


def _of_arrays(content, rng):
    """Arrays with one changed: its numbers, its shape, or its name."""
    with np.load(io.BytesIO(content)) as found:
        arrays = dict(found)
    name = str(rng.choice(sorted(arrays)))
    array, how = arrays[name], rng.integers(6)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[name] = array[..., None]
    elif how == 2:
        arrays[name] = np.repeat(array.ravel(), 2)
    elif how == 3 and array.size:
        arrays[name] = array.ravel()[: array.size // 2]
    elif array.size:
        flat = array.ravel().copy()
        with np.errstate(over="ignore"):
            flat[rng.integers(flat.size)] = float(
                rng.choice([-1, 0, 1e9, 1e308, -1e308, np.nan, np.inf, 0.5])
            )
        arrays[name] = flat.reshape(array.shape)
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


@harness("model files", _models, 0.1)
def _model(folder):
    """Documents and arrays as they are, sealed again: a seal that does not fit hides all behind it."""
    from uncover.measurement.pooled import make_summariser
    from uncover.models.files import ModelFileError, load_fitted, write_model_file

    refused = None
    for name in ("qda", "mda", "pool"):
        try:
            load_fitted(folder / f"{name}.uncover")
            document = json.loads((folder / f"{name}.json").read_text())
            with np.load(folder / f"{name}.npz") as found:
                arrays = {key.replace("|", "/"): found[key] for key in found}
            with contextlib.suppress(TypeError):  # the forger's own mistakes
                write_model_file(folder / "forged.uncover", document, arrays)
        except ModelFileError as error:
            refused = error
            continue
        except (ValueError, RecursionError):  # the forger's
            continue
        try:
            model = load_fitted(folder / "forged.uncover")
        except ModelFileError as error:
            refused = error
            continue
        with np.errstate(all="ignore"):
            make_summariser(model).summarise(np.full((4, 1, 3), 0.1, np.float32))
    if refused is not None:
        raise refused


def _npy(folder):
    np.save(folder / "scene.npy", reflectance(8, 8).transpose(1, 2, 0))
    return [("scene.npy", by.of_header)]


@harness("NumPy arrays", _npy)
def _read_npy(folder):
    from uncover.raster import SceneOptions, open_scene

    return open_scene(folder / "scene.npy", SceneOptions(bands=BANDS, scale=1.0)).read()


def _geotiff(folder):
    write_scene(folder / "scene.tif", reflectance(8, 8))
    return [("scene.tif", by.of_header)]


@harness("GeoTIFFs", _geotiff)
def _read_geotiff(folder):
    from uncover.raster import open_scene

    return open_scene(folder / "scene.tif").read()


def _netcdf(folder):
    import xarray

    rng = np.random.default_rng(0)
    from effects_tables import make_table

    make_table(rng).to_netcdf(folder / "table.nc", engine="h5netcdf")
    axes = {"y": 5000000.0 - 5 - 10 * np.arange(8.0), "x": 300005 + 10 * np.arange(8.0)}
    planes = {name: (("y", "x"), plane) for name, plane in zip(BANDS, reflectance(8, 8), strict=True)}
    xarray.Dataset(planes, axes, {"crs": "EPSG:32633"}).to_netcdf(folder / "scene.nc", engine="h5netcdf")
    return [("table.nc", by.of_bytes), ("scene.nc", by.of_bytes)]


@harness("NetCDF files", _netcdf, 0.2)
def _read_netcdf(folder):
    from uncover.raster import SceneOptions, open_scene

    return open_scene(folder / "scene.nc", SceneOptions(scale=1.0)).read()


def _cube(folder):
    from uncover.raster.cube import CubeBlock, CubeLayout, write_cube

    layout = CubeLayout(
        grid(8, 8), BANDS, realisations=3, identity="one", coordinates={"aod": np.array([0.1, 0.2, 0.3])},
        attributes={"sensing_time": "2020-06-01T10:00:00+00:00", "level": "L2A"},
    )  # fmt: skip

    def produce(window):
        return CubeBlock(
            window, np.ones((3, 4, *window.shape), np.float32), np.zeros(window.shape, np.uint16)
        )

    write_cube(folder / "cube.zarr", layout, produce)
    every = [path.relative_to(folder) for path in (folder / "cube.zarr").rglob("*") if path.is_file()]
    return [(str(path), by.of_json if path.name.startswith(".z") else by.of_bytes) for path in every]


@harness("cubes", _cube, 0.4)
def _read_cube(folder):
    from uncover.raster.cube import open_cube

    cube = open_cube(folder / "cube.zarr")
    return cube.features, cube.sensing_time, cube.read()


# ---- what commands have written --------------------------------------------------------------------------


def _map(folder):
    from uncover.labels import Scheme
    from uncover.pipeline import EvaluateOptions, evaluate_map, map_scene, write_labels

    save_model(folder / "m.uncover", fitted())
    write_scene(folder / "scene.tif", reflectance(20, 20))
    map_scene(folder / "m.uncover", folder / "scene.tif", folder / "map")
    codes = np.kron(np.array([[1, 2], [3, 1]]), np.ones((10, 10))).astype(np.uint8)
    write_labels(folder / "labels.tif", codes, grid(20, 20), Scheme.of_names(CLASSES))
    found = evaluate_map(folder / "map", folder / "labels.tif", EvaluateOptions(draws=20, block=50.0))
    found.write(folder / "evaluation")
    tables = [("map/areas.csv", by.of_rows)]
    tables += [("evaluation/reliability.csv", by.of_rows), ("evaluation/accuracy.csv", by.of_rows)]
    documents = ("map/item.json", "map/run.json", "evaluation/evaluation.json")
    return [*tables, *((name, by.of_json) for name in documents)]


@harness("folders of maps and evaluations", _map, 0.4)
def _read_map(folder):
    from uncover.pipeline import describe_file
    from uncover.pipeline.evaluation import StoredEvaluation

    for name in ("map", "evaluation"):
        describe_file(folder / name).text()
    found = StoredEvaluation.read(folder / "evaluation")
    return found.areas, found.counts, found.claimed
