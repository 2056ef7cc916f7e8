"""STAC items of a map and of the model that made it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from uncover import __version__
from uncover.labels import Scheme
from uncover.raster.errors import SceneError
from uncover.raster.footprint import footprint
from uncover.raster.grid import Grid
from uncover.raster.product import Layer, Product
from uncover.raster.quality import Quality

_EXTENSIONS = "https://stac-extensions.github.io"
_MAP_EXTENSIONS = [
    f"{_EXTENSIONS}/classification/v1.1.0/schema.json",
    f"{_EXTENSIONS}/raster/v2.0.0/schema.json",
    f"{_EXTENSIONS}/processing/v1.2.0/schema.json",
    f"{_EXTENSIONS}/projection/v2.0.0/schema.json",
]
_MODEL_EXTENSIONS = [f"{_EXTENSIONS}/mlm/v1.5.2/schema.json"]
_COG = "image/tiff; application=geotiff; profile=cloud-optimized"

Item = dict[str, Any]


def map_item(
    product: Product,
    identity: str,
    when: Item,
    record: Mapping[str, Any],
    assets: Mapping[str, Item],
) -> Item:
    """The item of a map. `when` is from `time_of`; `record` says what was assumed, it goes in as it is."""
    properties = {
        **when,
        "title": f"Land cover of {identity}, with its uncertainty",
        "processing:software": {"uncover": __version__},
        "processing:lineage": _lineage(record),
        **_projection(product.grid),
        **{f"uncover:{key}": value for key, value in record.items()},
    }
    links = [
        {"rel": "self", "href": "./item.json", "type": "application/geo+json"},
        {"rel": "derived_from", "href": "./model.json", "type": "application/geo+json", "title": "model"},
    ]
    return _item(f"map-{_slug(identity)}", product.grid, properties, links, assets, _MAP_EXTENSIONS)


def model_item(model: Any, scheme: Scheme, grid: Grid, when: Item, bands: Sequence[str]) -> Item:
    """The item of the model, with what it takes and what it gives."""
    K, p = len(scheme.classes), len(bands)
    name = getattr(model, "estimator_name", type(model).__name__)
    task = {"name": "pixels", "bands": [{"name": band} for band in bands]}
    properties = {
        **when,
        "bands": [{"name": band} for band in bands],
        "mlm:name": f"uncover {name}",
        "mlm:architecture": f"{name}, Bayesian generative classifier",
        "mlm:tasks": ["classification"],
        "mlm:framework": "uncover",
        "mlm:framework_version": ".".join(__version__.split(".")[:3]),
        "mlm:input": [
            {
                **task,
                "input": {
                    "shape": [-1, -1, p],
                    "dim_order": ["batch", "realisation", "bands"],
                    "data_type": "float32",
                },
                "description": f"{p} bands, units: {getattr(model, 'units_', None) or 'unknown'}",
            }
        ],
        "mlm:output": [
            {
                "name": "probability",
                "tasks": ["classification"],
                "result": {"shape": [-1, K], "dim_order": ["batch", "class"], "data_type": "float32"},
                "classification:classes": _classes(scheme)[1:],
            }
        ],
        "mlm:hyperparameters": {
            name: value if isinstance(value, str | int | float | None) else str(value)
            for name, value in sorted(model.get_params(deep=False).items())
        },
    }
    assets = {
        "model": {
            "href": "./model.uncover",
            "type": "application/zip",
            "roles": ["mlm:model"],
            "mlm:artifact_type": "uncover.save",
            "bands": [{"name": band} for band in bands],
        }
    }
    links = [{"rel": "self", "href": "./model.json", "type": "application/geo+json"}]
    return _item("model", grid, properties, links, assets, _MODEL_EXTENSIONS)


def _item(
    name: str,
    grid: Grid,
    properties: Item,
    links: list[Item],
    assets: Mapping[str, Item],
    extensions: list[str],
) -> Item:
    item: Item = {
        "type": "Feature",
        "stac_version": "1.1.0",
        "stac_extensions": extensions,
        "id": name,
        "geometry": None,
        "properties": properties,
        "links": links,
        "assets": dict(assets),
    }
    outline = footprint(grid)
    if outline is not None:
        item["geometry"], item["bbox"] = outline
    return item


def time_of(scene_time: datetime | None, stated: str | None) -> Item:
    """Time properties of an item: the scene's own, or what was stated for a scene that has none.

    A day, month or year, or two of them with a slash between, is an interval: so STAC says it.
    Without both the time is null: catalogues refuse such an item, and a guess would be worse.

    >>> time_of(None, "2020-06")["end_datetime"]
    '2020-06-30T23:59:59Z'
    >>> time_of(None, "2020-06-01T11:06:31Z")
    {'datetime': '2020-06-01T11:06:31.000000Z'}
    >>> time_of(None, None)
    {'datetime': None}
    """
    if stated is None:
        return {"datetime": None if scene_time is None else _instant(scene_time)}
    if scene_time is not None:
        raise SceneError(
            f"--date {stated}: the scene states its own time, {_instant(scene_time)}; leave --date out"
        )
    first, _, last = stated.partition("/")
    begin, end = _span(first, stated)[0], _span(last or first, stated)[1]
    if end < begin:
        raise SceneError(f"--date {stated} ends before it begins; give the earlier date first")
    if begin == end:
        return {"datetime": _instant(begin)}
    start, stop = (f"{time:%Y-%m-%dT%H:%M:%SZ}" for time in (begin, end))
    return {"datetime": None, "start_datetime": start, "end_datetime": stop}


def _instant(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _span(text: str, stated: str) -> tuple[datetime, datetime]:
    """First and last second of a year, month or day; of a time the same twice."""
    try:
        if not re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
            time = datetime.fromisoformat(text)
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            return time, time
        year, month, day = (int(part) for part in (text + "-01-01")[:10].split("-"))
        begin = datetime(year, month, day, tzinfo=UTC)
        if len(text) == 4:
            after = begin.replace(year=year + 1)
        elif len(text) == 7:
            after = begin.replace(year=year + month // 12, month=month % 12 + 1)
        else:
            after = begin + timedelta(days=1)
    except ValueError:
        raise SceneError(
            f"--date {stated} is no date; give 2020-06-01, 2020-06, 2020, a time such as "
            "2020-06-01T11:06:31Z, or two of them with a slash between"
        ) from None
    return begin, after - timedelta(seconds=1)


def _projection(grid: Grid) -> Item:
    known = grid.crs is not None and re.fullmatch(r"[A-Za-z]+:\w+", grid.crs) is not None
    found: Item = {"proj:code": grid.crs if known else None}
    if grid.crs is not None and not known:
        found["proj:wkt2"] = grid.crs
    found |= {
        "proj:shape": list(grid.shape),
        "proj:transform": [float(value) for value in grid.transform],
        "proj:bbox": [float(value) for value in grid.bounds],
    }
    return found


def _lineage(record: Mapping[str, Any]) -> str:
    source = record["measurement_uncertainty"]["source"]
    same = "the scene that trained it" if record["paired"] else "another scene than the one that trained it"
    return f"Model applied to {same}; measurement uncertainty: {source}."


def layer_asset(layer: Layer, product: Product, statistics: Sequence[Mapping[str, float]]) -> Item:
    """The asset of one layer, with its bands."""
    bands = []
    for name, numbers in zip(layer.bands, statistics, strict=True):
        band: Item = {"name": name, "data_type": layer.dtype}
        if layer.nodata is not None:
            band["nodata"] = "nan" if layer.nodata != layer.nodata else int(layer.nodata)
        if layer.scale != 1.0:
            band |= {"raster:scale": layer.scale, "raster:offset": 0}
        if numbers and layer.resampling == "average":
            band["statistics"] = dict(numbers)
        bands.append(band)
    asset: Item = {
        "href": f"./{layer.name}.tif",
        "type": _COG,
        "title": layer.title,
        "roles": ["data"],
        "raster:sampling": "area",
        "bands": bands,
    }
    if layer.name == "class":
        asset["classification:classes"] = _classes(product.scheme)
    if layer.name == "quality":
        asset["classification:bitfields"] = _bitfields()
    return asset


def _classes(scheme: Scheme) -> list[Item]:
    nothing: Item = {"value": 0, "name": "nodata", "nodata": True}
    return [
        nothing,
        *(
            {"value": c.code, "name": _slug(c.name), "title": c.name, "color_hint": c.colour[1:]}
            for c in scheme.classes
        ),
    ]


def _bitfields() -> list[Item]:
    return [
        {
            "name": str(bit.name).lower(),
            "offset": int(bit).bit_length() - 1,
            "length": 1,
            "classes": [
                {"value": 0, "name": "no"},
                {"value": 1, "name": "yes"},
            ],
        }
        for bit in Quality
    ]


def _slug(text: str) -> str:
    return re.sub(r"[^0-9A-Za-z_-]+", "_", text).strip("_") or "unnamed"
