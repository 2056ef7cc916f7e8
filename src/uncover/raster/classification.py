"""The map of a scene as a library call: in memory from a scene, lazily from an xarray array."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.bands import canonical_band
from uncover.measurement.common_errors import MODELS
from uncover.measurement.pooled import AnySummariser, make_summariser
from uncover.measurement.quantity import EFFECTS, effects_of
from uncover.models.record import FittedEstimator, ModelRecord, record_of
from uncover.models.sets import WithSets
from uncover.raster.errors import SceneError
from uncover.raster.executors import Executor, Threads
from uncover.raster.mapper import Mapper, Reader, count_worlds
from uncover.raster.model_checks import (
    are_same_worlds,
    check_match,
    common_effects,
    drawn_worlds,
    is_paired,
    model_bands,
    scheme_of,
    trained_on,
)
from uncover.raster.observed import ObservedScene, PlainScene, SceneWithNoise, SceneWithWorlds
from uncover.raster.product import CHUNK, UNCERTAINTY, DType, Product, Thresholds
from uncover.raster.quality import Quality, flag_attributes
from uncover.raster.scene import Scene
from uncover.raster.series import SceneSeries
from uncover.raster.uncertainty import UncertaintyWarning
from uncover.warn import warn


def classify(
    scene: Scene | SceneSeries | ObservedScene | Any,
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
        A `Scene` or `SceneSeries`, one with its uncertainty (`ObservedScene`), or an xarray data array with
        dimensions `band`, two others for the place, and `realisation` where there are several.
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
        return _classify_array(scene, model, bool(paired), reader or Reader(), thresholds)
    observed = PlainScene(scene) if isinstance(scene, Scene | SceneSeries) else scene
    check_match(model, observed)
    mapper = make_mapper(model, observed, paired, reader, thresholds, dtype)
    grid = mapper.product.grid
    out = {layer.name: layer.empty(*grid.shape) for layer in mapper.product.layers}
    for unit in (executor or Threads()).run(mapper, list(mapper.product.order(block))):
        for name, planes in unit.layers.items():
            out[name][:, *mapper.units[unit.number].slices] = planes
    return out


def make_mapper(
    model: ModelRecord | FittedEstimator,
    observed: ObservedScene,
    paired: bool | None = None,
    reader: Reader | None = None,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 (frozen)
    dtype: DType = "uint16",
) -> Mapper:
    """Everything that computing the units of a map takes; a model may come with `ConformalSets`."""
    model = record_of(model)
    same = is_paired(model, observed) if paired is None else paired
    if isinstance(observed, SceneWithNoise):
        observed = observed.with_common(common_effects(model))
    given = reader or Reader()
    how = replace(given, paired=same, missing="marginalise" if observed.dates else given.missing)
    _check_worlds(model, observed, same, stated=paired is not None)
    _warn_of_noise(model, observed, same)
    _warn_of_effects(model, observed)
    worlds = count_worlds(model, observed, how)
    coverage = None if model.sets_ is None else float(model.sets_.coverage)
    unknown = how.unknown_share is not None
    product = Product.of(
        observed.grid,
        scheme_of(model),
        worlds,
        dtype,
        coverage,
        unknown=unknown,
        dates=bool(observed.dates),
        shares=_effects_to_split(model, observed, worlds, same) if how.shares else (),
    )
    mapper = Mapper(model, observed, product, how, thresholds)
    mapper = replace(mapper, product=replace(product, drawn=mapper.common.n_worlds + MODELS))
    if how.device == "cuda":
        beside = getattr(observed, "noise", None) is not None
        noisy = isinstance(observed, SceneWithNoise) or beside or observed.systematic is not None
        mapper.summariser.check_device(observed.realisations, noisy=noisy)
    return mapper


def _effects_to_split(
    model: ModelRecord, observed: ObservedScene, worlds: int, paired: bool
) -> tuple[str, ...]:
    """Effects that the measurement part is split by; an error where it cannot be."""
    effects = tuple(getattr(getattr(observed, "source", None), "effect_scores", ()))
    if not effects:
        raise SceneError(
            f"--shares splits the measurement part by the effects of worlds, and scene {observed.identity} "
            "has none that are drawn here as worlds (geolocation is of single pixels); give --aod and "
            "--effects, of one date"
        )
    if worlds < 2 or (model.realisations == "shared" and not paired):
        raise SceneError(
            "--shares needs worlds that are read one by one, and this model reads those of another scene "
            "together; fit it with --realisations pooled, or leave --shares out"
        )
    return (*effects, *getattr(getattr(observed, "noise", None), "causes", ()))


def _check_worlds(model: ModelRecord, observed: ObservedScene, paired: bool, stated: bool) -> None:
    """Refuse to pair a scene with a model that it trained in other worlds; `stated`: the user said paired."""
    worlds, here = model.model_.n_realisations, observed.realisations
    if here == 1 and not paired and _is_uncertain_depth(observed):
        raise SceneError(
            f"scene {observed.identity} comes with one draw (--draws 1), which has no spread: the "
            "uncertainty of its optical depth would not count; give --draws 2 or more, or --aod-uncertainty 0"
        )
    if model.realisations != "shared" or not paired or worlds == 1:
        return
    if worlds != here:
        raise SceneError(
            f"scene {observed.identity} trained the model in {worlds} worlds and comes with {here} "
            f"realisations; give --aod AOD --draws {worlds}, or --unpaired if its errors are others"
        )
    trained, drawn = drawn_worlds(model), observed.worlds
    if trained is None or drawn is None:
        if not stated:
            raise SceneError(
                f"scene {observed.identity} trained the model, but the draws of its {worlds} worlds are not "
                "recorded; fit the model again, or say --paired (the same draws) or --unpaired"
            )
    elif not are_same_worlds(trained, drawn):
        raise SceneError(
            f"scene {observed.identity} trained the model in other worlds ({_in_words(trained)}; here "
            f"{_in_words(drawn)}); give --aod, --aod-uncertainty, --effects, --draws, --draw-method and "
            "--seed of the fit, or --unpaired if its errors are others"
        )


def _warn_of_effects(model: ModelRecord, observed: ObservedScene) -> None:
    """Warn where the worlds of model and scene, or errors of pixels beside them, are of other effects."""
    trained, here = (effects_of(worlds or {}) for worlds in (drawn_worlds(model), observed.worlds))
    if trained and here:  # errors of single pixels that are no worlds are in the records alone
        before = [each for source in trained_on(model) for each in source["quantities"]]
        trained, here = trained + _beside(before), here + _beside(observed.facts().get("quantities", ()))
    if trained != here and trained and here:
        warn(
            f"the model was trained in worlds of {', '.join(trained)}, and those of the scene are of "
            f"{', '.join(here)}: what only one of them has does not count in the other; give fit and map the "
            "same --effects",
        )


def _beside(quantities: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Effects without draws, by the names of the records."""
    words = {str(each.get("name", "")).partition(" ")[0] for each in quantities}
    return tuple(effect for effect, names in EFFECTS.items() if not names and effect in words)


def _is_uncertain_depth(observed: ObservedScene) -> bool:
    """True where the worlds of a scene are made here, by draws of a quantity that is uncertain."""
    return isinstance(observed, SceneWithWorlds) and observed.source.is_uncertain


def _in_words(worlds: Mapping[str, Any]) -> str:
    """A few of the draws, so that two records can be told apart."""
    return "; ".join(
        f"{name} {values if isinstance(values, str) else ', '.join(f'{v:.4g}' for v in values[:3]) + ', ...'}"
        for name, values in worlds.items()
    )


def _warn_of_noise(model: ModelRecord, observed: ObservedScene, paired: bool) -> None:
    """Warn where errors would be counted twice, or left out, because only one of model and map states them.

    A model that was fitted to values as they are has their noise in the spread of its classes.
    """
    if isinstance(observed, SceneWithWorlds):
        _warn_of_noise_in_worlds(model, observed)
        return
    if not isinstance(observed, SceneWithNoise):
        stated = model.model_.knows_noise and model.model_.n_realisations == 1
        if stated and observed.realisations == 1:
            _warn(
                "the model was fitted with --uncertainty and describes true values, and the map takes the "
                "scene as exact: give the scene's own --uncertainty"
            )
        return
    assert observed.uncertainty is not None
    kinds = {record["between_pixels"] for record in observed.uncertainty.facts()["quantities"]}
    if "random" in kinds and not model.model_.knows_noise:
        _warn(
            "the model was fitted without --uncertainty, so that the noise of its training pixels is in the "
            "spread of its classes and counts twice here: fit it again by uncover fit --uncertainty FILE"
        )
    if "random" not in kinds and model.model_.knows_noise and model.model_.n_realisations == 1:
        _warn(
            "the model was fitted with random errors of single pixels and describes true values, and the "
            "scene's --uncertainty states systematic ones alone: state its random ones too"
        )
    stated = model.model_.states_common_errors or bool(common_effects(model))
    if "systematic" in kinds and not paired and not stated:
        _warn(
            "the scene has systematic effects, and nothing is stated of the training scene's: fit the model "
            "again by uncover fit --uncertainty FILE"
        )


def _warn_of_noise_in_worlds(model: ModelRecord, observed: SceneWithWorlds) -> None:
    """The same where scenes come in worlds: what the training scenes recorded says whose noise was known."""
    trained = [each for source in trained_on(model) for each in source["quantities"]]
    if not trained:
        return
    before = any(each.get("between_pixels") == "random" for each in trained)
    here = observed.noise is not None and any(
        each["between_pixels"] == "random" for each in observed.noise.facts()["quantities"]
    )
    if here and not before:
        _warn(
            "the scene has errors of single pixels beside its worlds, and the model was trained without: "
            "those of its training pixels are in the spread of its classes and count twice; fit it again "
            "with the same --effects and --uncertainty"
        )
    if before and not here:
        _warn(
            "the model was trained with errors of single pixels beside its worlds and describes true values, "
            "and the map takes pixels as exact: give the same --effects and --uncertainty"
        )


def _warn(message: str) -> None:
    warn(message, UncertaintyWarning)


def _classify_array(
    array: Any, model: ModelRecord, paired: bool, reader: Reader, thresholds: Thresholds
) -> Any:
    """A dataset with the layers of a map, on the array's own coordinates; lazy where the array is."""
    import xarray

    ordered, scheme, sets = _ordered(array, model), scheme_of(model), model.sets_
    codes = np.array(scheme.codes, np.uint8)
    n = len(codes) + len(UNCERTAINTY) + 2 + (sets is not None)
    summariser = make_summariser(model, paired=paired, method=reader.method, n_true_values=reader.true_values)
    planes = xarray.apply_ufunc(
        _classify_block,
        ordered,
        kwargs={"summariser": summariser, "codes": codes, "limits": thresholds, "sets": sets},
        input_core_dims=[list(ordered.dims[2:])],
        output_core_dims=[["layer"]],
        dask="parallelized",
        output_dtypes=[np.float32],
        dask_gufunc_kwargs={"output_sizes": {"layer": n}},
    )
    return _dataset(planes, scheme, ordered.dims[:2], xarray)


def _ordered(array: Any, model: ModelRecord) -> Any:
    """The array as (row, col, realisation, band), with the model's bands checked by name."""
    if "band" not in array.dims:
        raise SceneError(f"the array has the dimensions {', '.join(map(str, array.dims))}; 'band' is needed")
    place = [dim for dim in array.dims if dim not in ("band", "realisation")]
    if len(place) != 2:
        raise SceneError(f"the array has {len(place)} dimensions beside band and realisation; 2 are needed")
    wanted = model_bands(model)
    if "band" in array.coords and wanted is not None:
        names = [canonical_band(str(name)) for name in array["band"].values]
        if names != list(wanted):
            raise SceneError(
                f"the array has the bands {', '.join(names)}, the model was trained on {', '.join(wanted)}; "
                "select them by array.sel(band=[...])"
            )
    if array.sizes["band"] != model.n_features_in_:
        raise SceneError(
            f"the array has {array.sizes['band']} bands, the model was trained on {model.n_features_in_}"
        )
    if "realisation" not in array.dims:
        array = array.expand_dims("realisation")
    ordered = array.transpose(*place, "realisation", "band")
    return ordered if array.chunks is None else ordered.chunk({})


def _classify_block(
    block: NDArray[Any],
    summariser: AnySummariser,
    codes: NDArray[np.uint8],
    limits: Thresholds,
    sets: WithSets | None,
) -> NDArray[np.float32]:
    """Layers of a block (row, col, realisation, band): (row, col, layer); NaN where a band is missing."""
    K, last = len(codes), len(codes) + len(UNCERTAINTY) + 1
    *place, worlds, p = block.shape
    pixels = block.reshape(-1, worlds, p)
    out = np.full((len(pixels), last + 1 + (sets is not None)), np.nan, np.float32)
    missing = ~np.isfinite(pixels).all(axis=1)
    nothing = missing.all(axis=1)
    out[:, last] = nothing * int(Quality.NODATA) + (missing.any(axis=1) & ~nothing) * int(Quality.PARTIAL)
    out[:, 0] = 0
    complete = np.flatnonzero(~missing.any(axis=1))
    for start in range(0, len(complete), CHUNK):
        where = complete[start : start + CHUNK]
        planes = np.ascontiguousarray(np.moveaxis(pixels[where], 0, 2))
        summary = summariser.summarise(planes)
        out[where, 0] = codes[summary.best]
        out[where, 1 : 1 + K] = summary.probability.T
        out[where, 1 + K : last] = np.stack([getattr(summary, name) for name in UNCERTAINTY], axis=1)
        if sets is not None:
            out[where, -1] = sets.inside(summary.probability.T).sum(axis=1)
        out[where, last] = (
            ~(summary.typicality >= limits.typicality) * int(Quality.OUTSIDE_DOMAIN)
            + (summary.disagreement > limits.disagreement) * int(Quality.DISAGREE)
            + (summary.margin < limits.margin) * int(Quality.LOW_MARGIN)
        )
    return out.reshape(*place, -1)


def _dataset(planes: Any, scheme: Any, place: Any, xarray: Any) -> Any:
    K = len(scheme.classes)
    ordered = scheme.in_code_order()
    places = [1 + scheme.codes.index(code) for code in ordered.codes]
    probability = planes.isel(layer=places).rename(layer="class_name")
    layers = {
        "class": planes.isel(layer=0)
        .astype(np.uint8)
        .assign_attrs(
            flag_values=list(ordered.codes),
            flag_meanings=" ".join(name.replace(" ", "_") for name in ordered.names),
        ),
        "probability": probability.assign_coords(class_name=np.array(ordered.names)).transpose(
            "class_name", *place
        ),
        "quality": planes.isel(layer=1 + K + len(UNCERTAINTY))
        .astype(np.uint16)
        .assign_attrs(flag_attributes()),
    }
    for i, name in enumerate(UNCERTAINTY):
        layers[name] = planes.isel(layer=1 + K + i)
    if planes.sizes["layer"] > 2 + K + len(UNCERTAINTY):
        layers["set_size"] = planes.isel(layer=-1)
    return xarray.Dataset(layers)
