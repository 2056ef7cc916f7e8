"""Maps of xarray arrays, chunk by chunk where they are lazy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.bands import canonical_band
from uncover.measurement.pooled import AnySummariser, make_summariser
from uncover.models.record import ModelRecord, record_of
from uncover.models.sets import WithSets
from uncover.raster.errors import SceneError
from uncover.raster.mapper import Reader
from uncover.raster.model_checks import model_bands, scheme_of
from uncover.raster.product import CHUNK, UNCERTAINTY, Thresholds
from uncover.raster.quality import Quality, flag_attributes


def classify_array(
    array: Any, model: ModelRecord, *, paired: bool, reader: Reader | None, thresholds: Thresholds
) -> Any:
    """A dataset with the layers of a map, on the array's own coordinates; lazy where the array is."""
    import xarray

    given = reader or Reader()
    model = record_of(model)
    sets = model.sets_
    ordered = _ordered(array, model)
    scheme = scheme_of(model)
    place = ordered.dims[:2]
    codes = np.array(scheme.codes, np.uint8)
    n = len(codes) + len(UNCERTAINTY) + 2 + (sets is not None)
    summariser = make_summariser(model, paired=paired, method=given.method, n_true_values=given.true_values)
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
    return _dataset(planes, scheme, place, xarray)


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
    return (
        array.transpose(*place, "realisation", "band").chunk({})
        if _lazy(array)
        else array.transpose(*place, "realisation", "band")
    )


def _lazy(array: Any) -> bool:
    return array.chunks is not None


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
