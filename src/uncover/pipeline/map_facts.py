"""Facts that say how far a map can be believed: what is mapped, masked, unlike the training data, uncertain.

They are made once, when a map is finished, and kept in its STAC item; the terminal, `uncover info` and the
report show the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from uncover.files import typed
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.quality import REASONS, Quality, reasons
from uncover.raster.scratch import Scratch

#: Share of the mapped area that is unlike anything trained, above which a map warns.
MOST_UNLIKE = 0.2
#: Share of the pixels that the model does not explain, above which what needs its densities is doubted.
DOUBTFUL = 0.05
PARTS = ("total", "measurement", "model", "overlap")
_KEY = "uncover:facts"


@dataclass(frozen=True)
class MapFacts:
    """Pixels and areas with and without a class; shares and means are of the mapped area, that with one.

    >>> means = dict(zip(PARTS, (0.1234, 0.02, 0.01, 0.0934)))
    >>> facts = MapFacts("ha", 100, 60, 0.6, {"cloud": 40}, {"cloud": 0.4}, 0.5, means, 2, True)
    >>> print(facts.text())
    mapped       60 of 100 pixels (60.0 %)
    no class     of all pixels: cloud 40 (40.0 %)
    unlike       50.0 % of the mapped area is unlike anything trained
    uncertainty  mean total 0.123 nats of at most 0.693 (measurement 0.02, model 0.01, overlap 0.0934)
    """

    unit: str  # of areas: ha or pixels
    pixels: int
    mapped_pixels: int
    mapped_area: float
    unmapped_pixels: Mapping[str, int]  # by the reason, one of `quality.REASONS`
    unmapped_area: Mapping[str, float]
    unlike: float  # share of the mapped area with a typicality below the threshold
    mean_uncertainty: Mapping[str, float]  # nats, of the PARTS
    classes: int
    cloud_mask: bool | None  # whether the scene came with masks; None: not known

    @classmethod
    def of(cls, scratch: Scratch, masked: Quality, cloud_mask: bool | None) -> MapFacts:
        """Add up the units of a map that has been computed."""
        product = scratch.product
        layers = {layer.name: layer for layer in product.layers}
        scale, unit = (1.0, "pixels") if product.grid.crs is None else (1e-4, "ha")
        pixels: dict[str, int] = {}
        areas: dict[str, float] = {}
        mapped, area, outside, sums = 0, 0.0, 0.0, np.zeros(len(PARTS))
        for window in scratch.units:
            known = scratch.read(layers["class"], window)[0] != layers["class"].nodata
            quality = scratch.read(layers["quality"], window)[0]
            weight = scale * pixel_areas(product.grid, window)
            numbers = scratch.read(layers["uncertainty"], window, range(len(PARTS)))[:, known]
            sums += layers["uncertainty"].scale * (numbers.astype(np.float64) @ weight[known])
            mapped, area = mapped + int(known.sum()), area + float(weight[known].sum())
            outside += float(weight[known & (quality & np.uint16(Quality.OUTSIDE_DOMAIN) > 0)].sum())
            for name, n in reasons(quality[~known], masked).items():
                pixels[name] = pixels.get(name, 0) + n
            for name, size in reasons(quality[~known], masked, weight[~known]).items():
                areas[name] = areas.get(name, 0.0) + size
        whole = area or 1.0
        means = {name: float(f"{total / whole:.6g}") for name, total in zip(PARTS, sums, strict=True)}
        found = [name for name in REASONS.values() if name in pixels]
        lost = {name: pixels[name] for name in found}, {name: float(f"{areas[name]:.9g}") for name in found}
        share, total = float(f"{outside / whole:.6g}"), product.grid.window.pixels
        sizes = unit, total, mapped, float(f"{area:.9g}"), *lost
        return cls(*sizes, share, means, product.classes, cloud_mask)

    @classmethod
    def in_item(cls, item: Mapping[str, Any]) -> MapFacts:
        """Facts in the item of a map."""
        return typed(item.get("properties", {}).get(_KEY), cls, "what the item says of the map")

    def as_property(self) -> dict[str, Any]:
        """Property of a STAC item, which `in_item` reads."""
        return {_KEY: {**asdict(self), "warnings": self.warnings()}}

    def lines(self) -> dict[str, str]:
        """Facts by short names, for people."""
        part = self._part(self.mapped_pixels)
        found = {"mapped": f"{self.mapped_pixels:,} of {self.pixels:,} pixels ({part})"}
        lost = ", ".join(f"{name} {n:,} ({self._part(n)})" for name, n in self.unmapped_pixels.items())
        words = [f"of all pixels: {lost}"] if lost else []
        if self.cloud_mask is False:
            words.append("the scene has no mask of clouds: what is cloud is mapped as land (--mask)")
        if words:
            found["no class"] = "; ".join(words)
        if self.mapped_pixels:
            found["unlike"] = f"{percent(self.unlike)} of the mapped area is unlike anything trained"
            total, *parts = (f"{name} {self.mean_uncertainty[name]:.3g}" for name in PARTS)
            most = np.log(max(self.classes, 2))
            found["uncertainty"] = f"mean {total} nats of at most {most:.3g} ({', '.join(parts)})"
        return found

    def text(self) -> str:
        """The same as aligned lines."""
        return "\n".join(f"{name:<13}{line}" for name, line in self.lines().items())

    def warnings(self) -> list[str]:
        """Reasons not to believe the map, in plain words."""
        if not self.mapped_pixels:
            return ["no pixel has a class: there is nothing to believe or to doubt"]
        if self.unlike <= MOST_UNLIKE:
            return []
        return [
            f"{percent(self.unlike)} of the mapped area is unlike anything the model was trained on: do not "
            "believe the classes there, whatever their probabilities. It may be another season or land "
            "cover, smoke, haze, unmasked cloud or other units: train with labels of this scene, or mask it"
        ]

    def _part(self, pixels: int) -> str:
        return percent(pixels / self.pixels)


def shares_in_words(properties: Mapping[str, Any]) -> str | None:
    """Class shares that the probabilities of a map are for, from its item; None for those of the training.

    >>> shares_in_words({"uncover:class_shares": {"how": "stated", "shares": {"a": 0.4, "b": 0.6}}})
    'stated: a 0.4, b 0.6'
    """
    found = properties.get("uncover:class_shares")
    if found is None:
        return None
    spread = found.get("standard_uncertainty", {})
    errors = {name: f" ± {value:.2g}" for name, value in spread.items()}
    each = (f"{name} {share:.3g}{errors.get(name, '')}" for name, share in found["shares"].items())
    how = "those of training, as an estimate was refused" if found["how"] == "training" else found["how"]
    return f"{how}: {', '.join(each)}"


def percent(share: float) -> str:
    """A share in per cent, with the digits that it needs.

    >>> percent(0.1234), percent(0.0004), percent(0.0), percent(float("nan"))
    ('12.3 %', '<0.1 %', '0 %', '–')
    """
    if share != share:
        return "–"
    if share == 0 or share == 1:
        return f"{100 * share:.0f} %"
    if share < 0.001:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if share <= 0.999 else ">99.9 %"
