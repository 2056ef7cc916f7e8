"""The kinds of ground below the classes, their class, and what a land cover map calls them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uncover.labels import LandClass, Scheme, load_scheme


@dataclass(frozen=True)
class LandKind:
    """A sub-class: its code in truth rasters, its class (IPCC category), its UKCEH class, its colour."""

    code: int
    name: str
    parent: str
    ukceh: int
    colour: str


KINDS = (
    LandKind(11, "broadleaved trees", "forest", 1, "#1B7837"),
    LandKind(12, "conifers", "forest", 2, "#00441B"),
    LandKind(21, "bare soil", "cropland", 3, "#A6611A"),
    LandKind(22, "winter cereals", "cropland", 3, "#F8C73A"),
    LandKind(23, "oilseed rape", "cropland", 3, "#FFFF33"),
    LandKind(24, "spring crops", "cropland", 3, "#DFC27D"),
    LandKind(25, "root crops and maize", "cropland", 3, "#BF812D"),
    LandKind(31, "improved grass", "grassland", 4, "#89E98F"),
    LandKind(32, "rough grass", "grassland", 5, "#B8B868"),
    LandKind(33, "cut grass", "grassland", 4, "#D9F0A3"),
    LandKind(41, "fen", "wetlands", 8, "#7B9FD6"),
    LandKind(42, "river", "wetlands", 14, "#2166AC"),
    LandKind(43, "lake", "wetlands", 14, "#053061"),
    LandKind(51, "roofs", "settlements", 20, "#7A0177"),
    LandKind(52, "asphalt and paving", "settlements", 20, "#BB4182"),
    LandKind(53, "gardens", "settlements", 21, "#E7BBD3"),
    LandKind(54, "building sites", "settlements", 20, "#FA9FB5"),
)
CODE = {kind.name: kind.code for kind in KINDS}
CLASSES = load_scheme("lulucf")
TRAINED = ("forest", "cropland", "grassland", "settlements")
CROPS = tuple(kind.code for kind in KINDS if kind.parent == "cropland")

SCHEME = Scheme(
    name="kinds of ground",
    title="Sub-classes of the embedded scene",
    classes=tuple(LandClass(kind.code, kind.name, kind.colour, kind.parent) for kind in KINDS),
)


def class_codes() -> NDArray[np.uint8]:
    """IPCC code by kind: an array to index with codes of kinds."""
    return _table({kind.code: CLASSES.code_of(kind.parent) for kind in KINDS})


def ukceh_codes() -> NDArray[np.uint8]:
    """UKCEH code by kind."""
    return _table({kind.code: kind.ukceh for kind in KINDS})


def _table(codes: dict[int, int]) -> NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    table[list(codes)] = list(codes.values())
    return table
