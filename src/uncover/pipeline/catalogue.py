"""Scenes of a STAC API: items of a place and a time, listed and written as files that are scenes."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uncover.files import check_place, only_run_in, write_whole
from uncover.raster.errors import SceneError, require
from uncover.raster.names import span
from uncover.remote import beside

_CLOUD = "eo:cloud_cover"


@dataclass(frozen=True, kw_only=True)
class ItemSearch:
    """Query of a STAC API.

    bbox
        West, south, east, north in degrees.
    dates
        2024-06-01, 2024-06, 2024, or FIRST/LAST; None for all times.
    max_cloud
        Largest cloud cover of a scene in per cent; scenes that state none are kept. None for all.
    collection
        Collection of the items, such as sentinel-2-l2a.
    limit
        Most items that may match: more are refused, and not cut off.
    """

    bbox: tuple[float, float, float, float]
    dates: str | None = None
    max_cloud: float | None = None
    collection: str = "sentinel-2-l2a"
    limit: int = 1000


@dataclass(frozen=True)
class FoundItem:
    """An item of a STAC API, whose assets have full addresses."""

    content: dict[str, Any]

    @property
    def identity(self) -> str:
        """Identifier of the item."""
        return str(self.content["id"])

    @property
    def time(self) -> str:
        """Time of acquisition, or the beginning of the interval."""
        said = self.content["properties"]
        return str(said.get("datetime") or said.get("start_datetime") or "")

    @property
    def cloud(self) -> float | None:
        """Cloud cover in per cent; None where it is not stated."""
        said = self.content["properties"].get(_CLOUD)
        return None if said is None else float(said)


def find_items(api: str, search: ItemSearch) -> list[FoundItem]:
    """Items of a STAC API, by their time. All pages are read, or it fails in one line."""
    _check(search)
    require("pystac_client", extra="remote")
    import pystac_client

    when = None
    if search.dates is not None:
        when = [time.isoformat().replace("+00:00", "Z") for time in span(search.dates, "--dates")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what an API does not say that it can do
            client = pystac_client.Client.open(api, timeout=60)
            found = client.search(
                collections=[search.collection],
                bbox=search.bbox,
                datetime=None if when is None else "/".join(when),
            )
            items = list(_kept((FoundItem(_whole(item, api)) for item in found.items_as_dicts()), search))
    except SceneError:
        raise
    except Exception as error:  # the client raises whatever the answer makes it stumble over
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise SceneError(
            f"{api} does not answer as a STAC API does ({why}); nothing was written: check the address, or "
            "try again later"
        ) from error
    return sorted(items, key=lambda item: (item.time, item.identity))


def _kept(found: Iterable[FoundItem], search: ItemSearch) -> Iterator[FoundItem]:
    """Items with few clouds enough, each once, if they are not too many."""
    seen = set[str]()
    for item in found:
        cloudy = search.max_cloud is not None and item.cloud is not None and item.cloud > search.max_cloud
        if cloudy or item.identity in seen:
            continue
        seen.add(item.identity)
        if len(seen) > search.limit:
            raise SceneError(f"more than {search.limit} scenes match; narrow the search, or raise --limit")
        yield item


def _check(search: ItemSearch) -> None:
    west, south, east, north = search.bbox
    if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south < north <= 90) or west == east:
        listed = " ".join(f"{side:g}" for side in search.bbox)
        raise SceneError(f"--bbox is {listed}; give WEST SOUTH EAST NORTH in degrees, south below north")
    if search.max_cloud is not None and not 0 <= search.max_cloud <= 100:
        raise SceneError(f"--max-cloud is {search.max_cloud:g}; give per cent, from 0 to 100")


def _whole(item: dict[str, Any], api: str) -> dict[str, Any]:
    """The item with full addresses of its assets, if it is one."""
    name = str(item.get("id") or "")
    if not name or Path(name).name != name or "\0" in name or not isinstance(item.get("properties"), dict):
        raise SceneError(f"{api} gave an item without a usable id or without properties; nothing was written")
    links = item.get("links") or []
    own = next((str(link["href"]) for link in links if link.get("rel") == "self"), api)
    assets = {
        key: {**asset, "href": beside(own, str(asset["href"]))}
        for key, asset in (item.get("assets") or {}).items()
    }
    return {**item, "assets": assets}


def write_items(items: Sequence[FoundItem], folder: str | Path) -> list[Path]:
    """Write each item to FOLDER/ID.json, whole or not at all, and return the files.

    >>> import tempfile
    >>> item = FoundItem({"type": "Feature", "id": "S2A", "properties": {}, "assets": {}})
    >>> [path.name for path in write_items([item], tempfile.mkdtemp())]
    ['S2A.json']
    """
    place = Path(folder)
    if not place.is_dir():
        check_place(place)
        place.mkdir()
    check_place(place / "item.json")
    files = [place / f"{item.identity}.json" for item in items]
    with only_run_in(place):
        for file, item in zip(files, items, strict=True):
            write_whole(file, json.dumps(item.content, indent=2, ensure_ascii=False) + "\n")
    return files
