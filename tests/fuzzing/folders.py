"""Harnesses of folders, of several files together, of the viewer's addresses and of options of commands."""

import contextlib
import http.client
import io
import json
import os
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path

import numpy as np

from fuzzing import mutations as by
from fuzzing.readers import GEOJSON, MATRIX, NOISE, POINTS, Refused, files, harness
from map_cases import BANDS, CLASSES, fitted, grid, reflectance, save_model, write_scene


def _of_commands(place):
    """What commands have written, in a folder: scene, model, labels, map, evaluation."""
    from uncover.labels import Scheme
    from uncover.pipeline import EvaluateOptions, evaluate_map, map_scene, write_labels

    save_model(place / "model.uncover", fitted())
    write_scene(place / "scene.tif", reflectance(20, 20))
    map_scene(place / "model.uncover", place / "scene.tif", place / "map")
    codes = np.kron(np.array([[1, 2], [3, 1]]), np.ones((10, 10))).astype(np.uint8)
    write_labels(place / "labels.tif", codes, grid(20, 20), Scheme.of_names(CLASSES))
    found = evaluate_map(place / "map", place / "labels.tif", EvaluateOptions(draws=20, block=50.0))
    found.write(place / "evaluation")
    (place / "scene").mkdir()
    (place / "scene" / "scene.json").write_text('{"title": "A scene", "years": {"2020": {"datatake": "x"}}}')
    beside = [{"place": "here", "model": "one", "evaluation": "evaluation"}]
    (place / "comparison.json").write_text(json.dumps(beside))


# ---- folders of maps, as reports and the viewer read them ------------------------------------------------

_DOCUMENTS = ("map/item.json", "map/model.json", "map/run.json", "evaluation/evaluation.json")


def _for_report(folder):
    _of_commands(folder)
    documents = (*_DOCUMENTS, "scene/scene.json", "comparison.json")
    tables = ("map/areas.csv", "evaluation/accuracy.csv", "evaluation/reliability.csv")
    return [*((name, by.of_json) for name in documents), *((name, by.of_rows) for name in tables)]


@harness("folders for a report", _for_report, 0.01)
def _report(folder):
    from uncover.report.map_report import make_report

    make_report(folder, folder / "new.html").unlink()


def _for_viewer(folder):
    _of_commands(folder)
    rasters = [(f"map/{name}.tif", by.of_header) for name in ("class", "probability", "quality")]
    return [*((name, by.of_json) for name in _DOCUMENTS), *rasters]


@harness("folders for the viewer", _for_viewer, 0.2)
def _viewer(folder):
    from uncover.viewer.viewed import ViewedMap

    viewed = ViewedMap(folder)
    try:
        about = viewed.description(), viewed.story(3, 4), viewed.errors(0)
        return json.dumps(about, allow_nan=False), [viewed.tile(name, 0, 0, 0) for name in viewed.layers]
    finally:
        viewed.close()


# ---- what commands read beside a map ---------------------------------------------------------------------


def _regions(folder):
    from map_products import write_polygons

    _of_commands(folder)
    boxes = [(0, 0, 5, 5), (6, 6, 12, 12)]
    write_polygons(folder / "regions.gpkg", boxes, list(CLASSES[:2]), grid=grid(20, 20))
    (folder / "regions.geojson").write_text(json.dumps(GEOJSON))
    rasters = [(f"map/{name}.tif", by.of_header) for name in ("class", "probability")]
    documents = [(f"map/{name}.json", by.of_json) for name in ("item", "run")]
    return [("regions.geojson", by.of_json), ("regions.gpkg", by.of_bytes), *rasters, *documents]


@harness("regions of areas", _regions, 0.07)
def _read_regions(folder):
    from uncover.pipeline import areas_of_regions

    for name in ("regions.gpkg", "regions.geojson"):
        with _removed(folder / "new"):
            areas_of_regions(folder / "map", folder / name, folder / "new")


@contextlib.contextmanager
def _removed(*goals):
    """Afterwards neither goals are there nor what a run left unfinished."""
    try:
        yield
    finally:
        for goal in goals:
            for path in (goal, goal.with_name(f"{goal.name}.partial")):
                shutil.rmtree(path, ignore_errors=True)


def _two_maps(folder):
    from uncover.pipeline import map_scene

    save_model(folder / "model.uncover", fitted())
    for year in (2020, 2021):
        write_scene(folder / f"{year}.tif", reflectance(20, 20, seed=year))
        map_scene(folder / "model.uncover", folder / f"{year}.tif", folder / f"map-{year}")
    documents = [(f"map-{year}/{name}.json", by.of_json) for year in (2020, 2021) for name in ("item", "run")]
    rasters = [(f"map-2021/{name}.tif", by.of_header) for name in ("class", "probability")]
    return [*documents, *rasters, ("map-2021/model.uncover", by.of_bytes), ("2021.tif", by.of_header)]


@harness("maps that are compared", _two_maps, 0.04)
def _compare(folder):
    from uncover.pipeline import change_of_maps

    with _removed(folder / "new"):
        change_of_maps(folder / "map-2020", folder / "map-2021", folder / "new")


def _labels_of_viewer(folder):
    from map_products import write_points, write_polygons

    _of_commands(folder)
    where, some = grid(20, 20), list(CLASSES[:2])
    write_polygons(folder / "areas.gpkg", [(0, 0, 5, 5), (6, 6, 12, 12)], some, grid=where)
    write_points(folder / "points.gpkg", [2, 5], [3, 8], some, grid=where)
    (folder / "areas.geojson").write_text(json.dumps(GEOJSON))
    (folder / "points.csv").write_text(POINTS)
    vectors = [("areas.gpkg", by.of_bytes), ("points.gpkg", by.of_bytes), ("areas.geojson", by.of_json)]
    return [*vectors, ("points.csv", by.of_rows), ("labels.tif", by.of_header)]


@harness("labels of the viewer", _labels_of_viewer, 0.04)
def _read_labels_of_viewer(folder):
    from uncover.viewer.viewed import ViewedMap

    labels = ("labels.tif", "areas.gpkg", "points.gpkg", "areas.geojson", "points.csv")
    for name in labels:
        field = None if name == "labels.tif" else "class"
        viewed = ViewedMap(folder, (str(folder / name),), field)
        try:
            viewed.errors(0), viewed.tile("class", 0, 0, 0)
        finally:
            viewed.close()


# ---- several dates, datasets, tables of effects ----------------------------------------------------------


def _dates(folder):
    from series_cases import Place

    place = Place(folder, (24, 24), dates=(0, 1))
    for day in place.days:
        (folder / f"scene-{day}.toml").write_text(f'source = "scene-{day}.tif"\ndate = {day}\nscale = 1.0\n')
    rasters = [(f"{kind}-{day}.tif", by.of_header) for kind in ("scene", "mask") for day in place.days]
    return [(f"scene-{day}.toml", by.of_text) for day in place.days] + rasters


@harness("scenes of several dates", _dates, 0.1)
def _read_dates(folder):
    from uncover.pipeline.series_sources import series_to_fit
    from uncover.raster import SceneOptions
    from uncover.raster.quality import FLAGGED, mask_values

    options = SceneOptions(mask=str(folder / "mask-{date}.tif"), mask_values=mask_values("scl"))
    every = sorted(str(path) for path in folder.glob("scene-*.tif"))
    return series_to_fit(every, options, None, "bands,B08/B04", FLAGGED).read()


def _dataset(folder):
    import xarray

    axes = {"y": 5000000.0 - 5 - 10 * np.arange(8.0), "x": 300005 + 10 * np.arange(8.0)}
    planes = np.stack([reflectance(8, 8, seed) for seed in (0, 1)])
    time = np.array(["2024-03-10", "2024-07-30"], "datetime64[ns]")
    values = {name: (("time", "y", "x"), planes[:, i]) for i, name in enumerate(BANDS)}
    xarray.Dataset(values, {**axes, "time": time}, {"crs": "EPSG:32633"}).to_zarr(
        folder / "dates.zarr", zarr_format=2
    )
    return _parts_of(folder, "dates.zarr")


def _parts_of(folder, name):
    every = [path.relative_to(folder) for path in sorted((folder / name).rglob("*")) if path.is_file()]
    return [(str(path), by.of_json if path.name.startswith(".z") else by.of_bytes) for path in every]


@harness("datasets with a time axis", _dataset, 0.04)
def _read_dataset(folder):
    from uncover.pipeline.series_sources import series_to_fit
    from uncover.raster import SceneOptions
    from uncover.raster.quality import FLAGGED

    options = SceneOptions(scale=1.0, level="L2A")
    return series_to_fit([str(folder / "dates.zarr")], options, "season", None, FLAGGED).read()


def _effects(folder):
    from effects_tables import make_table

    rng = np.random.default_rng(0)
    made = make_table(rng, 8, 8)
    made.to_zarr(folder / "table.zarr", zarr_format=2)
    made.to_netcdf(folder / "table.nc", engine="h5netcdf")
    return [*_parts_of(folder, "table.zarr"), ("table.nc", by.of_bytes)]


@harness("tables of effects", _effects, 0.04)
def _read_effects(folder):
    from effects_tables import BANDS as THREE
    from uncover.raster import Window
    from uncover.raster.uncertainty import open_uncertainty

    for name in ("table.zarr", "table.nc"):
        found = open_uncertainty(folder / name, grid(8, 8), THREE)
        found.read(Window(0, 0, 8, 8), np.full((3, 8, 8), 0.2))


def _noise_raster(folder):
    write_scene(folder / "noise.tif", np.full((4, 8, 8), 0.01, np.float32))
    (folder / "noise.csv").write_text(NOISE)
    (folder / "matrix.csv").write_text(MATRIX)
    return [("noise.tif", by.of_header), ("noise.csv", by.of_rows), ("matrix.csv", by.of_rows)]


@harness("uncertainty of bands of a scene", _noise_raster)
def _read_noise(folder):
    from uncover.raster import UncertaintyOptions, Window
    from uncover.raster.uncertainty import open_uncertainty

    how = UncertaintyOptions(between_pixels="random", correlation=folder / "matrix.csv", units="1")
    for name in ("noise.tif", "noise.csv"):
        found = open_uncertainty(folder / name, grid(8, 8), BANDS, how)
        found.read(Window(0, 0, 8, 8), np.full((4, 8, 8), 0.2))


# ---- other containers ------------------------------------------------------------------------------------


def _sample_cube(folder):
    from uncover.raster import SampleBlock, Window, write_samples

    values = np.random.default_rng(0).random((6, 2, 4)).astype(np.float32)
    block = SampleBlock(values, {"label": np.array([1, 1, 2, 2, 3, 3])})
    write_samples(folder / "samples.zarr", BANDS, [Window(0, 0, 2, 3)], lambda window: block)
    return _parts_of(folder, "samples.zarr")


@harness("cubes of samples", _sample_cube, 0.2)
def _read_sample_cube(folder):
    from uncover.raster import open_samples

    found = open_samples(folder / "samples.zarr")
    return found.count, [block.values.sum() for block in found]


def _parquet(folder):
    import pandas

    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.random((12, 3)), columns=["B02", "B03", "B04"])
    frame.assign(**{"class": ["forest", "water"] * 6}).to_parquet(folder / "samples.parquet")
    return [("samples.parquet", by.of_bytes)]


@harness("sample tables in Parquet", _parquet)
def _read_parquet(folder):
    from uncover.pipeline import read_table

    return read_table(folder / "samples.parquet")


def _geopackage(folder):
    from map_products import write_points, write_polygons

    where = grid(20, 20)
    write_points(folder / "points.gpkg", [2, 5, 9], [3, 8, 4], list(CLASSES), grid=where)
    write_polygons(folder / "areas.gpkg", [(0, 0, 5, 5), (6, 6, 12, 12)], list(CLASSES[:2]), grid=where)
    return [("points.gpkg", by.of_bytes), ("areas.gpkg", by.of_bytes)]


@harness("GeoPackages", _geopackage, 0.3)
def _read_geopackage(folder):
    from uncover.raster.vectors import burn_vector, read_features

    read_features(folder / "points.gpkg", grid(20, 20), ("class",))
    return burn_vector(folder / "areas.gpkg", grid(20, 20), "class")


def _references(folder):
    _of_commands(folder)
    (folder / "points.csv").write_text(POINTS)
    rows = "".join(f"{name},{area}\n" for name, area in zip(CLASSES, (1.0, 2.0, 1.0), strict=True))
    (folder / "strata.csv").write_text("stratum,area_ha\n" + rows)
    return [("points.csv", by.of_rows), ("strata.csv", by.of_rows), ("map/areas.csv", by.of_rows)]


@harness("reference data and areas of strata", _references, 0.7)
def _read_references(folder):
    from uncover.pipeline.map_product import MapProduct
    from uncover.pipeline.references import _read_areas, open_reference

    _read_areas(folder / "strata.csv", CLASSES, 100.0)
    return open_reference(folder / "points.csv", MapProduct.open(folder / "map"))


def _vrt(folder):
    from rasterio.shutil import copy

    write_scene(folder / "scene.tif", reflectance(8, 8))
    copy(folder / "scene.tif", folder / "scene.vrt", driver="VRT")
    return [("scene.vrt", by.of_text)]


@harness("virtual rasters", _vrt)
def _read_vrt(folder):
    from uncover.raster import open_scene

    return open_scene(folder / "scene.vrt").read()


def _zipped(folder):
    from fuzzing.readers import _product

    with tempfile.TemporaryDirectory() as other:
        if not _product("L2A_04.00")(Path(other)):
            return []
        with zipfile.ZipFile(folder / "product.zip", "w") as archive:
            for path in sorted(Path(other).rglob("*")):
                archive.write(path, path.relative_to(other))
    return [("product.zip", by.of_header), ("product.zip", _of_archive)]


def _of_archive(content, rng):
    """An archive with members twice, renamed, left out, or said to be encrypted."""
    out, how = io.BytesIO(), int(rng.integers(4))
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = str(rng.choice(names))
        for name in names:
            if name != chosen or how in (0, 3):
                new.writestr(name, old.read(name))
            if name == chosen and how in (0, 1):
                with contextlib.suppress(UserWarning):
                    new.writestr(name if how == 0 else f"../{name}", by.of_bytes(old.read(name), rng))
    made = bytearray(out.getvalue())
    if how == 3:  # the flag of encrypted members, in the list at the end
        at = made.find(b"PK\x01\x02", int(rng.integers(len(made))))
        if at >= 0:
            made[at + 8] |= 1
    return bytes(made)


@harness("zipped products", _zipped, 0.1)
def _read_zipped(folder):
    from uncover.raster import open_scene

    return open_scene(folder / "product.zip").read()


# ---- records of stopped runs -----------------------------------------------------------------------------


def _cells(folder):
    facts = {"study": "tiny", "seed": 0, "models": {"qda": {"alpha": 1.0}}}
    (folder / "study.json").write_text(json.dumps(facts))
    (folder / "cells").mkdir()
    (folder / "cells" / "a.json").write_text(json.dumps({"f1": 0.9, "counts": [1, 2]}))
    (folder / "steps.json").write_text(json.dumps({"labels": {"inputs": {"a": "b"}, "outputs": {"c": "d"}}}))
    (folder / "scene.json").write_text(json.dumps({"years": {"2020": {"product": "x"}}}))
    (folder / "done.json").write_text(json.dumps({"key": {"aod": 0.1}, "product": "x", "reached": 0.1}))
    names = ("study.json", "cells/a.json", "scene.json", "done.json")
    return [(name, by.of_json) for name in names]


@harness("records of studies and of Sen2Cor", _cells)
def _read_cells(folder):
    from uncover.atmosphere.sen2cor import _finished
    from uncover.studies.cells import CellStore
    from uncover.studies.landscape.scene import SceneFiles

    facts = {"study": "tiny", "seed": 0, "models": {"qda": {"alpha": 1.0}}}
    SceneFiles.open(folder).product(2020)
    _finished(folder, {"aod": 0.1})
    return CellStore(folder, facts, read_only=True).load("a")


# ---- the viewer's server ---------------------------------------------------------------------------------

ADDRESSES = """
data/0/VERSION/class/0/0-0
data/0/VERSION/largest/0/0-0
data/0/VERSION/story/3-4
data/0/VERSION/areas?outline=0,0;0,9;9,9;9,0
data/0/VERSION/place/45.1242,12.4571
data/0/VERSION/errors/0
view.js
"""


@cache
def _served(folder):
    from uncover.viewer import view

    return view(folder)


def _addresses(folder):
    _of_commands(folder)
    return files(addresses__txt=(ADDRESSES.strip(), by.of_text))(folder)


@harness("addresses of the viewer", _addresses, 0.2)
def _ask(folder):
    shown = _served(folder)
    server, answers = shown._server, []
    version = server.maps.current(0).stamp
    text = (folder / "addresses.txt").read_bytes().decode("utf-8", "replace")
    for line in text.replace("VERSION", version).splitlines()[:12]:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        with contextlib.closing(connection):
            connection._validate_path = lambda url: None  # a hostile client checks nothing
            connection._encode_request = lambda request: request.encode("utf-8", "replace")
            connection.request("GET", f"/{server.token}/{line}")
            with contextlib.suppress(http.client.HTTPException, ConnectionError):
                answer = connection.getresponse()
                answers.append((answer.status, answer.read()[:2000]))
    wrong = [said for status, said in answers if status >= 500]
    if wrong:
        raise RuntimeError(f"the server stumbled: {wrong[0]!r}")
    refused = [said.decode("utf-8", "replace") for status, said in answers if status >= 400]
    if refused:
        raise Refused(max(refused, key=len))
    return answers


# ---- options of the command line -------------------------------------------------------------------------

_SCENE = ["scene.tif"]
_CALLS = {
    "map": ["model.uncover", *_SCENE, "--out", "new", "--threads", "1"],
    "fit": [*_SCENE, "--labels", "labels.tif", "--model", "published", "--out", "new", "--block", "0"],
    "labels": ["labels.tif", "--out", "new.tif"],
    "evaluate": ["map", "--reference", "labels.tif", "--draws", "20", "--block", "50", "--out", "new"],
    "realise": ["scene.tif", "--level", "L1C", "--aod", "0.1", "--draws", "2", "--out", "new"],
    "report": [".", "--out", "new.html"],
    "view": [".", "--export", "new"],
    "info": ["scene.tif"],
}
#: Options that would wait for the network, or for a person.
_NOT = {"scheduler", "help", "port", "browser", "overwrite", "sen2cor", "keep_products"}
_VALUES = (
    *(each for each in by.NUMBERS if each != "½"), *by.TEXTS[:2], *by.TEXTS[3:8], "é", "%s{0}", "½",
    "a,b", "a=b,a=c", ",", "=", "-5", "0.5", "3,8-10", "1-1000000000", "scene.tif", "scene.tif:7",
    "scene.tif:999999999999", "map",
    ".", "new", "1000000000", "4294967296", "2020-13-45", "EPSG:0", "-1e-300",
)  # fmt: skip


def _lines(folder):
    _of_commands(folder)
    write = {name: [*arguments] for name, arguments in _CALLS.items()}
    for name, arguments in write.items():
        (folder / f"{name}.line").write_text(json.dumps(arguments))
    return [(f"{name}.line", _of_options(name)) for name in write if name not in ("report", "view")]


def _of_options(name):
    """A command line with one or two options more, or with other values."""

    def change(content, rng):
        from uncover.cli import main

        options = [o for o in main.commands[name].params if o.opts[0].startswith("-") and o.name not in _NOT]
        arguments = json.loads(content)
        for _ in range(int(rng.integers(1, 3))):
            option = options[rng.integers(len(options))]
            values = [str(_VALUES[rng.integers(len(_VALUES))]) for _ in range(option.nargs)]
            arguments += [option.opts[0]] + ([] if option.is_flag else values)
        if rng.integers(8) == 0:
            arguments[rng.integers(len(arguments))] = str(_VALUES[rng.integers(len(_VALUES))])
        return json.dumps(arguments).encode()

    return change


@harness("options of commands", _lines, 0.5)
def _call(folder):
    """Run the commands whose line was changed: those that are as they were are known to work."""
    refused = None
    for name, usual in _CALLS.items():
        arguments = json.loads((folder / f"{name}.line").read_text())
        if arguments == usual:
            continue
        try:
            obey(folder, name, *arguments)
        except ValueError as error:
            refused = error
    if refused is not None:
        raise refused


def obey(folder, *line):
    """Run a command line in a folder, and remove what it made: names there begin with `new`.

    Its refusal is a ValueError; what it had not thought of is raised as it was.
    """
    import click

    from uncover.cli import main

    before, silent = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
            main(list(line), prog_name="uncover", standalone_mode=False)
    except click.ClickException as error:
        if "uncover --debug" in error.format_message():
            raise (error.__cause__ or error.__context__ or error) from None
        own = not isinstance(error, click.UsageError) and error.__context__  # others are click's words
        raise own or Refused(error.format_message()) from None
    except (click.exceptions.Exit, SystemExit):
        raise Refused("left") from None
    finally:
        os.chdir(before)
        for path in folder.iterdir():
            if path.name.startswith((".new", "new")):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
