"""Whether a model and a scene belong together: bands, order, units, classes, and a shared error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels import Scheme
from uncover.raster.errors import SceneError
from uncover.raster.evidence import Evidence, probe
from uncover.raster.options import canonical_band

#: Typical values of a scene and of the training data that differ by more than this are in other units.
_UNITS_FACTOR = 50.0


def model_bands(model: Any) -> tuple[str, ...] | None:
    """Names of the bands that a model was trained on; None where it does not know them."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(canonical_band(str(name)) for name in names)


def check_match(model: Any, evidence: Evidence) -> None:
    """Refuse a scene with other bands, another order of them, or other units than the model's."""
    wanted, offered = model_bands(model), tuple(canonical_band(band) for band in evidence.bands)
    if len(offered) != model.n_features_in_:
        raise SceneError(
            f"scene {evidence.identity} has {len(offered)} bands ({', '.join(offered)}); the model was "
            f"trained on {model.n_features_in_} ({', '.join(wanted or ('names unknown',))}). Choose them "
            "with --bands"
        )
    if wanted is not None and offered != wanted:
        what = "the same bands in another order" if set(offered) == set(wanted) else "other bands"
        raise SceneError(
            f"scene {evidence.identity} has the bands {', '.join(offered)}; the model was trained on "
            f"{', '.join(wanted)}: {what}. Give --bands {','.join(wanted)}"
        )
    _check_units(model, evidence)


def _check_units(model: Any, evidence: Evidence) -> None:
    """Compare typical values: reflectance lies near 0.1, the same as digital numbers near 1000."""
    pixels = probe(evidence)
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
            f"scene {evidence.identity} has values around {here:.3g}, the training data of the model around "
            f"{typical:.3g} ({getattr(model, 'units_', None) or 'units unknown'}): other units. Perhaps "
            f"{remedy}"
        )


def scheme_of(model: Any) -> Scheme:
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


def trained_on(model: Any) -> tuple[str, ...]:
    """Names of the scenes that trained a model, as its provenance has them."""
    return tuple(str(source.get("name", "")) for source in _sources(model))


def _sources(model: Any) -> tuple[Mapping[str, Any], ...]:
    provenance = getattr(model, "provenance_", None)
    return tuple(provenance.get("sources", ())) if isinstance(provenance, Mapping) else ()


def is_paired(model: Any, evidence: Evidence) -> bool:
    """Whether the scene is the only one that trained the model: then a shared error cancels.

    By datatake, the user's --scene-id, or the content of files; never by their names.
    """
    sources = _sources(model)
    return len(sources) == 1 and sources[0].get("identity", sources[0].get("name")) == evidence.source_id


def common_effects(model: Any) -> dict[str, NDArray[np.float64]]:
    """Covariances of systematic effects of the training scene that all scenes have in common, by name."""
    found = [(source.get("uncertainty") or {}).get("common") or {} for source in _sources(model)]
    return {name: np.asarray(matrix, float) for each in found for name, matrix in each.items()}
