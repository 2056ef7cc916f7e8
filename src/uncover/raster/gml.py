"""The polygon masks (GML) of Sentinel-2 products before baseline 04.00."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

import numpy as np

from uncover.raster.errors import damaged
from uncover.raster.quality import Quality


def read_gml_mask(
    text: bytes, meaning: Mapping[str, Quality], name: str
) -> tuple[tuple[bytes, Quality], ...]:
    """Polygons (WKB) with the bits of their mask type; an empty key in `meaning` stands for every type."""
    with damaged(name):
        return tuple(_features(ElementTree.fromstring(text), meaning))


def _features(root: ElementTree.Element, meaning: Mapping[str, Quality]) -> Iterator[tuple[bytes, Quality]]:
    import shapely

    for feature in _named(root, "MaskFeature"):
        kind = next((str(node.text).strip() for node in _named(feature, "maskType")), "")
        bits = meaning.get(kind, meaning.get(""))
        if bits is None:
            continue
        for node in _named(feature, "Polygon"):
            yield shapely.to_wkb(_polygon(node)), bits


def _named(node: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (child for child in node.iter() if child.tag.rsplit("}", 1)[-1] == name)


def _polygon(node: ElementTree.Element) -> Any:
    import shapely

    outer = [_ring(ring) for part in _named(node, "exterior") for ring in _named(part, "posList")]
    inner = [_ring(ring) for part in _named(node, "interior") for ring in _named(part, "posList")]
    return shapely.Polygon(outer[0], inner)


def _ring(node: ElementTree.Element) -> Any:
    """Corners (corner, xy); the height, where there is one, is dropped."""
    size = int(node.get("srsDimension", "2"))
    return np.array(str(node.text).split(), dtype=np.float64).reshape(-1, size)[:, :2]
