"""Places on a map to visit: a probability sample for accuracy and areas, or where a label teaches most."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.files import check_goal
from uncover.metrics.allocation import (
    class_variances,
    samples_for_target,
    samples_of_total,
    standard_errors,
)
from uncover.metrics.calibration import unexplained_share
from uncover.models.files import consistent, load_fitted
from uncover.pipeline.contents import Contents, reopen
from uncover.pipeline.file_kinds import check_apart
from uncover.pipeline.ground import pixel_metres
from uncover.pipeline.map_facts import percent
from uncover.pipeline.map_product import MapProduct, is_map
from uncover.pipeline.references import PROBABILITY, STRATUM, STRATUM_AREA, STRATUM_SAMPLES
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import unchanged
from uncover.raster.footprint import moved
from uncover.raster.grid import Progress
from uncover.raster.observed import ObservedScene
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import UNIT
from uncover.raster.tiles import TileCache
from uncover.raster.vectors import write_package
from uncover.warn import warn

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

_BLOCK = 512
#: Share of the samples of a stratum that is expected anywhere: no map is as sure as it says.
_ANYWHERE = 0.02
#: Steps of the typicality that are told apart.
_STEPS = 1000
#: Part of a map above which a sample is no sample any more.
_MOST_OF_MAP = 0.1
#: Candidates for each point for training, and at most; they are held in memory.
_CANDIDATES, _MOST_CANDIDATES = 50, 50_000
_PIXELS_APART = 10


@dataclass(frozen=True)
class SampleOptions:
    """Options of a sample.

    purpose
        "areas": a stratified random sample, whose strata are the classes of the map. "training": places
        where the model part of the uncertainty is large, spread out among what the model sees.
    n
        Number of places; for areas in place of a target.
    target_error
        Standard error that overall accuracy and the share of each class shall have, in shares of the area.
    least
        Fewest places of each stratum.
    spacing
        Smallest distance between two places for training, in metres; by default ten pixels.
    """

    purpose: Literal["areas", "training"] = "areas"
    n: int | None = None
    target_error: float | None = None
    least: int = 30
    spacing: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.purpose == "training" and (self.n is None or self.target_error is not None):
            raise ValueError("places for training have a number and no target error: give -n, such as -n 200")
        if self.purpose == "areas" and (self.n is None) == (self.target_error is None):
            raise ValueError(
                "a sample for areas has a target error or a number of points: give --target-error or -n"
            )
        if self.n is not None and self.n < 1:
            raise ValueError(f"-n is {self.n}; give 1 or more")
        if self.target_error is not None and not 0 < self.target_error < 0.5:
            raise ValueError(
                f"the target error is {self.target_error:g}; it is a standard error in shares of the area, "
                "such as 0.02, and lies between 0 and 0.5"
            )
        if self.least < 2:
            raise ValueError(
                f"--least is {self.least}; two of each stratum are the fewest that have a spread"
            )


@dataclass(frozen=True)
class MapSample:
    """Places on a map: pixel centres with columns, the first of which is the class, still empty."""

    crs: str | None
    xy: Floats  # (place, 2)
    columns: dict[str, NDArray[Any]]
    summary: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.xy)

    def degrees(self) -> Floats | None:
        """Longitude and latitude; None where the map has no reference system."""
        return None if self.crs is None else moved(self.xy, self.crs, "EPSG:4326")

    def write(self, path: Path) -> None:
        """Write PATH (GeoPackage), and beside it NAME.csv and, for Collect Earth Online, NAME-ceo.csv."""
        degrees = self.degrees()
        names = ("id", "class", *self.columns)
        rows = [[i + 1, "", *(c[i] for c in self.columns.values())] for i in range(len(self))]
        xy, axes = (self.xy, ("x", "y")) if degrees is None else (degrees, ("lon", "lat"))
        where = [[f"{value:.9g}" if degrees is None else f"{value:.7f}" for value in place] for place in xy]
        _, table, plots = sample_files(path)
        _write_csv(table, (*axes, *names), [w + row for w, row in zip(where, rows, strict=True)])
        if degrees is not None:
            _write_csv(plots, ("LON", "LAT", "PLOTID"), [[*w, i + 1] for i, w in enumerate(where)])
        self._write_package(path)

    def _write_package(self, path: Path) -> None:
        import shapely

        wkb = shapely.to_wkb(shapely.points(self.xy))
        fields = {"id": np.arange(1, len(self) + 1), "class": np.full(len(self), None, object)}
        write_package(path, path.stem, wkb, {**fields, **self.columns}, self.crs, "Point")


def sample_files(goal: Path) -> tuple[Path, ...]:
    """Files that `MapSample.write` makes.

    >>> [path.name for path in sample_files(Path("visit.gpkg"))]
    ['visit.gpkg', 'visit.csv', 'visit-ceo.csv']
    """
    return goal, goal.with_suffix(".csv"), goal.with_name(f"{goal.stem}-ceo.csv")


def check_sample_goal(out: str | Path, folder: str | Path) -> Path:
    """Refuse a goal that is no GeoPackage, or that cannot be written.

    >>> check_sample_goal("sample.shp", "map")
    Traceback (most recent call last):
    ...
    ValueError: sample.shp does not end with .gpkg; a sample is written as a GeoPackage, and as CSV beside it
    """
    if Path(out).suffix.lower() != ".gpkg":
        raise ValueError(
            f"{out} does not end with .gpkg; a sample is written as a GeoPackage, and as CSV beside it"
        )
    check_apart(out, folder)
    return check_goal(out)


def _write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_plain(value) for value in row] for row in rows)


def _plain(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else value


def sample_map(folder: str | Path, options: SampleOptions, progress: Progress | None = None) -> MapSample:
    """Draw places on a finished map. Memory holds one block of it, whatever its size."""
    with unchanged(folder) as check:
        product = MapProduct.open(folder)
        draw = _for_areas if options.purpose == "areas" else _for_training
        found = draw(Path(folder), product, options, progress)
        check()
    return found


# ---- for areas ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Strata:
    """Classes of a map as strata: sizes, and the classes that are expected in them."""

    names: tuple[str, ...]
    pixels: NDArray[np.int64]  # (stratum,)
    areas: Floats  # m²
    expected: Floats  # (stratum, class), shares
    unexplained: Floats  # (stratum,), shares that the model does not explain

    @classmethod
    def of(cls, product: MapProduct, progress: Progress | None) -> _Strata:
        """Strata of a map, by one pass over its classes and probabilities."""
        k, cache = len(product.names), TileCache()
        pixels, areas, sums = np.zeros(k, np.int64), np.zeros(k), np.zeros((k, k))
        typical = np.zeros((k, _STEPS + 1))
        for window in product.grid.watched_blocks(_BLOCK, progress):
            numbers = product.class_numbers(window, cache)
            rows, cols = np.nonzero(numbers >= 0)
            if len(rows) == 0:
                continue
            mine, area = numbers[rows, cols], pixel_areas(product.grid, window)[rows, cols]
            p = product.probabilities(window, rows, cols, cache)
            pixels += np.bincount(mine, minlength=k)
            areas += np.bincount(mine, area, minlength=k)
            for number in np.unique(mine):
                sums[number] += p[mine == number].sum(axis=0)
            if "typicality" in product.layers:
                layer = product.layer("typicality")
                values = layer.values(layer.source.read(window, cache))[0][rows, cols]
                known = np.isfinite(values)
                steps = np.rint(values[known] * _STEPS).astype(np.intp)
                np.add.at(typical, (mine[known], steps.clip(0, _STEPS)), 1.0)
        there = pixels > 0
        if not there.any():
            raise SceneError(f"{product.name} has no pixel with a class; nothing can be sampled")
        expected = sums[there] / sums[there].sum(axis=1, keepdims=True)
        names = tuple(name for name, here in zip(product.names, there, strict=True) if here)
        values = np.linspace(0, 1, _STEPS + 1)
        unexplained = np.array([unexplained_share(values, counts) for counts in typical[there]])
        return cls(names, pixels[there], areas[there], expected, unexplained)

    def cautious(self, own: Index, factor: float) -> Floats:
        """Expected shares of the classes with ``factor`` times the errors, and some error anywhere.

        Of what the model does not explain, half may be any class.
        """
        shares = self.expected.copy()
        at = np.arange(len(own)), own
        right = shares[at]
        wrong = np.minimum(factor * (1 - right), np.maximum(1 - right, 0.5))
        shares *= (wrong / np.maximum(1 - right, 1e-12))[:, None]
        shares[at] = 1 - wrong
        k = shares.shape[1]
        anywhere = np.maximum(_ANYWHERE, self.unexplained / 2)[:, None]
        return np.asarray((1 - anywhere) * shares + anywhere / k)


def _for_areas(
    folder: Path, product: MapProduct, options: SampleOptions, progress: Progress | None
) -> MapSample:
    strata = _Strata.of(product, progress)
    own = np.array([product.names.index(name) for name in strata.names], np.intp)
    factor = _overclaim(folder)
    expected = strata.cautious(own, factor)
    weights = strata.areas / strata.areas.sum()
    every = np.zeros((len(product.names), len(product.names)))
    every[own] = expected
    of_all = np.zeros(len(product.names))
    of_all[own] = weights
    variances = class_variances(of_all, every)[:, own]
    counts = _counts(variances, strata.pixels, options)
    errors = standard_errors(variances, counts, strata.pixels)
    rows, cols, stratum = _drawn(product, own, counts, options.seed)
    names = np.array(strata.names, object)
    columns = {
        STRATUM: names[stratum],
        STRATUM_AREA: (strata.areas / 1e4)[stratum],
        STRATUM_SAMPLES: counts[stratum],
        PROBABILITY: (counts / strata.pixels)[stratum],
    }
    summary = _areas_in_words(product, strata, own, expected, counts, errors, factor)
    return MapSample(product.grid.crs, _centres(product, rows, cols), columns, summary)


def _overclaim(folder: Path) -> float:
    """Errors that came true of samples left out in training, over those claimed; at least 1."""
    path = folder / "model.uncover"
    if not path.is_file():
        return 1.0
    found = (load_fitted(path).provenance_ or {}).get("left out") or {}
    with consistent(path):
        if "claimed" not in found:
            return 1.0
        return float(max(1.0, (1 - found["right"]) / max(1 - found["claimed"], 1e-3)))


def _counts(variances: Floats, pixels: NDArray[np.int64], options: SampleOptions) -> NDArray[np.int64]:
    if options.n is not None:
        return samples_of_total(variances, pixels, options.n, min(options.least, options.n // len(pixels)))
    assert options.target_error is not None
    counts = samples_for_target(variances, pixels, options.target_error, options.least)
    if counts.sum() > max(_MOST_OF_MAP * pixels.sum(), options.least * len(pixels)):
        raise ValueError(
            f"a standard error of {options.target_error:g} takes {counts.sum():,} of the {pixels.sum():,} "
            "pixels of the map: give a larger --target-error, or a number of points with -n"
        )
    return counts


def _drawn(
    product: MapProduct, own: Index, counts: NDArray[np.int64], seed: int
) -> tuple[Index, Index, Index]:
    """Rows, columns and strata of pixels drawn without replacement, in random order: a second pass."""
    cache, met = TileCache(), np.zeros(len(own), np.int64)
    total = _class_pixels(product, own)
    ranks = [
        np.sort(stream(seed, "sample", name).choice(total[i], counts[i], replace=False, shuffle=False))
        for i, name in enumerate(product.names[k] for k in own)
    ]
    found: list[tuple[Index, Index, Index]] = []
    for window in product.grid.blocks(_BLOCK):
        numbers = product.class_numbers(window, cache).ravel()
        for i, number in enumerate(own):
            here = np.flatnonzero(numbers == number)
            low, high = np.searchsorted(ranks[i], [met[i], met[i] + len(here)])
            places = here[ranks[i][low:high] - met[i]]
            met[i] += len(here)
            row, col = np.divmod(places, window.width)
            found.append((row + window.row, col + window.col, np.full(len(places), i, np.intp)))
    rows, cols, strata = (np.concatenate(part) for part in zip(*found, strict=True))
    order = stream(seed, "order of the sample").permutation(len(rows))  # it tells nothing of the strata
    return rows[order], cols[order], strata[order]


def _class_pixels(product: MapProduct, own: Index) -> NDArray[np.int64]:
    cache, pixels = TileCache(), np.zeros(len(product.names) + 1, np.int64)
    for window in product.grid.blocks(_BLOCK):
        numbers = product.class_numbers(window, cache).ravel() + 1
        pixels += np.bincount(numbers, minlength=len(pixels))
    return np.asarray(pixels[own + 1])


def _areas_in_words(
    product: MapProduct,
    strata: _Strata,
    own: Index,
    expected: Floats,
    counts: NDArray[np.int64],
    errors: Floats,
    factor: float,
) -> tuple[str, ...]:
    width = max(7, *map(len, product.names))
    lines = [f"{'stratum':{width}}        area, ha  points  expected accuracy"]
    right = expected[np.arange(len(own)), own]
    for name, area, n, share in zip(strata.names, strata.areas, counts, right, strict=True):
        lines.append(f"{name:{width}}  {area / 1e4:14,.1f}  {n:6,}  {share:17.3f}")
    total = strata.areas.sum() / 1e4
    lines.append(f"{'all':{width}}  {total:14,.1f}  {counts.sum():6,}")
    lines.append(f"expected standard errors: overall accuracy {errors[0]:.4f}; area of")
    for name, error in zip(product.names, errors[1:], strict=True):
        lines.append(f"  {name:{width}}  {error:.4f} of the map, {error * total:,.1f} ha")
    if factor > 1:
        lines.append(
            f"of samples left out in training {factor:.2g} times as many were wrong as the model claimed; "
            "as many are expected here"
        )
    unlike = float(strata.unexplained @ strata.areas / strata.areas.sum())
    if unlike > _ANYWHERE:
        lines.append(
            f"the model does not explain at least {percent(unlike)} of the map: half of that is expected to "
            "be wrong"
        )
    lines.append(
        "these standard errors are reached where accuracies are no lower than expected: `uncover evaluate` "
        "says what was reached"
    )
    return tuple(lines)


# ---- for training -------------------------------------------------------------------------------------


def _for_training(
    folder: Path, product: MapProduct, options: SampleOptions, progress: Progress | None
) -> MapSample:
    assert options.n is not None
    candidates = _candidates(product, options, progress)
    seen = _seen_by_model(folder, product, candidates)
    xy = _centres(product, candidates.rows, candidates.cols)
    pixel = np.array(pixel_metres(product.grid))
    spacing = _PIXELS_APART * float(pixel.max()) if options.spacing is None else options.spacing
    metres = np.column_stack([candidates.rows, candidates.cols]) * pixel
    rng = stream(options.seed, "training places")
    chosen = spread_out(candidates.weight, seen, metres, options.n, spacing, rng)
    if len(chosen) < options.n:
        warn(
            f"{len(chosen)} places of {options.n} could be chosen, {spacing:,.0f} m apart where the model "
            "part is above 0: give a smaller --spacing for more"
        )
    information = candidates.information[chosen]
    mean = candidates.mean
    summary = (
        f"{len(chosen):,} places; the model part of their uncertainty is {information.mean():.4f} nat on "
        f"average, that of the map {mean:.4f} nat",
    )
    return MapSample(product.grid.crs, xy[chosen], {"model_part": information.astype(np.float64)}, summary)


@dataclass(frozen=True)
class _Candidates:
    """Pixels drawn in proportion to the model part of their uncertainty."""

    rows: Index
    cols: Index
    information: Floats  # nat
    weight: Floats  # information over the chance to be a candidate: in the end each counts by its information
    probability: Floats  # (pixel, class)
    mean: float  # of the model part over the map


def _candidates(product: MapProduct, options: SampleOptions, progress: Progress | None) -> _Candidates:
    """Weighted reservoir over the map: the largest of u^(1/w) (Efraimidis and Spirakis 2006)."""
    assert options.n is not None
    layer, cache = product.layer("model"), TileCache()
    most = min(_CANDIDATES * options.n, _MOST_CANDIDATES)
    kept: list[NDArray[Any]] = [np.empty(0)] * 4
    total, count = 0.0, 0
    for number, window in enumerate(product.grid.watched_blocks(_BLOCK, progress)):
        part = layer.values(layer.source.read(window, cache))[0].astype(np.float64)
        known = (product.class_numbers(window, cache) >= 0) & np.isfinite(part)
        total, count = total + float(part[known].sum()), count + int(known.sum())
        rows, cols = np.nonzero(known & (part > 0))
        weight = part[rows, cols]
        key = np.log(stream(options.seed, "candidates", number).random(len(rows))) / weight
        mine = (key, rows + window.row, cols + window.col, weight)
        joined = [np.concatenate(pair) for pair in zip(kept, mine, strict=True)]
        best = np.argsort(joined[0], kind="stable")[-most:]
        kept = [each[best] for each in joined]
    key, rows, cols, weight = kept
    if len(rows) == 0:
        raise SceneError(
            f"the model part of the uncertainty is 0 everywhere on {product.name}: a label teaches as much "
            "in one place as in another; draw places with --for areas"
        )
    order = np.lexsort((cols, rows))
    rows, cols = rows[order].astype(np.intp), cols[order].astype(np.intp)
    information, probability = weight[order], _at(product, rows, cols)
    # A pixel is a candidate where log(u) / information is above the smallest key: all, if they are few.
    chance = -np.expm1(key.min() * information) if len(key) == most else 1.0
    return _Candidates(rows, cols, information, information / chance, probability, total / max(count, 1))


def _at(product: MapProduct, rows: Index, cols: Index) -> Floats:
    """Probabilities of single pixels, (pixel, class)."""
    cache, found = TileCache(), np.empty((len(rows), len(product.names)))
    for window in product.grid.blocks(_BLOCK):
        here = _inside(window, rows, cols)
        if len(here):
            found[here] = product.probabilities(
                window, rows[here] - window.row, cols[here] - window.col, cache
            )
    return found


def _inside(window: Any, rows: Index, cols: Index) -> Index:
    """Places that lie in a window."""
    row, col = rows - window.row, cols - window.col
    return np.flatnonzero((row >= 0) & (row < window.height) & (col >= 0) & (col < window.width))


def _seen_by_model(folder: Path, product: MapProduct, candidates: _Candidates) -> Floats:
    """Features of the candidates, (pixel, feature); log odds of the classes where the scene is not there."""
    scene, why = None, "the map has no model file"
    contents = Contents.of(folder) if is_map(folder) else None
    if contents is not None and contents.model is not None:
        scene, why = reopen(contents, load_fitted(contents.model), product.grid)
    if scene is None:
        warn(f"{why}: places are spread out by their class probabilities, not by what the model sees")
        logs = np.log(np.maximum(candidates.probability, 1e-4))
        return np.asarray(logs - logs.mean(axis=1, keepdims=True))
    return _features(scene, candidates.rows, candidates.cols)


def _features(scene: ObservedScene, rows: Index, cols: Index) -> Floats:
    """Mean over realisations of the features of single pixels; 0 standard deviations where one is missing."""
    found = np.full((len(rows), len(scene.bands)), np.nan)
    for window in scene.grid.blocks(UNIT):
        here = _inside(window, rows, cols)
        if len(here) == 0:
            continue
        reading = scene.read(window)
        where = (rows[here] - window.row) * window.width + cols[here] - window.col
        for part in reading.parts(where):
            pixels = reading.pixels(part)
            places = here[np.searchsorted(where, part)]
            places = places if pixels.known is None else places[pixels.known]
            found[places] = pixels.realised().mean(axis=0).T
    mean = np.nanmean(found, axis=0)
    spread = np.nanstd(found, axis=0)
    return np.asarray(np.nan_to_num((found - mean) / np.where(spread > 0, spread, 1.0)))


def spread_out(
    weight: Floats, features: Floats, metres: Floats, n: int, spacing: float, rng: np.random.Generator
) -> Index:
    """Choose n places one after the other, by weight times squared distance in features to those chosen.

    The seeding of k-means++ (Arthur and Vassilvitskii 2007) with weights; a place nearer than ``spacing``
    on the ground to a chosen one is out.

    >>> features = np.array([[0.0], [0.1], [9.0]])
    >>> sorted(spread_out(np.ones(3), features, 100 * features, 2, 15.0, stream(0)).tolist())[-1]
    2
    """
    score, chosen = weight.astype(np.float64).copy(), []
    free, apart = np.ones(len(weight), bool), np.full(len(weight), np.inf)
    for _ in range(min(n, len(weight))):
        if not (free & (score > 0)).any():
            break
        cumulative = np.cumsum(np.where(free, score, 0.0))
        place = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
        chosen.append(place)
        apart = np.minimum(apart, ((features - features[place]) ** 2).sum(axis=1))
        score = weight * apart
        free &= ((metres - metres[place]) ** 2).sum(axis=1) >= spacing**2
        free[place] = False
    return np.array(chosen, np.intp)


def _centres(product: MapProduct, rows: Index, cols: Index) -> Floats:
    return np.column_stack(product.grid.coordinates(rows + 0.5, cols + 0.5))
