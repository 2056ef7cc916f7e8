"""The map of a scene as a library call: in memory from a scene, lazily from an xarray array."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from uncover.models.record import FittedEstimator, ModelRecord, record_of
from uncover.raster.errors import SceneError
from uncover.raster.evidence import Evidence, Exact, Noisy, Realised
from uncover.raster.executors import Executor, Threads
from uncover.raster.mapper import Mapper, Reader, count_worlds
from uncover.raster.model_checks import (
    are_same_worlds,
    check_match,
    common_effects,
    drawn_worlds,
    is_paired,
    scheme_of,
)
from uncover.raster.product import DType, Product, Thresholds
from uncover.raster.scene import Scene
from uncover.raster.uncertainty import UncertaintyWarning


def classify(
    scene: Scene | Evidence | Any,
    model: ModelRecord | FittedEstimator,
    *,
    paired: bool | None = None,
    reader: Reader | None = None,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 (frozen)
    dtype: DType = "uint16",
    block: int = 1024,
    executor: Executor | None = None,
) -> Any:
    """Classify a scene with a fitted model.

    Parameters
    ----------
    scene
        A `Scene`, a scene with its uncertainty (`Evidence`), or an xarray data array with dimensions `band`,
        two others for the place, and `realisation` where there are several.
    model
        A fitted estimator, or one that `load_model` has read.
    paired
        Whether the scene trained the model, so that a shared error cancels; by default what the
        provenance of the model says.
    reader, thresholds
        How pixels are read, and when they are flagged.
    dtype
        Numbers of the layers: whole steps of 1e-4, as in files, or float32.
    block, executor
        Who computes what after what; the result does not depend on them.

    Returns
    -------
    dict of arrays (band, row, col), or xarray.Dataset
        Layers by name as they are stored in files; for an xarray array a dataset of the same kind, lazy
        where the array is, with floating-point numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from uncover import BayesianQDA
    >>> from uncover.raster import Grid, scene_from_array
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(200) % 2
    >>> model = BayesianQDA().fit(rng.normal(0.1 + 0.1 * y[:, None], 0.02, (200, 3)), y)
    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=4, height=3)
    >>> values = np.full((3, 3, 4), 0.1, np.float32)
    >>> values[:, :, 2:] = 0.2
    >>> layers = classify(scene_from_array(values, grid, ("B02", "B03", "B04")), model)
    >>> layers["class"][0]
    array([[1, 1, 2, 2],
           [1, 1, 2, 2],
           [1, 1, 2, 2]], dtype=uint8)
    """
    model = record_of(model)
    if hasattr(scene, "dims"):
        from uncover.raster.xarray_maps import classify_array

        return classify_array(scene, model, paired=bool(paired), reader=reader, thresholds=thresholds)
    evidence: Evidence = Exact(scene) if isinstance(scene, Scene) else scene
    check_match(model, evidence)
    mapper = make_mapper(model, evidence, paired, reader, thresholds, dtype)
    grid = mapper.product.grid
    out = {layer.name: layer.empty(*grid.shape) for layer in mapper.product.layers}
    for unit in (executor or Threads()).run(mapper, list(mapper.product.order(block))):
        for name, planes in unit.layers.items():
            out[name][:, *mapper.units[unit.number].slices] = planes
    return out


def make_mapper(
    model: ModelRecord | FittedEstimator,
    evidence: Evidence,
    paired: bool | None = None,
    reader: Reader | None = None,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 (frozen)
    dtype: DType = "uint16",
) -> Mapper:
    """Everything that computing the units of a map takes; a model may come with `ConformalSets`."""
    model = record_of(model)
    same = is_paired(model, evidence) if paired is None else paired
    if isinstance(evidence, Noisy):
        evidence = evidence.with_common(common_effects(model))
    given = reader or Reader()
    how = replace(given, paired=same)
    _check_worlds(model, evidence, same, stated=paired is not None)
    _warn_of_noise(model, evidence, same)
    worlds = count_worlds(model, evidence, how)
    coverage = None if model.sets_ is None else float(model.sets_.coverage)
    product = Product.of(evidence.grid, scheme_of(model), worlds, dtype, coverage)
    mapper = Mapper(model, evidence, product, how, thresholds)
    if how.device == "cuda":
        noisy = isinstance(evidence, Noisy) or evidence.systematic is not None
        mapper.summariser.check_device(evidence.realisations, noisy=noisy)
    return mapper


def _check_worlds(model: ModelRecord, evidence: Evidence, paired: bool, stated: bool) -> None:
    """Refuse to pair a scene with a model that it trained in other worlds; `stated`: the user said paired."""
    worlds, here = model.model_.n_realisations, evidence.realisations
    if here == 1 and not paired and _is_uncertain_depth(evidence):
        raise SceneError(
            f"scene {evidence.identity} comes with one draw (--draws 1), which has no spread: the "
            "uncertainty of its optical depth would not count; give --draws 2 or more, or --aod-uncertainty 0"
        )
    if model.realisations != "shared" or not paired or worlds == 1:
        return
    if worlds != here:
        raise SceneError(
            f"scene {evidence.identity} trained the model in {worlds} worlds and comes with {here} "
            f"realisations; give --aod AOD --draws {worlds}, or --unpaired if its errors are others"
        )
    trained, drawn = drawn_worlds(model), evidence.worlds
    if trained is None or drawn is None:
        if not stated:
            raise SceneError(
                f"scene {evidence.identity} trained the model, but the draws of its {worlds} worlds are not "
                "recorded; fit the model again, or say --paired (the same draws) or --unpaired"
            )
    elif not are_same_worlds(trained, drawn):
        raise SceneError(
            f"scene {evidence.identity} trained the model in other worlds ({_in_words(trained)}; here "
            f"{_in_words(drawn)}); give --aod, --aod-uncertainty, --draws, --draw-method and --seed of the "
            "fit, or --unpaired if its errors are others"
        )


def _is_uncertain_depth(evidence: Evidence) -> bool:
    """True where the worlds of a scene are made here, by draws of a quantity that is uncertain."""
    quantity = evidence.source.draws.quantity if isinstance(evidence, Realised) else None
    return quantity is not None and quantity.standard_uncertainty > 0


def _in_words(worlds: Mapping[str, Any]) -> str:
    """A few of the draws, so that two records can be told apart.

    >>> _in_words({"aod": [0.05, 0.1, 0.15, 0.2]})
    'aod 0.05, 0.1, 0.15, ...'
    """
    return "; ".join(
        f"{name} {values if isinstance(values, str) else ', '.join(f'{v:.4g}' for v in values[:3]) + ', ...'}"
        for name, values in worlds.items()
    )


def _warn_of_noise(model: ModelRecord, evidence: Evidence, paired: bool) -> None:
    """Warn where errors would be counted twice, or left out, because only one of model and map states them.

    A model that was fitted to values as they are has their noise in the spread of its classes.
    """
    if not isinstance(evidence, Noisy):
        if getattr(model.model_, "known_noise", None) is not None and evidence.realisations == 1:
            _warn(
                "the model was fitted with --uncertainty and describes true values, and the map takes the "
                "scene as exact: give the scene's own --uncertainty"
            )
        return
    assert evidence.uncertainty is not None
    kinds = {record["between_pixels"] for record in evidence.uncertainty.facts()["quantities"]}
    if "random" in kinds and not model.model_.knows_noise:
        _warn(
            "the model was fitted without --uncertainty, so that the noise of its training pixels is in the "
            "spread of its classes and counts twice here: fit it again by uncover fit --uncertainty FILE"
        )
    stated = model.model_.states_common_errors or bool(common_effects(model))
    if "systematic" in kinds and not paired and not stated:
        _warn(
            "the scene has systematic effects, and nothing is stated of the training scene's: fit the model "
            "again by uncover fit --uncertainty FILE"
        )


def _warn(message: str) -> None:
    warnings.warn(message, UncertaintyWarning, stacklevel=5)
