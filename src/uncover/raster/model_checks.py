"""Checks that a model and a scene belong together: bands, order, units, classes, and a shared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import chdtri

from uncover.labels import Scheme
from uncover.measurement.bands import canonical_band
from uncover.measurement.features import Features
from uncover.models.record import ModelRecord
from uncover.raster.common_effects import CommonEffect, common_of
from uncover.raster.errors import SceneError
from uncover.raster.names import same_datatake
from uncover.raster.observed import ObservedScene, StoredWorlds, probe
from uncover.warn import warn

#: Typical values of a scene and of the training data that differ by more than this are in other units.
_UNITS_FACTOR = 50.0
#: Pixels of a scene that are compared with the classes.
_PROBED = 1000
#: Who states scale and offset of a scene where nobody else does.
FROM_MODEL = "the model"


def model_bands(model: ModelRecord) -> tuple[str, ...] | None:
    """Names of the bands that a model was trained on; None where it does not know them."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(canonical_band(str(name)) for name in names)


def check_match(model: ModelRecord, observed: ObservedScene) -> None:
    """Refuse a scene with other bands, another order of them, or other units than the model's."""
    wanted, offered = model_bands(model), tuple(canonical_band(band) for band in observed.bands)
    if len(offered) != model.n_features_in_:
        raise SceneError(
            f"{name_of(observed)} has {len(offered)} bands ({', '.join(offered)}); the model was "
            f"trained on {model.n_features_in_} ({', '.join(wanted or ('names unknown',))}). Choose them "
            "with --bands"
        )
    if wanted is not None and offered != wanted:
        what = "the same bands in another order" if set(offered) == set(wanted) else "other bands"
        raise SceneError(
            f"{name_of(observed)} has the bands {', '.join(offered)}; the model was trained on "
            f"{', '.join(wanted)}: {what}. Give --bands {','.join(wanted)}"
        )
    _check_features(model, observed)
    _check_units(model, observed)
    _check_shift(model, observed)


def model_features(model: ModelRecord) -> Features | None:
    """Features of a model as it states them; None where it states none."""
    record = getattr(model, "features_", None)
    return None if record is None else Features.from_dict(record)


def _check_features(model: ModelRecord, observed: ObservedScene) -> None:
    """Refuse top-of-atmosphere reflectance where the model knows surface reflectance, or the reverse."""
    if model.in_memory:
        return  # a model in memory: whoever fitted it has the scene at hand
    trained, here = model_features(model), observed.features
    if trained is not None:
        by_hand = all(source.get("calibration") for source in _sources(model))
        _check_calibration(trained, observed, by_hand)
    if trained is None or trained.quantity is None:
        if here.quantity is not None or observed.source_id not in _identities(model):
            warn(
                "the model does not say whether it was trained on top-of-atmosphere or surface reflectance, "
                f"and {name_of(observed)} is {here}; fit it with --level, so that they are compared",
            )
        return
    if here.quantity is None:
        raise SceneError(
            f"{name_of(observed)} does not say whether it is top-of-atmosphere or surface reflectance; "
            f"the model was trained on {trained}. Give --level L1C (top of atmosphere) or L2A (surface)"
        )
    if here.quantity != trained.quantity:
        raise SceneError(
            f"{name_of(observed)} is {here}; the model was trained on {trained}. "
            f"{_remedy(here, isinstance(observed, StoredWorlds))}"
        )
    _warn_of_correction(trained, here, name_of(observed))


def name_of(observed: ObservedScene) -> str:
    """A scene by its identity, a cube by its path: the identity is often a hash of the scene's content."""
    return (
        f"cube {observed.cube.path}" if isinstance(observed, StoredWorlds) else f"scene {observed.identity}"
    )


def _remedy(here: Features, stored: bool) -> str:
    """Remedy that makes a scene one that the model knows."""
    if stored and here.quantity == "surface reflectance":
        source = ", or map the L1C scene that the cube was made of" if here.level == "L1C" else ""
        return f"Fit a model to corrected scenes or cubes (uncover fit CUBE --labels LABELS){source}"
    if here.quantity == "top-of-atmosphere reflectance":
        return "Give --aod AOD (or --product-aod), which corrects the scene to the surface"
    if here.level == "L1C":
        return "Leave out --aod and --product-aod, or fit the model with --aod as well"
    return "Map a Level-1C scene without --aod, or fit the model to Level-2A scenes or with --aod"


def _warn_of_correction(trained: Features, here: Features, name: str) -> None:
    """Say where corrections differ: not wrong, and not the same."""
    known = (trained.correction or "").split(" and ")
    if trained.correction and here.correction and here.correction not in known:
        warn(
            f"{name} was corrected to the surface by {here.correction}, the model's training data "
            f"by {trained.correction}: they do not agree, above all over dark surfaces. A model of the same "
            "correction is safer",
        )


def _check_calibration(trained: Features, observed: ObservedScene, by_hand: bool) -> None:
    """Refuse a raster that options read otherwise than training data without metadata on their numbers."""
    here, scene = observed.features, observed.own_scene
    if scene is None or not trained.scales or not here.scales:
        return
    if scene.calibrated_by == FROM_MODEL and (here.scales[0], here.offsets[0]) != (1.0, 0.0):
        warn(
            f"{name_of(observed)} does not state scale and offset of its numbers; those of the training "
            f"data are taken, {here.scales[0]:g} and {here.offsets[0]:g} (--scale and --offset state others)",
        )
    same = np.allclose(here.scales, trained.scales) and np.allclose(here.offsets, trained.offsets)
    if scene.calibrated_by == "options" and not same and by_hand:
        raise SceneError(
            f"{name_of(observed)} is read with scale {here.scales[0]:g} and offset {here.offsets[0]:g}, the "
            f"training data with {trained.scales[0]:g} and {trained.offsets[0]:g}; leave out --scale and "
            "--offset to read it as these, or state its own in scene.toml (uncover info SCENE --scale … "
            "--offset … --write-scene)"
        )


#: Least share of pixels that a shift by the offset of a product brings to the classes, and most without.
_MOVED, _UNMOVED = 0.5, 0.05
#: A variance along some direction of less than this share of the largest is rounding.
_FLAT = 1e-10
#: Probability of the region around each class in which its pixels lie.
_REGION = 0.999


def _check_shift(model: ModelRecord, observed: ObservedScene) -> None:
    """Refuse values that lie beside all classes, and among them if the offset of a product is moved.

    A sample table or a stack does not say that the offset of baseline 04.00 on was left in.
    """
    pixels = probe(observed)
    pixels = pixels[:: max(1, len(pixels) // _PROBED)]
    if not len(pixels):
        return
    p = model.n_features_in_
    centres, spreads = np.reshape(model.means_, (-1, p)), np.reshape(model.covariances_, (-1, p, p))
    widths = np.linalg.eigvalsh(spreads)  # ascending
    flat = widths[:, 0] <= _FLAT * widths[:, -1]  # of fewer samples than bands: it has no region
    centres, spreads, reach = centres[~flat], spreads[~flat], chdtri(p, 1 - _REGION)
    if not len(centres):
        return

    def inside(shift: float) -> float:
        away = pixels[:, None, :] + shift - centres
        solved = np.linalg.solve(spreads, np.moveaxis(away, 0, -1))  # (component, band, pixel)
        squares = np.einsum("nkb,kbn->nk", away, solved)
        return float((squares.min(axis=1) < reach).mean())

    usual, moved = inside(0.0), {shift: inside(shift) for shift in (0.1, -0.1)}
    for shift, share in moved.items():
        if usual < _UNMOVED and share > _MOVED:
            raise SceneError(_about_shift(name_of(observed), shift, usual, share))


def _about_shift(name: str, shift: float, usual: float, moved: float) -> str:
    near = f"{usual:.0%} of the pixels of {name} lie near a class of the model"
    where = f"{near}, and {moved:.0%} with {abs(shift):g}"
    if shift > 0:
        return (
            f"{where} added: the offset of Sentinel-2 from baseline 04.00 on was left in the training data; "
            "fit with --offset -0.1 (scenes and tables take it), or leave it out here"
        )
    return (
        f"{where} taken off: the offset of Sentinel-2 from baseline 04.00 on was left in the scene; map it "
        "with --offset -0.1, or fit with the same offset"
    )


def _check_units(model: ModelRecord, observed: ObservedScene) -> None:
    """Compare typical values: reflectance lies near 0.1, the same as digital numbers near 1000."""
    pixels = probe(observed)
    if not len(pixels):
        return
    means = np.abs(np.asarray(model.means_, float).reshape(-1, model.n_features_in_))
    typical = float(np.nanmedian(means))
    here = float(np.median(np.abs(pixels)))
    if typical > 0 and here > 0 and not 1 / _UNITS_FACTOR < here / typical < _UNITS_FACTOR:
        remedy = (
            "the scene holds digital numbers: give --scale 0.0001 (and --offset -0.1 from baseline 04.00 on)"
            if here > typical
            else "the model was trained on digital numbers: give --scale 1 --offset 0, or train it again"
        )
        raise SceneError(
            f"{name_of(observed)} has values around {here:.3g}, the training data of the model around "
            f"{typical:.3g} ({getattr(model, 'units_', None) or 'units unknown'}): other units. Perhaps "
            f"{remedy}"
        )


def scheme_of(model: ModelRecord) -> Scheme:
    """The classes of a model with their codes: those of its scheme, else 1 to K in their order."""
    names = [str(name) for name in model.classes_]
    provenance = getattr(model, "provenance_", None)
    given = provenance.get("scheme") if isinstance(provenance, Mapping) else None
    if given:
        scheme = Scheme.from_dict(given)
        known = {c.name: c for c in scheme.classes}
        if all(name in known for name in names):
            chosen = tuple(known[name] for name in names)
            found = Scheme(scheme.name, chosen, scheme.title, scheme.reference)
            found.check_labels()
            return found
    if len(names) > 254:
        raise SceneError(f"the model has {len(names)} classes; a map holds at most 254")
    return Scheme.of_names(names, "classes")


def trained_on(model: ModelRecord) -> list[dict[str, Any]]:
    """The scenes that trained a model: name, identity by datatake or content, and input quantities."""
    return [
        {
            "name": str(source.get("name", "")),
            **({"identity": str(source["identity"])} if "identity" in source else {}),
            "quantities": list((source.get("uncertainty") or {}).get("quantities") or ()),
        }
        for source in _sources(model)
    ]


def _sources(model: ModelRecord) -> tuple[Mapping[str, Any], ...]:
    provenance = getattr(model, "provenance_", None)
    return tuple(provenance.get("sources", ())) if isinstance(provenance, Mapping) else ()


def _identities(model: ModelRecord) -> list[Any]:
    """Datatakes or contents of the scenes that trained a model."""
    return [source.get("identity", source.get("name")) for source in _sources(model)]


def is_paired(model: ModelRecord, observed: ObservedScene) -> bool:
    """True where the scene is the only one that trained the model: then a shared error cancels.

    By datatake, which the names of a product's band files state too, the user's --scene-id, or the content of
    files; never by the names that people give them.
    """
    trained = _identities(model)
    return len(trained) == 1 and same_datatake(str(trained[0]), observed.source_id)


def is_namesake(model: ModelRecord, observed: ObservedScene, file: str) -> bool:
    """True where a scene has the file name or the datatake of one that trained the model."""
    return any(
        file == source.get("file") or observed.identity in (source.get("identity"), source.get("name"))
        for source in _sources(model)
    )


def drawn_worlds(model: ModelRecord) -> Mapping[str, Any] | None:
    """Draws that made the worlds of the one scene that trained a model, where they are recorded."""
    found = [(source.get("uncertainty") or {}).get("worlds") for source in _sources(model)]
    return found[0] if len(found) == 1 else None


def are_same_worlds(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True where two records of draws are of the same worlds in the same order.

    >>> are_same_worlds({"aod": [0.1, 0.2]}, {"aod": [0.2, 0.1]})
    False
    """
    return set(one) == set(other) and all(_equal(one[name], other[name]) for name in one)


def _equal(one: Any, other: Any) -> bool:
    """True where numbers are equal but for rounding to single precision, or words are the same."""
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
        return bool(np.array_equal(a, b))
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-6, atol=0))


def common_effects(model: ModelRecord) -> dict[str, CommonEffect]:
    """Systematic effects of the training scene that all scenes have in common, by name."""
    found: dict[str, CommonEffect] = {}
    for source in _sources(model):
        stated = source.get("uncertainty") or {}
        found |= common_of(stated.get("common") or {}, stated.get("quantities") or ())
    return found
