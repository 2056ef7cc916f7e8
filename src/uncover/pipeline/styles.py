"""QGIS styles of a map's layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import quoteattr

from uncover.labels import Scheme
from uncover.raster.product import Product
from uncover.raster.quality import Quality

#: From none to much, readable in print and by every eye (dark blue to yellow).
RAMP = ((0.0, "#0d0887"), (0.25, "#7e03a8"), (0.5, "#cc4778"), (0.75, "#f89540"), (1.0, "#f0f921"))
_FLAGS = (
    *("#4d4d4d", "#b35806", "#e0e0e0", "#542788", "#9ecae1"),
    *("#d73027", "#e7298a", "#1b9e77", "#fdae61", "#7f7f00"),
)

Entry = tuple[int, str, str, int]  # value, colour, label, opacity


def styles(product: Product, values: Iterable[int], largest: dict[str, float]) -> Iterator[tuple[str, str]]:
    """Names and texts of all style files: one beside each layer, and one for each further band.

    `values` are the numbers that occur in the quality layer; `largest` the top of each band's scale.
    """
    yield "class.qml", paletted(_classes(product.scheme))
    yield "quality.qml", paletted(_bits(values))
    for layer in product.layers:
        if layer.name == "sets":
            yield "sets.qml", pseudocolour(1, float(product.classes), 1.0, layer.bands[0])
        if layer.name not in ("probability", "uncertainty"):
            continue
        for i, band in enumerate(layer.bands, start=1):
            text = pseudocolour(i, largest.get(band, 1.0) / layer.scale, layer.scale, band)
            if i == 1:
                yield f"{layer.name}.qml", text
            yield f"styles/{layer.name}-{i}.qml", text


def _classes(scheme: Scheme) -> list[Entry]:
    return [(c.code, c.colour, c.name, 255) for c in scheme.classes]


def _bits(values: Iterable[int]) -> list[Entry]:
    return [_flag_entry(value) for value in sorted(set(values))]


def _flag_entry(value: int) -> Entry:
    if value == 0:
        return 0, "#ffffff", "clear", 0
    bits = [bit for bit in Quality if value & bit]
    names = ", ".join(str(bit.name).lower().replace("_", " ") for bit in bits)
    return value, _FLAGS[list(Quality).index(bits[0])], names, 255


def paletted(entries: Iterable[Entry]) -> str:
    """A colour and a name for each value.

    >>> 'label="forest"' in paletted([(1, "#117733", "forest", 255)])
    True
    """
    lines = "".join(
        f'        <paletteEntry value="{value}" color="{colour}" alpha="{opacity}" '
        f"label={quoteattr(label)}/>\n"
        for value, colour, label, opacity in entries
    )
    return _document(
        '    <rasterrenderer type="paletted" band="1" opacity="1" alphaBand="-1" nodataColor="">\n'
        "      <rasterTransparency/>\n"
        f"      <colorPalette>\n{lines}      </colorPalette>\n"
        "    </rasterrenderer>\n"
    )


def pseudocolour(band: int, largest: float, scale: float, name: str) -> str:
    """A ramp of colours from 0 to the largest number of a band.

    QGIS applies the scale of a file before the style: numbers are those that a reader sees.

    >>> 'band="2"' in pseudocolour(2, 10000, 1e-4, "forest")
    True
    """
    top = largest * scale
    items = "".join(
        f'          <item value="{value:.6g}" color="{colour}" alpha="255" label="{value:.3g}"/>\n'
        for value, colour in ((share * top, colour) for share, colour in RAMP)
    )
    return _document(
        f'    <rasterrenderer type="singlebandpseudocolor" band="{band}" opacity="1" alphaBand="-1" '
        f'nodataColor="" classificationMin="0" classificationMax="{top:.6g}">\n'
        "      <rasterTransparency/>\n"
        "      <rastershader>\n"
        '        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" '
        f'minimumValue="0" maximumValue="{top:.6g}" labelPrecision="4">\n'
        f"{items}"
        "        </colorrampshader>\n"
        "      </rastershader>\n"
        f"    </rasterrenderer>\n    <!-- {_comment(name)} -->\n"
    )


def _comment(name: str) -> str:
    return name.replace("-", " ").replace("<", " ").replace(">", " ").replace("&", " ")


def _document(renderer: str) -> str:
    return (
        "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
        '<qgis version="3.28" styleCategories="AllStyleCategories">\n'
        f"  <pipe>\n{renderer}  </pipe>\n"
        "  <blendMode>0</blendMode>\n</qgis>\n"
    )
