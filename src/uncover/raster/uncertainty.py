"""The one door to uncertainty: whatever it is stored as, `open_uncertainty` gives it window by window."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uncover.files import reader
from uncover.measurement.band_files import read_band_uncertainty, read_correlation_table
from uncover.measurement.band_uncertainty import (
    BandUncertainty,
    BetweenPixels,
    BetweenScenes,
    check_between_pixels,
    check_between_scenes,
    check_effect_name,
    is_relative,
)
from uncover.measurement.bands import canonical_band, places_of
from uncover.measurement.correlation import read_correlation
from uncover.measurement.effects_table import EffectsTable, TableEffect, is_dimensionless
from uncover.raster.align import check_overlap, warn_of_part
from uncover.raster.arrays import ArraySource, Plane, grid_of, open_dataset, spatial_axes
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import sha256_of
from uncover.raster.grid import Grid, Window
from uncover.raster.layers import Calibration
from uncover.raster.tiles import RasterInfo, TileCache, check_exists, describe
from uncover.raster.uncertainty_layers import (
    SPOT,
    SPOTS,
    CalibratedPlanes,
    LayeredUncertainty,
    LayerEffect,
    UncertaintyBlock,
    check_reflectance,
    effect_record,
)
from uncover.warn import warn

if TYPE_CHECKING:
    from uncover.raster.scene import Scene

Array = NDArray[np.float64]

_ARRAYS = (".nc", ".nc4", ".h5", ".zarr")
_TABLES = (".csv", ".json")
_NO_CLASS = "other pixels have none: where it is random they train nothing and get no class"


class UncertaintyWarning(UserWarning):
    """Stated uncertainty that is probably not meant so: in other units, or counted twice or not at all."""


@dataclass(frozen=True)
class UncertaintyOptions:
    """Options for reading a file of uncertainties. Everything has a default; files win where they speak.

    between_pixels
        "random" or "systematic", for files that do not say it: CSV, JSON and rasters.
    between_scenes
        Of systematic effects, where the file does not say it: "independent" (each scene has an error of its
        own) or "common" (all scenes share it, such as a sensor's gain).
    effect_name
        Name of the effect, for CSV, JSON and rasters that do not say it. A common effect is known by it.
    correlation
        A CSV table of the correlation between the errors of bands, for CSV and rasters.
    units
        "1" for reflectance, "%" for per cent of it, where the file does not say it.
    scale
        Standard uncertainty = scale · number, for CSV, JSON and rasters, whose own scale it replaces.
    bands
        Names of the bands of a raster or a dataset in its order, where it has none.
    variable
        The measured variable of an effects table with several.
    structured
        What components of an effects table count as that are neither random nor systematic between pixels.
    exclude_flags
        Flags of an effects table; pixels that have one of them have no valid uncertainty.
    reference
        Mean reflectance of each of the scene's bands, for uncertainty in per cent that a scene shares; the
        scene's own values where it is None.
    """

    between_pixels: BetweenPixels | None = None
    between_scenes: BetweenScenes | None = None
    correlation: str | Path | None = None
    units: str | None = None
    scale: float | None = None
    bands: tuple[str, ...] | None = None
    variable: str | None = None
    structured: BetweenPixels = "systematic"
    exclude_flags: tuple[str, ...] = ()
    effect_name: str | None = None
    reference: tuple[float, ...] | None = None
    cache_bytes: int = field(default=64 * 1024 * 1024)

    def of_bands(self) -> dict[str, Any]:
        """Those for files of bands, as `read_band_uncertainty` takes them."""
        names = ("correlation", "between_pixels", "between_scenes", "units", "scale", "effect_name")
        return {name: getattr(self, name) for name in names}


@reader
def open_uncertainty(
    path: str | Path,
    grid: Grid,
    bands: Sequence[str],
    options: UncertaintyOptions | None = None,
    scene: Scene | None = None,
) -> Uncertainty:
    """Open uncertainty for a scene: a CSV or JSON of bands, a raster, or an effects table in NetCDF or Zarr.

    Bands are found by name. Rasters and tables lie on any grid that overlaps the scene's, in any CRS; each
    pixel takes the number that its centre lies in. `scene` is needed where an effect that it shares is in per
    cent and no reference spectrum is given: it is then taken at the scene's own values.

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
    with _one_line():
        if suffix in _TABLES:
            return _open_bands(name, asked, options, scene)
        if suffix in _ARRAYS:
            return _open_table(name, grid, asked, options)
        return _open_raster(name, grid, asked, options, scene)


@dataclass(frozen=True, eq=False)
class ConstantUncertainty:
    """Per-band uncertainty from a CSV or JSON file, the same for every pixel or relative to its value."""

    uncertainty: BandUncertainty
    about: dict[str, Any] = field(default_factory=dict)
    scene: Scene | None = None  # whose values relative systematic effects are taken at without a reference

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands, in the order of the scene's."""
        return self.uncertainty.bands

    def read(
        self, window: Window, reflectance: NDArray[np.floating[Any]], where: NDArray[np.bool_] | None = None
    ) -> UncertaintyBlock:
        """Covariances of the errors of single pixels in a window of the scene's grid.

        `reflectance` is the scene's, (band, row, col), NaN where there is none. `where` says which pixels
        are wanted, those with a value in every band by default.
        """
        check_reflectance(reflectance, self.bands, window)
        known = np.isfinite(reflectance)
        valid = known.all(axis=0) if where is None else where
        values = np.where(known, reflectance, 0.0)[:, valid].T
        return UncertaintyBlock(window, valid, self.uncertainty.random(values))

    @property
    def systematic(self) -> Array | None:
        """Covariance of the error that the scene shares; relative effects are taken at the reference."""
        with _one_line():
            return self.uncertainty.systematic(self._values)

    @property
    def common(self) -> dict[str, Array]:
        """Covariances of systematic effects that all scenes have in common, by name."""
        with _one_line():
            return self.uncertainty.common(self._values)

    @cached_property
    def _values(self) -> Array | None:
        """Values of the scene, (pixel, band), where there is no reference to take relative effects at."""
        relative = any(e.relative and e.between_pixels == "systematic" for e in self.uncertainty.effects)
        if self.uncertainty.reference is not None or self.scene is None or not relative:
            return None
        blocks = [self.scene.read(window) for window in self.scene.grid.spots(SPOT, SPOTS)]
        found = np.concatenate([block.samples(block.valid) for block in blocks])
        if not len(found):
            raise SceneError("no pixel of the scene has a value to take an uncertainty in per cent at")
        return np.asarray(found, np.float64)

    def facts(self) -> dict[str, Any]:
        """Assumptions in plain words."""
        return {
            **self.about,
            "bands": list(self.bands),
            "quantities": band_records(self.uncertainty, self.about),
        }


#: Uncertainty of a scene, whatever it is stored as: `read`, `systematic`, `common` and `facts`.
Uncertainty = ConstantUncertainty | LayeredUncertainty


def about_file(path: str | Path, kind: str) -> dict[str, Any]:
    """Name and hash of a file that states uncertainty, for a record."""
    name = str(path).rstrip("/")
    return {"file": Path(name).name, "sha256": sha256_of(name), "kind": kind}


def band_records(uncertainty: BandUncertainty, about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Effects on bands as input quantities, for a record; `about` has the file that states them."""
    return [
        effect_record(
            effect,
            effect.name or f"effect {i}",
            [float(f"{u * (100 if effect.relative else 1):.12g}") for u in effect.standard],
            about,
        )
        for i, effect in enumerate(uncertainty.effects, start=1)
    ]


@contextmanager
def _one_line() -> Iterator[None]:
    """Raise errors about arrays as errors about the file that they come from."""
    try:
        yield
    except SceneError:
        raise
    except ValueError as error:
        raise SceneError(str(error).rstrip(".")) from error


def _open_bands(
    name: str, bands: tuple[str, ...], options: UncertaintyOptions, scene: Scene | None
) -> ConstantUncertainty:
    found = read_band_uncertainty(name, bands, **options.of_bands())
    if options.reference is not None:
        found = replace(found, reference=_reference(options, bands))
    for effect in found.effects:
        if not effect.relative:
            _warn_of_units(Path(name).name, effect.standard)
    return ConstantUncertainty(found, about_file(name, "bands"), scene)


def _open_raster(
    name: str, grid: Grid, bands: tuple[str, ...], options: UncertaintyOptions, scene: Scene | None
) -> Uncertainty:
    info = describe(name)
    check_overlap(name, grid, info.grid, "the uncertainty")
    warn_of_part(Path(name).name, grid, info.grid, _NO_CLASS)
    indexes = _raster_bands(info, bands, options)
    short = Path(name).name
    if options.between_pixels is None:
        raise SceneError(
            f"{short} does not say whether errors are independent between pixels; give --between-pixels "
            "random, or systematic where all pixels of a scene share one error"
        )
    pixels = check_between_pixels(options.between_pixels, short)
    scenes = options.between_scenes or "independent"
    relative = is_relative(options.units or "1", short)
    calibrations = tuple(_calibration(info, index, options) for index in indexes)
    layer = CalibratedPlanes(info.bands(*indexes), calibrations)
    check_effect_name(options.effect_name or "", scenes, short)
    effect = LayerEffect(
        name=options.effect_name or Path(name).stem,
        standard=layer,
        correlation=_correlation(bands, options),
        between_pixels=pixels,
        relative_to="scene" if relative else None,
        factor=0.01 if relative else 1.0,
        between_scenes=check_between_scenes(scenes, pixels, short),
    )
    if not relative:
        _warn_of_units(short, _probe(layer, grid))
    about = about_file(name, "raster")
    reference, cache = _reference(options, bands), TileCache(options.cache_bytes)
    return LayeredUncertainty(bands, grid, (effect,), (), reference, about, scene, cache)


def _raster_bands(info: RasterInfo, bands: tuple[str, ...], options: UncertaintyOptions) -> tuple[int, ...]:
    """Which bands of the file belong to those of the scene, counted from 1; one band serves all."""
    if info.count == 1 and options.bands is None:
        return (1,)
    names = options.bands or tuple(name or "" for name in info.names)
    if len(names) != info.count:
        raise SceneError(f"{info.path} has {info.count} bands; {len(names)} names were given")
    if not all(names):
        raise SceneError(
            f"{info.path} has {info.count} bands, some without a name; give their names in order with "
            "--uncertainty-bands B02,B03,…"
        )
    return tuple(place + 1 for place in places_of(bands, names, info.path))


def _calibration(info: RasterInfo, index: int, options: UncertaintyOptions) -> Calibration:
    scale, offset = info.scales[index - 1], info.offsets[index - 1]
    integer = np.issubdtype(np.dtype(info.dtype), np.integer)
    if options.scale is None and scale == 1 and offset == 0 and integer:
        raise SceneError(
            f"{info.path} holds {info.dtype} numbers without a scale; give --uncertainty-scale 0.0001 where "
            "they are digital numbers of Sentinel-2, or --uncertainty-scale 1 to take them as they are"
        )
    if options.scale is not None:
        scale, offset = options.scale, 0.0
    return Calibration(scale, offset, info.nodata[index - 1])


def _correlation(bands: tuple[str, ...], options: UncertaintyOptions) -> Array:
    if options.correlation is None:
        return np.eye(len(bands))
    path = options.correlation
    return read_correlation(read_correlation_table(path, bands), Path(path).name)


def _reference(options: UncertaintyOptions, bands: tuple[str, ...]) -> Array | None:
    if options.reference is None:
        return None
    if len(options.reference) != len(bands):
        raise SceneError(f"reference has {len(options.reference)} numbers; {len(bands)} bands need one each")
    return np.asarray(options.reference, np.float64)


def _open_table(name: str, grid: Grid, bands: tuple[str, ...], options: UncertaintyOptions) -> Uncertainty:
    short = Path(name.rstrip("/")).name
    _check_states_itself(short, options)
    with open_dataset(name) as dataset:
        table = EffectsTable.read(
            dataset,
            bands,
            variable=options.variable,
            band_names=options.bands,
            units=options.units,
            structured=options.structured,
            name=short,
        )
        _check_dimensionless(dataset[table.variable].attrs.get("units"), short, table.variable)
        reader = _TableLayers.of(name, dataset, table)
        check_overlap(name, grid, reader.grid, "the uncertainty")
        warn_of_part(short, grid, reader.grid, _NO_CLASS)
        scenes = options.between_scenes or "independent"
        effects = tuple(reader.effect(dataset, effect, scenes) for effect in table.effects)
        if all(effect.between_pixels == "random" for effect in effects):
            check_between_scenes(scenes, "random", short)
        flags = reader.flags(dataset, options.exclude_flags)
    absolute = [e for e in effects if e.relative_to is None and isinstance(e.standard, CalibratedPlanes)]
    for effect in absolute:
        assert isinstance(effect.standard, CalibratedPlanes)
        _warn_of_units(f"{short}: {effect.name}", _probe(effect.standard, grid))
    about = about_file(name, "effects table") | {"variable": table.variable}
    cache = TileCache(options.cache_bytes)
    return LayeredUncertainty(bands, grid, effects, flags, None, about, None, cache)


def _check_states_itself(name: str, options: UncertaintyOptions) -> None:
    """Refuse what an effects table says of its own."""
    own = {"--uncertainty-scale": options.scale, "--effect-name": options.effect_name}
    given = [option for option, value in own.items() if value is not None]
    if given:
        raise SceneError(
            f"{', '.join(given)} came, and {name} states the scale and the name of its effects itself; "
            "leave it out"
        )


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
        rows, cols = (str(axis) for axis in spatial_axes(dataset, path))
        long = [dim for dim in table.pixel_dims if dim not in (rows, cols) and dataset.sizes[dim] > 1]
        if long or not {rows, cols} <= set(table.pixel_dims):
            raise SceneError(
                f"{path}: {table.variable} has the dimensions {', '.join(table.pixel_dims)} beside that of "
                f"the bands; it needs {rows} and {cols}, and no other that is longer than one"
            )
        return cls(path, table, (rows, cols), grid_of(dataset, dataset[table.variable], (rows, cols)))

    def layer(self, dataset: Any, name: str) -> CalibratedPlanes | Array:
        """A variable as planes, one per band or one for all; or its numbers where it has no pixels."""
        dims = [str(dim) for dim in dataset[name].dims]
        spatial = [dim for dim in dims if dim in self.axes]
        if not spatial:
            return self.table.constants(dataset, name)
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
        return CalibratedPlanes(source, (Calibration(),) * len(planes))

    def effect(self, dataset: Any, effect: TableEffect, scenes: BetweenScenes) -> LayerEffect:
        """A component as an effect on layers."""
        value = self.layer(dataset, self.table.variable) if effect.relative else None
        assert value is None or isinstance(value, CalibratedPlanes)
        kind = self.table.kind(effect)
        return LayerEffect(
            name=effect.name,
            standard=self.layer(dataset, effect.name),
            correlation=effect.correlation,
            between_pixels=kind,
            relative_to=value,
            factor=1.0 if effect.share is None else effect.share,
            between_scenes=scenes if kind == "systematic" else "independent",
        )

    def flags(self, dataset: Any, meanings: tuple[str, ...]) -> tuple[tuple[CalibratedPlanes, int], ...]:
        """Layers of flags, and the bits of those that are asked for."""
        found = self.table.flag_bits(dataset, meanings)
        out = []
        for name, bits in found.items():
            layer = self.layer(dataset, name)
            if isinstance(layer, CalibratedPlanes):
                out.append((layer, bits))
        return tuple(out)


def _probe(layer: CalibratedPlanes, grid: Grid) -> Array:
    """Some standard uncertainties from the middle of the scene."""
    values = layer.read(grid, grid.middle(SPOT), TileCache(1))
    return values[np.isfinite(values)]


def _warn_of_units(name: str, standard: Array) -> None:
    """Reflectance lies between 0 and 1: standard uncertainties beyond it are digital numbers or per cent."""
    typical = float(np.median(standard)) if standard.size else 0.0
    if typical > 1:
        warn(
            f"{name} has standard uncertainties near {typical:.3g}, and reflectance lies between 0 and 1; "
            "give --uncertainty-scale 0.0001 if they are digital numbers, --uncertainty-units % if they are "
            "per cent",
            UncertaintyWarning,
        )
