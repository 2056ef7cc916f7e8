"""Scenes from Sentinel-2 SAFE products, folders or zips, Level-1C and Level-2A."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

import numpy as np

from uncover.files import shortened
from uncover.measurement.bands import canonical_band
from uncover.raster.errors import ReadError, SceneError, damaged
from uncover.raster.grid import finest_grid
from uncover.raster.layers import BandGroup, Calibration, LeastMask, Mask, PlaneMask, PolygonMask, ValueMask
from uncover.raster.names import nearest_size
from uncover.raster.quality import SCL_MEANING, Quality
from uncover.raster.safe_metadata import (
    BAND_IDS,
    ProductMetadata,
    TileMetadata,
    named,
    read_product,
    read_tile,
)
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.tiles import TileCache, describe
from uncover.remote import files_in, is_address, read_bytes
from uncover.warn import warn

#: The bands that are read unless others are asked for: all at 10 or 20 m.
TEN_BANDS = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")

#: Pixel sizes of bands whose files do not state it, as those of Level-1C.
NATIVE_METRES = dict.fromkeys(("B05", "B06", "B07", "B8A", "B11", "B12"), 20) | dict.fromkeys(
    ("B01", "B09", "B10"), 60
)

#: Planes of MSK_CLASSI: opaque cloud, cirrus, snow.
CLASSI_MEANING = (Quality.CLOUD, Quality.CLOUD, Quality.SNOW)
#: Planes of MSK_QUALIT that matter: lost packets (3), defective (5), no data (6), saturated (8).
QUALIT_PLANES = (3, 5, 6, 8)
QUALIT_MEANING = (Quality.NODATA, Quality.SATURATED, Quality.NODATA, Quality.SATURATED)
#: Older products: one polygon file per band and condition. MSK_NODATA also lists pixels merely corrected.
GML_MEANING = {
    "MSK_NODATA": {"QT_NODATA_PIXELS": Quality.NODATA},
    "MSK_SATURA": {"": Quality.SATURATED},
    "MSK_DEFECT": {"": Quality.SATURATED},
}
GML_CLOUDS = {"OPAQUE": Quality.CLOUD, "CIRRUS": Quality.CLOUD}

_PRODUCT_XML = re.compile(r"(?:MTD_MSIL(?:1C|2A)|S2._(?:OPER|USER)_MTD_(?:SAF)?L(?:1C|2A)[^/]*)\.xml")
_TILE_XML = re.compile(r"GRANULE/[^/]+/(?:MTD_TL|S2[^/]*_MTD_L(?:1C|2A)_TL[^/]*)\.xml")
_IMAGE = re.compile(r"_(B\d{2}|B8A|SCL|AOT|WVP)(?:_(\d0)m)?\.(?:jp2|tiff?)$", re.IGNORECASE)


class MaskWarning(UserWarning):
    """The product carries no cloud mask, so clouds are mapped as land."""


@dataclass(frozen=True)
class SafeTree:
    """The files of a product, in a folder or in a zip, by their names inside the product."""

    name: str
    names: tuple[str, ...]
    folder: Path | str | None = None  # or its address
    archive: Path | None = None
    prefix: str = ""

    def text(self, name: str) -> bytes:
        """Contents of a small file."""
        with damaged(f"{self.name}/{name}"):
            if self.archive is not None:
                with ZipFile(self.archive) as bundle:
                    return bundle.read(self.prefix + name)
            assert self.folder is not None
            if is_address(self.folder):
                return read_bytes(f"{self.folder}/{name}")
            return (Path(self.folder) / name).read_bytes()

    def raster(self, name: str) -> str:
        """The name by which GDAL opens a file."""
        if self.archive is not None:
            return f"/vsizip/{self.archive.as_posix()}/{self.prefix}{name}"
        return f"{self.folder}/{name}"


def is_safe(source: str | Path) -> bool:
    """True for a SAFE folder, its metadata file, or a zip of one."""
    path = Path(source)
    if is_address(source):
        return path.suffix.upper() == ".SAFE" or _PRODUCT_XML.fullmatch(path.name) is not None
    if path.is_dir():
        return path.suffix.upper() == ".SAFE" or _product_xml(path) is not None
    return path.suffix.lower() == ".zip" or _PRODUCT_XML.fullmatch(path.name) is not None


def _product_xml(folder: Path) -> str | None:
    return next((f.name for f in sorted(folder.glob("*.xml")) if _PRODUCT_XML.fullmatch(f.name)), None)


def product_around(folder: Path) -> Path | None:
    """The product that a folder of its metadata lies in; None for others, those of images too."""
    inside = folder.name == "GRANULE" or any(folder.glob("MTD_TL*.xml"))
    return next((p for p in folder.parents if _product_xml(p) is not None), None) if inside else None


def open_tree(source: str | Path) -> SafeTree:
    """List the files of a product."""
    path = Path(source)
    if is_address(source):
        place = str(source).removesuffix(path.name if path.suffix.lower() == ".xml" else "").rstrip("/")
        names = tuple(sorted(file.removeprefix(place).lstrip("/") for file in files_in(place)))
        return SafeTree(Path(place).name, names, folder=place)
    if path.suffix.lower() == ".xml":
        path = path.parent
    if path.is_dir():
        names = tuple(sorted(f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file()))
        return SafeTree(path.name, names, folder=path)
    try:
        with ZipFile(path) as bundle:
            members = bundle.namelist()
    except (OSError, BadZipFile) as error:
        raise ReadError(
            f"{path} is not a readable zip ({error}); it may be truncated, fetch it again"
        ) from error
    if len(members) > len(set(members)):  # readers differ in which of the two they take
        twice = max(members, key=members.count)
        raise SceneError(f"{path} holds {shortened(twice)} twice; fetch the product again")
    top = next((m for m in sorted(members, key=len) if _PRODUCT_XML.fullmatch(m.rsplit("/", 1)[-1])), None)
    if top is None:
        raise SceneError(f"{path} holds no Sentinel-2 product metadata (MTD_MSIL1C.xml or MTD_MSIL2A.xml)")
    prefix = top[: -len(top.rsplit("/", 1)[-1])]
    names = tuple(sorted(m.removeprefix(prefix) for m in members if m.startswith(prefix) and m[-1] != "/"))
    return SafeTree(path.name, names, archive=path, prefix=prefix)


def bands_in(source: str | Path, options: SceneOptions) -> tuple[str, ...]:
    """Bands that a product has an image of, in the order of their wavelengths."""
    tree = open_tree(source)
    images = _finest(_images(tree, _granule(tree, options.granule)[0], options.resolution))
    return tuple(band for band in BAND_IDS if band in images)


def metadata_of(source: str | Path, options: SceneOptions) -> tuple[ProductMetadata, TileMetadata]:
    """Metadata of a product and its tile, whatever images it has."""
    tree = open_tree(source)
    xml = next((n for n in tree.names if _PRODUCT_XML.fullmatch(n)), None)
    if xml is None:
        raise SceneError(
            f"{tree.name} has no MTD_MSIL1C.xml or MTD_MSIL2A.xml; it is not a complete SAFE product"
        )
    tile_xml = _granule(tree, options.granule)[1]
    return (
        read_product(tree.text(xml), f"{tree.name}/{xml}"),
        read_tile(tree.text(tile_xml), f"{tree.name}/{tile_xml}"),
    )


def open_safe(source: str | Path, options: SceneOptions) -> Scene:
    """A scene from a product: calibrated bands, masks, angles and the state of the atmosphere."""
    tree = open_tree(source)
    product, tile = metadata_of(source, options)
    product.check_baseline(options, tree.name)
    granule, tile_xml = _granule(tree, options.granule)
    sizes = _images(tree, granule, options.resolution)
    images = _finest(sizes)
    bands = tuple(canonical_band(band) for band in options.bands or _usual_bands(tree, images, options))
    with damaged(f"{tree.name}/{tile_xml}"):
        angles = tile.angles(bands)
    groups = _band_groups(tree, granule, images, bands, product, options)
    grid = finest_grid([group.source.grid for group in groups])
    if "SCL" in sizes:  # classes cannot be averaged: those of the grid's pixel size
        images["SCL"] = sizes["SCL"][nearest_size(sizes["SCL"], grid.resolution[0])]
    return Scene(
        identity=options.scene_id or product.datatake or product.uri or tree.name,
        named=bool(options.scene_id or product.datatake or product.uri),
        bands=bands,
        grid=grid,
        groups=groups,
        masks=(
            *_scene_masks(tree, granule, images, product.level),
            *_probable_clouds(tree, granule, options.cloud_probability),
        ),
        level=product.level,
        platform=product.platform,
        sensing_time=tile.sensing_time or product.start_time,
        baseline=product.baseline,
        atmosphere=replace(product.atmosphere, **tile.atmosphere_found()),
        angle_grids=angles,
        aot_layer=_auxiliary(tree, images, "AOT", product.aot_scale),
        water_vapour_layer=_auxiliary(tree, images, "WVP", product.wvp_scale),
        aerosol_forecast=_aerosol_forecast(tree, granule) if product.level == "L1C" else None,
        resampling=options.resampling,
        cache=TileCache(options.cache_bytes),
    )


def _granule(tree: SafeTree, wanted: str | None) -> tuple[str, str]:
    """Folder and metadata file of the tile."""
    found = {"/".join(n.split("/")[:2]): n for n in tree.names if _TILE_XML.fullmatch(n)}
    chosen = {folder: xml for folder, xml in found.items() if wanted is None or wanted in folder}
    if len(chosen) == 1:
        return next(iter(chosen.items()))
    if not found:
        raise SceneError(
            f"{tree.name} has no tile metadata (GRANULE/*/MTD_TL.xml); the product is incomplete"
        )
    tiles = ", ".join(folder.removeprefix("GRANULE/") for folder in found)
    raise SceneError(
        f"{tree.name} holds {len(found)} tile(s): {tiles}; choose one of them, for instance --granule "
        f"{_tile_of(found)}"
    )


def _tile_of(granules: dict[str, str]) -> str:
    """The short name of the first tile: T32TQM of GRANULE/L1C_T32TQM_A013335_…."""
    match = re.search(r"_(T\d\d[A-Z]{3})_", f"{next(iter(granules))}_")
    return next(iter(granules)).removeprefix("GRANULE/") if match is None else match.group(1)


def _usual_bands(tree: SafeTree, images: dict[str, str], options: SceneOptions) -> tuple[str, ...]:
    """The ten bands, or those of them that a product has; a warning names the others."""
    found = tuple(band for band in TEN_BANDS if band in images)
    missing = [band for band in TEN_BANDS if band not in images]
    if not found or not missing:
        return found or tuple(band for band in BAND_IDS if band in images) or TEN_BANDS
    if options.resolution is None:
        warn(
            f"{tree.name} has no image of {', '.join(missing)}; it is read with the bands {', '.join(found)}",
        )
    return found


def _finest(images: dict[str, dict[int, str]]) -> dict[str, str]:
    """The finest file of each band and layer."""
    return {key: files[min(files)] for key, files in images.items()}


def _images(tree: SafeTree, granule: str, resolution: int | None = None) -> dict[str, dict[int, str]]:
    """Files of each band and layer by their pixel sizes, those of a size or coarser where one is given."""
    found: dict[str, dict[int, str]] = {}
    for name in tree.names:
        match = _IMAGE.search(name)
        if match is None or not name.startswith(f"{granule}/IMG_DATA/"):
            continue
        key = match.group(1).upper()
        metres = int(match.group(2) or NATIVE_METRES.get(key, 10))
        if resolution is None or metres >= resolution:
            found.setdefault(key, {}).setdefault(metres, name)
    return found


def _band_groups(
    tree: SafeTree,
    granule: str,
    images: dict[str, str],
    bands: tuple[str, ...],
    product: ProductMetadata,
    options: SceneOptions,
) -> tuple[BandGroup, ...]:
    missing = [band for band in bands if band not in images]
    if missing:
        raise SceneError(
            f"{tree.name} has no image of band {', '.join(missing)} "
            f"(found: {', '.join(b for b in BAND_IDS if b in images) or 'none'}); fetch the product again, "
            "or choose among these by --bands of fit: a map needs those of its model"
        )
    groups = []
    for band in bands:
        info = describe(tree.raster(images[band]))
        calibration = product.calibration(band, options)
        detector = _detector_mask(tree, granule, band) if options.detector_masks else None
        groups.append(BandGroup(info.bands(1), (band,), (calibration,), detector))
    return tuple(groups)


def _auxiliary(tree: SafeTree, images: dict[str, str], key: str, scale: float | None) -> BandGroup | None:
    if key not in images or scale is None:
        return None
    return BandGroup(describe(tree.raster(images[key])).bands(1), (key,), (Calibration(scale, nodata=0),))


def _aerosol_forecast(tree: SafeTree, granule: str) -> bytes | None:
    """The CAMS forecast that products of baseline 04.00 and later carry."""
    name = next((n for n in tree.names if n.startswith(f"{granule}/AUX_DATA/AUX_CAMSFO")), None)
    return None if name is None else tree.text(name)


def _mask_file(tree: SafeTree, granule: str, kind: str, band: str) -> str | None:
    pattern = re.compile(
        rf"{re.escape(granule)}/QI_DATA/(?:.*_)?{kind}_(?:.*_)?{band}(?:_MSIL..)?\.(jp2|tiff?|gml)"
    )
    return next((name for name in tree.names if pattern.fullmatch(name)), None)


def _scene_masks(tree: SafeTree, granule: str, images: dict[str, str], level: str) -> tuple[Mask, ...]:
    """Cloud, shadow and snow: SCL, else MSK_CLASSI, else the polygons of older products."""
    if level == "L2A" and "SCL" in images:
        return (ValueMask(describe(tree.raster(images["SCL"])).bands(1), SCL_MEANING),)
    classi = _mask_file(tree, granule, "MSK_CLASSI", "B00")
    if classi is not None:
        return (PlaneMask(describe(tree.raster(classi)).bands(1, 2, 3), CLASSI_MEANING),)
    clouds = _mask_file(tree, granule, "MSK_CLOUDS", "B00")
    if clouds is not None:
        return (PolygonMask(read_gml_mask(tree.text(clouds), GML_CLOUDS, f"{tree.name}/{clouds}")),)
    warn(
        f"{tree.name} carries no cloud mask (SCL, MSK_CLASSI or MSK_CLOUDS): clouds are mapped as land; "
        "give a mask of your own with --mask",
        MaskWarning,
    )
    return ()


def _probable_clouds(tree: SafeTree, granule: str, least: float | None) -> tuple[Mask, ...]:
    """Pixels whose probability of cloud is so high, where that is asked for."""
    if least is None:
        return ()
    names = (f"{granule}/QI_DATA/MSK_CLDPRB_{metres}m.jp2" for metres in (20, 60))
    name = next((name for name in names if name in tree.names), None)
    if name is None:
        raise SceneError(
            f"{tree.name} has no probabilities of cloud (QI_DATA/MSK_CLDPRB_20m.jp2), which Level-2A "
            "products carry; leave out --cloud-probability"
        )
    return (LeastMask(describe(tree.raster(name)).bands(1), least, Quality.CLOUD),)


def _detector_mask(tree: SafeTree, granule: str, band: str) -> Mask | None:
    """Lost, defective and saturated pixels of one band."""
    raster = _mask_file(tree, granule, "MSK_QUALIT", band)
    if raster is not None:
        return PlaneMask(describe(tree.raster(raster)).bands(*QUALIT_PLANES), QUALIT_MEANING)
    polygons: tuple[tuple[bytes, Quality], ...] = ()
    for kind, meaning in GML_MEANING.items():
        file = _mask_file(tree, granule, kind, band)
        if file is not None and file.endswith(".gml"):
            polygons += read_gml_mask(tree.text(file), meaning, f"{tree.name}/{file}")
    return PolygonMask(polygons) if polygons else None


def read_gml_mask(
    text: bytes, meaning: Mapping[str, Quality], name: str
) -> tuple[tuple[bytes, Quality], ...]:
    """Polygons (WKB) with the bits of their mask type; an empty key in `meaning` stands for every type."""
    with damaged(name):
        return tuple(_features(ElementTree.fromstring(text), meaning))


def _features(root: ElementTree.Element, meaning: Mapping[str, Quality]) -> Iterator[tuple[bytes, Quality]]:
    import shapely

    for feature in named(root, "MaskFeature"):
        kind = next((str(node.text).strip() for node in named(feature, "maskType")), "")
        bits = meaning.get(kind, meaning.get(""))
        if bits is None:
            continue
        for node in named(feature, "Polygon"):
            yield shapely.to_wkb(_polygon(node)), bits


def _polygon(node: ElementTree.Element) -> Any:
    import shapely

    outer = [_ring(ring) for part in named(node, "exterior") for ring in named(part, "posList")]
    inner = [_ring(ring) for part in named(node, "interior") for ring in named(part, "posList")]
    return shapely.Polygon(outer[0], inner)


def _ring(node: ElementTree.Element) -> Any:
    """Corners (corner, xy); the height, where there is one, is dropped."""
    size = int(node.get("srsDimension", "2"))
    return np.array(str(node.text).split(), dtype=np.float64).reshape(-1, size)[:, :2]
