"""The embedded scene: what is drawn is what is written, and its claims about itself are true."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import rasterio
from scipy import stats

from safe_trees import PRODUCTS, shared
from uncover.measurement import aerosol_optical_depth
from uncover.pipeline import LabelOptions, RealiseOptions, collect_labels, realise_scene
from uncover.raster import open_scene
from uncover.raster.safe_metadata import read_tile
from uncover.studies.landscape import LandscapeOptions, write_scene
from uncover.studies.landscape.acquisition import OVERPASSES, noise_of, sun_position
from uncover.studies.landscape.geography import draw_geography, draw_history
from uncover.studies.landscape.kinds import CLASSES, CROPS, KINDS, TRAINED, class_codes, ukceh_codes
from uncover.studies.landscape.reflectance import (
    BANDS,
    MATERIALS,
    METRES,
    class_gaussian,
    draw_looks,
    majority,
    render,
)
from uncover.studies.landscape.scene import draw_map, lasting_sureness

SIZE = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("scene"), LandscapeOptions(size=SIZE, seed=1))


@pytest.fixture(scope="module")
def land():
    return draw_geography(SIZE, seed=1)


def read(path, band=1):
    with rasterio.open(path) as dataset:
        return dataset.read(band)


def hashes(folder: Path):
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(tmp_path):
    small = [LandscapeOptions(size=60, seed=seed) for seed in (3, 3, 4)]
    first, again, other = (hashes(write_scene(tmp_path / str(i), o).folder) for i, o in enumerate(small))
    assert first == again
    assert all(first[name] != other[name] for name in first if name.endswith(".jp2"))


def test_shares_are_near_those_of_a_lowland_landscape(files):
    share = np.bincount(read(files.truth(2020)).ravel(), minlength=7) / SIZE**2
    near = dict(zip(CLASSES.names, share[1:], strict=True))
    assert 0.10 < near["forest"] < 0.22
    assert 0.28 < near["cropland"] < 0.45
    assert 0.28 < near["grassland"] < 0.45
    assert 0.04 < near["settlements"] < 0.13
    assert 0.02 < near["wetlands"] < 0.08


def test_a_reader_of_products_reads_it_as_any_level_1c_product(files):
    for year in (2020, 2021):
        scene = open_scene(files.product(year))
        assert (scene.level, scene.bands, scene.grid.shape) == ("L1C", BANDS, (SIZE, SIZE))
        assert scene.identity == OVERPASSES[year].datatake
        assert scene.platform == f"Sentinel-{OVERPASSES[year].platform[1:]}"
        block = scene.read()
        assert block.usable.all()
        sun = scene.angles(scene.grid.window).sun_zenith
        assert 29 < sun.min() < sun.max() < 35


@pytest.mark.parametrize("year", [2020, 2021])
def test_correcting_at_the_true_optical_depth_gives_the_surface_back(files, land, year):
    known = files.facts["years"][str(year)]
    options = RealiseOptions(
        aod=known["true_aod"], uncertainty=0.0, draws=1,
        water_vapour=known["water_vapour_cm"], ozone=known["ozone_du"],
    )  # fmt: skip
    scene = open_scene(files.product(year))
    found, measured = realise_scene(scene, options).read().values[0], scene.read().reflectance
    looks = draw_looks(land, draw_history(land, 1).of(year), year, 1)
    truth = render(land, looks, year, 1)
    for band, plane, toa, surface in zip(BANDS, found, measured, truth, strict=True):
        if METRES[band] == 20:
            squares = surface.reshape(SIZE // 2, 2, SIZE // 2, 2).mean((1, 3))
            surface = np.repeat(np.repeat(squares, 2, 0), 2, 1)
        difference = plane - surface
        # Haze takes contrast away; correcting for it magnifies the noise as much as the contrast.
        noise = np.sqrt((noise_of(band, toa) ** 2).mean() + 1e-8 / 12) * plane.std() / toa.std()
        assert abs(difference.mean()) < 3e-4, band
        assert difference.std() == pytest.approx(noise, rel=0.08), band


def test_the_optical_depth_is_off_by_as_much_as_is_stated():
    overpass = OVERPASSES[2020]
    true = [overpass.true_aod(seed) for seed in range(300)]
    stated = aerosol_optical_depth(overpass.reported_aod)
    u, mean = stated.standard_uncertainty, stated.estimate
    expected = stats.truncnorm(-mean / u, np.inf, mean, u)
    assert stats.kstest(true, expected.cdf).pvalue > 0.01


def test_the_sun_stands_where_a_real_product_says():
    folder = shared("s2_metadata") / PRODUCTS["L1C_03.01"]
    tile = read_tile(next(folder.glob("GRANULE/*/MTD_TL.xml")).read_bytes(), "tile")
    corner = tile.angles(BANDS).sun.at(np.array([tile.origin[0]]), np.array([tile.origin[1]]))
    zenith, azimuth = sun_position(tile.sensing_time, 28.02, 93.0)  # corner of tile 46RER
    assert zenith == pytest.approx(corner[0][0], abs=0.03)
    assert azimuth == pytest.approx(corner[1][0], abs=0.1)


def test_the_truth_of_a_pixel_is_what_covers_most_of_it(land):
    kinds = draw_history(land, 1).of(2020)
    best, kind, share = majority(land, kinds)
    fine = class_codes()[np.concatenate([kinds, kinds])[land.surface]]
    for row, col in np.random.default_rng(0).integers(0, SIZE, (300, 2)):
        counts = np.bincount(fine[2 * row : 2 * row + 2, 2 * col : 2 * col + 2].ravel(), minlength=7)
        assert counts[best[row, col]] == counts.max()
        assert share[row, col] == counts.max() / 4
    np.testing.assert_array_equal(class_codes()[kind], best)


def test_crops_rotate_and_little_land_changes_its_class(files, land):
    history = draw_history(land, 1)
    before, after = history.of(2020), history.of(2021)
    both = np.isin(before, CROPS) & np.isin(after, CROPS)
    assert (before[both] != after[both]).mean() > 0.5
    changed = (read(files.truth(2020)) != read(files.truth(2021))).mean()
    assert 0 < changed < 0.03
    fixed = class_codes()[draw_history(land, 1, change=False).kinds]
    assert (fixed == fixed[0]).all()


def test_earlier_maps_are_as_often_right_as_they_say(land):
    _, kinds, share = majority(land, land.kind)
    right, stated = [], []
    for year in range(8):
        codes, percent = draw_map(kinds, share, lasting_sureness(SIZE, year), 2018, seed=year)
        right.append(codes == ukceh_codes()[kinds])
        stated.append(percent / 100)
    right, stated = np.stack(right), np.stack(stated)
    for low, high in [(0.5, 0.7), (0.7, 0.85), (0.85, 0.95), (0.95, 1.0)]:
        bin_ = (stated > low) & (stated <= high)
        assert right[bin_].mean() == pytest.approx(stated[bin_].mean(), abs=0.03), (low, high)


def test_labels_are_few_and_nearly_all_right_and_never_wetlands(files):
    maps = [str(path) for path in files.previous_maps(2020)]
    labels = collect_labels(maps, [f"{m}:2" for m in maps], LabelOptions(scheme=files.scheme)).codes
    chosen = labels > 0
    assert 0.015 < chosen.mean() < 0.1  # 0.047 at full size: 190,000 of 4 million
    assert set(np.unique(labels[chosen])) == {CLASSES.code_of(name) for name in TRAINED}
    assert (labels == read(files.truth(2020)))[chosen].mean() > 0.97


@pytest.fixture(scope="module")
def gaussian(tmp_path_factory):
    return write_scene(tmp_path_factory.mktemp("gaussian"), LandscapeOptions(200, 0, "well-specified"))


def test_well_specified_classes_are_gaussian_as_said(gaussian):
    known = gaussian.facts["years"]["2021"]
    options = RealiseOptions(
        aod=known["true_aod"], uncertainty=0.0, draws=1,
        water_vapour=known["water_vapour_cm"], ozone=known["ozone_du"],
    )  # fmt: skip
    values = realise_scene(open_scene(gaussian.product(2021)), options).read().values[0]
    truth = read(gaussian.truth(2021))
    corner = truth[::2, ::2]
    for i, j in ((0, 1), (1, 0), (1, 1)):
        np.testing.assert_array_equal(corner, truth[i::2, j::2])  # no square of 20 m is mixed
    for name in ("cropland", "grassland"):
        mean, covariance = class_gaussian(name)
        found = values[:, ::2, ::2][:, corner == CLASSES.code_of(name)].T.astype(float)
        z = np.linalg.solve(np.linalg.cholesky(covariance), (found - mean).T)
        error = 1 / np.sqrt(found.shape[0])
        np.testing.assert_allclose(z.mean(1), 0, atol=5 * error)
        np.testing.assert_allclose(np.cov(z), np.eye(10), atol=7 * error)
    np.testing.assert_array_equal(truth, read(gaussian.truth(2020)))


def test_spectra_are_physical():
    for name, material in MATERIALS.items():
        assert len(material) == len(BANDS), name
        assert 0 < min(material) < max(material) < 0.7, name
    red, infrared = BANDS.index("B04"), BANDS.index("B08")
    for name in ("broadleaf trees", "conifers", "green cereals", "improved grass"):
        assert MATERIALS[name][infrared] > 5 * MATERIALS[name][red]


def test_every_spectrum_is_on_its_page_with_its_source():
    page = (Path(__file__).parents[2] / "docs" / "embedded-scene.md").read_text(encoding="utf-8")
    page = " ".join(page.split())  # wherever lines are broken
    for name, material in MATERIALS.items():
        numbers = " | ".join(f"{value:.3f}" for value in material)
        source, remark = page.split(f"| {name} | {numbers} | ")[1].split(" | ")[:2]
        assert f"- **{source}**: " in page and remark.rstrip(" |"), name
    assert all(kind.name in page for kind in KINDS)


@pytest.mark.parametrize(("options", "said"), [({"size": 58}, "60 to 3000"), ({"seed": -1}, "0 or more")])
def test_scenes_that_cannot_be_made_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        LandscapeOptions(**options)
