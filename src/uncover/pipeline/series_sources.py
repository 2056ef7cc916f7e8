"""Scenes of several dates, and computed features, as one scene to fit to or to map."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from uncover.measurement.dates import SEASON, Period, matching, name_dates, periods_of
from uncover.measurement.formulas import BANDS, Formula, bands_needed, read_formulas
from uncover.raster.arrays import moments
from uncover.raster.errors import NoScaleError, SceneError
from uncover.raster.grid import Grid
from uncover.raster.loose_files import SceneSource, source_name
from uncover.raster.names import NamedFacts
from uncover.raster.opening import open_scene
from uncover.raster.quality import Quality
from uncover.raster.scene import Scene, SceneOptions
from uncover.raster.series import SceneSeries, aligned, day_of
from uncover.raster.tiles import TileCache
from uncover.warn import warn


@dataclass(frozen=True)
class OneDate:
    """A scene as it came: its source, options that open it, its bands, and the day where it states one."""

    source: SceneSource
    options: SceneOptions
    scene: Scene

    @property
    def name(self) -> str:
        """Name of the source; with the place on the time axis of a dataset."""
        name = Path(source_name(self.source).rstrip("/")).name
        return name if self.options.moment is None else f"{name} ({self.scene.identity[-15:]})"

    @property
    def day(self) -> date | None:
        """Day that the scene or the name of its file states."""
        named = NamedFacts.of(source_name(self.source)).date
        scene = self.scene if self.scene.date or named is None else replace(self.scene, date=named)
        try:
            return date.fromisoformat(day_of(scene))
        except SceneError:
            return None

    def opened(self, formulas: Sequence[Formula], when: str) -> Scene:
        """Open it with the bands that are needed, and the mask of its day."""
        own, bands = self.scene.bands, bands_needed(formulas)
        dated = self.scene.date is not None or self.scene.sensing_time is not None
        options = self.options if dated else replace(self.options, date=when)
        if len(own) == len(bands) and all(band.startswith("band_") for band in own) and own != bands:
            scene = open_scene(self.source, replace(options, band_names=bands))
        else:
            scene = _with_bands(self.source, options, formulas, own)
        return _without_tiles(scene)


def opened_dates(
    sources: Sequence[SceneSource],
    options: SceneOptions,
    known: tuple[float, float, str] | None = None,
    needed: tuple[str, ...] | None = None,
) -> list[OneDate]:
    """Look at each scene, and at each date of a dataset with a time axis.

    `known` is the calibration of scenes that do not state it; `needed` are bands that will do where not all
    can be read.
    """
    if options.date is not None:
        raise SceneError(
            f"--date {options.date} came with scenes of several dates, each of which states its own; leave "
            "it out (--dates names them)"
        )
    plain = replace(options, scene_id=None)
    found = []
    for source in sources:
        count = moments(source) if isinstance(source, str | Path) else 1
        for moment in range(count):
            here = replace(plain, moment=moment if count > 1 else None)
            try:
                scene = _looked_at(source, here, needed)
            except NoScaleError:
                if known is None:
                    raise
                here = replace(here, assumed=known)
                scene = _looked_at(source, here, needed)
            if known is not None and scene.calibrated_by == "nobody" and known[0] == 1:
                here = replace(here, assumed=known)
            found.append(OneDate(source, here, scene))
    return found


def grid_of_date(source: SceneSource, options: SceneOptions, needed: tuple[str, ...]) -> Grid:
    """Grid of a scene, of whose bands those that are needed will do."""
    several = isinstance(source, str | Path) and moments(source) > 1
    how = replace(options, assumed=(1.0, 0.0, "nobody"), moment=0 if several else None)
    return _looked_at(source, how, needed).grid


def _looked_at(source: SceneSource, options: SceneOptions, needed: tuple[str, ...] | None) -> Scene:
    """The scene without its mask; what is said of it counts only once its bands are known."""
    plain = replace(options, mask=None, mask_values=None, mask_buffer=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scene = open_scene(source, plain)
        except NoScaleError:
            raise
        except SceneError:
            if needed is None or options.bands is not None:
                raise
            scene = open_scene(source, replace(plain, bands=needed))
    return _without_tiles(scene)


def _without_tiles(scene: Scene) -> Scene:
    """The scene without what was decoded to look at its numbers: of many dates that is much."""
    return replace(scene, cache=TileCache(0))


def series_to_fit(
    sources: Sequence[SceneSource],
    options: SceneOptions,
    dates: str | None,
    features: str | None,
    masked: Quality,
) -> SceneSeries:
    """Scenes of one place as one, with features that are named by the dates."""
    found = opened_dates(sources, options)
    if len(found) < 2:
        raise SceneError(
            f"{found[0].name if found else 'no scene'} is one date; --as features takes scenes of several "
            "dates of one place: name them, or leave it out"
        )
    days = [_day(each, i, len(found), dates) for i, each in enumerate(found)]
    undated = all(each.day is None for each in found)
    if undated:
        names = [period.name for period in periods_of(dates or "")]
    else:
        names = name_dates([(each.name, day) for each, day in zip(found, days, strict=True)], dates)
    order = tuple(name for _, name in sorted(zip(days, names, strict=True)))
    first = found[days.index(min(days))]
    formulas = read_formulas(BANDS if features is None else features, first.scene.bands, first.name)
    return _series(found, days, names, order, formulas, options, masked)


def series_of_model(
    sources: Sequence[SceneSource],
    options: SceneOptions,
    dates: str | None,
    trained: tuple[tuple[str, ...], tuple[str, ...]],
    known: tuple[float, float, str] | None,
    masked: Quality,
    whole: bool,
) -> SceneSeries:
    """Scenes as a model of several dates takes them; `trained` are its dates and features of each."""
    wanted, features = trained
    needed = bands_needed([Formula(feature) for feature in features])
    found = opened_dates(sources, options, known, needed)
    periods, stand_for = [Period.of(name) for name in wanted], dict(zip(wanted, wanted, strict=True))
    listed = None if dates is None or dates.strip() == SEASON else dates
    if listed is not None:
        periods = periods_of(listed)
        if len(periods) != len(wanted):
            raise SceneError(
                f"--dates names {len(periods)} dates, and the model was trained on {len(wanted)} "
                f"({', '.join(wanted)}); name one for each, in this order"
            )
        stand_for = {period.name: name for period, name in zip(periods, wanted, strict=True)}
    days = [_day(each, i, len(found), listed) for i, each in enumerate(found)]
    of = "the model was trained on" if listed is None else "--dates has"
    names: list[str] = []
    for each, day in zip(found, days, strict=True):
        name = stand_for[matching(periods, each.name, day, of)]
        if name in names:
            raise SceneError(
                f"{found[names.index(name)].name} and {each.name} are both of {name}; each date counts once: "
                "leave one out"
            )
        names.append(name)
    formulas = read_formulas(features, found[0].scene.bands, found[0].name)
    made = _series(found, days, names, wanted, formulas, options, masked, whole)
    lacking = [name for name in wanted if name not in names]
    if lacking:
        warn(
            f"no scene of {', '.join(lacking)} came, of the dates that the model was trained on: features of "
            f"{'that date' if len(lacking) == 1 else 'those dates'} are missing in every pixel",
        )
    return made


def _day(each: OneDate, place: int, count: int, dates: str | None) -> date:
    """Day of a scene; where none states its own, that of --dates at its place among the arguments."""
    if each.day is not None:
        return each.day
    periods = [] if dates is None or dates.strip() == SEASON else periods_of(dates)
    if len(periods) == count and len(periods[place].first) == 3:
        return date(*periods[place].first)
    raise SceneError(
        f"{each.name} does not say when it was measured, which the dates of a series need: name its file "
        "with its day (scene_2024-06-03.tif), write date in a scene.toml beside it, or give all dates, with "
        "years, in the order of the scenes (--dates 2024-06,2024-08)"
    )


def _series(
    found: Sequence[OneDate],
    days: Sequence[date],
    names: Sequence[str],
    order: Sequence[str],
    formulas: tuple[Formula, ...],
    options: SceneOptions,
    masked: Quality,
    whole: bool = True,
) -> SceneSeries:
    """Open the scenes with the bands that are needed, bring them onto one grid, and put them in order."""
    by_name = {
        name: (each.name, each.opened(formulas, day.isoformat()))
        for each, day, name in zip(found, days, names, strict=True)
    }
    came = [name for name in order if name in by_name]
    cache = TileCache(options.cache_bytes)
    placed = dict(zip(came, aligned([by_name[name] for name in came], cache), strict=True))
    identities = [scene.source_id for scene in placed.values()]
    for name, own in zip(came, identities, strict=True):
        if identities.count(own) > 1:
            raise SceneError(f"{by_name[name][0]} is given twice; each date counts once: leave one out")
    parts = tuple(placed.get(name) for name in order)
    return SceneSeries(parts, tuple(order), formulas, masked, whole, options.scene_id)


def with_formulas(
    scene: Scene, source: SceneSource, features: str | Sequence[str], options: SceneOptions, masked: Quality
) -> SceneSeries:
    """One scene with computed features."""
    formulas = read_formulas(features, scene.bands, Path(source_name(source).rstrip("/")).name)
    if bands_needed(formulas) != scene.bands:
        scene = _with_bands(source, options, formulas, scene.bands)
    return SceneSeries((scene,), ("",), formulas, masked, name=options.scene_id)


def _with_bands(
    source: SceneSource, options: SceneOptions, formulas: Sequence[Formula], offered: Sequence[str]
) -> Scene:
    """Open a scene with the bands of some features; if one of an index is lacking, name both."""
    try:
        return open_scene(source, replace(options, bands=bands_needed(formulas)))
    except SceneError as error:
        for formula in formulas:
            lost = ", ".join(band for band in formula.bands if band not in offered)
            if lost and not formula.is_band:
                raise SceneError(f"the feature {formula.name} needs the band {lost}: {error}") from None
        raise


def is_computed(name: str, offered: Sequence[str]) -> bool:
    """True for the name of a feature that a scene does not offer, and that can be computed from bands.

    >>> is_computed("NDVI", ["B04", "B08"]), is_computed("B04", ["B04"]), is_computed("elevation (m)", [])
    (True, False, False)
    """
    if name in offered:
        return False
    try:
        return not Formula(name).is_band
    except ValueError:
        return False
