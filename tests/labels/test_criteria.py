"""Laws of the criteria: what each keeps, by plain loops; blocks give what the whole gives; counts add up."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from uncover.labels import Criteria, Report, confident, interior, load_scheme, purity, screen, spaced, stable


def random_maps(seed, shape=(40, 37), years=3, classes=4, patch=4):
    """Patchy maps that mostly agree from year to year, with some pixels unlabelled."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, classes + 1, (shape[0] // patch + 1, shape[1] // patch + 1))
    base = np.kron(coarse, np.ones((patch, patch), int))[: shape[0], : shape[1]]
    maps = [
        np.where(rng.random(shape) < 0.1, rng.integers(0, classes + 1, shape), base) for _ in range(years)
    ]
    return [m.astype(np.uint8) for m in maps], [rng.integers(80, 101, shape).astype(np.uint8) for _ in maps]


def neighbourhood(array, row, column, half):
    return array[max(0, row - half) : row + half + 1, max(0, column - half) : column + half + 1]


def test_stable_is_the_same_label_in_every_year():
    maps, _ = random_maps(0)
    expected = [
        [len({int(m[i, j]) for m in maps} | {-1}) == 2 and maps[0][i, j] > 0 for j in range(37)]
        for i in range(40)
    ]
    assert_array_equal(stable(maps), expected)


def test_stability_does_not_depend_on_the_order_of_years():
    maps, _ = random_maps(1)
    assert_array_equal(stable(maps), stable(maps[::-1]))


def test_confident_needs_every_year_and_refuses_nan():
    values = [np.array([0.96, 0.96, np.nan]), np.array([0.99, 0.95, 0.99])]
    assert_array_equal(confident(values, 0.95), [True, False, False])


@pytest.mark.parametrize("percent", range(101))
def test_percent_and_share_agree_at_every_threshold(percent):
    values = np.arange(101, dtype=np.uint8)
    assert_array_equal(confident([values], percent / 100, 100), values > percent)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_purity_by_plain_loops(window):
    labels = random_maps(2, (12, 9), patch=3)[0][0]
    for i, j in np.ndindex(labels.shape):
        near = neighbourhood(labels, i, j, window // 2)
        expected = 0 if labels[i, j] == 0 else np.mean(near == labels[i, j])
        assert purity(labels, window)[i, j] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("pixels", [0, 1, 2])
def test_interior_by_plain_loops(pixels):
    labels = random_maps(3, (14, 11), patch=5)[0][0]
    expected = [
        [len(np.unique(neighbourhood(labels, i, j, pixels))) == 1 for j in range(11)] for i in range(14)
    ]
    assert_array_equal(interior(labels, pixels), expected)


@settings(deadline=None)
@given(seed=st.integers(0, 1000), distance=st.floats(0, 9), share=st.floats(0.05, 1))
def test_spaced_keeps_its_distance_and_leaves_no_room(seed, distance, share):
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((17, 23)) < share)
    kept = spaced(rows, columns, distance, np.random.default_rng(seed))
    points = np.stack([rows, columns], 1)
    apart = np.linalg.norm(points[:, None] - points[kept][None], axis=-1)
    among = apart[kept] + 1e9 * np.eye(int(kept.sum()))
    assert among.size == 0 or among.min() >= distance
    if (~kept).any():
        assert apart[~kept].min(axis=1).max() < distance


@pytest.mark.parametrize("distance", [np.sqrt(2), np.sqrt(5), 5.0, np.sqrt(13)])
def test_points_exactly_at_the_distance_may_both_stay(distance):
    """Distances that pixels do have: √2 squared is more than 2 in floating point."""
    rows, columns = np.nonzero(np.ones((12, 12), bool))
    kept = spaced(rows, columns, distance, np.random.default_rng(0))
    points = np.stack([rows, columns], 1)
    apart = np.linalg.norm(points[:, None] - points[kept][None], axis=-1)
    assert (apart[kept] + 1e9 * np.eye(int(kept.sum()))).min() >= distance
    assert apart[~kept].min(axis=1).max() < distance


def test_spaced_is_reproducible():
    rows, columns = np.nonzero(np.ones((50, 50), bool))
    one, two = (spaced(rows, columns, 4.5, np.random.default_rng(7)) for _ in range(2))
    assert_array_equal(one, two)


FULL = Criteria(threshold=0.85, purity=0.6, window=5, erosion=1)


@pytest.mark.parametrize("height", [1, 7, 16, 40])
def test_screening_by_blocks_equals_screening_the_whole(height):
    maps, sure = random_maps(4)
    whole = screen(maps, sure, FULL, scales=[100] * 3)
    parts = []
    for top in range(0, 40, height):
        start, stop = max(0, top - FULL.margin), min(40, top + height + FULL.margin)
        core = (slice(top - start, min(top + height, 40) - start), slice(None))
        cut = slice(start, stop)
        parts.append(
            screen([m[cut] for m in maps], [p[cut] for p in sure], FULL, scales=[100] * 3, core=core)
        )
    assert_array_equal(np.vstack([p.labels for p in parts]), whole.labels)
    total = reduce(add, (p.report for p in parts))
    assert total.steps == whole.report.steps
    assert_array_equal(total.left, whole.report.left)


def test_report_adds_up_and_kept_is_what_is_left():
    maps, sure = random_maps(5)
    passed = screen(maps, sure, FULL, scales=[100] * 3)
    report = passed.report
    assert report.steps == ("stability", "quality", "purity", "erosion")
    removed = sum(report.removed(step) for step in report.steps)
    assert all((report.removed(step) >= 0).all() for step in report.steps)
    assert_array_equal(report.left[0] - removed, report.kept)
    counts = np.bincount(passed.labels.ravel(), minlength=256)
    assert_array_equal(counts[1:], report.kept[1:])
    assert_array_equal(np.bincount(maps[-1].ravel(), minlength=256)[1:], report.left[0][1:])
    assert 0 < report.kept.sum() < report.left[0].sum()


def test_each_criterion_only_removes():
    maps, sure = random_maps(6)
    plain = screen(maps).labels
    for criteria in (Criteria(purity=0.9), Criteria(erosion=2), FULL):
        labels = screen(maps, sure, criteria, scales=[100] * 3).labels
        assert_array_equal(labels[labels > 0], plain[labels > 0])


def test_parcel_edges_count_where_regions_are_given():
    field = np.ones((1, 6), np.uint8)
    parcels = np.array([[1, 1, 1, 2, 2, 2]])
    assert_array_equal(
        screen([field], criteria=Criteria(erosion=1), regions=parcels).labels, [[1, 1, 0, 0, 1, 1]]
    )


def test_report_text_names_classes_and_totals():
    maps, sure = random_maps(7)
    report = screen(maps, sure, FULL, scales=[100] * 3).report
    text = report.table(load_scheme("lulucf")).splitlines()
    assert [line.split()[0] for line in text[1:]] == ["forest", "cropland", "grassland", "wetlands", "all"]
    assert text[-1].split()[-1].replace(",", "") == str(report.kept.sum())
    one = report.as_dict(load_scheme("lulucf"))["forest"]
    assert one["found"] - sum(one[s] for s in report.steps) == one["kept"]


def test_reports_of_different_criteria_do_not_add():
    start = Report.start(np.ones(3, np.uint8))
    with pytest.raises(ValueError, match="do not add up"):
        start + start.then("stability", np.ones(3, np.uint8))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"threshold": 95}, "95 % is 0.95"),
        ({"purity": -0.1}, "purity is -0.1"),
        ({"window": 4}, "odd number"),
        ({"erosion": -1}, "erosion is -1"),
    ],
)
def test_impossible_criteria_are_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        Criteria(**arguments)


def test_layers_that_do_not_fit_together_are_refused():
    maps, sure = random_maps(8)
    with pytest.raises(ValueError, match="3 label maps and 2 probability layers"):
        screen(maps, sure[:2])
    with pytest.raises(ValueError, match="different shapes"):
        screen([maps[0], maps[1][1:]])
    with pytest.raises(ValueError, match="at least one"):
        screen([])
