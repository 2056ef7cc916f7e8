"""Change between two maps of one place: P(change) of each pixel, and areas of transitions with intervals.

The classes of the two dates are read together: a pixel is of classes i and j with P(i, j | x, x') ∝
π_ij p(x | i) p(x' | j), where the shares π of the transitions are those of the scene's largest likelihood.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover import __version__
from uncover.bayes.class_shares import ClassShares, estimate_shares, likeliest_shares
from uncover.bayes.streams import stream
from uncover.files import check_place, json_text
from uncover.labels import Scheme
from uncover.labels.scheme import LandClass
from uncover.measurement.class_shares import trained_shares
from uncover.measurement.common_errors import MODELS
from uncover.metrics.calibration import unexplained_share
from uncover.metrics.class_areas import share_limits
from uncover.metrics.estimation import z_of
from uncover.pipeline.map_facts import DOUBTFUL, percent
from uncover.pipeline.map_files import layer_asset, stac_item
from uncover.pipeline.map_styles import paletted, pseudocolour
from uncover.pipeline.mapped import MappedScene
from uncover.progress import in_units
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import unchanged
from uncover.raster.grid import Progress, Window
from uncover.raster.journal import fingerprint, unfinished
from uncover.raster.map_formats import category_names, check_cog, class_tags, statistics, write_cog
from uncover.raster.mapper import spread_windows
from uncover.raster.pixel_area import pixel_areas
from uncover.raster.product import NOTHING, QUANTUM, Layer, Product, Unit
from uncover.raster.scratch import Scratch, open_scratch
from uncover.raster.tiles import CACHE_BYTES, TileCache
from uncover.warn import warn

Array = NDArray[np.float64]

#: Every so many pixels of windows tell the shares of transitions, and so many of them what worlds and drawn
#: models do to them.
_EVERY, _DRAWN = 7, 3000
#: Least probability of a class: half a step of the layers.
_FLOOR = QUANTUM / 2
#: Share of pixels that a model need not explain; change that is called much.
_ALLOWED, _MUCH = 0.02, 0.15
#: Pixels that are computed together, and bytes that are needed at least.
_TOGETHER, _LEAST = 8192, 400 << 20


@dataclass(frozen=True)
class ChangeOptions:
    """Options of a comparison of two maps; none has an influence on the result."""

    memory: int = 1 << 30
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class TwoMaps:
    """Two maps of one place by the same classes, on one grid."""

    before: MappedScene
    after: MappedScene
    cache_bytes: int = CACHE_BYTES  # of decoded tiles, for the maps and for each scene

    @classmethod
    def open(cls, before: str | Path, after: str | Path, cache_bytes: int = CACHE_BYTES) -> TwoMaps:
        """Open both, or say in one line why they cannot be compared."""
        found = cls(MappedScene.open(before), MappedScene.open(after), cache_bytes)
        for each in (found.before, found.after):
            if (scene := each.mapper.observed.own_scene) is not None:
                scene.cache.limit(cache_bytes)
        one, other = found.before.product, found.after.product
        if one.grid != other.grid:
            first, second = (f"{g.crs}, {g.shape} pixels, bounds {g.bounds}" for g in (one.grid, other.grid))
            raise SceneError(
                f"{before} and {after} are not on the same grid ({first}, and {second}); map both with the "
                "same --bbox and --crs"
            )
        if (one.names, one.codes) != (other.names, other.codes):
            first, second = (
                ", ".join(f"{name} ({code})" for name, code in zip(each.names, each.codes, strict=True))
                for each in (one, other)
            )
            raise SceneError(
                f"{before} has the classes {first} and {after} {second}; change is between maps of the same "
                "classes and codes: map both with one model, or with models of one scheme"
            )
        if len(one.names) ** 2 > 254:
            raise SceneError(
                f"{len(one.names)} classes have more transitions than the 254 that a layer holds"
            )
        for folder, each in ((before, found.before), (after, found.after)):
            if not each.worlds:
                warn(
                    f"{folder} has no worlds: {each.mapper.without_spread}; the uncertainty of its "
                    "measurement is not in the areas of change"
                )
        if not found.same_model:
            first, second = (each["model"] for each in found.models)
            warn(
                f"the maps are of two models ({before}: {first}; {after}: {second}): their errors count as "
                "independent, and where the models differ, that is taken for change; map both dates with one"
            )
        return found

    @property
    def models(self) -> list[dict[str, str]]:
        """Which model made each map: the beginning of its hash, and the scenes that trained it."""
        found = []
        for each in (self.before, self.after):
            content, known = (each.folder / "model.uncover").read_bytes(), each.mapper.model.provenance_ or {}
            sources = known.get("sources", ())
            scenes = sorted({str(each.get("identity", each.get("name", "?"))) for each in sources})
            name = f"{hashlib.sha256(content).hexdigest()[:8]} trained on {', '.join(scenes) or 'a table'}"
            found.append({"map": str(each.product.name), "model": name})
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Classes."""
        return self.before.product.names

    @cached_property
    def scheme(self) -> Scheme:
        """Transitions as classes: number before · number of classes + number after + 1."""
        K, colours = len(self.names), self.before.mapper.product.scheme.in_code_order().classes
        pairs = [(i, j) for i in range(K) for j in range(K)]
        classes = (
            LandClass(
                i * K + j + 1,
                f"{self.names[i]}" if i == j else f"{self.names[i]} to {self.names[j]}",
                _pale(colours[i].colour) if i == j else colours[j].colour,
            )
            for i, j in pairs
        )
        return Scheme("transitions", tuple(classes), "Transitions between two maps", "")

    @property
    def same_model(self) -> bool:
        """True where both maps were made by one model: what is wrong with it is then the same in both."""
        files = ((each.folder / "model.uncover").read_bytes() for each in (self.before, self.after))
        return len(set(files)) == 1

    @property
    def same_worlds(self) -> bool:
        """True where both maps are of one scene, whose error they share."""
        one, other = (each.mapper.observed.identity for each in (self.before, self.after))
        return one == other and self.before.worlds == self.after.worlds

    @cached_property
    def _shares(self) -> tuple[Array, Array]:
        """Class shares that the probabilities of each map are for."""
        found = []
        for each in (self.before, self.after):
            stated = each.properties.get("uncover:class_shares", {}).get("shares")
            own = trained_shares(each.mapper.model.model_)[each.order]
            found.append(own if stated is None else np.array([stated[name] for name in self.names]))
        return found[0], found[1]

    def likelihood(self, before: Array, after: Array) -> Array:
        """p(x | i) p(x' | j), but for a factor, from probabilities (..., class): (..., transition)."""
        one, other = (
            np.maximum(P, _FLOOR) / shares for P, shares in zip((before, after), self._shares, strict=True)
        )
        return (one[..., :, None] * other[..., None, :]).reshape(*one.shape[:-1], -1)

    def probabilities(
        self, window: Window, cache: TileCache
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, Array]:
        """Rows and columns of pixels that have a class in both maps, and their probabilities in each."""
        both = (self.before.product, self.after.product)
        there = np.all([each.class_numbers(window, cache) >= 0 for each in both], axis=0)
        rows, cols = np.nonzero(there)
        before, after = (each.probabilities(window, rows, cols, cache) for each in both)
        return rows, cols, before, after

    def _typicality(self, window: Window, rows: Any, cols: Any, cache: TileCache) -> Array:
        """Typicality of pixels in each map, (map, pixel); NaN where a map does not have it."""
        found = np.full((2, len(rows)), np.nan)
        for own, each in zip(found, (self.before.product, self.after.product), strict=True):
            if "typicality" in each.layers:
                layer = each.layer("typicality")
                own[:] = layer.values(layer.source.read(window, cache)[:, rows, cols])[0]
        return found

    @cached_property
    def transitions(self) -> Transitions:
        """Shares of the transitions, from pixels of windows spread over the maps."""
        grid, cache = self.before.product.grid, TileCache(self.cache_bytes)
        likelihoods, groups, drawn, typical = [], [], [], []
        windows = spread_windows(grid)
        each = max(1, _DRAWN // len(windows))
        for number, window in enumerate(windows):
            rows, cols, before, after = self.probabilities(window, cache)
            rows, cols = rows[::_EVERY], cols[::_EVERY]
            typical.append(self._typicality(window, rows, cols, cache))
            likelihoods.append(self.likelihood(before[::_EVERY], after[::_EVERY]))
            groups.append(np.full(len(rows), number))
            some = np.unique(np.linspace(0, len(rows) - 1, each).astype(np.intp)) if len(rows) else rows
            wanted = np.zeros(window.shape, np.bool_)
            wanted[rows[some], cols[some]] = True
            drawn.append(self._draws(window, wanted))
        L = np.concatenate(likelihoods)
        if not len(L):
            raise SceneError(f"no pixel has a class in {self.before.folder} and in {self.after.folder}")
        places = np.unique(np.concatenate(groups), return_inverse=True)[1]
        read = min(1.0, len(windows) / len(list(grid.blocks(64))))
        found = estimate_shares(L, places, read)
        common = self._common(np.concatenate(drawn, axis=1), found)
        unlike = [unexplained_share(each) for each in np.concatenate(typical, axis=1)]
        return Transitions(found, common, len(L), (unlike[0], unlike[1]))

    def _draws(self, window: Window, wanted: NDArray[np.bool_]) -> Array:
        """Likelihoods by joint draws of worlds and models of pixels in both scenes: (draw, pixel, pair)."""
        each = [mapped.draw(window, wanted) for mapped in (self.before, self.after)]
        common, found = np.intersect1d(each[0][0], each[1][0]), []
        both = zip((self.before, self.after), each, ("before", "after"), strict=True)
        for mapped, (places, drawn), way in both:
            order = np.argsort(places)
            mine = drawn[:, order[np.searchsorted(places[order], common)]]
            found.append(self._joint_draws(mapped, mine[..., mapped.order], way))
        return self.likelihood(*found)

    def _joint_draws(self, mapped: MappedScene, drawn: Array, way: str) -> Array:
        """Probabilities by draws of worlds and models together: (draw, pixel, class).

        A draw moves log odds by what its world does, and by what its model does. Draws of one model, or
        worlds of one scene, are the same in both maps; others are independent.
        """
        logs = np.log(np.maximum(drawn, _FLOOR))
        worlds, models = np.split(logs, [mapped.worlds])
        order = np.arange(MODELS)
        if way == "after" and not self.same_model:
            order = stream(0, "models of change").permutation(MODELS)
        found = models[order]
        if mapped.worlds:
            turn = np.arange(MODELS) % mapped.worlds
            if way == "after" and not self.same_worlds:
                turn = stream(0, "worlds of change").permutation(turn)
            found = found + worlds[turn] - worlds.mean(0)
        P = np.exp(found - found.max(-1, keepdims=True))
        return np.asarray(P / P.sum(-1, keepdims=True))

    def _common(self, likelihoods: Array, found: ClassShares) -> Array:
        """Covariance of the shares over the draws of what pixels share, about those without a draw.

        A model that errs finds more change on average than there is. The draws err from the model as the
        model errs from the truth: what their mean is away from it, at the same pixels, belongs to the error.
        """
        if likelihoods.shape[1] == 0:
            return np.zeros_like(found.covariance)
        each = np.stack([likeliest_shares(one, found.shares, 1e-6) for one in likelihoods])
        undrawn = np.exp(np.log(likelihoods).mean(0))
        away = each.mean(0) - likeliest_shares(undrawn, found.shares, 1e-6)
        return np.asarray(np.cov(each, rowvar=False) + np.outer(away, away))


def _pale(colour: str) -> str:
    """A colour halfway to white."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{(255 + part) // 2:02X}" for part in parts)


@dataclass(frozen=True)
class Transitions:
    """Shares of the transitions of the mapped land, with the covariance of their errors in parts."""

    found: ClassShares  # what the overlap of the classes hides, and what was not read
    common: Array  # (transition, transition), from worlds and drawn models
    pixels: int  # that they were found from
    unexplained: tuple[float, float] = (0.0, 0.0)  # shares of each map that its model does not explain

    @property
    def between(self) -> NDArray[np.bool_]:
        """True for transitions from one class to another."""
        return ~np.eye(int(np.sqrt(len(self.found.shares))), dtype=np.bool_).ravel()

    @property
    def misfit(self) -> tuple[Array, float]:
        """Standard uncertainty of each share, and of all change, from what no model explains.

        That share M of the land may be change or not: a rectangular distribution of this half-width, but for
        no transition wider than the land of its class before, or of that after.
        """
        M, K = max(0.0, max(self.unexplained) - _ALLOWED), int(np.sqrt(len(self.found.shares)))
        shares = self.found.shares.reshape(K, K)
        most = np.maximum.outer(shares.sum(1), shares.sum(0)).ravel()
        return np.minimum(M, most) / np.sqrt(3), M / np.sqrt(3)

    @property
    def hidden(self) -> Array:
        """Covariance from the overlap; of no transition more is known than one pixel of each beside tells."""
        return np.asarray(self.found.covariance + np.eye(len(self.found.shares)) / self.pixels**2)

    @property
    def covariance(self) -> Array:
        """Covariance of the shares, as far as the models explain the maps."""
        return np.asarray(self.hidden + self.common)

    def joint(self, likelihood: Array) -> Array:
        """P(transition | x, x') of pixels: (pixel, transition)."""
        own = likelihood * self.found.shares
        return np.asarray(own / own.sum(-1, keepdims=True))


def change_of_maps(
    before: str | Path,
    after: str | Path,
    out: str | Path,
    options: ChangeOptions | None = None,
    progress: Progress | None = None,
    finish: Callable[[Path], object] = lambda folder: None,
) -> Path:
    """Compare two maps of one place: change.tif, transition.tif, change.csv and a STAC item in a folder.

    The folder appears at the end; until then the work lies in `OUT.partial`, and goes on with `resume`.
    `finish` is called with the folder before that, to add what belongs to it.
    """
    chosen = options or ChangeOptions()
    check_place(out)
    if chosen.memory < _LEAST:
        raise SceneError(f"{chosen.memory >> 20} MB are too few; give --memory {_LEAST >> 20}MB or more")
    with unchanged(before, after, apart=Path(out)) as check:
        # Four caches, of the maps (twice) and of each scene; with open files they take twice as much.
        maps = TwoMaps.open(before, after, min(CACHE_BYTES, (chosen.memory - _LEAST) // 10))
        key = fingerprint({"maps": [each.properties["uncover:run"] for each in (maps.before, maps.after)]})
        product = _product(maps)
        with (
            unfinished(out, key, chosen.resume, chosen.overwrite, check) as (store, journal),
            open_scratch(store.parent / "scratch", product, journal) as scratch,
        ):
            _compute(maps, scratch, progress or (lambda done, total: None))
            store.mkdir(parents=True, exist_ok=True)
            _write(maps, scratch, store, key)
            finish(store)
    return Path(out)


def _product(maps: TwoMaps) -> Product:
    number = {"dtype": "uint16", "nodata": NOTHING, "scale": QUANTUM}
    layers = (
        Layer("change", ("change", "transition"), **number, title="P(change), P(most probable transition)"),  # type: ignore[arg-type]
        Layer(
            "transition", ("transition",), "uint8", 0, resampling="nearest", title="most probable transition"
        ),
    )
    return Product(maps.before.product.grid, maps.scheme, 0, layers)


def _compute(maps: TwoMaps, scratch: Scratch, progress: Progress) -> None:
    """Compute the units that are missing."""
    numbers, cache = scratch.missing(iter(range(len(scratch.units)))), TileCache(maps.cache_bytes)
    total = scratch.product.grid.window.pixels
    done = total - sum(scratch.units[number].pixels for number in numbers)
    try:
        with in_units() as may_stop:
            for number in numbers:
                scratch.put(_unit(maps, scratch, number, cache))
                done += scratch.units[number].pixels
                progress(done, total)
                may_stop()
    finally:
        scratch.sync()


def _unit(maps: TwoMaps, scratch: Scratch, number: int, cache: TileCache) -> Unit:
    """Layers of a unit, and its areas of transitions: pixels, counted and expected area."""
    window, product, K = scratch.units[number], scratch.product, len(maps.names)
    flat = {layer.name: layer.empty(*window.shape) for layer in product.layers}
    areas = np.zeros((product.area_rows, product.area_columns))
    area = np.broadcast_to(pixel_areas(product.grid, window), window.shape)
    rows, cols, before, after = maps.probabilities(window, cache)
    for part in (slice(i, i + _TOGETHER) for i in range(0, len(rows), _TOGETHER)):
        Q = maps.transitions.joint(maps.likelihood(before[part], after[part]))
        at, best = (rows[part], cols[part]), Q.argmax(1)
        a = area[at]
        changed = 1.0 - np.einsum("nkk->n", Q.reshape(-1, K, K))
        numbers = np.stack([np.clip(changed, 0.0, 1.0), Q.max(1)])
        flat["change"][:, at[0], at[1]] = product.layers[0].encode(numbers)
        flat["transition"][0, at[0], at[1]] = best + 1
        areas[0] += np.bincount(best, minlength=K * K)
        areas[1] += np.bincount(best, a, minlength=K * K)
        areas[2] += a @ Q
    return Unit(number, flat, areas)


# ---- files -----------------------------------------------------------------------------------------


def _write(maps: TwoMaps, scratch: Scratch, store: Path, key: str) -> None:
    """Write layers, styles, table and item."""
    assets = {}
    for layer in scratch.product.layers:
        path = store / f"{layer.name}.tif"
        if path.name not in scratch.journal.done:
            tags = {"UNCOVER_RUN": key}
            tags |= class_tags(maps.scheme) if layer.name == "transition" else {}
            write_cog(path, scratch, layer, tags)
            check_cog(path, scratch, layer)
            scratch.journal.add(path.name)
        assets[layer.name] = layer_asset(layer, scratch.product, statistics(path))
    _text(store / "transition.tif.aux.xml", category_names(maps.scheme))
    _text(store / "transition.qml", paletted((c.code, c.colour, c.name, 255) for c in maps.scheme.classes))
    _text(store / "change.qml", pseudocolour(1, 1.0 / QUANTUM, QUANTUM, "change"))
    areas = scratch.areas()
    rows = list(_rows(maps, areas))
    with open(store / "change.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    assets["areas"] = {"href": "./change.csv", "type": "text/csv", "roles": ["metadata"]}
    properties = {**_when(maps), "title": "Change between two land cover maps, with its uncertainty"}
    properties |= {"processing:software": {"uncover": __version__}, "uncover:run": key}
    properties |= {"uncover:change": _facts(maps, areas)}
    item = stac_item("change", scratch.product.grid, properties, assets)
    _text(store / "item.json", json_text(item))


def _when(maps: TwoMaps) -> dict[str, Any]:
    """From the time of the map before to that of the map after; no time where one has none."""
    own = [each.properties for each in (maps.before, maps.after)]
    begin, end = (
        when.get(f"{name}_datetime") or when["datetime"]
        for name, when in zip(("start", "end"), own, strict=True)
    )
    if begin is None or end is None:
        return {"datetime": None}
    return {"datetime": None, "start_datetime": min(begin, end), "end_datetime": max(begin, end)}


def _facts(maps: TwoMaps, areas: Array) -> dict[str, Any]:
    """What is in the maps together: shares of change with its standard uncertainty, and what they share."""
    off = maps.transitions.between * 1.0
    total = areas[2].sum()
    error = float(np.hypot(np.sqrt(off @ maps.transitions.covariance @ off), maps.transitions.misfit[1]))
    share = float(areas[2] @ off / max(total, np.finfo(float).tiny))
    low, high = share_limits(np.array([share]), np.array([error]), 1.0)
    numbers = {"share": share, "standard_uncertainty": error, "lower": float(low[0]), "upper": float(high[0])}
    doubts = _doubts(maps, areas[2] / max(total, np.finfo(float).tiny))
    for doubt in doubts:
        warn(doubt)
    return {
        "maps": [str(each.product.name) for each in (maps.before, maps.after)],
        "models": maps.models,
        "unexplained": [float(f"{each:.4g}") for each in maps.transitions.unexplained],
        "doubts": doubts,
        "changed": {name: float(f"{value:.6g}") for name, value in numbers.items()},
        "same_model": maps.same_model,
        "same_worlds": maps.same_worlds,
        "pixels": int(areas[0].sum()),
    }


def _doubts(maps: TwoMaps, shares: Array) -> list[str]:
    """Reasons not to believe what changed, with numbers; ``shares`` are those of the transitions."""
    one, other = maps.transitions.unexplained
    between, K = maps.transitions.between, len(maps.names)
    share = float(shares[between].sum())
    most = int(np.argmax(np.where(between, shares, -1.0)))
    i, j = divmod(most, K)
    largest = (
        f"{percent(share)} of the land is stated as changed, most of it from {maps.names[i]} to "
        f"{maps.names[j]} ({percent(float(shares[most]))}; the other way {percent(float(shares[j * K + i]))})"
    )
    names = [str(each.product.name) for each in (maps.before, maps.after)]
    if max(one, other) > DOUBTFUL:
        return [
            f"do not believe the change: the model does not explain at least {percent(one)} of {names[0]} "
            f"and {percent(other)} of {names[1]}, so that land which only looks different is read as change; "
            f"{largest}. The intervals are widened by it; take a reference sample of both dates, or train on "
            "both"
        ]
    if share > _MUCH:
        return [
            f"{largest}; mowing, ploughing, moisture or another season look like change too: check some of "
            "it before it is reported"
        ]
    return []


def _rows(maps: TwoMaps, areas: Array) -> Iterator[dict[str, Any]]:
    """Rows of the table: each transition with its area and interval."""
    K, found = len(maps.names), maps.transitions
    unit, scale = ("pixels", 1.0) if maps.before.product.grid.crs is None else ("ha", 1e-4)
    total = scale * areas[2].sum()
    parts = {name: np.diag(part) for name, part in (("common", found.common), ("overlap", found.hidden))}
    parts["unexplained"] = found.misfit[0] ** 2
    parts[""] = np.sum(list(parts.values()), axis=0)
    errors = {name: total * np.sqrt(np.maximum(part, 0.0)) for name, part in parts.items()}
    low, high = share_limits(scale * areas[2], errors[""], total)
    low = np.where(scale * areas[2] < z_of(0.95) * errors[""], 0.0, low)  # it may not occur at all
    for t in range(K * K):
        numbers = {
            "area": scale * areas[1, t],
            "expected": scale * areas[2, t],
            "standard_uncertainty": errors[""][t],
            "lower": low[t],
            "upper": high[t],
            "u_common": errors["common"][t],
            "u_overlap": errors["overlap"][t],
            "u_unexplained": errors["unexplained"][t],
        }
        yield {
            "code": t + 1,
            "from": maps.names[t // K],
            "to": maps.names[t % K],
            "pixels": int(areas[0, t]),
            **{f"{name}_{unit}": f"{value:.6g}" for name, value in numbers.items()},
        }


def _text(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
