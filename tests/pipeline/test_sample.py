"""Laws of drawing places on a map: the design that was promised, in files that others read."""

import csv
import re
import warnings

import numpy as np
import pyogrio
import pytest
import rasterio
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize

from map_products import GRID, NAMES, world, write_product
from uncover.bayes.streams import stream
from uncover.cli import main
from uncover.metrics.allocation import (
    class_variances,
    samples_for_target,
    samples_of_total,
    standard_errors,
)
from uncover.pipeline import EvaluateOptions, SampleOptions, evaluate_map, sample_map
from uncover.pipeline.map_product import MapProduct
from uncover.pipeline.sampling import _candidates, spread_out
from uncover.raster import pixel_areas

pytestmark = [
    pytest.mark.filterwarnings("ignore:no sample is wrong:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*too few to say much:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*spread out by their class probabilities:UserWarning"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A map with nodata, its folder, truth and mapped classes."""
    truth, p, mapped = world(nodata=0.05)
    folder = write_product(tmp_path_factory.mktemp("maps") / "map", mapped, p)
    part = np.random.default_rng(1).gamma(0.3, 300.0, (6, *mapped.shape)).clip(0, 60000).astype(np.uint16)
    part[:, mapped < 0] = 65535
    with rasterio.open(folder / "class.tif") as file:
        profile = file.profile
    profile.update(count=6, dtype="uint16", nodata=65535)
    with rasterio.open(folder / "uncertainty.tif", "w", **profile) as file:
        file.write(part)
        file.scales = [1e-4] * 6
    return folder, truth, mapped


def run(*words):
    return CliRunner().invoke(main, ["sample", *map(str, words)])


def refusal(*words):
    result = run(*words)
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error")]
    assert result.exit_code == 1 and len(lines) == 1, result.output
    return lines[0]


def rows_cols(sample):
    rows, cols = GRID.places(*sample.xy.T)
    return np.floor(rows).astype(int), np.floor(cols).astype(int)


def filled(path, out, truth, names=NAMES, change=lambda rows: rows):
    """The CSV of a sample with the true class of each point."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    _, _, geometry, columns = pyogrio.raw.read(path.with_suffix(".gpkg"), columns=["id"])
    import shapely

    xy = shapely.get_coordinates(shapely.from_wkb(geometry))
    r, c = (np.floor(each).astype(int) for each in GRID.places(*xy.T))
    true = dict(zip(columns[0].tolist(), np.array(names)[truth[r, c]], strict=True))
    for row in rows:
        row["class"] = true[int(row["id"])]
    with open(out, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(change(rows))
    return out


# ---- sizes --------------------------------------------------------------------------------------------


def test_sizes_are_those_of_a_general_solver():
    """The fewest samples for several errors at once: SciPy's constrained minimum, up to rounding."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        shares, k = rng.dirichlet(np.ones(4)), 4
        expected = np.array(
            [rng.dirichlet(np.r_[np.full(i, 0.3), 8, np.full(k - 1 - i, 0.3)]) for i in range(k)]
        )
        variances, N = class_variances(shares, expected), np.full(k, 10**6)
        found = samples_for_target(variances, N, 0.01, 30)
        assert (standard_errors(variances, found, N) <= 0.01).all()
        solved = minimize(
            lambda n: n.sum(),
            np.full(k, 3000.0),
            constraints={"type": "ineq", "fun": lambda n, v=variances: 1e5 * (1e-4 - (v / n).sum(axis=1))},
            bounds=[(30, 1e6)] * k,
            method="SLSQP",
            options={"maxiter": 500},
        )
        assert solved.success and abs(found.sum() - solved.x.sum()) <= 0.01 * solved.x.sum() + k
        again = samples_of_total(variances, N, int(found.sum()), 30)
        assert again.sum() == found.sum()
        assert standard_errors(variances, again, N).max() <= 0.01 * 1.005


def test_a_census_has_no_error_and_small_strata_are_taken_whole():
    variances = class_variances([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]])
    assert_allclose(standard_errors(variances, [50, 70], [50, 70]), 0)
    assert samples_for_target(variances, [5, 1000], 0.4, 30).tolist() == [5, 30]


# ---- a sample for areas -------------------------------------------------------------------------------


def test_places_are_drawn_in_their_strata_without_replacement(place):
    folder, _, mapped = place
    found = sample_map(folder, SampleOptions(n=120))
    rows, cols = rows_cols(found)
    assert len(found) == 120 == len(set(zip(rows.tolist(), cols.tolist(), strict=True)))
    assert_array_equal(np.array(NAMES)[mapped[rows, cols]], found.columns["stratum"])
    for number, name in enumerate(NAMES):
        mine = found.columns["stratum"] == name
        there = mapped == number
        assert_allclose(found.columns["inclusion_probability"][mine], mine.sum() / there.sum())
        assert_allclose(
            found.columns["stratum_area_ha"][mine], pixel_areas(GRID, GRID.window)[there].sum() / 1e4
        )
    assert len(np.unique(found.columns["stratum"][:20])) > 1  # the order tells nothing of the strata


def test_every_pixel_is_drawn_as_often_as_promised(place):
    folder, _, mapped = place
    counts = np.zeros(mapped.shape)
    for seed in range(40):
        found = sample_map(folder, SampleOptions(n=200, seed=seed))
        counts[rows_cols(found)] += 1
    promised = found.columns["inclusion_probability"][found.columns["stratum"] == NAMES[0]][0]
    mine = counts[mapped == 0]
    error = np.sqrt(40 * promised * (1 - promised) / mine.size * (1 - promised))
    assert abs(mine.mean() - 40 * promised) < 1e-9  # the number of each stratum is fixed
    assert mine.var() == pytest.approx(40 * promised * (1 - promised), abs=5 * error)
    halves = mine[: mine.size // 2].mean(), mine[mine.size // 2 :].mean()
    assert abs(halves[0] - halves[1]) < 5 * np.sqrt(4 * 40 * promised / mine.size)


def test_the_evaluation_knows_the_design(place, tmp_path):
    folder, truth, mapped = place
    out = tmp_path / "s.gpkg"
    assert run(folder, "--for", "areas", "-n", 150, "--out", out).exit_code == 0
    assert {p.name for p in tmp_path.iterdir()} == {"s.gpkg", "s.csv", "s-ceo.csv"}
    ready = filled(out.with_suffix(".csv"), tmp_path / "ready.csv", truth)
    plain = evaluate_map(folder, ready, EvaluateOptions(draws=50))
    stated = evaluate_map(folder, ready, EvaluateOptions(class_field="class", design="stratified", draws=50))
    for key, result in stated.results.items():
        assert plain.results[key].value == pytest.approx(result.value, rel=1e-5, nan_ok=True)
    assert plain.facts["design"]["name"] == "stratified"
    areas = pixel_areas(GRID, GRID.window)
    for number, name in enumerate(NAMES):
        result = plain.results["estimated area", name]
        assert result.lower <= areas[(truth == number) & (mapped >= 0)].sum() <= result.upper


def test_what_was_edited_by_hand_is_said(place, tmp_path):
    folder, truth, _ = place
    out = tmp_path / "s.gpkg"
    run(folder, "--for", "areas", "-n", 60, "--out", out)
    table, options = out.with_suffix(".csv"), EvaluateOptions(draws=50)
    with pytest.raises(ValueError, match=r"no point of .*s\.gpkg has a class yet; fill in the field 'class'"):
        evaluate_map(folder, out, options)

    def without(rows):
        return rows[3:]

    def twice(rows):
        return [*rows, dict(rows[0])]

    def blank(rows):
        return [{**rows[0], "class": ""}, *rows[1:]]

    def strange(rows):
        return [{**rows[0], "class": "lava"}, *rows[1:]]

    def larger(rows):
        return [{**rows[0], "stratum_area_ha": "77"}, *rows[1:]]

    for change, words in (
        (without, "points of .* are missing .*of"),
        (twice, "points .* do not count"),
        (blank, "1 points of .* have no class and are left out"),
        (strange, "the map has no class 'lava'"),
    ):
        edited = filled(table, tmp_path / "edited.csv", truth, change=change)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            evaluate_map(folder, edited, options)
        assert any(re.search(words, str(each.message)) for each in said)
    with pytest.raises(ValueError, match="states two areas, numbers of samples or probabilities for the"):
        evaluate_map(folder, filled(table, tmp_path / "edited.csv", truth, change=larger), options)


def test_a_sample_that_is_no_more_what_was_drawn_is_refused(place, tmp_path):
    """Strata without a row, moved points, other probabilities, commas: told from the map and the file."""
    folder, truth, _ = place
    run(folder, "--for", "areas", "-n", 60, "--out", tmp_path / "s.gpkg")
    table, options = tmp_path / "s.csv", EvaluateOptions(draws=50)

    def refused(words, edit):
        edited = filled(table, tmp_path / "edited.csv", truth, change=lambda rows: [edit(r) for r in rows])
        with pytest.raises(ValueError, match=words):
            evaluate_map(folder, edited, options)

    def gone(rows):
        return [row for row in rows if row["stratum"] != "water"]

    def unvisited(rows):
        return [row | {"class": ""} if row["stratum"] == "water" else row for row in rows]

    for change in (gone, unvisited):
        edited = filled(table, tmp_path / "edited.csv", truth, change=change)
        with pytest.raises(ValueError, match="no point with a class of the stratum 'water', whose points"):
            evaluate_map(folder, edited, options)

    def in_water(name, value):
        return lambda row: row | {name: value} if row["stratum"] == "water" else row

    def first(name, value):
        return lambda row: row | {name: value} if row["id"] == "1" else row

    refused("points of the stratum 'lava', which is no class of the map that", first("stratum", "lava"))
    refused("points of edited.csv lie where the map has another class", lambda row: row | {
        "lon": f"{float(row['lon']) + 0.002:.7f}"})  # fmt: skip
    refused("inclusion_probability of 'water' is 0.5, and that of", in_water("inclusion_probability", "0.5"))
    refused("states two areas, numbers of samples or prob", first("inclusion_probability", "0.5"))
    refused("are no stratum_area_ha, .* with decimal points", first("inclusion_probability", "0,005"))
    refused("are no stratum_area_ha, .* with decimal points", first("stratum_area_ha", "25,3"))
    refused("stratum_area_ha of 'water' is 77, and that of the map", in_water("stratum_area_ha", "77"))


def test_a_sample_with_decimal_commas_throughout_is_read(place, tmp_path):
    folder, truth, _ = place
    run(folder, "--for", "areas", "-n", 60, "--out", tmp_path / "s.gpkg")
    plain = filled(tmp_path / "s.csv", tmp_path / "plain.csv", truth)
    text = plain.read_text().replace(",", ";").replace(".", ",")
    (tmp_path / "commas.csv").write_text(text)
    options = EvaluateOptions(draws=50)
    found = [evaluate_map(folder, tmp_path / f"{name}.csv", options) for name in ("plain", "commas")]
    for key, result in found[0].results.items():
        assert found[1].results[key].value == pytest.approx(result.value, nan_ok=True)


def test_a_sample_of_another_map_is_taken_as_it_is(place, tmp_path):
    """The map of another year has other areas: points of its strata lie where it says something else."""
    folder, truth, mapped = place
    run(folder, "--for", "areas", "-n", 60, "--out", tmp_path / "s.gpkg")
    _, p, _ = world()
    other = write_product(tmp_path / "other", np.where(mapped == 0, 1, mapped), p)
    ready = filled(tmp_path / "s.csv", tmp_path / "ready.csv", truth)
    assert evaluate_map(other, ready, EvaluateOptions(draws=50)).facts["design"]["name"] == "stratified"


def test_same_seed_same_bytes(place, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run(place[0], "--for", "areas", "-n", 50, "--out", tmp_path / name / "s.gpkg")
    for name in ("s.gpkg", "s.csv", "s-ceo.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    other = sample_map(place[0], SampleOptions(n=50, seed=1))
    assert not np.array_equal(other.xy, sample_map(place[0], SampleOptions(n=50)).xy)


# ---- places for training ------------------------------------------------------------------------------


def test_places_for_training_are_where_the_model_part_is_large_and_apart(place):
    folder, _, mapped = place
    with rasterio.open(folder / "uncertainty.tif") as file:
        model = file.read(3) * 1e-4
    found = sample_map(folder, SampleOptions("training", n=30, spacing=50.0))
    rows, cols = rows_cols(found)
    assert (mapped[rows, cols] >= 0).all()
    assert_allclose(found.columns["model_part"], model[rows, cols], atol=1e-6)
    assert found.columns["model_part"].mean() > model[mapped >= 0].mean()
    distance = np.hypot(*(found.xy[:, None] - found.xy[None]).transpose(2, 0, 1))
    assert distance[np.triu_indices(30, 1)].min() >= 50.0 * 0.999


def test_candidates_count_by_their_information_once(place, monkeypatch):
    """Candidates are drawn by it already; in sums over maps of many pixels each pixel has its own weight."""
    folder, _, mapped = place
    with rasterio.open(folder / "uncertainty.tif") as file:
        part = file.read(3) * 1e-4 * (mapped >= 0)
    monkeypatch.setattr("uncover.pipeline.sampling._MOST_CANDIDATES", 300)
    assert part.astype(bool).sum() > 20 * 300
    sums = []
    for seed in range(5):
        found = _candidates(MapProduct.open(folder), SampleOptions("training", n=30, seed=seed), None)
        assert len(found.weight) == 300
        high = found.information > np.median(part[part > 0])
        sums.append([found.weight.sum(), found.weight[high].sum()])
    expected = [part.sum(), part[part > np.median(part[part > 0])].sum()]
    assert_allclose(np.mean(sums, axis=0), expected, rtol=0.1)


def test_places_are_spread_out_among_what_the_model_sees():
    """Many alike are asked about seldom: ten places cover ten groups, those drawn at random do not."""
    rng = np.random.default_rng(0)
    group = np.r_[np.zeros(910, int), np.repeat(np.arange(1, 10), 10)]
    features = 100.0 * group[:, None] + rng.normal(size=(1000, 1))
    flat = np.zeros((1000, 2))
    met = [
        len(set(group[spread_out(np.ones(1000), features, flat, 10, 0.0, stream(seed))]))
        for seed in range(20)
    ]
    alone = [len(set(group[np.random.default_rng(seed).permutation(1000)[:10]])) for seed in range(20)]
    assert np.mean(met) > 9.5 and np.mean(alone) < 3


def test_too_few_places_are_said(place):
    with pytest.warns(UserWarning, match="places of 200 could be chosen, 1,000 m apart"):
        found = sample_map(place[0], SampleOptions("training", n=200, spacing=1000.0))
    assert 0 < len(found) < 200


# ---- bad input ----------------------------------------------------------------------------------------


def test_bad_input_is_one_line(place, tmp_path):
    folder, out = place[0], tmp_path / "s.gpkg"
    areas = (folder, "--for", "areas", "--out", out)
    assert "give a larger --target-error" in refusal(*areas, "--target-error", 1e-5)
    assert "lies between 0 and 0.5" in refusal(*areas, "--target-error", "nan")
    assert "lies between 0 and 0.5" in refusal(*areas, "--target-error", -1)
    assert "give --target-error or -n" in refusal(*areas)
    assert "give --target-error or -n" in refusal(*areas, "-n", 100, "--target-error", 0.02)
    assert "cannot be spread over" in refusal(*areas, "-n", 1)
    assert "--least is 1" in refusal(*areas, "-n", 100, "--least", 1)
    assert "give -n, such as -n 200" in refusal(folder, "--for", "training", "--out", out)
    shape = tmp_path / "s.shp"
    assert "does not end with .gpkg" in refusal(folder, "--for", "areas", "-n", 9, "--out", shape)
    assert "not a folder" in refusal(tmp_path / "no", "--for", "areas", "-n", 9, "--out", out)
    assert not list(tmp_path.iterdir())
    assert run(*areas, "-n", 50).exit_code == 0
    assert "exists already; replace it with --overwrite" in refusal(*areas, "-n", 50)
    assert run(*areas, "-n", 50, "--overwrite").exit_code == 0
