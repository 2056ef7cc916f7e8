"""The embedded scene with maps of both years: made once for each seed, and kept for all benchmarks."""

import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import rasterio

from uncover import pipeline
from uncover.bayes.streams import stream
from uncover.raster import Quality
from uncover.studies.landscape import LandscapeOptions, SceneFiles, write_scene
from uncover.studies.landscape.geography import History, draw_history
from uncover.studies.landscape.kinds import CLASSES, CODE, CROPS, TRAINED

YEARS = {"same scene": 2020, "other year": 2021}
MODES, SIZE, DRAWS = ("well-specified", "realistic"), 160, 10
#: Shares of fields that change from 2020 to 2021 in scenes with change: grass, crops, and those at towns.
PLOUGHED, SOWN, BUILT = 0.10, 0.10, 0.10
GRASS = [CODE[name] for name in ("improved grass", "cut grass")]
KEPT = Path(tempfile.gettempdir()) / "uncover-twin"


@dataclass(frozen=True)
class Twin:
    """Files of one seed: the scene, a model of 2020, maps of both years; never-trained ground is masked."""

    folder: Path
    scene: SceneFiles

    def map(self, year):
        """Folder of the map of a year."""
        return self.folder / f"map-{year}"

    def truth(self, year):
        """Class of every pixel, 0 where it was never trained."""
        with rasterio.open(self.scene.truth(year)) as file:
            codes = file.read(1)
        return np.where(np.isin(codes, [CLASSES.code_of(name) for name in TRAINED]), codes, 0)

    def mapped(self, year):
        """Codes of the map of a year."""
        with rasterio.open(self.map(year) / "class.tif") as file:
            return file.read(1)

    def probability(self, year):
        """Probabilities of the classes in the order of their codes, (class, row, col)."""
        with rasterio.open(self.map(year) / "probability.tif") as file:
            return file.read() * file.scales[0]


def twin(mode, size, seed, model="recommended", changed=False):
    """Make the files of a seed, or find them; ``changed``: with more change between the years."""
    folder = KEPT / f"{mode}-{size}-{seed}-{model}{'-changed' if changed else ''}"
    if not (folder / "whole").exists():
        KEPT.mkdir(exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            history = _changed_history if changed else draw_history
            with patch("uncover.studies.landscape.scene.draw_history", history):
                _make(Path(place) / "made", mode, size, seed, model)
            for run in (Path(place) / "made").glob("map-*/run.json"):  # where the scene will be
                run.write_text(run.read_text("utf-8").replace(f"{place}/made", str(folder)), "utf-8")
            (Path(place) / "made" / "whole").touch()
            (Path(place) / "made").rename(folder)
    return Twin(folder, SceneFiles.open(folder / "scene"))


def _make(folder, mode, size, seed, model):
    files = write_scene(folder / "scene", LandscapeOptions(size, seed, mode))
    made = Twin(folder, files)
    maps = [str(path) for path in files.previous_maps(2020)]
    found = pipeline.collect_labels(
        maps, [f"{path}:2" for path in maps], pipeline.LabelOptions(scheme=files.scheme)
    )
    found.write(folder / "labels.tif")
    labels = str(folder / "labels.tif")
    chosen = pipeline.FitOptions(
        labels=labels, model=model, realisations="shared", realise=_realise(files, 2020)
    )
    pipeline.fit_model([files.product(2020)], chosen).save(folder / "model.uncover")
    for year in YEARS.values():
        _write_mask(files, year, folder / f"never-trained-{year}.tif")
        scene = pipeline.SceneOptions(
            mask=str(folder / f"never-trained-{year}.tif"), mask_values={1: Quality.MASKED}
        )
        source = pipeline.SourceOptions(scene=scene, realise=_realise(files, year))
        options = pipeline.MapOptions(source=source, threads=1)
        pipeline.map_scene(folder / "model.uncover", files.product(year), made.map(year), options)


def _changed_history(land, seed, *, change=True):
    """Five years without a change of class but for the last."""
    history = draw_history(land, seed, change=False)
    chance = stream(seed, "change of the benchmark").random(land.count)
    after = history.kinds[-1].copy()
    arable, grass = np.isin(after, CROPS), land.farmed & np.isin(after, GRASS)
    after[grass & (chance < PLOUGHED)] = CODE["winter cereals"]
    after[arable & (chance < SOWN)] = CODE["improved grass"]
    after[land.near_town & (grass | arable) & (chance > 1 - BUILT)] = CODE["building sites"]
    return History(np.vstack([history.kinds[:-1], after]))


def _realise(files, year):
    known = files.facts["years"][str(year)]
    return pipeline.RealiseOptions(
        aod=known["reported_aod"],
        draws=DRAWS,
        water_vapour=known["water_vapour_cm"],
        ozone=known["ozone_du"],
    )


def _write_mask(files, year, path):
    """1 where the ground is of a class that was never trained."""
    with rasterio.open(files.truth(year)) as file:
        codes, profile = file.read(1), file.profile
    profile.update(count=1, dtype="uint8", nodata=None)
    mask = ~np.isin(codes, [CLASSES.code_of(name) for name in TRAINED])
    with rasterio.open(path, "w", **profile) as file:
        file.write(mask.astype(np.uint8), 1)
