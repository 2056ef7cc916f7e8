"""From a window of pixels to all layers of a map, in units and chunks whose shapes never change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.population import UnknownOdds, UnknownShare
from uncover.measurement.effect_shares import regressors, shares_of_information
from uncover.measurement.quantity import effects_of
from uncover.metrics.class_areas import AreaSums
from uncover.raster.grid import Grid, Window
from uncover.raster.observed import ObservedScene, Pixels, SceneWithWorlds, WindowReading
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.pixel_kernels import add_areas, mark, put
from uncover.raster.product import AREA_ROWS, SPLIT_BYTES, Product, Thresholds, Unit
from uncover.raster.quality import FLAGGED, Quality, without
from uncover.raster.realised import RealisedScene
from uncover.raster.world_noise import WorldNoise

if TYPE_CHECKING:  # scikit-learn takes seconds to import, in which files can be opened
    from uncover.bayes.class_shares import ClassShares
    from uncover.measurement.common_errors import CommonErrors
    from uncover.measurement.pooled import AnySummariser
    from uncover.measurement.summary import PixelSummary, Planes
    from uncover.models.record import ModelRecord

#: Windows of 64 × 64 pixels, at most, that shares are estimated from; for those of the classes every so many
#: of their pixels.
_WINDOWS, _EVERY = 64, 7
#: Rows of these windows that are read in the worlds of each effect alone.
_ROWS = 16
Missing = Literal["nodata", "marginalise"]
Method = Literal["fast", "exact"]
Device = Literal["cpu", "cuda"]


@dataclass(frozen=True)
class Reader:
    """Options by which a model reads pixels.

    paired
        Whether the pixels are of the scene that trained the model, whose errors then cancel.
    missing
        What becomes of pixels that lack some bands: no class, or one from the bands that they have.
    method
        How pixels whose noise is known are read: by the Student t of matched covariance ("fast"), or exactly.
    true_values
        Points in the place of the true value of each of them; with "exact", draws of it.
    device
        Where pixels are computed: "cpu", or "cuda" for a GPU of NVIDIA.
    unknown_share
        Share of pixels that are of none of the classes; None: the map does not say which.
    masked
        Pixels with any of these bits get no class.
    shares
        Whether the measurement part is split by effect.
    """

    paired: bool = False
    missing: Missing = "nodata"
    method: Method = "fast"
    true_values: int = 192
    device: Device = "cpu"
    unknown_share: float | None = None
    masked: Quality = FLAGGED
    shares: bool = False


@dataclass(frozen=True, eq=False)
class Parts:
    """Pixels of a unit that are part of another raster: how many pixels each of them fills there, and m²."""

    count: NDArray[np.float64]  # (row, col)
    area: NDArray[np.float64]  # (row, col)


@dataclass(frozen=True, eq=False)
class Mapper:
    """Computes units of a product; may be sent to other processes."""

    model: ModelRecord
    observed: ObservedScene
    product: Product
    reader: Reader = Reader()
    thresholds: Thresholds = field(default_factory=Thresholds)
    units: list[Window] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", self.product.units())

    def __getstate__(self) -> dict[str, Any]:
        made = ("summariser", "common", "units", "effect_columns")
        return {k: v for k, v in self.__dict__.items() if k not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @cached_property
    def summariser(self) -> AnySummariser:
        """The model, ready to read."""
        from uncover.measurement.pooled import make_summariser

        return make_summariser(
            self.model,
            paired=self.reader.paired,
            method=self.reader.method,
            n_true_values=self.reader.true_values,
            device=self.reader.device,
        )

    @property
    def world_pairs(self) -> NDArray[np.int64]:
        """Draws that make each world: (world, quantity)."""
        return self.summariser.world_pairs(self.observed.realisations)[: self.product.worlds]

    @property
    def without_spread(self) -> str | None:
        """Why areas have no spread over worlds: none were evaluated, or errors that pixels share lie beside
        them. None where there is one.
        """
        if self.observed.systematic is not None and not self.reader.paired:
            return "systematic effects from a file are not drawn as worlds"
        if self.product.worlds > 1:
            return None
        if self.observed.realisations == 1:
            return "no world was drawn and evaluated"
        if self.model.realisations == "shared":
            return "a BayesianClassifier reads the worlds of another scene together, not one by one"
        return f"realisations of the kind {self.model.realisations!r} are errors of single pixels, not of all"

    def read(self, number: int) -> WindowReading:
        """Read the pixels of a unit."""
        return self.observed.read(self.units[number])

    def compute(self, number: int, reading: WindowReading, parts: Parts | None = None) -> Unit:
        """All layers of a unit; `parts` says which of its pixels count in the areas."""
        window, layers = self.units[number], {x.name: x for x in self.product.layers}
        flat = {name: layer.empty(window.pixels) for name, layer in layers.items()}
        quality = reading.quality.ravel().astype(np.uint16)
        areas = np.zeros((self.product.area_rows, self.product.area_columns))
        weight = (pixel_areas(self.product.grid, window) if parts is None else parts.area).ravel()
        codes, order = np.array(self.product.scheme.codes, np.uint8), self.product.by_code
        if "dates_used" in flat:
            flat["dates_used"][0, quality & np.uint16(Quality.NO_CLEAR_DATE) > 0] = 0
        sampled: list[tuple[Planes, NDArray[np.float64]]] = []
        for asked, features in self._chunks(reading):
            pixels = reading.pixels(asked)
            where = asked if pixels.known is None else asked[pixels.known]
            if len(where) < len(asked):  # a value without its uncertainty is no measurement
                quality[np.setdiff1d(asked, where)] |= np.uint16(Quality.NO_UNCERTAINTY)
            if not len(where):
                continue
            summary = self._summarise(pixels, features)
            mark(summary, self.thresholds, codes, where, flat["class"][0], quality)
            probability = summary.probability[order]
            put(layers["probability"], probability, where, flat["probability"])
            put(layers["uncertainty"], summary.parts, where, flat["uncertainty"])
            if self.model.sets_ is not None:
                inside = self.model.sets_.inside(summary.probability.T)[:, order]
                flat["sets"][:, where] = np.vstack([inside.sum(axis=1), inside.T]).astype(np.uint8)
            if "dates_used" in flat:
                flat["dates_used"][0, where] = self._dates_in(features)
            if "shares" in flat:
                put(
                    layers["shares"],
                    self._shares(pixels, features, summary.measurement, self._noise_by_cause(reading, where)),
                    where,
                    flat["shares"],
                )
            known = None  # P(any of the classes)
            if self.reader.unknown_share is not None:
                none = self._unknown(pixels, features).by_reading(self.reader.unknown_share)
                put(layers["unknown"], none.mean(1)[None], where, flat["unknown"])
                _add_unknown(areas[: len(AREA_ROWS) + self.product.worlds, -1], none, weight[where])
                known = 1.0 - none.mean(1)
            own = slice(None, len(AREA_ROWS) + self.product.worlds), slice(None, self.product.classes)
            _add_areas(areas[own], summary, weight, where, known)
            if self.product.drawn:
                some = np.flatnonzero(where % self.product.every == self.product.every // 2)
                sums = _sums(summary.probability, weight[where], some, known)
                areas[own[0].stop : -self.product.drawn] += sums.as_rows()
                part = weight[where[some]] * (1.0 if known is None else known[some])
                sampled.append((self._planes(pixels, features, some), part))
        for planes, part in _together(sampled):
            if not len(part):  # none of the clear pixels is one of those that are read
                continue
            drawn = np.einsum("dnk,n->dk", np.concatenate(self.common.read(planes)), part)
            areas[-self.product.drawn :, : drawn.shape[1]] += drawn
        if parts is not None:
            areas[0, : len(codes)] = [parts.count.ravel()[flat["class"][0] == code].sum() for code in codes]
        flat["quality"][0] = quality
        shaped = {name: planes.reshape(-1, *window.shape) for name, planes in flat.items()}
        return Unit(number, shaped, areas)

    @cached_property
    def common(self) -> CommonErrors:
        """Errors that all pixels share, ready to be drawn."""
        from uncover.measurement.common_errors import CommonErrors

        given = self.observed.realisations, self.observed.systematic
        return CommonErrors(self.model.model_, given[0], paired=self.reader.paired, systematic=given[1])

    def _planes(
        self, pixels: Pixels, features: NDArray[np.bool_] | None, some: NDArray[np.intp] | slice
    ) -> Planes:
        """Some pixels, with NaN for the features that they lack."""
        from uncover.measurement.summary import Planes

        noise = None if pixels.noise is None else pixels.noise[some]
        planes = pixels.planes[:, :, some], pixels.coefficients, noise, self.observed.systematic, features
        return Planes(*planes).marked()

    def draw(self, window: Window, wanted: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Places of wanted pixels (row, col) of a window, and their probabilities in each world and by each
        drawn model, (draw, pixel, class); those that are masked or have no value are left out.
        """
        reading, places = self.observed.read(window), [np.empty(0, np.intp)]
        found = [np.empty((self.product.drawn, 0, self.product.classes))]
        for asked, features in self._chunks(reading):
            some = asked[wanted.ravel()[asked]]
            if len(some):
                pixels = reading.pixels(some)
                places.append(some if pixels.known is None else some[pixels.known])
                if len(places[-1]):
                    planes = self._planes(pixels, features, slice(None))
                    found.append(np.concatenate(self.common.read(planes)))
        return np.concatenate(places), np.concatenate(found, axis=1)

    def _chunks(self, reading: WindowReading) -> Iterator[tuple[NDArray[np.intp], NDArray[np.bool_] | None]]:
        """Places of pixels that are computed together, and the bands that they have (None for all)."""
        masked = self.reader.masked | Quality.MASKED
        yield from ((part, None) for part in reading.parts(reading.clear(masked)))
        if self.reader.missing == "nodata":
            return
        quality = reading.quality.ravel()
        partial = np.flatnonzero((quality & np.uint16(Quality.PARTIAL) > 0) & without(quality, masked))
        if not len(partial):
            return
        step = getattr(self.observed.raster, "together", 1)
        present = reading.present(step).reshape(len(self.observed.bands) // step, -1)[:, partial]
        for places in _alike(present):
            pattern = np.repeat(present[:, places[0]], step)
            if pattern.any():
                yield from ((part, pattern) for part in reading.parts(partial[places]))

    def _dates_in(self, features: NDArray[np.bool_] | None) -> int:
        """Number of dates of which a pixel has a feature."""
        dates = len(self.observed.dates)
        return dates if features is None else int(features.reshape(dates, -1).any(axis=1).sum())

    def measurement_error(self, pixels: int = 64) -> dict[str, float] | None:
        """Error of the measurement part from summing over few points: some pixels of the scene
        with four times as many. None where it is no such sum.
        """
        if self.summariser.n_true_values is None:
            return None
        n, found = self.reader.true_values, []
        finer = replace(self, reader=replace(self.reader, true_values=4 * n))
        for window in self.observed.grid.spots(64):
            reading = self.observed.read(window)
            clear = reading.clear(self.reader.masked)
            some = clear[:: max(1, len(clear) // pixels)]
            for part in list(reading.parts(some))[:1]:
                here = reading.pixels(part)
                if here.planes.shape[-1]:
                    found.append([each._summarise(here, None).measurement for each in (self, finer)])
        few, many = np.concatenate(found, axis=1) if found else np.zeros((2, 1))
        if not np.any(few != many):
            return None
        names = ("mean_nat", "mean_difference_nat", "rms_difference_nat")
        numbers = (many.mean(), (few - many).mean(), np.sqrt(((few - many) ** 2).mean()))
        rounded = {name: float(f"{x:.3g}") for name, x in zip(names, numbers, strict=True)}
        return {"points": n, "compared_with": 4 * n, "pixels": len(few), **rounded}

    def estimate_unknown(self) -> UnknownShare:
        """Share of pixels of none of the classes, by maximum likelihood: windows spread over the scene."""
        found = [self._unknown(pixels, features) for _, pixels, features in self._samples()]
        if not found:
            raise ValueError("no clear pixel to estimate the share of none of the classes from; state it")
        parts = zip(*((odds.log_ratio, odds.n_features) for odds in found), strict=True)
        return UnknownOdds(*(np.concatenate(part) for part in parts)).share()

    def estimate_shares(self) -> tuple[ClassShares, NDArray[np.float64]]:
        """Class shares of the scene by maximum likelihood, and the typicality of the pixels that were read.

        From pixels of windows spread over the scene; neighbours are alike, and windows are independent.
        """
        from uncover.measurement.class_shares import asked_of, class_shares

        P, planes, groups, typicality = [], [], [], []
        for number, pixels, features in self._samples(_EVERY):
            summary = self._summarise(pixels, features)
            P.append(summary.probability.T)
            typicality.append(summary.typicality)
            groups.append(np.full(len(P[-1]), number))
            planes.append(self._planes(pixels, features, slice(None)))
        if not P:
            raise ValueError("no clear pixel to estimate class shares from; state them")
        read = min(1.0, _WINDOWS / len(list(self.observed.grid.blocks(64))))
        places = np.unique(np.concatenate(groups), return_inverse=True)[1]
        asked, first, drawn = asked_of(len(places)), 0, []
        for each, own in zip(planes, P, strict=True):
            rows = asked[(asked >= first) & (asked < first + len(own))] - first
            first += len(own)
            if len(rows):
                drawn.append(self.common.read(each.pixels(rows)))
        worlds, models = (np.concatenate(part, axis=1) for part in zip(*drawn, strict=True))
        found = class_shares(self.model.model_, np.concatenate(P), (worlds, models), places, read)
        return found, np.concatenate(typicality).astype(np.float64)

    def _samples(self, every: int = 1) -> Iterator[tuple[int, Pixels, NDArray[np.bool_] | None]]:
        """Clear pixels of windows spread over the scene, or every so many of them, by the window's number."""
        for number, window in enumerate(spread_windows(self.observed.grid)):
            reading = self.observed.read(window)
            for part, features in self._chunks(reading):
                pixels = reading.pixels(part[::every])
                if pixels.planes.shape[-1]:
                    yield number, pixels, features

    def _shares(
        self,
        pixels: Pixels,
        features: NDArray[np.bool_] | None,
        measurement: NDArray[Any],
        causes: Iterable[tuple[str, NDArray[np.float64]]] = (),
    ) -> NDArray[Any]:
        """Parts of the measurement part: of each effect of the worlds, and of each cause of errors of pixels.

        (effect, pixel), in nats. Knowing the world comes first: errors of single pixels have what is then
        left. Few pixels are in memory in all of their worlds at a time.
        """
        from uncover.bayes.linalg import slices
        from uncover.measurement.prediction import predict

        model, paired = self.model.model_, self.reader.paired
        each = self.observed.realisations * len(self.observed.bands)
        each += (
            max(self.product.worlds, self.observed.realisations)
            * self.product.classes
            * (2 * len(self.effect_columns) + 4)
        )
        told = np.empty((len(self.effect_columns), len(measurement)))
        for part in slices(len(measurement), max(1, SPLIT_BYTES // (8 * each))):
            given = self._planes(pixels, features, part)
            found = predict(model, given.observation, paired=paired, method="fast").by_view()
            # Draws of true values are averaged.
            found = found.reshape(len(found), len(given), -1, found.shape[2]).mean(axis=2)
            told[:, part] = shares_of_information(found.transpose(1, 2, 0), self.effect_columns)
        noise = np.maximum(measurement - told.sum(axis=0), 0.0)
        whole = np.vstack([told, noise * self._of_causes(pixels, features, dict(causes))])
        total = whole.sum(axis=0)
        return np.asarray(whole * np.divide(measurement, total, out=np.zeros_like(total), where=total > 0))

    def _of_causes(
        self,
        pixels: Pixels,
        features: NDArray[np.bool_] | None,
        causes: Mapping[str, NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """Share of each cause in what errors of single pixels hide of the class: (cause, pixel).

        To second order that is ½ Σ_k gᵀCg/P_k, with g the gradient of P_k and C the covariance of the errors;
        gradients are differences over the standard uncertainty to either side of the mean world.
        """
        from uncover.measurement.observation import Observation
        from uncover.measurement.prediction import predict

        n = pixels.planes.shape[2]
        if len(causes) < 2:
            return np.ones((len(causes), n))

        def probability(x: NDArray[np.float64]) -> NDArray[np.float64]:
            found = predict(self.model.model_, Observation(x), paired=self.reader.paired, method="fast")
            return np.asarray(found.probability(), np.float64)

        x = self._planes(pixels, features, slice(None)).mean_world()[0].T.astype(np.float64)
        u = np.sqrt(sum(np.diagonal(C, axis1=1, axis2=2) for C in causes.values()))
        gradient = np.zeros((x.shape[1], n, len(self.product.by_code)))
        for j, step in enumerate(u.T):
            aside = np.where(np.arange(x.shape[1]) == j, step[:, None], 0.0)
            rise = probability(x + aside) - probability(x - aside)
            gradient[j] = np.divide(rise, 2 * step[:, None], out=np.zeros_like(rise), where=step[:, None] > 0)
        gradient /= np.sqrt(np.maximum(probability(x), 1e-12))
        each = [np.einsum("ink,nij,jnk->n", gradient, C, gradient) for C in causes.values()]
        total = np.sum(each, axis=0)
        return np.divide(each, total, out=np.full((len(each), n), 1.0 / len(each)), where=total > 0)

    def effects_table(self) -> tuple[NDArray[np.float64], dict[str, tuple[NDArray[np.float64], str]]] | None:
        """Mean of the scene's features, and each effect's covariance there and its error between pixels.

        Of worlds of each effect alone and of each cause of errors of single pixels, at sampled pixels; None
        where there are no worlds that are drawn here.
        """
        scene, beside = getattr(self.observed, "source", None), self.noise_causes
        if not self.effect_columns or not isinstance(scene, RealisedScene):
            return None
        alone = {effect: scene.alone(effect) for effect in effects_of(scene.worlds)}
        totals: dict[str, NDArray[np.float64]] = dict.fromkeys([*alone, *beside, ""], np.zeros(()))
        n = 0
        for whole in spread_windows(self.observed.grid):
            window = replace(whole, height=min(whole.height, _ROWS))
            reading = self.observed.read(window)
            each = {effect: own.read(window).values for effect, own in alone.items()}
            for asked, _ in self._chunks(reading):
                pixels = reading.pixels(asked)
                where = asked if pixels.known is None else asked[pixels.known]
                values = pixels.realised().astype(np.float64)  # (world, feature, pixel)
                known = np.isfinite(values).all(axis=(0, 1))
                totals[""] = totals[""] + values[:, :, known].sum(axis=2)
                for name, noise in self._noise_by_cause(reading, where):
                    totals[name] = totals[name] + noise[known].sum(axis=0)
                for effect, own in each.items():
                    flat = own.reshape(*values.shape[:2], -1)[:, :, where[known]]
                    totals[effect] = totals[effect] + flat.sum(axis=2, dtype=np.float64)
                n += int(known.sum())
        if not n:
            return None
        found = {name: (scene.covariance_of(name, totals[name] / n), "systematic") for name in alone}
        found |= {name: (totals[name] / n, "random") for name in beside}
        return np.asarray(totals[""] / n).mean(axis=0), found

    @property
    def noise_causes(self) -> Mapping[str, WorldNoise]:
        """Causes of errors of single pixels beside the worlds."""
        observed = self.observed
        return (
            {} if not isinstance(observed, SceneWithWorlds) or not observed.noise else observed.noise.causes
        )

    def _noise_by_cause(
        self, reading: WindowReading, where: NDArray[np.intp]
    ) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Covariances of pixels of a window by each cause of their errors, (pixel, feature, feature)."""
        for name, cause in self.noise_causes.items():
            own = replace(reading, uncertainty=cause).pixels(where)
            if own.noise is not None:
                yield name, own.noise.of_each(len(where))

    @cached_property
    def effect_columns(self) -> dict[str, NDArray[np.float64]]:
        """Draws of the effects of the worlds, for regressions on them."""
        source = getattr(self.observed, "source", None)
        return regressors(getattr(source, "effect_scores", {}))

    def _unknown(self, pixels: Pixels, features: NDArray[np.bool_] | None) -> UnknownOdds:
        return self.summariser.unknown(pixels.planes, **self._known_of(pixels, features))

    def _summarise(self, pixels: Pixels, features: NDArray[np.bool_] | None) -> PixelSummary:
        return self.summariser.summarise(pixels.planes, **self._known_of(pixels, features))

    def _known_of(self, pixels: Pixels, features: NDArray[np.bool_] | None) -> dict[str, Any]:
        """What is known of the errors of pixels, and the features that they have."""
        systematic = self.observed.systematic
        how = {"coefficients": pixels.coefficients, "noise": pixels.noise}
        return {**how, "systematic": systematic, "features": features}


def spread_windows(grid: Grid) -> list[Window]:
    """Windows of 64 × 64 pixels spread over a grid, 64 at most."""
    windows = list(grid.blocks(64))
    golden = np.arange(_WINDOWS) * 0.6180339887498949 % 1.0
    return [windows[number] for number in np.unique((golden * len(windows)).astype(int))]


def _alike(present: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Places of pixels that have the same features (feature, pixel), in the order of their patterns.

    >>> [places.tolist() for places in _alike(np.array([[True, False, True], [True, True, True]]))]
    [[1], [0, 2]]
    """
    code = np.zeros(present.shape[1], np.intp)
    for byte in np.packbits(present, axis=0):  # eight features at a time, and patterns numbered anew
        code = 256 * code + byte
        seen = np.bincount(code) > 0
        code = (np.cumsum(seen) - 1)[code]
    order = np.argsort(code.astype(np.uint16) if seen.sum() < 1 << 16 else code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1)


def _add_areas(
    areas: NDArray[np.float64],
    summary: PixelSummary,
    weight: NDArray[np.float64],
    where: NDArray[np.intp],
    known: NDArray[np.float64] | None = None,
) -> None:
    """Add the areas of some pixels to (row of `AREA_ROWS` + world, class).

    ``known`` is the probability of the pixels to be of any of the classes, 1 where it is None: expected
    areas of the classes and of none of them add up to the area of mapped land.
    """
    counted = np.zeros((2 + len(summary.world_classes), areas.shape[1]))
    add_areas(counted, summary.best, summary.world_classes, weight, where)
    areas[:2] += counted[:2]
    expected = weight[where] if known is None else weight[where] * known
    areas[2] += (summary.probability * expected).sum(axis=1)
    areas[len(AREA_ROWS) :] += counted[2:]


def _sums(
    probability: NDArray[np.floating],
    area: NDArray[np.float64],
    some: NDArray[np.intp],
    known: NDArray[np.float64] | None,
) -> AreaSums:
    """Sums of pixels, (class, pixel), some of which are read in worlds and by drawn models."""
    P = probability if known is None else np.vstack([probability * known, 1.0 - known])
    return replace(AreaSums.of(P, area), sampled=float(area[some].sum()))


def _together(
    parts: list[tuple[Planes, NDArray[np.float64]]],
) -> Iterator[tuple[Planes, NDArray[np.float64]]]:
    """Pixels with their weights: those without noise as one, those with noise that have the same features.

    A unit has many parts, and of several dates many patterns of gaps, with few of these pixels each.
    """
    kinds: dict[bytes | None, list[tuple[Planes, NDArray[np.float64]]]] = {}
    for planes, weight in parts:
        features = b"" if planes.features is None else planes.features.tobytes()
        kinds.setdefault(None if planes.noise is None else features, []).append((planes, weight))
    for kind, alike in kinds.items():
        numbers = np.concatenate([planes.values for planes, _ in alike], axis=2)
        noise = [(planes.noise, len(weight)) for planes, weight in alike if planes.noise is not None]
        together = replace(
            alike[0][0],
            numbers=numbers,
            coefficients=None,
            noise=Covariances.join(noise) if noise else None,
            features=None if kind is None else alike[0][0].features,
        )
        yield together, np.concatenate([weight for _, weight in alike])


def _add_unknown(areas: NDArray[np.float64], none: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
    """Add P(none) (pixel, reading) to the expected area (row + world,), and world by world.

    No pixel is counted: none of the classes is never the class of a pixel. Worlds that are not read one by
    one have NaN.
    """
    each = weight @ none
    areas[AREA_ROWS.index("expected")] += each.mean()
    worlds = areas[len(AREA_ROWS) :]
    worlds += each if len(each) == len(worlds) else np.nan


def count_worlds(model: ModelRecord, observed: ObservedScene, reader: Reader) -> int:
    """Number of worlds in which pixels get a class."""
    from uncover.measurement.pooled import make_summariser

    return make_summariser(model, paired=reader.paired).n_worlds(observed.realisations)
