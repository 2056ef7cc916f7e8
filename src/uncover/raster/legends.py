"""Legends that rasters carry: GDAL category names, attribute tables, colour tables."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from uncover.files import reader
from uncover.raster.tiles import open_raster

#: Columns of attribute tables, by the names that they usually have.
_CODES, _NAMES = ("value", "code", "pixel"), ("class_name", "class", "name", "label")

_MOST_ROWS = 1 << 16


@reader
def read_legend(path: str, band: int) -> dict[int, str]:
    """Names of the codes of a band, from its `.aux.xml`, its VRT, or its `.vat.dbf`."""
    for file in (Path(f"{path}.aux.xml"), Path(path)):
        if file.suffix.lower() in (".xml", ".vrt") and file.is_file():
            found = _of_xml(file, band)
            if found:
                return found
    table = next(
        (t for t in (Path(f"{path}.vat.dbf"), Path(path).with_suffix(".vat.dbf")) if t.is_file()), None
    )
    return {} if table is None else _of_dbf(table)


def _of_xml(file: Path, band: int) -> dict[int, str]:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError:
        return {}
    bands = [*root.iter("PAMRasterBand"), *root.iter("VRTRasterBand")]
    node = next((b for b in bands if b.get("band", "1") == str(band)), None)
    if node is None:
        return {}
    names = node.find("CategoryNames")
    if names is not None:
        return {i: (each.text or "").strip() for i, each in enumerate(names.iter("Category"))}
    table = node.find("GDALRasterAttributeTable")
    return {} if table is None else _of_attributes(table)


def _of_attributes(table: ElementTree.Element) -> dict[int, str]:
    """Columns by their usage, else by their names."""
    columns = [
        (str(c.findtext("Usage", "")).strip(), str(c.findtext("Name", "")).strip().lower())
        for c in table.iter("FieldDefn")
    ]
    value = next((i for i, (use, n) in enumerate(columns) if use == "5" or n in _CODES), None)
    name = next((i for i, (use, n) in enumerate(columns) if use == "2" or n in _NAMES), None)
    if name is None:
        return {}
    found = {}
    for i, row in enumerate(table.iter("Row")):
        cells = [(cell.text or "").strip() for cell in row.iter("F")]
        found[i if value is None else int(float(cells[value]))] = cells[name]
    return found


def _of_dbf(file: Path) -> dict[int, str]:
    """The attribute table that ArcGIS writes beside a raster."""
    import pyogrio

    # A damaged header may claim billions of rows, which GDAL would make up.
    meta, _, _, data = pyogrio.raw.read(file, read_geometry=False, max_features=_MOST_ROWS)
    names = [str(name).lower() for name in meta["fields"]]
    value = next((i for i, n in enumerate(names) if n == "value"), None)
    name = next((i for i, n in enumerate(names) if n in _NAMES), None)
    if value is None or name is None:
        return {}
    return {int(code): str(text) for code, text in zip(data[value], data[name], strict=True)}


def read_colours(path: str, band: int) -> dict[int, str]:
    """Colours of the codes of a band, where it has a colour table."""
    with open_raster(path) as dataset:
        try:
            table = dataset.colormap(band)
        except ValueError:
            return {}
    return {code: f"#{r:02X}{g:02X}{b:02X}" for code, (r, g, b, _) in table.items()}
