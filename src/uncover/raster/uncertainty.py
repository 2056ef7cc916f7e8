"""The one door to uncertainty: whatever it is stored as, `open_uncertainty` gives it window by window."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.band_files import read_band_uncertainty, read_correlation_table
from uncover.measurement.band_uncertainty import (
    BandUncertainty,
    BetweenPixels,
    check_between_pixels,
    is_relative,
)
from uncover.measurement.bands import canonical_band, places_of
from uncover.measurement.correlation import read_correlation
from uncover.measurement.effects_attributes import TableEffect, is_dimensionless
from uncover.measurement.effects_table import EffectsTable
from uncover.raster.align import check_overlap
from uncover.raster.arrays import ArraySource, Plane, grid_of, open_dataset
from uncover.raster.errors import SceneError
from uncover.raster.grid import Grid, Window
from uncover.raster.layers import Calibration
from uncover.raster.tiles import RasterInfo, TileCache, check_exists, describe
from uncover.raster.uncertainty_layers import (
    Layer,
    LayeredUncertainty,
    LayerEffect,
    UncertaintyBlock,
    check_reflectance,
    effect_facts,
)

Array = NDArray[np.float64]
T = TypeVar("T")

_ARRAYS = (".nc", ".nc4", ".h5", ".zarr")
_TABLES = (".csv", ".json")


class UncertaintyWarning(UserWarning):
    """Standard uncertainties that are larger than any reflectance: their units are probably others.

    >>> issubclass(UncertaintyWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class UncertaintyOptions:
    """What the user says about a file of uncertainties. Everything has a default; files win where they speak.

    between_pixels
        "random" or "systematic", for files that do not say it: CSV, JSON and rasters.
    correlation
        A CSV table of the correlation between the errors of bands, for CSV and rasters.
    units
        "1" for reflectance, "%" for per cent of it, where the file does not say it.
    scale
        Standard uncertainty = scale · number, for rasters; it replaces what the file says.
    bands
        Names of the bands of a raster or a dataset in its order, where it has none.
    variable
        The measured variable of an effects table with several.
    structured
        What components of an effects table count as that are neither random nor systematic between pixels.
    exclude_flags
        Flags of an effects table; pixels that have one of them have no valid uncertainty.
    reference
        Mean reflectance of each of the scene's bands, for uncertainty in per cent that a scene shares.

    >>> UncertaintyOptions(between_pixels="random").structured
    'systematic'
    """

    between_pixels: BetweenPixels | None = None
    correlation: str | Path | None = None
    units: str | None = None
    scale: float | None = None
    bands: tuple[str, ...] | None = None
    variable: str | None = None
    structured: BetweenPixels = "systematic"
    exclude_flags: tuple[str, ...] = ()
    reference: tuple[float, ...] | None = None
    cache_bytes: int = field(default=64 * 1024 * 1024)


class Uncertainty(Protocol):
    """Uncertainty of a scene, whatever it is stored as."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands, in the order of the scene's."""

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: NDArray[np.bool_] | None = None
    ) -> UncertaintyBlock:
        """Covariances of the errors of single pixels in a window of the scene's grid.

        `reflectance` is the scene's, (band, row, col), NaN where there is none. `where` says which pixels
        are wanted, those with a value in every band by default.
        """

    @property
    def systematic(self) -> Array | None:
        """Covariance of the error that all pixels of the scene share, (band, band), or None."""

    def facts(self) -> dict[str, Any]:
        """What was assumed, in plain words."""


def open_uncertainty(
    path: str | Path, grid: Grid, bands: Sequence[str], options: UncertaintyOptions | None = None
) -> Uncertainty:
    """Open uncertainty for a scene: a CSV or JSON of bands, a raster, or an effects table in NetCDF or Zarr.

    Bands are found by name. Rasters and tables lie on any grid that overlaps the scene's, in any CRS; each
    pixel takes the number that its centre lies in.

    >>> import json, tempfile
    >>> path = tempfile.mkdtemp() + "/unc.json"
    >>> content = {"bands": ["B2", "B3"], "standard_uncertainty": [0.01, 0.02], "units": "1",
    ...            "between_pixels": "random"}
    >>> with open(path, "w") as file:
    ...     json.dump(content, file)
    >>> grid = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=4, height=3)
    >>> uncertainty = open_uncertainty(path, grid, ("B03", "B02"))
    >>> block = uncertainty.read(Window(0, 0, 1, 2), np.full((2, 1, 2), 0.1))
    >>> block.covariances.variances()
    array([[0.0004, 0.0001]])
    """
    options = options or UncertaintyOptions()
    name = str(path)
    check_exists(name)
    asked = tuple(canonical_band(band) for band in bands)
    suffix = Path(name.rstrip("/")).suffix.lower()
    if suffix in _TABLES:
        return _open_bands(name, asked, options)
    if suffix in _ARRAYS:
        return _open_table(name, grid, asked, options)
    return _open_raster(name, grid, asked, options)


@dataclass(frozen=True, eq=False)
class ConstantUncertainty:
    """Per-band uncertainty from a CSV or JSON file, the same for every pixel or relative to its value.

    >>> constant = ConstantUncertainty(BandUncertainty.of(["B02"], [5.0], units="%"))
    >>> constant.read(Window(0, 0, 1, 1), np.array([[[0.2]]])).covariances.matrices().round(8)
    array([[[0.0001]]])
    """

    uncertainty: BandUncertainty
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands, in the order of the scene's."""
        return self.uncertainty.bands

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: NDArray[np.bool_] | None = None
    ) -> UncertaintyBlock:
        """Covariances of a window; see :class:`Uncertainty`."""
        check_reflectance(reflectance, self.bands, window)
        known = np.isfinite(reflectance)
        valid = known.all(axis=0) if where is None else where
        values = np.where(known, reflectance, 0.0)[:, valid].T
        return UncertaintyBlock(window, valid, self.uncertainty.random(values))

    @property
    def systematic(self) -> Array | None:
        """Covariance of the error that the scene shares; relative effects are taken at the reference."""
        return _one_line(self.uncertainty.systematic)

    def facts(self) -> dict[str, Any]:
        """What was assumed, in plain words."""
        return {**self.about, "bands": list(self.bands), "effects": effect_facts(self.uncertainty.effects)}


def _one_line(call: Callable[[], T]) -> T:
    """What goes wrong with arrays goes wrong with a file here."""
    try:
        return call()
    except SceneError:
        raise
    except ValueError as error:
        raise SceneError(str(error).rstrip(".")) from error


def _open_bands(name: str, bands: tuple[str, ...], options: UncertaintyOptions) -> ConstantUncertainty:
    found = _one_line(
        lambda: read_band_uncertainty(
            name,
            bands,
            correlation=options.correlation,
            between_pixels=options.between_pixels,
            units=options.units,
        )
    )
    if options.reference is not None:
        found = replace(found, reference=_reference(options, bands))
    for effect in found.effects:
        if not effect.relative:
            _warn_of_units(Path(name).name, effect.standard)
    return ConstantUncertainty(found, {"file": Path(name).name, "kind": "bands"})


def _open_raster(name: str, grid: Grid, bands: tuple[str, ...], options: UncertaintyOptions) -> Uncertainty:
    info = describe(name)
    check_overlap(name, grid, info.grid, "the uncertainty")
    indexes = _raster_bands(info, bands, options)
    short = Path(name).name
    if options.between_pixels is None:
        raise SceneError(
            f"{short} does not say whether errors are independent between pixels; give "
            'between_pixels="random", '
            'or "systematic" where all pixels of a scene share one error'
        )
    relative = _one_line(lambda: is_relative(options.units or "1", short))
    layer = Layer(info.bands(*indexes), tuple(_calibration(info, index, options) for index in indexes))
    effect = LayerEffect(
        name=short,
        standard=layer,
        correlation=_correlation(bands, options),
        between_pixels=_one_line(lambda: check_between_pixels(options.between_pixels, short)),
        relative_to="scene" if relative else None,
        factor=0.01 if relative else 1.0,
    )
    if not relative:
        _warn_of_units(short, _probe(layer, grid))
    about = {"file": short, "kind": "raster"}
    reference, cache = _reference(options, bands), TileCache(options.cache_bytes)
    return LayeredUncertainty(bands, grid, (effect,), (), reference, about, cache)


def _raster_bands(info: RasterInfo, bands: tuple[str, ...], options: UncertaintyOptions) -> tuple[int, ...]:
    """Which bands of the file belong to those of the scene, counted from 1; one band serves all."""
    if info.count == 1 and options.bands is None:
        return (1,)
    names = options.bands or tuple(name or "" for name in info.names)
    if len(names) != info.count:
        raise SceneError(f"{info.path} has {info.count} bands; {len(names)} names were given")
    if not all(names):
        raise SceneError(
            f"{info.path} has {info.count} bands, some without a name; give their names in order with bands="
        )
    return tuple(place + 1 for place in _one_line(lambda: places_of(bands, names, info.path)))


def _calibration(info: RasterInfo, index: int, options: UncertaintyOptions) -> Calibration:
    scale, offset = info.scales[index - 1], info.offsets[index - 1]
    integer = np.issubdtype(np.dtype(info.dtype), np.integer)
    if options.scale is None and scale == 1 and offset == 0 and integer:
        raise SceneError(
            f"{info.path} holds {info.dtype} numbers without a scale; give scale=0.0001 where they are "
            "digital "
            "numbers of Sentinel-2, or scale=1 to take them as they are"
        )
    if options.scale is not None:
        scale, offset = options.scale, 0.0
    return Calibration(scale, offset, info.nodata[index - 1])


def _correlation(bands: tuple[str, ...], options: UncertaintyOptions) -> Array:
    if options.correlation is None:
        return np.eye(len(bands))
    path = options.correlation
    return _one_line(lambda: read_correlation(read_correlation_table(path, bands), Path(path).name))


def _reference(options: UncertaintyOptions, bands: tuple[str, ...]) -> Array | None:
    if options.reference is None:
        return None
    if len(options.reference) != len(bands):
        raise SceneError(f"reference has {len(options.reference)} numbers; {len(bands)} bands need one each")
    return np.asarray(options.reference, np.float64)


def _open_table(name: str, grid: Grid, bands: tuple[str, ...], options: UncertaintyOptions) -> Uncertainty:
    short = Path(name.rstrip("/")).name
    with open_dataset(name) as dataset:
        table = _one_line(
            lambda: EffectsTable.read(
                dataset,
                bands,
                variable=options.variable,
                band_names=options.bands,
                units=options.units,
                structured=options.structured,
                name=short,
            )
        )
        _check_dimensionless(dataset[table.variable].attrs.get("units"), short, table.variable)
        reader = _TableLayers.of(name, dataset, table)
        check_overlap(name, grid, reader.grid, "the uncertainty")
        effects = tuple(reader.effect(dataset, effect) for effect in table.effects)
        flags = reader.flags(dataset, options.exclude_flags)
    absolute = [e for e in effects if e.relative_to is None and isinstance(e.standard, Layer)]
    for effect in absolute:
        assert isinstance(effect.standard, Layer)
        _warn_of_units(f"{short}: {effect.name}", _probe(effect.standard, grid))
    about = {"file": short, "kind": "effects table", "variable": table.variable}
    return LayeredUncertainty(bands, grid, effects, flags, None, about, TileCache(options.cache_bytes))


def _check_dimensionless(units: Any, name: str, variable: str) -> None:
    if units is not None and not is_dimensionless(units):
        raise SceneError(f'{name}: {variable} has the units {units!r}; a scene has reflectance, units "1"')


@dataclass(frozen=True)
class _TableLayers:
    """Makes layers from the variables of a table."""

    path: str
    table: EffectsTable
    axes: tuple[str, str]
    grid: Grid

    @classmethod
    def of(cls, path: str, dataset: Any, table: EffectsTable) -> _TableLayers:
        from uncover.raster.arrays import _axes

        rows, cols = (str(axis) for axis in _axes(dataset, path))
        long = [dim for dim in table.pixel_dims if dim not in (rows, cols) and dataset.sizes[dim] > 1]
        if long or not {rows, cols} <= set(table.pixel_dims):
            raise SceneError(
                f"{path}: {table.variable} has the dimensions {', '.join(table.pixel_dims)} beside that of "
                "the "
                f"bands; it needs {rows} and {cols}, and no other that is longer than one"
            )
        return cls(path, table, (rows, cols), grid_of(dataset, dataset[table.variable], (rows, cols)))

    def layer(self, dataset: Any, name: str) -> Layer | Array:
        """A variable as planes, one per band or one for all; or its numbers where it has no pixels."""
        dims = [str(dim) for dim in dataset[name].dims]
        spatial = [dim for dim in dims if dim in self.axes]
        if not spatial:
            return self.table.values(dataset, name, {})[0]
        if len(spatial) == 1:
            raise SceneError(
                f"{self.path}: {name} runs along {spatial[0]} only; store it along {' and '.join(self.axes)}"
            )
        fixed = tuple((dim, 0) for dim in dims if dim not in (*self.axes, self.table.band_dim))
        places = (
            [((self.table.band_dim, i),) for i in self.table.places] if self.table.band_dim in dims else [()]
        )
        planes = tuple(Plane(name, name, (*fixed, *place)) for place in places)
        source = ArraySource(self.path, planes, self.axes, self.grid, (512, 512))
        return Layer(source, (Calibration(),) * len(planes))

    def effect(self, dataset: Any, effect: TableEffect) -> LayerEffect:
        """A component as an effect on layers."""
        value = self.layer(dataset, self.table.variable) if effect.relative else None
        assert value is None or isinstance(value, Layer)
        kind = self.table.structured if effect.between_pixels == "structured" else effect.between_pixels
        return LayerEffect(
            name=effect.name,
            standard=self.layer(dataset, effect.name),
            correlation=effect.correlation,
            between_pixels=kind,
            relative_to=value,
            factor=0.01 if effect.relative else 1.0,
        )

    def flags(self, dataset: Any, meanings: tuple[str, ...]) -> tuple[tuple[Layer, int], ...]:
        """Layers of flags, and the bits of those that are asked for."""
        found = _one_line(lambda: self.table.flag_bits(dataset, meanings))
        out = []
        for name, bits in found.items():
            layer = self.layer(dataset, name)
            if isinstance(layer, Layer):
                out.append((layer, bits))
        return tuple(out)


def _probe(layer: Layer, grid: Grid) -> Array:
    """Some standard uncertainties from the middle of the scene."""
    height, width = min(grid.height, 64), min(grid.width, 64)
    middle = Window((grid.height - height) // 2, (grid.width - width) // 2, height, width)
    values = layer.read(grid, middle, TileCache(1))
    return values[np.isfinite(values)]


def _warn_of_units(name: str, standard: Array) -> None:
    """Reflectance lies between 0 and 1: standard uncertainties beyond it are digital numbers or per cent."""
    typical = float(np.median(standard)) if standard.size else 0.0
    if typical > 1:
        warnings.warn(
            f"{name} has standard uncertainties near {typical:.3g}, and reflectance lies between 0 and 1; "
            "give "
            'scale=0.0001 if they are digital numbers, units="%" if they are per cent',
            UncertaintyWarning,
            stacklevel=4,
        )
