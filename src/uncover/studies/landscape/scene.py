"""The embedded scene as files: two Level-1C products, earlier land cover maps, and the truth.

The maps are as an agency makes them: mostly right, and saying how sure they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter
from scipy.special import expit, ndtr

from uncover import __version__
from uncover.bayes.streams import stream
from uncover.engines.threads import in_order
from uncover.files import read_json, typed
from uncover.measurement import aerosol_optical_depth
from uncover.pipeline import write_labels
from uncover.raster.grid import Grid
from uncover.studies.landscape.acquisition import (
    CRS,
    LATITUDE,
    LONGITUDE,
    ORIGIN,
    OVERPASSES,
    Overpass,
    observe,
    sun_position,
    write_product,
    write_raster,
)
from uncover.studies.landscape.fields import Field, smooth_field, texture
from uncover.studies.landscape.geography import (
    MAPPED,
    PIXEL,
    YEARS,
    Geography,
    History,
    draw_geography,
    draw_history,
)
from uncover.studies.landscape.kinds import CLASSES, CODE, KINDS, SCHEME, ukceh_codes
from uncover.studies.landscape.reflectance import (
    draw_looks,
    gaussian_reflectance,
    majority,
    pure_land,
    render,
)
from uncover.studies.landscape.seasons import (
    CLOUD,
    FEWEST,
    MOST,
    SHADOW,
    cover_with_clouds,
    overpass_at,
    season_numbers,
    stages_at,
)

#: What a map takes one UKCEH class for where it is wrong, with equal chances.
MISTAKEN = {
    1: (2, 5, 21), 2: (1, 1, 5), 3: (4, 4, 5, 20), 4: (3, 3, 5, 21), 5: (4, 4, 8, 3, 1),
    8: (5, 5, 14), 14: (8, 2), 20: (21, 21, 3), 21: (20, 4, 1),
}  # fmt: skip
#: Log-odds of being right in the middle of a large field, by kind: fen and rough grass are hard, woods easy.
SURENESS = {
    "broadleaved trees": 2.25, "conifers": 2.45,
    "bare soil": 2.05, "winter cereals": 2.3, "oilseed rape": 2.45, "spring crops": 2.15,
    "root crops and maize": 2.05,
    "improved grass": 2.38, "rough grass": 1.78, "cut grass": 2.08,
    "fen": 1.0, "river": 2.0, "lake": 3.0,
    "roofs": 2.3, "asphalt and paving": 2.0, "gardens": 2.1, "building sites": 1.0,
}  # fmt: skip
LASTING, YEARLY, GRAIN = 0.75, 0.55, 0.35  # spread of the log-odds: of places, of a year's maps, of pixels
MIXED = 4.0  # log-odds lost where all the ground around is another class's


def lasting_sureness(size: int, seed: int) -> Field:
    """Log-odds, the same for all maps, that make a place easy or hard to map in every year."""
    rng = stream(seed, "landscape", "previous maps")
    return np.asarray(LASTING * smooth_field(rng, size, 10.0 * size, _patch(260, size)), np.float32)


def _patch(metres: float, size: int) -> float:
    """Size of patches that are easy or hard to map: less in small scenes, so that each has some of both."""
    return min(metres, 10.0 * size / 14)


def draw_map(
    kinds: NDArray[np.uint8], share: Field, lasting: Field, year: int, seed: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """UKCEH codes and percent of one year, from the kinds of that year and the share of each pixel's class.

    The percent are honest: a pixel that says 90 is wrong in one of ten cases, and mistakes come in patches.
    """
    size = len(kinds)
    rng = stream(seed, "landscape", "previous maps", year)
    odds = _sureness()[kinds] + lasting + YEARLY * smooth_field(rng, size, 10.0 * size, _patch(180, size))
    odds -= MIXED * (1 - uniform_filter(share, 3, mode="nearest"))
    odds += GRAIN * rng.standard_normal((size, size), dtype=np.float32)
    probability = expit(odds)
    # A field of patches, made uniform by its own distribution: wrong where it passes the probability.
    wrong = ndtr(texture(rng, size, 3.0, 0.8)) > probability
    codes = ukceh_codes()[kinds]
    right = codes.copy()
    luck = rng.integers(0, 60, (size, size), dtype=np.uint8)
    for code, others in MISTAKEN.items():
        mine = wrong & (right == code)
        codes[mine] = np.array(others, np.uint8)[luck[mine] % len(others)]
    return codes, np.clip(np.rint(100 * probability), 1, 100).astype(np.uint8)


def sure_map(kinds: NDArray[np.uint8], seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """A map without mistakes that is sure of one pixel in half of the squares of 20 m, whatever their class.

    One, because the pixels of a square share what bands of 20 m measured: two would count it twice.
    """
    rng = stream(seed, "landscape", "sure pixels")
    rows, cols = np.nonzero(rng.random((len(kinds) // 2, len(kinds) // 2)) < 0.5)
    percent = np.full(kinds.shape, 50, np.uint8)
    corner = rng.integers(0, 2, (2, len(rows)))
    percent[2 * rows + corner[0], 2 * cols + corner[1]] = 99
    return ukceh_codes()[kinds], percent


def _sureness() -> NDArray[np.float32]:
    table = np.zeros(256, np.float32)
    for kind in KINDS:
        table[CODE[kind.name]] = SURENESS[kind.name]
    return table


Mode = Literal["realistic", "well-specified"]
Progress = Callable[[int, int], None]  # parts done, parts in all

FORMAT = 2  # of the scene's files; a change makes scenes anew
FULL_SIZE = 2000
SMALLEST = 60


@dataclass(frozen=True)
class LandscapeOptions:
    """Options of the scene to make.

    The mode "well-specified" is for tests of calibration: classes are Gaussian, pixels pure, earlier maps
    without mistakes, nothing changes, and both years look the same from the ground.

    >>> LandscapeOptions(size=41)
    Traceback (most recent call last):
    ...
    ValueError: a scene of 41 pixels a side cannot be made; give an even number from 60 to 3000
    """

    size: int = FULL_SIZE  # pixels of 10 m along a side; 2,000 are 20 km
    seed: int = 0  # decides everything: the same seed and versions give the same bytes
    mode: Mode = "realistic"
    dates: int = 0  # further products of 2020, at so many dates from March to October; 4 to 8, or none
    clouds: float = 0.4  # mean share of these that is cloudy

    def __post_init__(self) -> None:
        if self.size % 2 or not SMALLEST <= self.size <= 3000:
            raise ValueError(
                f"a scene of {self.size} pixels a side cannot be made; "
                f"give an even number from {SMALLEST} to 3000"
            )
        if self.dates and not FEWEST <= self.dates <= MOST:
            raise ValueError(f"{self.dates} dates cannot be made; give {FEWEST} to {MOST}, or 0 for none")
        if self.dates and self.mode != "realistic":
            raise ValueError("a well-specified scene has no seasons; leave out its dates")
        if not 0 <= self.clouds <= 0.9:
            raise ValueError(f"the share of clouds is {self.clouds:g}; give 0 to 0.9")
        if self.seed < 0:
            raise ValueError(f"the seed is {self.seed}; it is 0 or more")


class _Product(TypedDict):
    product: str


class _Facts(TypedDict):
    years: dict[str, _Product]
    series: NotRequired[list[_Product]]


@dataclass(frozen=True)
class SceneFiles:
    """Where the files of a scene are, and what is known of it."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> SceneFiles:
        """A scene that was written before."""
        path = Path(folder)
        facts = read_json(path / "scene.json", dict[str, Any])
        typed(facts, _Facts, path / "scene.json")
        return cls(path, facts)

    def product(self, year: int) -> Path:
        """The Level-1C product of a year."""
        if str(year) not in self.facts["years"]:
            raise ValueError(f"{self.folder / 'scene.json'} lists no product of {year}; make the scene again")
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
    def series(self) -> list[Path]:
        """Products of several dates of 2020, in order of time; none where none were asked for."""
        return [self.folder / "series" / str(facts["product"]) for facts in self.facts.get("series", ())]

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
    say = progress or (lambda done, total: None)
    total = 2 + len(MAPPED) + options.dates
    (path / "previous-maps").mkdir(parents=True, exist_ok=True)
    land = draw_geography(options.size, options.seed)
    gaussian = options.mode == "well-specified"
    if gaussian:
        land = pure_land(land)
    history = draw_history(land, options.seed, change=not gaussian)
    say(1, total)
    list(in_order(lambda year: _write_ground(path, land, history, year, options), YEARS))
    say(2, total)
    years = {}
    for done, year in enumerate(MAPPED, start=3):
        years[str(year)] = _write_year(path, land, history, OVERPASSES[year], options)
        say(done, total)
    series = []
    for done, number in enumerate(season_numbers(options.dates), start=3 + len(MAPPED)):
        series.append(_write_date(path / "series", land, history, number, options))
        say(done, total)
    facts = {
        "title": "The embedded scene of uncover: simulated, of no real place",
        "format": FORMAT,
        "version": __version__,
        "numpy": np.__version__,
        **asdict(options),
        "pixel_metres": PIXEL,
        "years": years,
        **({"series": series} if series else {}),
    }
    (path / "scene.json").write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    return SceneFiles(path, facts)


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
    return _facts_of(overpass, product, seed)


def _write_date(
    path: Path, land: Geography, history: History, number: int, options: LandscapeOptions
) -> dict[str, Any]:
    """One date of the first mapped year: its product, and its clouds and shadows."""
    overpass, seed = overpass_at(number, MAPPED[0]), options.seed
    looks = draw_looks(land, history.of(overpass.year), overpass.name, seed, stages_at(number))
    surface = render(land, looks, overpass.year, seed, overpass.name)
    sun = sun_position(overpass.time, LATITUDE, LONGITUDE)
    codes = cover_with_clouds(surface, overpass, number, options.clouds, seed, sun)
    product = write_product(path, observe(surface, overpass, seed), overpass, codes == CLOUD)
    write_raster(path / f"clouds-{overpass.name}.tif", {"SCL": codes}, PIXEL, compress="deflate")
    hidden = {"cloud": CLOUD, "shadow": SHADOW}
    shares = {name: round(float((codes == code).mean()), 4) for name, code in hidden.items()}
    return {"date": overpass.name, **shares, **_facts_of(overpass, product, seed)}


def _facts_of(overpass: Overpass, product: Path, seed: int) -> dict[str, Any]:
    """Facts of a product that a user knows, and the optical depth that nobody does."""
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
    planes = {"class": codes, "probability in percent": percent}  # as UKCEH has them
    tiles: dict[str, Any] = {"tiled": True, "blockxsize": 512, "blockysize": 512}
    file = path / "previous-maps" / f"lcm{year}.tif"
    write_raster(file, planes, PIXEL, nodata=0, compress="deflate", zlevel=1, **tiles)


def _write_truth(path: Path, year: int, classes: NDArray[np.uint8], kinds: NDArray[np.uint8]) -> None:
    size = len(classes)
    grid = Grid(CRS, (PIXEL, 0, ORIGIN[0], 0, -PIXEL, ORIGIN[1]), width=size, height=size)
    write_labels(path / f"truth-{year}.tif", classes, grid, CLASSES)
    write_labels(path / f"truth-{year}-kinds.tif", kinds, grid, SCHEME)
