"""The embedded scene as files: two Level-1C products, earlier land cover maps, and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncover import __version__
from uncover.measurement import aerosol_optical_depth
from uncover.pipeline import write_labels
from uncover.raster.grid import Grid
from uncover.studies.landscape.acquisition import CRS, ORIGIN, OVERPASSES, Overpass, observe
from uncover.studies.landscape.gaussian import gaussian_reflectance, pure_land
from uncover.studies.landscape.geography import PIXEL, Geography, draw_geography
from uncover.studies.landscape.kinds import CLASSES, SCHEME
from uncover.studies.landscape.previous_maps import draw_map, lasting_sureness, sure_map, write_map
from uncover.studies.landscape.reflectance import majority, render
from uncover.studies.landscape.safe_writer import write_product
from uncover.studies.landscape.stages import draw_looks
from uncover.studies.landscape.years import MAPPED, YEARS, History, draw_history

Mode = Literal["realistic", "well-specified"]
Progress = Callable[[int, int], None]  # parts done, parts in all

FORMAT = 2  # of the scene's files; a change makes scenes anew
FULL_SIZE = 2000
SMALLEST = 60


@dataclass(frozen=True)
class LandscapeOptions:
    """Options of the scene to make.

    size
        Pixels of 10 m along a side; 2,000 are 20 km.
    seed
        Decides everything: the same seed and versions give the same bytes.
    mode
        "realistic", or "well-specified" for tests of calibration: classes are Gaussian, pixels pure, earlier
        maps without mistakes, nothing changes, and both years look the same from the ground.

    >>> LandscapeOptions().size
    2000
    >>> LandscapeOptions(size=41)
    Traceback (most recent call last):
    ...
    ValueError: a scene of 41 pixels a side cannot be made; give an even number from 60 to 3000
    """

    size: int = FULL_SIZE
    seed: int = 0
    mode: Mode = "realistic"

    def __post_init__(self) -> None:
        if self.size % 2 or not SMALLEST <= self.size <= 3000:
            raise ValueError(
                f"a scene of {self.size} pixels a side cannot be made; "
                f"give an even number from {SMALLEST} to 3000"
            )
        if self.seed < 0:
            raise ValueError(f"the seed is {self.seed}; it is 0 or more")


@dataclass(frozen=True)
class SceneFiles:
    """Where the files of a scene are, and what is known of it."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> SceneFiles:
        """A scene that was written before."""
        path = Path(folder)
        return cls(path, json.loads((path / "scene.json").read_text("utf-8")))

    def product(self, year: int) -> Path:
        """The Level-1C product of a year."""
        return self.folder / str(year) / str(self.facts["years"][str(year)]["product"])

    def truth(self, year: int) -> Path:
        """Class of every pixel."""
        return self.folder / f"truth-{year}.tif"

    def kinds(self, year: int) -> Path:
        """Kind of ground of every pixel."""
        return self.folder / f"truth-{year}-kinds.tif"

    def previous_maps(self, year: int) -> list[Path]:
        """Land cover maps of the three years before."""
        return [self.folder / "previous-maps" / f"lcm{before}.tif" for before in range(year - 3, year)]

    @property
    def scheme(self) -> str:
        """The translation table for the previous maps: fen and fresh water get no label."""
        return "ukceh-study"


def write_scene(
    folder: str | Path, options: LandscapeOptions | None = None, progress: Progress | None = None
) -> SceneFiles:
    """Make a scene and write its files into a folder, `scene.json` last.

    >>> import tempfile
    >>> files = write_scene(tempfile.mkdtemp(), LandscapeOptions(size=60))
    >>> files.product(2020).name[:11], [path.name for path in files.previous_maps(2020)]
    ('S2A_MSIL1C_', ['lcm2017.tif', 'lcm2018.tif', 'lcm2019.tif'])
    """
    options = options or LandscapeOptions()
    path = Path(folder)
    done = _Parts(progress, 2 + len(MAPPED))
    (path / "previous-maps").mkdir(parents=True, exist_ok=True)
    land = draw_geography(options.size, options.seed)
    gaussian = options.mode == "well-specified"
    if gaussian:
        land = pure_land(land)
    history = draw_history(land, options.seed, change=not gaussian)
    done.one_more()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda year: _write_ground(path, land, history, year, options), YEARS))
    done.one_more()
    years = {}
    for year in MAPPED:
        years[str(year)] = _write_year(path, land, history, OVERPASSES[year], options)
        done.one_more()
    facts = {
        "title": "The embedded scene of uncover: simulated, of no real place",
        "format": FORMAT,
        "version": __version__,
        "numpy": np.__version__,
        **asdict(options),
        "pixel_metres": PIXEL,
        "years": years,
    }
    (path / "scene.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    return SceneFiles(path, facts)


class _Parts:
    """Counts what is done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def one_more(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


def _write_year(
    path: Path, land: Geography, history: History, overpass: Overpass, options: LandscapeOptions
) -> dict[str, Any]:
    kinds, seed = history.of(overpass.year), options.seed
    if options.mode == "well-specified":
        surface = gaussian_reflectance(majority(land, kinds)[0], overpass.year, seed)
    else:
        surface = render(land, draw_looks(land, kinds, overpass.year, seed), overpass.year, seed)
    numbers = observe(surface, overpass, seed, noise=options.mode == "realistic")
    product = write_product(path / str(overpass.year), numbers, overpass)
    stated = aerosol_optical_depth(overpass.reported_aod)
    return {
        "product": product.name,
        "datatake": overpass.datatake,
        "reported_aod": overpass.reported_aod,
        "aod_standard_uncertainty": round(stated.standard_uncertainty, 6),
        "true_aod": round(overpass.true_aod(seed), 6),
        "water_vapour_cm": overpass.water_vapour,
        "ozone_du": overpass.ozone,
    }


def _write_ground(
    path: Path, land: Geography, history: History, year: int, options: LandscapeOptions
) -> None:
    """Truth of a year that is mapped, and the map that was made of every year but the last."""
    classes, kinds, share = majority(land, history.of(year))
    if year in MAPPED:
        _write_truth(path, year, classes, kinds)
    if year == YEARS[-1]:
        return
    if options.mode == "well-specified":
        codes, percent = sure_map(kinds, options.seed)
    else:
        lasting = lasting_sureness(options.size, options.seed)
        codes, percent = draw_map(kinds, share, lasting, year, options.seed)
    write_map(path / "previous-maps" / f"lcm{year}.tif", codes, percent, CRS, ORIGIN)


def _write_truth(path: Path, year: int, classes: NDArray[np.uint8], kinds: NDArray[np.uint8]) -> None:
    size = len(classes)
    grid = Grid(CRS, (PIXEL, 0, ORIGIN[0], 0, -PIXEL, ORIGIN[1]), width=size, height=size)
    write_labels(path / f"truth-{year}.tif", classes, grid, CLASSES)
    write_labels(path / f"truth-{year}-kinds.tif", kinds, grid, SCHEME)
