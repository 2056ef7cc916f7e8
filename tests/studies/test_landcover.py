"""The land cover study: which pixels train and test, sample tables and cubes, and bad ones."""

import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from label_maps import GRID, write_map
from study_cases import BANDS, CLASSES, pixel_table
from uncover.raster import CubeBlock, CubeLayout, write_cube
from uncover.studies.landcover import (
    FRACTIONS,
    LandCoverSplit,
    LandCoverStudy,
    description_tables,
    land_cover_models,
)
from uncover.studies.landcover_data import LandCoverData, nested_order, read_data


def written(frame, path):
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path


# ---- training and test pixels --------------------------------------------------------------------------


def test_training_sets_are_nested_and_the_test_set_is_fixed(rng):
    codes = rng.choice(5, 20_000, p=[0.5, 0.3, 0.15, 0.049, 0.001])
    split = LandCoverSplit.of(codes, seed=0)
    assert tuple(split.training) == FRACTIONS
    assert [len(rows) for rows in split.training.values()] == [20, 100, 200, 1000, 2000]
    sets = [set(rows.tolist()) for rows in split.training.values()]
    assert all(small < large for small, large in pairwise(sets))
    assert len(split.test) == 18_000 and not sets[-1] & set(split.test.tolist())
    for rows in split.training.values():
        assert len(np.unique(codes[rows])) == 5
    shares = np.bincount(codes[split.training[0.1]]) / 2000
    assert_allclose(shares, np.bincount(codes) / 20_000, atol=1e-3)
    assert set(np.unique(codes[split.test])) == set(range(5))


def test_another_seed_draws_other_pixels(rng):
    codes = rng.integers(4, size=1000)
    a, b, again = (LandCoverSplit.of(codes, seed).training[0.1] for seed in (0, 1, 0))
    assert_array_equal(a, again)
    assert len(set(a) & set(b)) < 30


def test_sizes_with_fewer_pixels_than_classes_are_left_out(rng):
    assert list(LandCoverSplit.of(rng.integers(4, size=900), 0).training) == [0.005, 0.01, 0.05, 0.1]


def test_every_pixel_is_as_likely_as_any_other_of_its_class():
    codes = np.repeat([0, 1], [30, 10])
    taken = np.zeros(40)
    for seed in range(600):
        taken[nested_order(codes, np.random.default_rng(seed))[:8]] += 1
    for mine in (taken[:30], taken[30:]):
        assert mine.min() > 0.6 * mine.mean() and mine.max() < 1.4 * mine.mean()


# ---- tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_two_years_is_read_pixel_by_pixel(tmp_path, suffix):
    frame = pixel_table()
    data = read_data([written(frame.sample(frac=1, random_state=0), tmp_path / f"pixels{suffix}")])
    assert (data.years, data.classes, data.bands) == (("2020", "2021"), CLASSES, BANDS)
    assert (data.pixels, data.realisations) == (240, 2)
    for year, values in zip(data.years, data.values, strict=True):
        rows = frame[(frame["date"] == int(year)) & (frame["realisation"] == 1)].set_index("sample")
        names = _names_of(data, rows)
        assert_allclose(values[:, 1], rows.loc[names, list(BANDS)], rtol=1e-12)
    assert_allclose(data.shares, frame["class"].value_counts(normalize=True)[list(CLASSES)])


def _names_of(data, rows):
    """Samples in the order of the data, found by their first band."""
    by_value = {round(value, 9): name for name, value in rows["B02"].items()}
    at = data.years.index(str(rows["date"].iloc[0]))
    return [by_value[round(float(value), 9)] for value in data.values[at][:, 1, 0]]


def test_pixels_that_change_or_vanish_are_left_out(tmp_path):
    frame = pixel_table(realisations=1)
    later = frame["date"] == 2021
    frame.loc[later & (frame["sample"] == 0), "class"] = "forest"  # it was cropland
    frame = frame[~(later & (frame["sample"] == 5))]
    data = read_data([written(frame, tmp_path / "pixels.csv")])
    assert data.pixels == 238
    assert "238 of 239 pixels have the same class in every year" in data.notes[0]
    assert "1 pixels of the first year are missing" in data.notes[1]


def test_a_table_for_each_year_is_the_same_study(tmp_path):
    frame = pixel_table()
    both = read_data([written(frame, tmp_path / "pixels.csv")])
    parts = [written(part, tmp_path / f"{year}.csv") for year, part in frame.groupby("date")]
    apart = read_data(parts)
    assert apart.years == both.years
    for a, b in zip(apart.values, both.values, strict=True):
        assert_array_equal(a, b)


def test_a_plain_table_is_one_date_without_realisations(tmp_path):
    frame = pixel_table(years=(2020,), realisations=1).drop(columns=["date", "realisation", "sample"])
    data = read_data([written(frame, tmp_path / "pixels.csv")])
    assert (data.years, data.realisations) == (("",), 1)
    assert "BQDA shared" not in land_cover_models(1)


def test_polygons_are_drawn_together(tmp_path):
    frame = pixel_table(years=(2020,), realisations=1)
    frame["polygon"] = frame["sample"] // 10
    data = read_data([written(frame.drop(columns="realisation"), tmp_path / "pixels.csv")])
    assert_array_equal(np.bincount(data.groups), 10)


def test_groups_decide_a_study(tmp_path):
    """Other groups are another study; without groups the checksum is that of pixels and classes."""
    frame = pixel_table(years=(2020,), realisations=1).drop(columns=["realisation", "sample"])
    frame["ID"] = np.arange(len(frame)) // 10
    frame.columns = [*BANDS, "date", "class", "area"]
    plain = read_data([written(frame, tmp_path / "pixels.csv")])
    grouped, other = (
        read_data([written(frame.assign(area=frame["area"] // n).rename(columns={"area": "polygon"}),
                           tmp_path / "pixels.csv")])
        for n in (1, 2)
    )  # fmt: skip
    sums = [LandCoverStudy.of(data, "quick", 0).facts["checksum"] for data in (plain, grouped, other)]
    assert len(set(sums)) == 3
    content = plain.codes.tobytes() + plain.values[0].tobytes()
    assert sums[0] == hashlib.sha256(content).hexdigest()


def test_scales_limit_pixels_and_realisations(rng):
    codes = np.repeat([0, 1, 2], [900, 95, 5])
    data = LandCoverData("x", ("a",), (rng.random((1000, 6, 2)),), codes, ("p", "q", "r"), ("B02", "B03"))
    small = data.limited(100, 2, seed=0)
    assert (small.pixels, small.realisations, len(small.notes)) == (100, 2, 2)
    assert np.bincount(small.codes).tolist()[2] == 5
    assert data.limited(None, None, seed=0).notes == ()


# ---- bad tables ----------------------------------------------------------------------------------------


def _missing_band(frame):
    frame.loc[frame["date"] == 2021, "B08"] = np.nan
    return frame


def _class_of_one_year(frame):
    frame.loc[(frame["date"] == 2021) & (frame["class"] == "settlements"), "class"] = "forest"
    return frame


def _too_few(frame):
    return frame[frame["sample"].isin([*frame.groupby("class")["sample"].first(), 1, 2, 3])]


def _uneven_realisations(frame):
    return frame[~((frame["date"] == 2021) & (frame["realisation"] == 1) & (frame["sample"] == 3))]


def _sample_twice(frame):
    frame.loc[frame["sample"] == 1, "sample"] = 0
    return frame[frame["realisation"] == 0].drop(columns="realisation")


def _no_bands(frame):
    return frame.drop(columns=list(BANDS))


BAD = {
    "pixels.csv: 480 of 960 rows have no value for B08; every row needs all bands": _missing_band,
    "pixels.csv: class 'settlements' occurs in 2020 only": _class_of_one_year,
    "10 % of them, 1, are for training, and there are 4 classes; give at least 40": _too_few,
    "has 1 rows and there are 2 realisations; every sample needs one row of each": _uneven_realisations,
    "sample 0 occurs 2 times in 2020": _sample_twice,
    "has no column of measurements": _no_bands,
}


@pytest.mark.parametrize("message", BAD)
def test_bad_tables_are_one_clear_line_and_leave_nothing(tmp_path, message):
    from click.testing import CliRunner

    from uncover.cli import main

    file = written(BAD[message](pixel_table()), tmp_path / "pixels.csv")
    arguments = ["reproduce", "landcover", "--data", str(file), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ") and len(result.stderr.splitlines()) == 1
    assert message in result.stderr
    assert not (tmp_path / "out").exists()


def test_no_file_of_several_is_lost(tmp_path):
    frame = pixel_table()
    files = []
    for year in ("2020", "2021"):
        (tmp_path / year).mkdir()
        files.append(written(frame, tmp_path / year / "pixels.csv"))
    with pytest.raises(ValueError, match="several files called pixels"):
        read_data(files)
    with pytest.raises(ValueError, match="--labels came with tables"):
        read_data(files[:1], "labels.tif")


def test_bands_of_another_order_are_put_in_order(tmp_path):
    frame = pixel_table()
    both = read_data([written(frame, tmp_path / "pixels.csv")])
    first, last = (frame[frame["date"] == year] for year in (2020, 2021))
    turned = last[[*BANDS[::-1], "sample", "realisation", "class"]]
    apart = read_data([written(first, tmp_path / "2020.csv"), written(turned, tmp_path / "2021.csv")])
    assert apart.bands == BANDS
    for a, b in zip(apart.values, both.values, strict=True):
        assert_array_equal(a, b)


def test_groups_of_any_year_count(tmp_path):
    frame = pixel_table(realisations=1)
    frame["polygon"] = frame["sample"] // 10
    first, last = (frame[frame["date"] == year] for year in (2020, 2021))
    files = [
        written(first.drop(columns="polygon"), tmp_path / "2020.csv"),
        written(last, tmp_path / "2021.csv"),
    ]
    assert_array_equal(np.bincount(read_data(files).groups), 10)


def test_pixels_that_cannot_be_matched_are_refused(tmp_path):
    frame = pixel_table(pixels=120, realisations=1).drop(columns="realisation")
    first, last = (frame[frame["date"] == year] for year in (2020, 2021))
    unnamed = last.drop(columns="sample")
    wrong = {
        "2020 has 120 pixels and 2021 has 115, so that their order": (
            first.drop(columns="sample"), unnamed.iloc[5:]
        ),
        "only one names its pixels in a column 'sample'": (first, unnamed),
        "no sample of 2020 is in 2021": (first, last.assign(sample=last["sample"] + 1000)),
        "2021.csv has rows of 2 dates": (first, frame),
    }  # fmt: skip
    for message, years in wrong.items():
        files = [written(part, tmp_path / f"{2020 + i}.csv") for i, part in enumerate(years)]
        with pytest.raises(ValueError, match=message):
            read_data(files)
    for column in ("date", "sample"):
        holed = frame.assign(**{column: frame[column].where(frame.index > 0)})
        with pytest.raises(ValueError, match=f"1 of 240 rows have no value in the column '{column}'"):
            read_data([written(holed, tmp_path / "a.csv")])
    files = [
        written(part.drop(columns="sample"), tmp_path / f"{n}.csv") for n, part in ((1, first), (2, last))
    ]
    assert read_data(files).pixels == 120


def test_years_that_differ_in_realisations_are_refused(tmp_path):
    files = [
        written(pixel_table(realisations=r, years=(year,)), tmp_path / f"{year}.csv")
        for year, r in ((2020, 2), (2021, 3))
    ]
    with pytest.raises(ValueError, match="2020 has 2 realisations and 2021 has 3"):
        read_data(files)


# ---- cubes ---------------------------------------------------------------------------------------------


def write_years(folder, codes, realisations=(3, 3), cloudy=()):
    """A cube for each year whose band i of realisation r is code + 10·r + i."""
    paths = []
    for year, n in zip((2020, 2021), realisations, strict=True):
        layout = CubeLayout(GRID, ("B02", "B03", "B04"), n, identity=str(year))

        def produce(window, n=n, year=year):
            here = codes[window.slices]
            r, i = np.arange(n)[:, None, None, None], np.arange(3)[None, :, None, None]
            values = (here + 10 * r + i).astype(np.float32)
            quality = np.zeros(here.shape, np.uint16)
            if year in cloudy:
                quality[:10] = 4
            return CubeBlock(window, values, quality)

        write_cube(folder / f"{year}.zarr", layout, produce)
        paths.append(folder / f"{year}.zarr")
    return paths


@pytest.mark.filterwarnings("ignore:.*codes 0 .* are taken to be no class")
def test_cubes_are_read_where_they_are_labelled_and_usable(tmp_path, rng):
    codes = rng.integers(0, 4, GRID.shape).astype(np.uint8)
    labels = write_map(tmp_path / "labels.tif", codes)
    paths = write_years(tmp_path, codes, cloudy=(2021,))
    data = read_data(paths, str(labels))
    usable = (codes > 0) & (np.arange(GRID.height) >= 10)[:, None]
    assert (data.years, data.pixels, data.realisations) == (("2020", "2021"), usable.sum(), 3)
    truth = codes[usable]
    assert_array_equal(data.codes, truth - 1)
    for values in data.values:
        assert_array_equal(values[:, 2, 1], truth + 20 + 1)
    assert data.picture.rgb.shape == (*GRID.shape, 3)
    assert_array_equal(data.picture.labels, np.where(usable, codes.astype(int) - 1, -1))
    assert len(np.unique(data.groups)) == 2  # 45 × 60 pixels: blocks of 50 × 50


@pytest.mark.filterwarnings("ignore:.*codes 0 .* are taken to be no class")
def test_cubes_with_bands_of_another_order_are_put_in_order(tmp_path, rng):
    codes = rng.integers(0, 4, GRID.shape).astype(np.uint8)
    labels = write_map(tmp_path / "labels.tif", codes)
    paths = write_years(tmp_path, codes)
    turned = CubeLayout(GRID, ("B04", "B02", "B03"), 3, identity="turned")

    def produce(window):
        r, i = np.arange(3)[:, None, None, None], np.array([2, 0, 1])[None, :, None, None]
        values = (codes[window.slices] + 10 * r + i).astype(np.float32)
        return CubeBlock(window, values, np.zeros(values.shape[2:], np.uint16))

    write_cube(tmp_path / "2022.zarr", turned, produce)
    data = read_data([*paths, tmp_path / "2022.zarr"], str(labels))
    assert data.bands == ("B02", "B03", "B04")
    assert_array_equal(data.values[2], data.values[0])


def test_bad_cubes_are_one_clear_line(tmp_path, rng):
    codes = rng.integers(0, 4, GRID.shape).astype(np.uint8)
    labels = write_map(tmp_path / "labels.tif", codes)
    paths = write_years(tmp_path, codes, realisations=(2, 3))
    with pytest.raises(ValueError, match="2020 has 2 realisations and 2021 has 3; make both"):
        read_data(paths, str(labels))
    with pytest.raises(ValueError, match="say with --labels"):
        read_data(paths)
    with pytest.raises(ValueError, match="mixes tables and cubes"):
        read_data([paths[0], "pixels.csv"])


# ---- what comes out ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("landcover")
    data = read_data([written(pixel_table(pixels=800), folder / "pixels.csv")])
    return LandCoverStudy.of(data, "quick", seed=0)


def test_cells_cover_all_pairs_sizes_and_models(study, tmp_path):
    cells = study.cells(tmp_path)
    assert len({cell.key for cell in cells}) == len(cells)
    found = {(c.train_year, year, c.fraction, m) for c in cells for year in c.test_years for m in c.models}
    assert len(found) == 2 * 2 * 4 * 11  # 0.1 % of 800 pixels are fewer than 4 classes


def test_dates_are_any_text(tmp_path, monkeypatch):
    """Dates with a slash, dates that differ in it only, and workers that run in another folder."""
    frame = pixel_table(years=(1, 2, 3))
    names = {1: "01/06/2020", 2: "01_06_2020", 3: "01:06%2020"}
    data = read_data([written(frame.assign(date=frame["date"].map(names)), tmp_path / "pixels.csv")])
    monkeypatch.chdir(tmp_path)
    cells = LandCoverStudy.of(data, "quick", seed=0).cells(Path("out"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert len({cell.key for cell in cells}) == len(cells)
    assert all("/" not in cell.key and ":" not in cell.key for cell in cells)
    for year, values in zip(data.years, data.values, strict=True):
        assert_array_equal(cells[0].values(year, np.arange(5)), values[:5])


def test_folders_that_were_begun_go_on(study, tmp_path):
    """The names of cells of plain years are kept: results are found by them."""
    found = {cell.key for cell in study.cells(tmp_path)}
    assert {"2020-0.5percent-BQDA-and-others", "2021-10percent-GB-pooled", "2020-1percent-RF"} <= found
    one = replace(study.cells(tmp_path)[0], train_year="")
    assert one.key == "one-date-0.5percent-BQDA-and-others"


@pytest.mark.parametrize("realisations", [1, 2, 25])
def test_a_probe_computes_a_small_part(tmp_path, monkeypatch, realisations):
    """The time of the whole, by a law of the test, is found from little of it."""
    data = LandCoverData("x", ("2020",), (np.zeros((80_000, realisations, 2)),), np.arange(80_000) % 4,
                         CLASSES, ("B02", "B03"))  # fmt: skip
    done = []

    def seconds(names, splits, seed):
        done.extend(split.X_test.size + split.X.size for split in splits)
        assert all(len(np.unique(split.y)) == 4 for split in splits)
        return 0.5 + 1e-3 * splits[0].X.size, 2e-3 * sum(split.X_test.size for split in splits)

    monkeypatch.setattr("uncover.studies.landcover.cpu_seconds", seconds)
    for cell in LandCoverStudy.of(data, "standard", 0).cells(tmp_path)[::2]:
        rows = realisations * 2 * np.array([80_000 * cell.fraction, 72_000])
        assert cell.probe() == pytest.approx(0.5 + 1e-3 * rows[0] + 2e-3 * rows[1], rel=1e-6)
    assert 0 < max(done) <= 0.05 * 80_000 * min(realisations, 2) * 2


def test_one_band_has_no_principal_components(rng):
    values = rng.random((40, 2, 3))
    tables = [
        description_tables(
            LandCoverData("x", ("2020",), (values[..., :p],), np.arange(40) % 2, ("a", "b"), BANDS[:p])
        )
        for p in (1, 3)
    ]
    assert [("components" in found, len(found["bands"])) for found in tables] == [(False, 2), (True, 6)]


def test_the_same_pixels_train_in_each_year(study, tmp_path):
    from uncover.studies.landcover import _splits

    cells = [c for c in study.cells(tmp_path) if c.fraction == 0.05 and c.models[0] == "BQDA"]
    splits = [split for cell in cells for split in _splits(cell)]
    for split in splits[1:]:
        assert_array_equal(split.y, splits[0].y)
        assert_array_equal(split.y_test, splits[0].y_test)
    assert [split.paired for split in splits] == [True, False, False, True]
