"""Metadata of a Sentinel-2 product: calibration, identity, atmosphere, angles. No pixels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from uncover.raster.angles import AngleField, AngleGrids
from uncover.raster.errors import ReadError, SceneError, damaged
from uncover.raster.layers import Calibration
from uncover.raster.scene import Atmosphere, Level, SceneOptions
from uncover.warn import warn

#: Bands in the order of the metadata's bandId.
BAND_IDS = ("B01", "B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B09", "B10", "B11", "B12")

#: Processing baselines whose radiometry is known; 99.99 is Sen2Cor run by a user.
_KNOWN_BASELINE = re.compile(r"0[0-5]\.\d\d|99\.99")
_BASELINE = re.compile(r"\d\d\.\d\d")
_FIRST_WITH_OFFSET = "04.00"


class BaselineWarning(UserWarning):
    """The product is of a newer processing baseline than those that are known."""


def datatake_of(identifier: str | None) -> str | None:
    """The datatake without the processing baseline: reprocessing does not change what errors were shared.

    >>> datatake_of("GS2A_20230625T234621_041826_N05.09")
    'GS2A_20230625T234621_041826'
    """
    return None if identifier is None else re.sub(r"_N\d\d\.\d\d$", "", identifier)


@dataclass(frozen=True)
class ProductMetadata:
    """The product's own file: MTD_MSIL1C.xml or MTD_MSIL2A.xml."""

    level: Level
    baseline: str
    datatake: str | None
    uri: str | None
    platform: str | None
    start_time: datetime | None
    quantification: float
    offsets: dict[str, float]  # digital numbers to add, by band; empty where the product has none
    nodata: float
    saturated: float
    aot_scale: float | None
    wvp_scale: float | None
    atmosphere: Atmosphere

    def calibration(self, band: str, options: SceneOptions) -> Calibration:
        """reflectance = (number + offset) / quantification; the user's scale and offset come first."""
        scale = 1.0 / self.quantification if options.scale is None else options.scale
        added = self.offsets.get(band, 0.0) / self.quantification
        nodata = self.nodata if options.nodata is None else options.nodata
        return Calibration(scale, added if options.offset is None else options.offset, nodata, self.saturated)

    def check_baseline(self, options: SceneOptions, product: str) -> None:
        """Warn of a newer baseline than those known; refuse one that says nothing of its numbers."""
        if options.scale is not None and options.offset is not None:
            return
        if not _BASELINE.fullmatch(self.baseline):
            raise SceneError(
                f"{product} has processing baseline {self.baseline!r}, which is none (such as 05.11); "
                "give scale and offset, for instance --scale 0.0001 and --offset -0.1"
            )
        if _KNOWN_BASELINE.fullmatch(self.baseline) is None:
            warn(
                f"{product} has processing baseline {self.baseline}, newer than those known (to 05.99): it "
                "is read as its metadata say; compare its reflectance with an older product's",
                BaselineWarning,
            )
        if self.offsets or options.offset is not None or self.baseline < _FIRST_WITH_OFFSET:
            return
        element = "RADIO_ADD_OFFSET" if self.level == "L1C" else "BOA_ADD_OFFSET"
        raise SceneError(
            f"{product} has processing baseline {self.baseline} but no {element} in its metadata; "
            "give --offset -0.1 (numbers with +1000) or --offset 0 (numbers without)"
        )


def read_product(text: bytes, name: str) -> ProductMetadata:
    """Read a product's metadata; `name` is for messages."""
    with damaged(name):
        return _product(_parse(text, name), name)


def _product(root: ElementTree.Element, name: str) -> ProductMetadata:
    level = _level(root, name)
    element = "RADIO_ADD_OFFSET" if level == "L1C" else "BOA_ADD_OFFSET"
    special = dict(zip(_texts(root, "SPECIAL_VALUE_TEXT"), _texts(root, "SPECIAL_VALUE_INDEX"), strict=False))
    quantification = _number(
        root, "QUANTIFICATION_VALUE", "BOA_QUANTIFICATION_VALUE", "L2A_BOA_QUANTIFICATION_VALUE"
    )
    if not quantification:
        raise SceneError(f"{name} states no quantification value; the product is incomplete, fetch it again")
    return ProductMetadata(
        level=level,
        baseline=_first(root, "PROCESSING_BASELINE") or "",
        datatake=datatake_of(next((n.get("datatakeIdentifier") for n in named(root, "Datatake")), None)),
        uri=_first(root, "PRODUCT_URI", "PRODUCT_URI_1C", "PRODUCT_URI_2A"),
        platform=_first(root, "SPACECRAFT_NAME"),
        start_time=_time(_first(root, "PRODUCT_START_TIME")),
        quantification=quantification,
        offsets={_band(node, "band_id"): float(str(node.text)) for node in named(root, element)},
        nodata=float(special.get("NODATA", 0)),
        saturated=float(special.get("SATURATED", 65535)),
        aot_scale=_inverse(_number(root, "AOT_QUANTIFICATION_VALUE", "L2A_AOT_QUANTIFICATION_VALUE")),
        wvp_scale=_inverse(_number(root, "WVP_QUANTIFICATION_VALUE", "L2A_WVP_QUANTIFICATION_VALUE")),
        atmosphere=_atmosphere(root),
    )


def _level(root: ElementTree.Element, name: str) -> Level:
    stated = _first(root, "PROCESSING_LEVEL") or ""
    if stated.startswith("Level-1C"):
        return "L1C"
    if stated.startswith("Level-2A"):
        return "L2A"
    raise SceneError(f"{name} has processing level {stated!r}; Level-1C or Level-2A is needed")


@dataclass(frozen=True)
class TileMetadata:
    """The tile's own file, MTD_TL.xml: time, place and angles."""

    sensing_time: datetime | None
    origin: tuple[float, float]
    atmosphere: Atmosphere
    root: ElementTree.Element

    def atmosphere_found(self) -> dict[str, Any]:
        """The atmosphere as the tile states it, without what it is silent about."""
        return {key: value for key, value in vars(self.atmosphere).items() if value is not None}

    def angles(self, bands: tuple[str, ...]) -> AngleGrids | None:
        """Sun and view angles; the view is the mean over those bands and the detectors that saw a node."""
        sun = next(named(self.root, "Sun_Angles_Grid"), None)
        views = [
            node
            for node in named(self.root, "Viewing_Incidence_Angles_Grids")
            if _band(node, "bandId") in bands
        ]
        if sun is None or not views:
            return None
        return AngleGrids(self._field([sun]), self._field(views))

    def _field(self, nodes: list[ElementTree.Element]) -> AngleField:
        zenith = np.stack([_grid_values(node, "Zenith") for node in nodes])
        azimuth = np.stack([_grid_values(node, "Azimuth") for node in nodes])
        step = (_number(nodes[0], "COL_STEP") or 5000.0, _number(nodes[0], "ROW_STEP") or 5000.0)
        return AngleField.from_degrees(zenith, azimuth, self.origin, step)


def read_tile(text: bytes, name: str) -> TileMetadata:
    """Read a tile's metadata; `name` is for messages."""
    with damaged(name):
        return _tile(_parse(text, name), name)


def _tile(root: ElementTree.Element, name: str) -> TileMetadata:
    x, y = _number(root, "ULX"), _number(root, "ULY")
    if x is None or y is None:
        raise SceneError(f"{name} states no position (ULX, ULY); the product is incomplete, fetch it again")
    return TileMetadata(_time(_first(root, "SENSING_TIME")), (x, y), _atmosphere(root), root)


def _grid_values(node: ElementTree.Element, angle: str) -> NDArray[np.float64]:
    rows = [row for part in named(node, angle) for row in _texts(part, "VALUES")]
    return np.array([row.split() for row in rows], dtype=np.float64)


def _atmosphere(root: ElementTree.Element) -> Atmosphere:
    return Atmosphere(
        aot=_number(root, "GRANULE_MEAN_AOT"),
        water_vapour=_number(root, "GRANULE_MEAN_WV"),
        ozone=_number(root, "OZONE_VALUE"),
        aot_method=_first(root, "AOT_RETRIEVAL_METHOD"),
    )


def _parse(text: bytes, name: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ReadError(f"{name} is not complete XML ({error}); fetch the product again") from error


def named(node: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    """All descendants of that name, whatever the namespace of the schema's version."""
    return (child for child in node.iter() if child.tag.rsplit("}", 1)[-1] == name)


def _texts(node: ElementTree.Element, name: str) -> list[str]:
    return [(child.text or "").strip() for child in named(node, name)]


def _first(node: ElementTree.Element, *names: str) -> str | None:
    return next((text for name in names for text in _texts(node, name) if text), None)


def _number(node: ElementTree.Element, *names: str) -> float | None:
    text = _first(node, *names)
    return None if text is None else float(text)


def _inverse(value: float | None) -> float | None:
    return None if not value else 1.0 / value


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def _band(node: ElementTree.Element, attribute: str) -> str:
    return BAND_IDS[int(node.get(attribute, "0"))]
