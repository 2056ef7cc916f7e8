"""The land cover study: classifiers trained on few pixels of one year, tested on the others, in each year."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from uncover.bayes.streams import stream
from uncover.studies.cells import Result, extended
from uncover.studies.claims import Finding
from uncover.studies.claims_landcover import land_cover_findings
from uncover.studies.landcover_data import LandCoverData, embedded_scene, nested_order
from uncover.studies.models import MODELS, PAPER, cell_groups, study_facts, study_models
from uncover.studies.protocol import BootstrapPlan, CellOfModels, Split, assess_each, cpu_seconds
from uncover.studies.tables import (
    Tables,
    confusion_rows,
    cost_rows,
    frame,
    rate_rows,
    score_rows,
    training_row,
)

Array = NDArray[Any]

#: A probe computes few of so many parts of the pixels.
PARTS = 80
#: Pixels along a side of the small scene from which the times of the embedded one are estimated.
_SKETCH = 300
#: What a file's name cannot hold everywhere, and the mark that it is written with.
_UNFIT = re.compile(r'[\x00-\x1f"%*/:<>?\\|]')

#: Shares of all pixels that models are trained on; the rest of the last one is the test set.
FRACTIONS = (0.001, 0.005, 0.01, 0.05, 0.1)


@dataclass(frozen=True)
class LandCoverScale:
    """Amount of the data that is used; None is all of it."""

    pixels: int | None = None  # most of a user's data
    realisations: int | None = None
    scene_size: int = 2000  # pixels along a side of the embedded scene
    scene_draws: int = 25


LAND_COVER_SCALES = {
    "quick": LandCoverScale(20_000, 5, scene_size=800, scene_draws=5),
    "standard": LandCoverScale(None, 25),
    "paper": LandCoverScale(None, None),
}

#: What means the same as another model where there is one realisation only.
_NEED_REALISATIONS = ("QDA pooled", "BQDA repeats", "BQDA draws", "BQDA shared")


@dataclass(frozen=True)
class LandCoverSplit:
    """Which pixels are for testing, and which for training at each size, the smaller in the larger.

    >>> split = LandCoverSplit.of(np.arange(1000) % 4, seed=0)
    >>> len(split.test), {f: len(t) for f, t in split.training.items()}
    (900, {0.005: 5, 0.01: 10, 0.05: 50, 0.1: 100})
    """

    test: Array
    training: Mapping[float, Array]

    @classmethod
    def of(cls, codes: Array, seed: int) -> LandCoverSplit:
        """By class, in proportion, one of each at least; sizes below the number of classes are left out."""
        order = nested_order(codes, stream(seed, "training pixels"))
        sizes = {fraction: round(fraction * len(codes)) for fraction in FRACTIONS}
        K = len(np.unique(codes))
        training = {fraction: order[:size] for fraction, size in sizes.items() if size >= K}
        return cls(np.sort(order[sizes[FRACTIONS[-1]] :]), training)


@dataclass(frozen=True)
class SavedData:
    """Data in a folder, for workers, wherever they run: each process opens it once."""

    folder: str
    years: tuple[str, ...]

    @classmethod
    def save(cls, data: LandCoverData, folder: Path) -> SavedData:
        """Write the arrays."""
        folder.mkdir(parents=True, exist_ok=True)
        for i, values in enumerate(data.values):
            np.save(folder / f"values-{i}.npy", values)
        np.save(folder / "codes.npy", data.codes)
        np.save(folder / "groups.npy", np.arange(data.pixels) if data.groups is None else data.groups)
        return cls(str(folder.resolve()), data.years)

    def values(self, year: str) -> Array:
        """Values of a year, left on disk until they are read."""
        return np.load(Path(self.folder) / f"values-{self.years.index(year)}.npy", mmap_mode="r")

    def labels(self) -> tuple[Array, Array]:
        """Codes and groups of the pixels."""
        return np.load(Path(self.folder) / "codes.npy"), np.load(Path(self.folder) / "groups.npy")


@dataclass(frozen=True)
class LandCoverCell(CellOfModels):
    """Some models trained on a share of the pixels in one year, and tested on the test set in every year."""

    data: SavedData
    train_year: str
    test_years: tuple[str, ...]
    fraction: float
    models: tuple[str, ...]
    realisations: int
    seed: int = 0
    parts: int = PARTS  # of the pixels that are used: all of them but in a probe

    @property
    def key(self) -> str:
        """Its name; dates are any text, and what a file's name cannot hold is written as its code."""
        year = _UNFIT.sub(lambda found: f"%{ord(found[0]):02X}", self.train_year)
        return f"{year or 'one-date'}-{100 * self.fraction:g}percent-{self.who}"

    @property
    def like(self) -> str:
        """Training size and models decide how long it takes."""
        return f"{self.fraction:g} {' '.join(self.models)}"

    def values(self, year: str, pixels: Array) -> Array:
        """Values of some pixels in a year, (pixel, realisation, band)."""
        return np.asarray(self.data.values(year)[pixels, : self.realisations], np.float64)

    def compute(self) -> Result:
        """Scores of each model in each year."""
        splits = _splits(replace(self, models=()))
        plan = BootstrapPlan(seed=self.seed, keep=True)
        return {
            "models": [
                {"test_year": year, **found}
                for name in self.models
                for year, found in zip(
                    self.test_years, assess_each(name, splits, self.seed, plan), strict=True
                )
            ]
        }

    def probe(self) -> float:
        """From the times of few pixels in few realisations at the largest training size, extended."""
        _, _, split = _divided(self.data, self.seed)
        first = replace(self, fraction=max(split.training), train_year=self.data.years[0])
        fit, ask = _times(first)
        n, m = len(split.training[self.fraction]), len(split.test)
        return fit(n, self.realisations) + ask(m, self.realisations)


@lru_cache(maxsize=64)
def _times(cell: LandCoverCell) -> tuple[Callable[[float, float], float], ...]:
    """Seconds of training and of evaluation by pixels and realisations, from small parts of a cell."""
    fit, ask = {}, {}
    most = min(cell.realisations, 2)
    cpu_seconds(cell.models, _splits(replace(cell, models=(), parts=1, realisations=1)), cell.seed)  # warm up
    for parts, r in dict.fromkeys([(1, 1), (3, 1), (1, most), (3, most)]):
        splits = _splits(replace(cell, models=(), parts=parts, realisations=r))
        seconds = cpu_seconds(cell.models, splits, cell.seed)
        fit[float(len(splits[0].y)), float(r)], ask[float(len(splits[0].y_test)), float(r)] = seconds
    return extended(fit), extended(ask)


@lru_cache(maxsize=1)
def _divided(data: SavedData, seed: int) -> tuple[Array, Array, LandCoverSplit]:
    """Codes and groups of the pixels, and which are for training and for testing."""
    codes, groups = data.labels()
    return codes, groups, LandCoverSplit.of(codes, seed)


@lru_cache(maxsize=1)
def _splits(cell: LandCoverCell) -> tuple[Split, ...]:
    """The data of a cell, one split for each year of tests; a worker's next cell often needs the same."""
    codes, groups, split = _divided(cell.data, cell.seed)
    train, test = (
        _some(pixels, codes, cell.parts) for pixels in (np.sort(split.training[cell.fraction]), split.test)
    )
    shares = np.bincount(codes) / len(codes)
    X = cell.values(cell.train_year, train)
    return tuple(
        Split(
            X=X,
            y=codes[train],
            X_test=cell.values(year, test),
            y_test=codes[test],
            shares=shares,
            groups=groups[test],
            paired=cell.train_year == year,
        )
        for year in cell.test_years
    )


def _some(pixels: Array, codes: Array, parts: int) -> Array:
    """So many of all the parts of some pixels, with the classes in proportion, one of each at least."""
    if parts == PARTS:
        return pixels
    here = codes[pixels]
    n = max(round(len(pixels) * parts / PARTS), len(np.unique(here)))
    return pixels[np.sort(nested_order(here, stream(0, "pixels of a probe"))[:n])]


def land_cover_models(realisations: int, further: bool = False) -> tuple[str, ...]:
    """The models that say different things with so many realisations.

    >>> "BQDA shared" in land_cover_models(25), "BQDA shared" in land_cover_models(1)
    (True, False)
    """
    return tuple(name for name in study_models(further) if realisations > 1 or name not in _NEED_REALISATIONS)


def _with_names(found: Result, classes: Sequence[str]) -> Result:
    """Reasons speak of classes by their names, not by their codes."""
    if found["trained"]:
        return found
    why = re.sub(r"class (\d+) has", lambda code: f"class {classes[int(code[1])]!r} has", found["why"])
    return {**found, "why": why}


def _replicate_rows(where: dict[str, Any], found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Scores of each bootstrap draw: the same draw of two models is of the same pixels."""
    each = pd.DataFrame(found["replicates"]).to_dict("records")
    return [{**where, "draw": i, **values} for i, values in enumerate(each)]


def relative_cost(cost: pd.DataFrame, unit: str = "BQDA") -> pd.DataFrame:
    """CPU time relative to that of BQDA at the smallest training size, median over pairs of years.

    >>> cost = pd.DataFrame({"model": ["BQDA", "RF"], "pixels": 10, "seconds": [0.5, 20.0]})
    >>> relative_cost(cost)["relative"].tolist()
    [1.0, 40.0]
    """
    mine = cost[(cost["model"] == unit) & (cost["pixels"] == cost["pixels"].min())]
    return cost.assign(relative=cost["seconds"] / mine["seconds"].median())


def reproducibility_table(data: LandCoverData, seed: int, most: int = 2000) -> pd.DataFrame:
    """Largest difference of a class probability between two fits of each model of the paper with other seeds.

    Of one realisation, so that no permutation of realisations is drawn: what is left is the training itself.
    Trained on the largest training set but at most 2,000 pixels, tested on as many of the others.
    """
    split = LandCoverSplit.of(data.codes, seed)
    train = split.training[max(split.training)][:most]
    test = split.test[:: max(len(split.test) // most, 1)]
    X, X_test = (np.asarray(data.values[0][pixels, :1], np.float64) for pixels in (train, test))
    rows = []
    for name in PAPER:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those of training are in its table
                fitted = [MODELS[name].make(each).fit(X, data.codes[train]) for each in (seed, seed + 1)]
        except (ValueError, np.linalg.LinAlgError):
            continue  # said in the table of training
        first, second = (model.predict_proba(X_test) for model in fitted)
        rows.append({"model": name, "largest_difference": float(np.abs(first - second).max())})
    return pd.DataFrame(rows, columns=["model", "largest_difference"])


def description_tables(data: LandCoverData) -> Tables:
    """Class shares, band means and spreads, and, of several bands, principal components."""
    counts = np.bincount(data.codes, minlength=len(data.classes))
    found = {"shares": pd.DataFrame({"class": data.classes, "pixels": counts, "share": data.shares})}
    described = {"bands": _band_table, **({"components": _component_table} if len(data.bands) > 1 else {})}
    for name, table in described.items():
        years = [table(data, i) for i in range(len(data.years))]
        found[name] = pd.concat(years, ignore_index=True)
    return found


def _band_table(data: LandCoverData, year: int) -> pd.DataFrame:
    """Mean and standard deviation of each band and class over all pixels and realisations."""
    parts = []
    for k, name in enumerate(data.classes):
        rows = np.asarray(data.values[year][data.codes == k], np.float64).reshape(-1, len(data.bands))
        numbers = {"mean": rows.mean(axis=0), "sd": rows.std(axis=0, ddof=1)}
        parts.append(pd.DataFrame({"year": data.years[year], "class": name, "band": data.bands, **numbers}))
    return pd.concat(parts, ignore_index=True)


def _component_table(data: LandCoverData, year: int, most: int = 4000) -> pd.DataFrame:
    """The first two principal components of the first realisation, of so many pixels."""
    from sklearn.decomposition import PCA

    X = np.asarray(data.values[year][:, 0], np.float64)
    model = PCA(n_components=2, svd_solver="full").fit(X)
    order = nested_order(data.codes, stream(0, "pixels of a figure"))[:most]
    scores = model.transform(X[order])
    return pd.DataFrame(
        {
            "year": data.years[year],
            "class": np.array(data.classes)[data.codes[order]],
            "pc1": scores[:, 0],
            "pc2": scores[:, 1],
            "pc1_share": model.explained_variance_ratio_[0],
            "pc2_share": model.explained_variance_ratio_[1],
        }
    )


@dataclass(frozen=True)
class LandCoverStudy:
    """The land cover study of some data, limited as the scale says."""

    data: LandCoverData
    scale: str = "quick"
    seed: int = 0
    sketched: int | None = None  # the data stand in for those of the same size, in so many realisations
    further: bool = False  # with the models that are computed on request

    @classmethod
    def of(cls, data: LandCoverData, scale: str, seed: int) -> LandCoverStudy:
        """Keep as much of the data as the scale says."""
        limits = LAND_COVER_SCALES[scale]
        return cls(data.limited(limits.pixels, limits.realisations, seed), scale, seed)

    @classmethod
    def embedded(cls, scale: str, seed: int) -> LandCoverStudy:
        """Of the embedded scene, as large and in as many worlds as the scale says."""
        how = LAND_COVER_SCALES[scale]
        return cls.of(embedded_scene(how.scene_size, how.scene_draws, seed), scale, seed)

    @classmethod
    def sketch(cls, scale: str, seed: int) -> LandCoverStudy:
        """A stand-in for the embedded scene, for its times: pixels of a small one, repeated to its size."""
        how = LAND_COVER_SCALES[scale]
        small = embedded_scene(min(how.scene_size, _SKETCH), 2, seed)
        times = max(round((how.scene_size / _SKETCH) ** 2), 1)
        full = small.select(np.tile(np.arange(small.pixels), times))
        return cls(full, scale, seed, sketched=how.scene_draws)

    @property
    def facts(self) -> dict[str, Any]:
        """Scale, seed, version, and what the data are; of a sketch, what it has in common with the scene."""
        data = self.data
        known = {
            "seed": self.seed,
            "data": data.name,
            "years": list(data.years),
            "realisations": self.sketched or data.realisations,
            "bands": list(data.bands),
            "classes": list(data.classes),
        }
        if self.sketched is None:
            known |= {"pixels": data.pixels, "notes": list(data.notes), "checksum": _checksum(data)}
        return study_facts("landcover", self.scale, known, self.further)

    def cells(self, out: Path) -> list[LandCoverCell]:
        """All cells, which read the pixels from below the folder."""
        saved = SavedData.save(self.data, out / "data")
        if self.data.picture is not None:  # for its figure
            np.savez_compressed(out / "scene.npz", rgb=self.data.picture.rgb, labels=self.data.picture.labels)
        data, split = self.data, LandCoverSplit.of(self.data.codes, self.seed)
        groups = cell_groups(land_cover_models(data.realisations, self.further))
        realisations = self.sketched or data.realisations
        return [
            LandCoverCell(saved, year, data.years, fraction, group, realisations, self.seed)
            for year in data.years
            for fraction in split.training
            for group in groups
        ]

    def tables(self, cells: Sequence[Any], results: Mapping[str, Result]) -> Tables:
        """Scores, bootstrap draws, confusion and rates of every cell, costs, and what the data look like."""
        data, split = self.data, LandCoverSplit.of(self.data.codes, self.seed)
        found = []
        for cell in cells:
            size = {"fraction": cell.fraction, "pixels": len(split.training[cell.fraction])}
            for one in results[cell.key]["models"]:
                where = {"train_year": cell.train_year, "test_year": one["test_year"], **size}
                found.append((where, _with_names(one, data.classes)))
        return {
            "scores": frame(found, score_rows),
            "replicates": frame(found, _replicate_rows),
            "training": pd.DataFrame([training_row(where, one) for where, one in found]),
            "confusion": frame(found, confusion_rows, data.classes),
            "rates": frame(found, rate_rows, data.classes),
            "cost": relative_cost(frame(found, cost_rows)),
            "reproducibility": reproducibility_table(data, self.seed),
            **description_tables(data),
        }

    def findings(self, tables: Tables) -> list[Finding]:
        """Findings of the tables about each claim."""
        return land_cover_findings(
            tables, {"pixels": self.data.pixels, "realisations": self.data.realisations}
        )


def _checksum(data: LandCoverData) -> str:
    """Of all that decides scores and their intervals."""
    digest = hashlib.sha256()
    groups = () if data.groups is None else (data.groups,)
    for array in (data.codes, *data.values, *groups):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
