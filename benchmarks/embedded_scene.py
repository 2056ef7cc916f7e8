"""The embedded scene against what the paper says of its data: spread of the classes, components, dates."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import rasterio

from benchmarks.registry import Table, benchmark
from uncover import pipeline
from uncover.studies.landcover_data import _realised, read_rasters
from uncover.studies.landscape import LandscapeOptions, write_scene
from uncover.studies.landscape.acquisition import (
    LATITUDE,
    LONGITUDE,
    OVERPASSES,
    observe,
    sun_position,
)
from uncover.studies.landscape.kinds import SCHEME
from uncover.studies.landscape.scene import FULL_SIZE

SHOWN = ("B04", "B08", "B11")


@benchmark("embedded-scene")
def embedded_scene(quick):
    """Return spreads and components of the labelled pixels, and what other dates would change."""
    size, draws = (400, 5) if quick else (FULL_SIZE, 25)
    with tempfile.TemporaryDirectory() as folder:
        scene = write_scene(folder, LandscapeOptions(size=size))
        data = _labelled(scene, draws)
        kinds = {year: _kinds(scene, year, data) for year in data.years}
    labelled = f"labelled pixels ({data.pixels:,} of {size}² pixels) in {draws} worlds"
    return [
        Table(
            "spread",
            f"Standard deviation of reflectance of all {labelled}; all bands: root of summed variances.",
            {"class": "", "year": "", "pixels": ",d"} | dict.fromkeys(SHOWN, ".3f") | {"all bands": ".3f"},
            [row for i, _ in enumerate(data.years) for row in _spread(data, i)],
        ),
        Table(
            "kinds",
            f"Near infrared (B08) by kind of ground, {labelled}.",
            {"class": "", "kind": "", "year": "", "share of class": ".2f", "mean": ".3f", "sd": ".3f"},
            [row for i, year in enumerate(data.years) for row in _by_kind(data, i, kinds[year])],
        ),
        Table(
            "components",
            f"Share of the variance that principal components explain, {labelled}, first world.",
            {"year": "", "first": ".1%", "second": ".1%", "first two": ".1%", "first three": ".1%"},
            [[year, *_components(data, i)] for i, year in enumerate(data.years)],
        ),
        _dates(),
    ]


def _labelled(scene, draws):
    """Labelled pixels of both years, as the land cover study takes them."""
    years = (2020, 2021)
    maps = [str(path) for path in dict.fromkeys(p for year in years for p in scene.previous_maps(year))]
    found = pipeline.collect_labels(
        maps, [f"{path}:2" for path in maps], pipeline.LabelOptions(scheme=scene.scheme)
    )
    labels = Path(scene.folder) / "labels.tif"
    found.write(labels)
    rasters = {str(year): _realised(scene, year, draws, seed=0) for year in years}
    return read_rasters("the embedded scene", rasters, labels)


def _kinds(scene, year, data):
    with rasterio.open(scene.kinds(int(year))) as file:
        return file.read(1)[data.picture.labels >= 0]


def _spread(data, year):
    for k, name in enumerate(data.classes):
        rows = np.asarray(data.values[year][data.codes == k], np.float64).reshape(-1, len(data.bands))
        sd = rows.std(axis=0, ddof=1)
        shown = [float(sd[data.bands.index(band)]) for band in SHOWN]
        yield [name, data.years[year], int((data.codes == k).sum()), *shown, float(np.sqrt((sd**2).sum()))]


def _by_kind(data, year, kinds):
    near_infrared = np.asarray(data.values[year][:, :, data.bands.index("B08")], np.float64)
    for k, name in enumerate(data.classes):
        mine = data.codes == k
        for code in np.unique(kinds[mine]):
            share = float((kinds[mine] == code).mean())
            if share >= 0.02:
                values = near_infrared[mine & (kinds == code)]
                kind = SCHEME[int(code)].name
                yield [name, kind, data.years[year], share, float(values.mean()), float(values.std(ddof=1))]


def _components(data, year):
    X = np.asarray(data.values[year][:, 0], np.float64)
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    share = values / values.sum()
    return [float(share[0]), float(share[1]), float(share[:2].sum()), float(share[:3].sum())]


def _dates():
    """What the scene would be like if both years were of 1 June, at the same hour."""
    surface = np.full((10, 100, 100), 0.1, np.float32)
    rows = []
    for year, overpass in OVERPASSES.items():
        moved = replace(overpass, time=overpass.time.replace(month=6, day=1))
        before, after = (observe(surface, each, 0, noise=False) for each in (overpass, moved))
        rows.append(
            [
                str(year),
                f"{overpass.time:%d %B}".lstrip("0"),
                *(sun_position(each.time, LATITUDE, LONGITUDE)[0] for each in (overpass, moved)),
                *(each.true_aod(0) for each in (overpass, moved)),
                float((after["B02"].astype(float) - before["B02"]).mean() / 10_000),
            ]
        )
    caption = (
        "The dates of the scene, and what 1 June at the same hour would change; B02 over a surface of 0.1."
    )
    names = ("sun zenith", "on 1 June", "true optical depth", "with the name of 1 June", "change of B02")
    return Table(
        "dates",
        caption,
        {"year": "", "date": ""} | dict(zip(names, (".1f", ".1f", ".3f", ".3f", "+.4f"), strict=True)),
        rows,
    )
