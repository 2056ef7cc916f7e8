"""Laws of evaluating a map: what arrays give, for any kind of reference, and honest about samples."""

import csv
import json
import tracemalloc
import warnings

import numpy as np
import pytest
import rasterio
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import metrics

from label_maps import write_map
from map_cases import CLASSES, contents, fitted, grid, reflectance, save_model, write_scene
from map_products import GRID, NAMES, SCHEME, world, write_points, write_polygons, write_product
from uncover.labels import Scheme
from uncover.metrics import Reliability, score, simple_random_sample, stratified_by_map
from uncover.pipeline import EvaluateOptions, evaluate_map, map_evaluation, references, write_labels
from uncover.pipeline.evaluation import SCORES
from uncover.pipeline.references import _read_areas
from uncover.raster import Grid, pixel_areas

QUICK = {"draws": 50}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*probability sample:UserWarning"),
    pytest.mark.filterwarnings("ignore:errors rest on:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*samples are left out:UserWarning"),
]

#: Square metres on the ground of 10 m × 10 m on the central meridian of a UTM zone, whose scale is 0.9996.
PIXEL = 100 / 0.9996**2


@pytest.fixture
def scene(tmp_path):
    """A map with some nodata, its folder and the truth."""
    truth, p, mapped = world(nodata=0.05)
    return write_product(tmp_path / "map", mapped, p), truth, np.round(p, 4), mapped


def drawn(seed, shape, n):
    """Rows and columns of pixels, none of them twice."""
    return np.divmod(np.random.default_rng(seed).choice(shape[0] * shape[1], n, replace=False), shape[1])


def confusion_matrix(mapped, reference, classes):
    return metrics.confusion_matrix(reference, mapped, labels=range(classes)).T


def names_of(truth):
    return np.array(NAMES)[truth]


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_reference_raster_gives_what_arrays_give(scene, tmp_path):
    folder, truth, p, mapped = scene
    labels = np.where(np.random.default_rng(1).random(truth.shape) < 0.7, truth + 1, 0).astype(np.uint8)
    path = write_map(tmp_path / "reference.tif", labels, grid=GRID, nodata=0)
    found = evaluate_map(folder, path, EvaluateOptions(**QUICK))
    m = (labels > 0) & (mapped >= 0)
    assert_array_equal(found.counts, confusion_matrix(mapped[m], truth[m], 3))
    shares = np.bincount(truth[m]) / m.sum()
    expected = score(truth[m], p[:, m].T, shares, floor=5e-5)
    for name in SCORES:
        value = found.results[name, ""]
        if name not in ("f1", "f2"):  # the class of the map may differ from the largest rounded probability
            assert_allclose(value.value, getattr(expected, name), err_msg=name)
        assert value.lower <= value.value <= value.upper
    curves = Reliability.of(truth[m], p[:, m].T, mapped=mapped[m])
    assert_allclose(found.curves.observed, curves.observed)
    assert_allclose(found.results["calibration error", "class-wise"].value, curves.class_wise_error)
    assert found.facts["reference"]["on nodata"] == int(((labels > 0) & (mapped < 0)).sum())
    assert_allclose(found.mapped, PIXEL * np.bincount(mapped[mapped >= 0]))
    assert not found.of("estimated area")


def test_points_are_the_pixels_they_lie_in(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = drawn(2, truth.shape, 400)
    for crs in (None, "EPSG:4326"):
        path = write_points(tmp_path / f"{crs}.gpkg", rows, cols, names_of(truth[rows, cols]), crs=crs)
        found = evaluate_map(folder, path, EvaluateOptions("class", **QUICK))
        m = mapped[rows, cols] >= 0
        assert_array_equal(found.counts, confusion_matrix(mapped[rows, cols][m], truth[rows, cols][m], 3))


def test_several_points_in_a_pixel_are_one_sample(scene, tmp_path):
    """The last one counts, as for labels; one warning counts them and names those that contradict."""
    folder, truth, _, mapped = scene
    (row, *rows), (col, *cols) = (at[:30] for at in np.nonzero(mapped >= 0))
    names = ["water", "forest"] * 10 + list(names_of(truth[rows, cols]))
    points = [row] * 20 + rows, [col] * 20 + cols
    path = write_points(tmp_path / "points.gpkg", *points, names)
    message = rf"19 points of points.gpkg do not count: 1 pixels .* in 1 of them .*row {row}, column {col}: "
    with pytest.warns(UserWarning, match=message + ".*forest.*water|" + message + ".*water.*forest"):
        found = evaluate_map(folder, path, EvaluateOptions("class", **QUICK))
    assert found.counts.sum() == 30
    once = write_points(tmp_path / "once.gpkg", points[0][19:], points[1][19:], names[19:])
    alone = evaluate_map(folder, once, EvaluateOptions("class", **QUICK))
    assert_array_equal(found.counts, alone.counts)
    assert len([said for said in found.warnings if "do not count" in said]) == 1
    assert not any("do not count" in said for said in alone.warnings)


@pytest.mark.filterwarnings("ignore:the stratum 'all' has:UserWarning")
@pytest.mark.parametrize("n", [10, 30, 37, 50])
@pytest.mark.parametrize("design", [None, "random"])
def test_where_all_samples_are_right_intervals_are_those_of_their_number(scene, tmp_path, n, design):
    """Clopper and Pearson's; resampling shows no error, and its rounding is none."""
    folder, _, _, mapped = scene
    rows, cols = (at[:n] for at in np.nonzero(mapped >= 0))
    path = write_points(tmp_path / "right.gpkg", rows, cols, names_of(mapped[rows, cols]))
    with pytest.warns(UserWarning, match="no sample is wrong: F1 and F2 have no interval"):
        found = evaluate_map(folder, path, EvaluateOptions("class", design=design, **QUICK))
    overall = found.results["overall accuracy", ""]
    assert_allclose((overall.lower, overall.upper), (0.025 ** (1 / n), 1), rtol=0.01 if design else 1e-9)
    for name in ("f1", "f2"):
        assert found.results[name, ""].value == 1 and np.isnan(found.results[name, ""].lower)
    assert "1.000 (no interval)" in found.summary() and "nan" not in found.summary()


def test_polygons_label_the_pixels_inside(scene, tmp_path):
    folder, truth, _, mapped = scene
    boxes = [(0, 0, 6, 6), (10, 20, 30, 26), (80, 100, 90, 120), (12, 22, 14, 24)]
    classes = ["water", "forest", "cropland", "water"]
    found = evaluate_map(
        folder, write_polygons(tmp_path / "fields.gpkg", boxes, classes), EvaluateOptions("class", **QUICK)
    )
    burnt = np.full(truth.shape, -1)
    for (top, left, bottom, right), name in zip(boxes, classes, strict=True):
        burnt[top:bottom, left:right] = NAMES.index(name)
    m = (burnt >= 0) & (mapped >= 0)
    assert_array_equal(found.counts, confusion_matrix(mapped[m], burnt[m], 3))
    assert found.facts["bootstrap"]["groups"] == 4


@pytest.mark.parametrize("kind", ["raster", "points", "polygons"])
def test_results_do_not_depend_on_blocks(scene, tmp_path, monkeypatch, kind):
    folder, truth, _, _ = scene
    rows, cols = drawn(3, truth.shape, 300)
    options = EvaluateOptions("class", design="stratified" if kind == "points" else None, **QUICK)
    if kind == "raster":
        path = write_map(tmp_path / "r.tif", (truth + 1).astype(np.uint8), grid=GRID, nodata=0)
    elif kind == "points":
        path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    else:
        path = write_polygons(tmp_path / "p.gpkg", [(0, 0, 50, 70), (60, 80, 90, 120)], ["water", "forest"])
    whole = evaluate_map(folder, path, options)
    monkeypatch.setattr(map_evaluation, "_BLOCK", 37)
    parts = evaluate_map(folder, path, options)
    assert_array_equal(parts.counts, whole.counts)
    for key, value in whole.results.items():
        assert_allclose(parts.results[key].value, value.value)
        if kind != "points":  # which point comes first in its stratum is the order of blocks
            assert_allclose(parts.results[key].error, value.error)
    assert_allclose(parts.mapped, whole.mapped)


def sample_of(truth, mapped, per_class, seed=4):
    """The same number of pixels at random from each class of the map."""
    rng = np.random.default_rng(seed)
    at = [rng.choice(np.flatnonzero(mapped.ravel() == k), per_class, False) for k in range(3)]
    return np.unravel_index(np.concatenate(at), truth.shape)


def test_stratified_points_follow_olofsson(scene, tmp_path):
    folder, truth, p, mapped = scene
    rows, cols = sample_of(truth, mapped, 80)
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    found = evaluate_map(folder, path, EvaluateOptions("class", design="stratified", **QUICK))
    counts = confusion_matrix(mapped[rows, cols], truth[rows, cols], 3)
    sample = stratified_by_map(counts, PIXEL * np.bincount(mapped[mapped >= 0]))
    for measure, estimate in (
        ("user's accuracy", sample.users_accuracy()),
        ("producer's accuracy", sample.producers_accuracy()),
    ):
        for k, name in enumerate(NAMES):
            value = found.results[measure, name]
            assert_allclose((value.value, value.error), (estimate.value[k], estimate.error[k]))
    areas = sample.areas()
    low, high = areas.interval()
    for k, name in enumerate(NAMES):
        value = found.results["estimated area", name]
        assert_allclose((value.value, value.error), (areas.value[k], areas.error[k]))
        assert_allclose((value.lower, value.upper), (low[k], high[k]))
    assert_allclose(found.area_shares, sample.matrix().value)
    # Scores are those of the map, not of the sample: each point stands for its share of its class.
    weights = (np.bincount(mapped[mapped >= 0]) / 80)[mapped[rows, cols]]
    shares = np.bincount(truth[rows, cols], weights)
    expected = score(truth[rows, cols], p[:, rows, cols].T, shares, weights=weights, floor=5e-5)
    assert_allclose(found.results["brier_norm", ""].value, expected.brier_norm)
    assert_allclose(found.results["cross_entropy_norm", ""].value, expected.cross_entropy_norm)


def test_random_points(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = drawn(5, truth.shape, 500)
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    m = mapped[rows, cols] >= 0
    counts = confusion_matrix(mapped[rows, cols][m], truth[rows, cols][m], 3)
    mapped_area = PIXEL * np.bincount(mapped[mapped >= 0])
    for design, sample in (
        ("random", simple_random_sample(counts, mapped_area.sum())),
        ("poststratified", stratified_by_map(counts, mapped_area)),
    ):
        with pytest.warns(UserWarning, match="samples are left out"):
            found = evaluate_map(folder, path, EvaluateOptions("class", design=design, **QUICK))
        assert_allclose([found.results["estimated area", name].value for name in NAMES], sample.areas().value)
        assert_allclose([found.results["estimated area", name].error for name in NAMES], sample.areas().error)


def test_strata_of_a_field(scene, tmp_path):
    """Strata of halves of the map, whose areas come from a table."""
    folder, truth, _, mapped = scene
    rng = np.random.default_rng(6)
    west = np.flatnonzero((mapped >= 0) & (np.arange(120) < 40))
    east = np.flatnonzero((mapped >= 0) & (np.arange(120) >= 40))
    rows, cols = np.unravel_index(
        np.concatenate([rng.choice(west, 60, False), rng.choice(east, 90, False)]), truth.shape
    )
    path = write_points(
        tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]), stratum=["west"] * 60 + ["east"] * 90
    )
    areas = tmp_path / "areas.csv"
    areas.write_text(f"stratum,pixels\nwest,{west.size}\neast,{east.size}\n")
    spreadsheet = tmp_path / "areas-of-a-spreadsheet.csv"
    spreadsheet.write_text("stratum;area_ha\nwest;112,5\neast;20,25\n")
    assert_allclose(_read_areas(spreadsheet, ["east", "west"], 1.0), [202_500.0, 1_125_000.0])
    options = EvaluateOptions("class", "stratum", stratum_areas=areas, **QUICK)
    found = evaluate_map(folder, path, options)
    weight = np.repeat([west.size / 60, east.size / 90], [60, 90])
    truth_area = [weight[truth[rows, cols] == k].sum() * PIXEL for k in range(3)]
    assert_allclose([found.results["estimated area", name].value for name in NAMES], truth_area)
    assert found.facts["design"]["samples by stratum"] == {"east": 90, "west": 60}
    areas.write_text("stratum,area_ha\nwest,100\neast,900\n")
    with pytest.warns(UserWarning, match="times the area of the map"):
        other = evaluate_map(folder, path, options)
    assert_allclose(sum(v.value for v in other.of("estimated area").values()), 1000 * 1e4)


def test_strata_called_like_classes_take_their_areas_from_the_map(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = sample_of(truth, mapped, 50)
    path = write_points(
        tmp_path / "p.gpkg", rows, cols, truth[rows, cols] + 1, stratum=names_of(mapped[rows, cols])
    )
    with pytest.warns(UserWarning, match="taken from this map"):
        found = evaluate_map(folder, path, EvaluateOptions("class", "stratum", **QUICK))
    other = evaluate_map(folder, path, EvaluateOptions("class", design="stratified", **QUICK))
    for name in NAMES:
        assert_allclose(
            found.results["estimated area", name].error, other.results["estimated area", name].error
        )


def test_areas_in_degrees_are_those_on_the_ground(tmp_path):
    grid = Grid("EPSG:4326", (0.02, 0, 10, 0, -0.1, 66), width=120, height=90)
    truth, p, mapped = world(seed=8)
    folder = write_product(tmp_path / "map", mapped, p, grid=grid)
    rows, cols = sample_of(truth, mapped, 100)
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]), grid=grid)
    found = evaluate_map(folder, path, EvaluateOptions("class", design="stratified", **QUICK))
    area = pixel_areas(grid)
    assert_allclose(found.mapped, np.bincount(mapped.ravel(), area.ravel()))
    assert_allclose(sum(v.value for v in found.of("estimated area").values()), area.sum())
    for k, name in enumerate(NAMES):
        assert (
            found.results["estimated area", name].lower
            < area[truth == k].sum()
            < found.results["estimated area", name].upper
        )


def test_classes_are_matched_by_name_then_by_code(tmp_path):
    truth, p, mapped = world()
    folder = write_product(tmp_path / "map", mapped, p, scheme=SCHEME)  # codes 4, 2, 1
    rows, cols = drawn(9, truth.shape, 200)
    expected = confusion_matrix(mapped[rows, cols], truth[rows, cols], 3)
    codes = np.array([4, 2, 1])[truth[rows, cols]]
    upper = np.char.upper(names_of(truth[rows, cols]))
    for i, values in enumerate((codes, codes.astype(float), upper)):
        path = write_points(tmp_path / f"{i}.gpkg", rows, cols, values)
        found = evaluate_map(folder, path, EvaluateOptions("class", **QUICK))
        assert_array_equal(found.counts, expected)
    labels = np.array([1, 2, 3], np.uint8)[truth]  # a label raster with a scheme of its own order
    write_labels(tmp_path / "labels.tif", labels, GRID, Scheme.of_names(NAMES))
    found = evaluate_map(folder, tmp_path / "labels.tif", EvaluateOptions(**QUICK))
    assert_array_equal(found.counts, confusion_matrix(mapped.ravel(), truth.ravel(), 3))


def test_a_class_that_the_map_lacks_counts_as_wrong(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = (v[:60] for v in sample_of(truth, mapped, 40))
    classes = names_of(truth[rows, cols]).astype("U10")
    classes[:7] = "ice"
    path = write_points(tmp_path / "p.gpkg", rows, cols, classes)
    with pytest.warns(UserWarning, match="no class 'ice'"):
        found = evaluate_map(folder, path, EvaluateOptions("class", **QUICK))
    assert found.classes == (*NAMES, "ice")
    assert found.counts[:, 3].sum() == 7 and found.counts[3].sum() == 0
    assert found.zeros >= 7
    assert found.results["producer's accuracy", "ice"].value == 0
    assert np.isnan(found.results["user's accuracy", "ice"].value)


@pytest.mark.parametrize("design", [None, "random"])
def test_a_class_that_the_reference_lacks_has_no_producers_accuracy(scene, tmp_path, design):
    folder, truth, _, mapped = scene
    rows, cols = drawn(3, truth.shape, 300)
    known = (mapped[rows, cols] >= 0) & (truth[rows, cols] != 2)
    rows, cols = rows[known], cols[known]
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    found = evaluate_map(folder, path, EvaluateOptions("class", design=design, **QUICK))
    missing, there = (found.results["producer's accuracy", name] for name in (NAMES[2], NAMES[0]))
    assert np.isnan([missing.value, missing.lower, missing.upper]).all() and missing.samples == 0
    assert np.isfinite([there.value, there.lower, there.upper]).all()
    assert found.results["user's accuracy", NAMES[2]].value == 0  # mapped, and never right
    assert np.isfinite(
        [found.results[name, ""].value for name in ("f1", "cross_entropy", "brier_norm")]
    ).all()
    if design:
        area = found.results["estimated area", NAMES[2]]
        assert (area.value, area.lower) == (0, 0) and area.upper > 0
    found.write(tmp_path / "out")
    lines = {(row["measure"], row["class"]): row for row in table(tmp_path / "out" / "accuracy.csv")}
    line = lines["producer's accuracy", NAMES[2]]
    assert (line["value"], line["lower"], line["samples"]) == ("", "", "0")
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))["accuracy"]
    assert written["producer's accuracy"][NAMES[2]]["value"] is None
    line = next(line for line in found.summary().splitlines() if line.startswith(NAMES[2]))
    assert " -  " in line and "nan" not in line


def test_stored_zeros_are_floored_and_said(tmp_path):
    truth, p, mapped = world()
    p = p.copy()
    p[:, 0, 0] = 0
    p[(truth[0, 0] + 1) % 3, 0, 0] = 1
    mapped[0, 0] = p[:, 0, 0].argmax()
    labels = write_map(tmp_path / "r.tif", (truth + 1).astype(np.uint8), grid=GRID, nodata=0)
    whole = evaluate_map(write_product(tmp_path / "whole", mapped, p), labels, EvaluateOptions(**QUICK))
    assert whole.floor == 5e-5
    assert whole.zeros >= 1 and np.isfinite(whole.results["cross_entropy", ""].value)
    assert "count as 5e-05" in whole.summary()
    exact = evaluate_map(
        write_product(tmp_path / "exact", mapped, p, dtype="float32"), labels, EvaluateOptions(**QUICK)
    )
    assert exact.floor == 0 and exact.zeros == 1
    assert np.isinf(exact.results["cross_entropy", ""].value)
    assert "the cross-entropy is infinite" in exact.summary()
    exact.write(tmp_path / "out")
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))
    assert written["scores"]["cross_entropy"]["value"] == "infinity"
    assert_allclose(whole.results["brier", ""].value, exact.results["brier", ""].value, rtol=1e-3)


def test_polygons_are_resampled_as_a_whole(scene, tmp_path):
    """Pixels of a polygon agree: errors are those of 30 polygons, not of 1,080 pixels."""
    folder, *_ = scene
    rng = np.random.default_rng(10)
    corners = rng.permutation(np.stack(np.mgrid[0:84:6, 0:114:6], axis=-1).reshape(-1, 2))[:30]
    boxes = [(r, c, r + 6, c + 6) for r, c in corners]
    path = write_polygons(tmp_path / "f.gpkg", boxes, [NAMES[i] for i in rng.integers(3, size=30)])
    found = evaluate_map(folder, path, EvaluateOptions("class", draws=500))
    accuracy = found.results["overall accuracy", ""]
    n = accuracy.samples
    naive = np.sqrt(accuracy.value * (1 - accuracy.value) / n)
    assert n > 900 and accuracy.error > 2.5 * naive


def test_what_is_no_probability_sample_is_said(scene, tmp_path, recwarn):
    folder, truth, _, _ = scene
    labels = write_map(tmp_path / "r.tif", (truth + 1).astype(np.uint8), grid=GRID, nodata=0)
    rows, cols = sample_of(*world(nodata=0.05)[::2], 30)
    points = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    fields = write_polygons(tmp_path / "f.gpkg", [(0, 0, 6, 6)], ["water"])
    for path, message in (
        (labels, "is not a probability sample"),
        (fields, "is not a probability sample"),
        (points, "nothing says how the points"),
    ):
        with pytest.warns(UserWarning, match=message):
            found = evaluate_map(folder, path, EvaluateOptions("class", **QUICK))
        assert not found.facts["design"]["probability sample"] and not found.of("estimated area")
        assert any(message in w for w in found.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate_map(folder, points, EvaluateOptions("class", design="stratified", **QUICK))
    assert found.facts["design"]["probability sample"] and found.warnings == ()


def test_the_command_writes_its_files(scene, tmp_path, run):
    folder, truth, _, mapped = scene
    rows, cols = sample_of(truth, mapped, 60)
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    options = ("--class-field", "class", "--design", "stratified", "--draws", "50")
    result = run("evaluate", folder, "--reference", path, *options, "--out", "out")
    assert result.exit_code == 0, result.output
    assert "overall accuracy" in result.stdout and "estimated ha" in result.stdout
    out = tmp_path / "out"
    files = ["accuracy.csv", "areas.csv", "confusion.csv", "evaluation.json", "reliability.csv"]
    assert sorted(p.name for p in out.iterdir()) == files
    written = json.loads((out / "evaluation.json").read_text("utf-8"))
    counts = confusion_matrix(mapped[rows, cols], truth[rows, cols], 3).astype(int)
    assert written["confusion (map class, reference class)"]["counts"] == counts.tolist()
    assert str(tmp_path) not in (out / "evaluation.json").read_text("utf-8")
    rows_of = table(out / "confusion.csv")
    assert [int(v) for v in list(rows_of[0].values())[2:]] == counts[0].tolist()
    assert rows_of[3]["quantity"] == "share of area"
    accuracy = {(r["measure"], r["class"]): r for r in table(out / "accuracy.csv")}
    assert_allclose(
        float(accuracy["overall accuracy", ""]["value"]), written["accuracy"]["overall accuracy"]["value"]
    )
    assert {"true positive rate", "false positive rate", "F1", "Brier, normalised"} <= {
        m for m, _ in accuracy
    }
    areas = table(out / "areas.csv")
    assert_allclose(sum(float(r["estimated_ha"]) for r in areas), sum(float(r["mapped_ha"]) for r in areas))
    curves = table(out / "reliability.csv")
    assert len(curves) == 4 * 10
    assert sum(int(r["samples"]) for r in curves if r["curve"] == "top label") == 180
    twice = ("evaluate", folder, "--reference", path, *options, "--out", "out")
    assert "evaluation.json exists already; replace it with --overwrite" in run(*twice).stderr
    assert run(*twice, "--overwrite").exit_code == 0
    again = run("evaluate", folder, "--reference", path, *options, "--out", "again")
    assert again.stdout == result.stdout
    for name in files:
        assert (out / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_bad_input_is_refused_in_one_line(scene, tmp_path, refused):
    folder, truth, _, _ = scene
    rows, cols = drawn(11, truth.shape, 30)
    labels = names_of(truth[rows, cols])
    points = write_points(tmp_path / "p.gpkg", rows, cols, labels, zone=["a"] * 30)
    fields = write_polygons(tmp_path / "f.gpkg", [(0, 0, 6, 6)], ["water"])
    far = Grid("EPSG:32630", (10, 0, 700000, 0, -10, 5700000), width=120, height=90)
    away = write_points(tmp_path / "far.gpkg", rows, cols, labels, grid=far)
    empty = write_map(tmp_path / "empty.tif", np.zeros(GRID.shape, np.uint8), grid=GRID, nodata=0)
    (tmp_path / "areas.csv").write_text("stratum,area_ha\nb,1\n")
    (tmp_path / "wrong.csv").write_text("name,size\na,1\n")
    by_class = ("--class-field", "class")
    zone = (*by_class, "--stratum-field", "zone")
    for reference, options, message in (
        (points, ("--class-field", "klass"), "no field 'klass'"),
        (away, by_class, "no point of"),
        (empty, (), "no label on the map"),
        (tmp_path / "nothing.tif", (), "does not exist"),
        (fields, (*by_class, "--design", "random"), "polygons"),
        (points, (*by_class, "--level", "1.5"), "confidence level"),
        (points, zone, "'a' is no class of the map"),
        (points, (*zone, "--design", "random"), "stratified"),
        (points, (*zone, "--stratum-areas", "areas.csv"), "no row for the stratum 'a'"),
        (points, (*zone, "--stratum-areas", "wrong.csv"), "column 'stratum'"),
        (points, (*by_class, "--stratum-areas", "areas.csv"), "--stratum-field"),
        (empty, ("--stratum-field", "zone"), "is a raster"),
    ):
        said = refused("evaluate", folder, "--reference", reference, *options, "--out", "out")
        assert message in said, said
    usual = ("--reference", points, *by_class, "--out")
    assert "is not a folder" in refused("evaluate", "nowhere", *usual, "out")
    assert "holds no class.tif" in refused("evaluate", tmp_path, *usual, "out")
    assert "folder of the map" in refused("evaluate", folder, *usual, folder)
    assert "make it first" in refused("evaluate", folder, *usual, "a/b")


def test_a_class_without_samples_cannot_be_a_stratum(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = (v[:80] for v in sample_of(truth, mapped, 40))  # none in the third class
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    with pytest.raises(ValueError, match=r"'water' has .* no reference sample"):
        evaluate_map(folder, path, EvaluateOptions("class", design="stratified", **QUICK))


def test_a_stratum_with_one_sample_is_named(scene, tmp_path):
    folder, truth, _, mapped = scene
    rows, cols = (v[:81] for v in sample_of(truth, mapped, 40))
    path = write_points(tmp_path / "p.gpkg", rows, cols, names_of(truth[rows, cols]))
    with pytest.warns(UserWarning, match="'water' has one sample") as said:
        found = evaluate_map(folder, path, EvaluateOptions("class", design="stratified", **QUICK))
    assert len(said) == 1
    overall = found.results["overall accuracy", ""]
    assert np.isfinite(overall.value) and np.isnan(overall.error)
    assert overall.upper - overall.lower > 0.25  # a third of the map rests on one sample
    found.write(tmp_path / "out")
    assert "overall accuracy" in found.summary()


def test_a_map_that_is_not_whole_is_refused(tmp_path):
    truth, p, mapped = world()
    folder = write_product(tmp_path / "map", mapped, p)
    with rasterio.open(folder / "probability.tif", "r+") as dataset:
        dataset.write(np.full((3, 10, 10), 65535, np.uint16), window=((0, 10), (0, 10)))
    labels = write_map(tmp_path / "r.tif", (truth + 1).astype(np.uint8), grid=GRID, nodata=0)
    with pytest.raises(ValueError, match="no value at 100 pixels"):
        evaluate_map(folder, labels, EvaluateOptions(**QUICK))


@pytest.mark.filterwarnings("ignore:no sample is wrong:UserWarning")
def test_memory_is_bounded(tmp_path, monkeypatch):
    """Nine times the pixels do not take nine times the memory, nor twice."""
    peaks = []
    for module in (map_evaluation, references):
        monkeypatch.setattr(module, "_BLOCK", 128)
    monkeypatch.setattr("uncover.raster.tiles.CACHE_BYTES", 1 << 20)
    for i, side in enumerate((260, 780)):
        grid = Grid("EPSG:32630", (10, 0, 500000, 0, -10, 5700000), width=side, height=side)
        mapped = (np.indices(grid.shape).sum(axis=0) // 50 % 2).astype(np.int64)
        p = np.stack([np.where(mapped == k, 0.8, 0.2) for k in range(2)])
        folder = write_product(tmp_path / f"map{i}", mapped, p, names=("a", "b"), grid=grid)
        labels = write_map(
            tmp_path / f"r{i}.tif", (mapped + 1).astype(np.uint8), grid=grid, nodata=0, tiled=True
        )
        del mapped, p
        tracemalloc.start()
        evaluate_map(folder, labels, EvaluateOptions(draws=20, block=side))  # 10 × 10 blocks
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0], peaks  # tiles of the smaller map are smaller, too


def test_from_fit_to_map_to_evaluation(tmp_path, run):
    """What `uncover map` writes is what `uncover evaluate` reads: classes, scheme, areas, probabilities."""
    truth, _, _ = world(seed=12)
    rng = np.random.default_rng(12)
    means = np.array([[0.05, 0.30], [0.10, 0.20], [0.04, 0.03]])
    values = np.moveaxis(means[truth] + rng.normal(size=(*truth.shape, 2)) * 0.03, 2, 0).astype(np.float32)
    write_map(tmp_path / "scene.tif", *values, grid=GRID)
    write_labels(tmp_path / "truth.tif", (truth + 1).astype(np.uint8), GRID, Scheme.of_names(NAMES))
    scene = ("scene.tif", "--bands", "B04,B08", "--scale", 1, "--offset", 0)
    fit = run(
        "fit",
        "--model",
        "published",
        *scene,
        "--labels",
        "truth.tif",
        "--count",
        300,
        "--out",
        "model.uncover",
    )
    assert fit.exit_code == 0, fit.output
    made = run("map", "model.uncover", *scene, "--out", "map")
    assert made.exit_code == 0, made.output
    result = run("evaluate", "map", "--reference", "truth.tif", "--out", "out", "--draws", 50, "--block", 100)
    assert result.exit_code == 0, result.output
    with rasterio.open(tmp_path / "map" / "class.tif") as dataset:
        codes = dataset.read(1)
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))
    expected = confusion_matrix(codes.ravel() - 1, truth.ravel(), 3)
    assert written["confusion (map class, reference class)"]["counts"] == expected.astype(int).tolist()
    accuracy = written["accuracy"]["overall accuracy"]["value"]
    assert_allclose(accuracy, np.trace(expected) / expected.sum())
    assert 0.7 < accuracy < 1
    # The model is the one that made the data: its probabilities are honest.
    assert written["calibration error"]["top label"]["value"] < 0.02
    own, ours = table(tmp_path / "map" / "areas.csv"), table(tmp_path / "out" / "areas.csv")
    assert_allclose([float(r["area_ha"]) for r in own], [float(r["mapped_ha"]) for r in ours])


@pytest.mark.parametrize("dtype", ["uint16", "float32"])
@pytest.mark.parametrize("kind", ["zarr", "netcdf"])
def test_a_dataset_is_evaluated_as_the_rasters_are(tmp_path, run, kind, dtype):
    model = save_model(tmp_path / "m.uncover", fitted())
    values = reflectance(530, 40)  # more than one chunk
    values[:, :30, :5] = np.nan
    write_scene(tmp_path / "scene.tif", values, nodata=np.nan)
    for out, how in (("tif", "cog"), ("dataset", kind)):
        (tmp_path / out).mkdir()
        made = run("map", model, "scene.tif", "--format", how, "--dtype", dtype, "--out", f"{out}/map")
        assert made.exit_code == 0, made.output
    rows, cols = drawn(3, values.shape[1:], 300)
    classes = np.random.default_rng(3).choice(CLASSES, 300)
    write_points(tmp_path / "points.gpkg", rows, cols, classes, grid=grid(530, 40))
    options = (
        "--reference",
        "points.gpkg",
        "--class-field",
        "class",
        "--design",
        "stratified",
        "--draws",
        50,
    )
    said = []
    for out in ("tif", "dataset"):
        found = run("evaluate", f"{out}/map", *options, "--out", f"{out}/evaluation")
        assert found.exit_code == 0, found.output
        said.append(found.stdout)
    assert said[0] == said[1]
    assert contents(tmp_path / "tif" / "evaluation") == contents(tmp_path / "dataset" / "evaluation")
    assert len(contents(tmp_path / "tif" / "evaluation")) == 5


def test_a_dataset_that_lost_a_part_is_refused(tmp_path, run, refused):
    model = save_model(tmp_path / "m.uncover", fitted())
    write_scene(tmp_path / "scene.tif", np.full((4, 40, 600), np.nan, np.float32), nodata=np.nan)
    assert run("map", model, "scene.tif", "--format", "zarr", "--out", "map").exit_code == 0
    chunk = tmp_path / "map" / "map.zarr" / "class" / "0.1"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    assert "class/0.1 has been cut" in refused("evaluate", "map", "--reference", "scene.tif", "--out", "out")
    chunk.unlink()
    assert "lacks class/0.1" in refused("evaluate", "map", "--reference", "scene.tif", "--out", "out")


def test_an_unfinished_map_is_refused(tmp_path, refused):
    (tmp_path / "map.partial").mkdir()
    assert "--resume" in refused("evaluate", "map", "--reference", "points.gpkg", "--out", "out")
