"""Harnesses of whole commands: of what a server answers, what lies beside a product, and what was stopped."""

import contextlib
import csv
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fuzzing import mutations as by
from fuzzing.folders import _of_commands, _parts_of, obey
from fuzzing.readers import GEOJSON, LEGEND, SCHEME, TABLE, harness
from map_cases import CLASSES, fitted, grid, reflectance, save_model, write_scene

# ---- answers of a server ---------------------------------------------------------------------------------

API = "http://stac.invalid/api"
_CORE = "https://api.stacspec.org/v1.0.0/"


def _answers(folder):
    links = [{"rel": "self", "href": API}, {"rel": "root", "href": API}]
    links.append({"rel": "search", "href": f"{API}/search", "type": "application/geo+json"})
    landing = {"type": "Catalog", "id": "here", "stac_version": "1.0.0", "description": "here"}
    landing |= {"links": links, "conformsTo": [_CORE + name for name in ("core", "item-search")]}
    item = {
        "type": "Feature", "stac_version": "1.0.0", "stac_extensions": [], "id": "A",
        "bbox": [12, 45, 13, 46], "collection": "sentinel-2-l2a", "geometry": None,
        "properties": {"datetime": "2024-06-01T10:00:00Z", "eo:cloud_cover": 5.0, "platform": "sentinel-2a"},
        "assets": {"blue": {"href": "./B02.tif", "roles": ["data"]}},
        "links": [{"rel": "self", "href": f"{API}/items/A.json"}],
    }  # fmt: skip
    more = {"rel": "next", "href": f"{API}/search?page=2", "method": "GET"}
    pages = [{"type": "FeatureCollection", "features": [item], "links": [more]}]
    pages.append({"type": "FeatureCollection", "features": [item | {"id": "B"}], "links": []})
    for name, content in (("landing", landing), ("first", pages[0]), ("second", pages[1])):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return [(f"{name}.json", by.of_json) for name in ("landing", "first", "second")]


@harness("answers of a STAC API", _answers)
def _search(folder):
    import requests

    asked = []

    def send(session, request, **_):
        asked.append(request.url)
        if len(asked) > 20:
            raise requests.ConnectionError("the server is tired")  # of pages that go in circles
        page = "landing" if len(asked) == 1 else "second" if "page=2" in request.url else "first"
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 200, request.url, request
        answer._content = (folder / f"{page}.json").read_bytes()
        answer.headers["Content-Type"] = "application/geo+json"
        return answer

    with patch.object(requests.Session, "send", send):
        obey(
            folder,
            "scenes",
            "--stac",
            API,
            "--bbox",
            "12",
            "45",
            "13",
            "46",
            "--max-cloud",
            "50",
            "--out",
            "new",
        )


# ---- samples that were drawn, labels, masks --------------------------------------------------------------


def _drawn(folder):
    from uncover.pipeline import SampleOptions, sample_map

    _of_commands(folder)
    sample_map(folder / "map", SampleOptions(purpose="areas", n=90)).write(folder / "drawn.gpkg")
    with open(folder / "drawn.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    with open(folder / "visited.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "class": CLASSES[i % len(CLASSES)]} for i, row in enumerate(rows))
    return [("visited.csv", by.of_rows), ("drawn.gpkg", by.of_bytes)]


@harness("samples that were drawn", _drawn, 0.2)
def _evaluate_drawn(folder):
    from uncover.pipeline.map_product import MapProduct
    from uncover.pipeline.references import open_reference

    product = MapProduct.open(folder / "map")
    reference = open_reference(folder / "visited.csv", product)
    with contextlib.suppress(ValueError):  # its classes are not filled in
        open_reference(folder / "drawn.gpkg", product)
    return reference.drawn


def _maps_of_labels(folder):
    from label_maps import write_map

    (folder / "scheme.toml").write_text(SCHEME)
    (folder / "table.toml").write_text(TABLE)
    codes = np.where(np.arange(64).reshape(8, 8) % 3, 1, 7).astype(np.uint8)
    write_map(folder / "codes.tif", codes, grid=grid(8, 8))
    write_map(folder / "sure.tif", np.full((8, 8), 99, np.uint8), grid=grid(8, 8))
    (folder / "aoi.geojson").write_text(json.dumps(GEOJSON))
    parts = [("scheme.toml", by.of_text), ("table.toml", by.of_text), ("aoi.geojson", by.of_json)]
    return [*parts, ("codes.tif", by.of_header), ("sure.tif", by.of_header)]


@harness("labels that are collected", _maps_of_labels, 0.4)
def _collect(folder):
    line = ("codes.tif", "--scheme", "table.toml", "--probability", "sure.tif", "--aoi", "aoi.geojson")
    obey(folder, "labels", *line, "--out", "new.tif")


def _legend_and_shapes(folder):
    import pyogrio
    import shapely

    from label_maps import write_map

    write_map(folder / "a.tif", np.ones((8, 8), np.uint8), grid=grid(8, 8))
    (folder / "a.vrt").write_text(LEGEND)
    codes = {"value": np.array([1, 2]), "class_name": np.array(["forest", "water"], object)}
    place = np.array([shapely.to_wkb(shapely.box(x, 45.124, x + 0.0005, 45.126)) for x in (12.4565, 12.4571)])
    how = {"fields": list(codes), "geometry_type": "Polygon", "crs": "EPSG:4326"}
    pyogrio.raw.write(folder / "shapes.shp", place, list(codes.values()), driver="ESRI Shapefile", **how)
    shutil.copy(folder / "shapes.dbf", folder / "a.tif.vat.dbf")
    pyogrio.raw.write(folder / "shapes.fgb", place, list(codes.values()), driver="FlatGeobuf", **how)
    with zipfile.ZipFile(folder / "shapes.zip", "w") as archive:
        for suffix in ("shp", "dbf", "shx", "prj"):
            archive.write(folder / f"shapes.{suffix}", f"shapes.{suffix}")
    parts = [(f"shapes.{suffix}", by.of_bytes) for suffix in ("shp", "dbf", "shx", "zip", "fgb")]
    return [*parts, ("shapes.prj", by.of_text), ("a.tif.vat.dbf", by.of_bytes)]


@harness("shapefiles and their tables", _legend_and_shapes, 0.8)
def _shapes(folder):
    from uncover.pipeline import open_labels
    from uncover.raster.vectors import burn_vector

    for name in ("shapes.shp", "shapes.zip", "shapes.fgb"):
        burn_vector(folder / name, grid(8, 8), "class_name")
    return open_labels(folder / "a.tif").scheme


def _masked(folder):
    from label_maps import write_map

    write_scene(folder / "scene.tif", reflectance(8, 8))
    write_map(folder / "mask.tif", np.zeros((8, 8), np.uint8), grid=grid(8, 8))
    write_map(folder / "labels.tif", np.arange(64).reshape(8, 8).astype(np.uint8) % 3 + 1, grid=grid(8, 8))
    return [("mask.tif", by.of_header), ("labels.tif", by.of_header)]


@harness("masks and labels of a fit", _masked, 0.2)
def _fit(folder):
    line = (
        "scene.tif",
        "--labels",
        "labels.tif",
        "--mask",
        "mask.tif",
        "--model",
        "published",
        "--block",
        "0",
    )
    obey(folder, "fit", *line, "--out", "new")


# ---- products of other kinds -----------------------------------------------------------------------------


def _datasets(folder):
    from uncover.pipeline import MapOptions, map_scene

    save_model(folder / "model.uncover", fitted())
    write_scene(folder / "scene.tif", reflectance(20, 20))
    for kind in ("zarr", "netcdf"):
        map_scene(folder / "model.uncover", folder / "scene.tif", folder / kind, MapOptions(format=kind))
    return [
        *_parts_of(folder, "zarr/map.zarr"),
        ("netcdf/map.nc", by.of_bytes),
        ("zarr/item.json", by.of_json),
    ]


@harness("maps in Zarr and NetCDF", _datasets, 0.02)
def _read_datasets(folder):
    from uncover.pipeline import describe_file
    from uncover.pipeline.map_product import MapProduct

    refused = None
    for kind in ("zarr", "netcdf"):
        try:
            product = MapProduct.open(folder / kind)
            for name in ("class", "probability"):
                product.pixels(name, np.array([0, 19]), np.array([0, 19]))
            describe_file(folder / kind).text()
        except ValueError as error:
            refused = error
    if refused is not None:
        raise refused


# ---- work that was stopped -------------------------------------------------------------------------------


_RUNS = {
    "a stopped map": "map model.uncover scene.tif --threads 1 --out stopped",
    "stopped areas": "areas map --regions regions.gpkg --out stopped",
    "a stopped cube": "realise top.tif --level L1C --sensor S2A --aod 0.1 --draws 2 --angles 35 5 120 "
    "--out stopped",
}


def _stopped(run):
    """Work that was broken off at the last moment, before it had its name."""

    def make(folder):
        from map_products import write_polygons
        from survival_cases import write_top

        _of_commands(folder)
        write_top(folder / "top.tif", (20, 20))
        write_polygons(folder / "regions.gpkg", [(0, 0, 5, 5)], list(CLASSES[:1]), grid=grid(20, 20))
        with patch("pathlib.Path.rename", side_effect=KeyError), contextlib.suppress(KeyError):
            obey(folder, *_RUNS[run].split())
        return [
            (str(path.relative_to(folder)), by.of_lines if path.name == "journal" else by.of_bytes)
            for path in sorted((folder / "stopped.partial").rglob("*"))
            if path.is_file() and path.stat().st_size
        ]

    return make


def _go_on(run):
    """Go on with a copy, as the work is gone when it is done."""

    def read(folder):
        with tempfile.TemporaryDirectory() as other:
            place = Path(other) / "copy"
            shutil.copytree(folder, place)
            obey(place, "info", "stopped.partial")
            obey(place, *_RUNS[run].split(), "--resume")

    return read


for _run in _RUNS:
    harness(_run, _stopped(_run), 0.005 if _run == "a stopped map" else 0.05)(_go_on(_run))


# ---- parameters, steps and studies -----------------------------------------------------------------------

GIPP = """<?xml version="1.0"?><!-- kept -->
<Level-2A_Ground_Image_Processing_Parameter><Atmospheric_Correction><Flags><VIS_Update_Mode>1</VIS_Update_Mode>
</Flags><Calibration><Visibility>23.0</Visibility></Calibration></Atmospheric_Correction>
</Level-2A_Ground_Image_Processing_Parameter>
"""


def _steps(folder):
    (folder / "gipp.xml").write_text(GIPP)
    (folder / "made").write_text("made")
    _do_step(folder)
    return [("gipp.xml", by.of_text), ("steps.json", by.of_json)]


def _do_step(folder):
    from uncover.studies.demo import Steps

    return Steps(folder).do("one", {"a": 1}, [folder / "gipp.xml"], ["out"], lambda: (folder / "out").touch())


@harness("parameters of Sen2Cor, steps of a demonstration", _steps)
def _read_steps(folder):
    from uncover.atmosphere.sen2cor import ConstantVisibility

    try:
        _do_step(folder)
    finally:
        (folder / "out").unlink(missing_ok=True)
    ConstantVisibility(folder / "gipp.xml").prepare(folder, 0.2, folder).files[0].write()
