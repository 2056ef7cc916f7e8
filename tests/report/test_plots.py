"""Figures: what is drawn is what came in; on a page they take the theme's colours, and no id twice."""

import re

import numpy as np
import pytest

from uncover.labels.colours import MUTED as CLASS_COLOURS
from uncover.pipeline.evaluation import Curve
from uncover.report.plots import (
    area_intervals,
    band_statistics,
    class_shares,
    component_scatter,
    confusion_matrices,
    principal_components,
    rates,
    reliability,
    world_spread,
)
from uncover.report.study_style import draw_model, fit_score_axis
from uncover.report.style import (
    INK,
    OKABE_ITO,
    VISIONS,
    contrast,
    figure_style,
    inline_svg,
    look_alikes,
    new_figure,
    save_figure,
)

NAMES, COLOURS = ("forest", "water $1"), ("#117733", "#332288")


@pytest.fixture(autouse=True)
def style():
    with figure_style():
        yield


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_confusion_matrix_shows_counts_and_rates():
    counts = np.array([[90, 10], [5, 15]])
    figure = confusion_matrices({"": counts}, NAMES)
    assert {"90", "10", "5", "15", "75.0", "90.0", "25.0"} <= set(texts(figure))
    true, predicted = rates(counts)
    np.testing.assert_allclose(true, [0.9, 0.75])
    np.testing.assert_allclose(predicted, [90 / 95, 15 / 25])


def test_rates_of_a_class_that_never_occurs_are_unknown():
    true, predicted = rates(np.array([[4, 0], [0, 0]]))
    assert np.isnan(true[1]) and np.isnan(predicted[1])
    confusion_matrices({"": np.array([[4, 0], [0, 0]])}, NAMES)


def test_principal_components_are_those_of_an_eigen_decomposition(rng):
    values = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4))
    covariance = np.cov(values.T)
    figure, shares = principal_components(
        values, np.arange(300) % 2, values[:2], np.stack([covariance] * 2), NAMES, COLOURS
    )
    eigenvalues = np.sort(np.linalg.eigvalsh(covariance))[::-1]
    np.testing.assert_allclose(shares, eigenvalues[:2] / eigenvalues.sum(), rtol=1e-10)
    points = np.concatenate([c.get_offsets() for c in figure.axes[0].collections])
    np.testing.assert_allclose(points.var(axis=0, ddof=1), eigenvalues[:2], rtol=1e-6)


def test_ellipses_hold_95_per_cent_of_a_normal_class(rng):
    root = rng.normal(size=(3, 3))
    values = rng.normal(size=(40_000, 3)) @ root.T
    covariance = root @ root.T
    figure, _ = principal_components(
        values, np.zeros(len(values)), np.zeros((2, 3)), np.stack([covariance] * 2), NAMES, COLOURS
    )
    ellipse = figure.axes[0].patches[0]
    points = np.concatenate([c.get_offsets() for c in figure.axes[0].collections])
    inside = ellipse.get_path().contains_points(ellipse.get_patch_transform().inverted().transform(points))
    assert inside.mean() == pytest.approx(0.95, abs=0.005)


def test_panels_hold_every_point_once(rng):
    points, classes = rng.random((4000, 2)), np.arange(4000) % 2
    figure = component_scatter(dict.fromkeys(("2020", "2021"), (points, classes, (0.6, 0.3))), NAMES, COLOURS)
    for axes in figure.axes:
        drawn = np.concatenate([c.get_offsets() for c in axes.collections])
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(points, axis=0))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["2020", "2021"]
    assert [t.get_text() for t in figure.legends[0].get_texts()] == list(NAMES)


def test_bars_reach_two_standard_deviations():
    mean, deviation = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([[0.01, 0.02], [0.03, 0.04]])
    figure = band_statistics(["B02", "B03"], {"": (mean, deviation)}, NAMES, COLOURS)
    bars = [np.array(c.get_segments()) for c in figure.axes[0].collections]
    drawn = np.array([bar[:, :, 1] for bar in bars])  # (rim and colour of each class, band, end)
    np.testing.assert_allclose(
        drawn[0], np.stack([mean[0] - 2 * deviation[0], mean[0] + 2 * deviation[0]], 1)
    )
    np.testing.assert_allclose(
        drawn[3], np.stack([mean[1] - 2 * deviation[1], mean[1] + 2 * deviation[1]], 1)
    )


def test_shares_are_bars_of_their_length():
    figure = class_shares({"a": np.array([0.25, 0.75]), "b": np.array([0.5, 0.5])}, NAMES, COLOURS)
    assert sorted(p.get_width() for p in figure.axes[0].patches) == [25, 50, 50, 75]


def test_areas_show_map_worlds_interval_and_truth():
    worlds = np.array([[9.0, 11.0], [5.0, 5.5]])
    estimated = {"forest": {"value": 10.5, "lower": 8.0, "upper": 13.0}}
    expected = {"water $1": {"value": 5.1, "lower": 4.9, "upper": 5.3}}
    true = {"forest": 12.0, "water $1": 4.0}
    mapped = np.array([10.0, 5.2])
    figure = area_intervals(NAMES, COLOURS, mapped, worlds, "ha", expected, estimated, true)
    drawn = {round(float(x), 3) for line in figure.axes[0].lines for x in np.atleast_1d(line.get_xdata())}
    assert {9.0, 11.0, 5.0, 5.5, 10.0, 5.2, 10.5, 8.0, 13.0, 12.0, 4.0, 5.1, 4.9, 5.3} <= drawn
    spread = world_spread(NAMES, COLOURS, worlds)
    assert "s = 14 %" in texts(spread)  # √2 of a mean of 10


def test_reliability_has_every_curve():
    p = np.array([0.3, 0.9])
    curves = [Curve(n, p, p, p - 0.1, p + 0.05, np.array([10, 90])) for n in ("top label", "class forest")]
    figure = reliability(curves, dict(zip(NAMES, COLOURS, strict=True)))
    labels = {t.get_text() for t in figure.legends[0].get_texts()}
    assert {"class decided for", "forest"} <= labels


@pytest.mark.parametrize("k", [2, 6, 20])
def test_any_number_of_classes_has_room(k, rng):
    """matplotlib warns, which is an error here, where a legend leaves no room for the axes."""
    names, colours = [f"a class with the number {i}" for i in range(k)], (OKABE_ITO * 3)[:k]
    p = np.array([0.3, 0.9])
    curves = [Curve(f"class {name}", p, p, p, p, np.array([5, 9])) for name in names]
    mean, covariance = rng.random((k, 3)), np.stack([np.eye(3)] * k)
    for figure in (
        band_statistics(("B02", "B03", "B04"), {"": (mean, mean)}, names, colours),
        principal_components(rng.random((50, 3)), np.arange(50) % k, mean, covariance, names, colours)[0],
        reliability(curves, dict(zip(names, colours, strict=True))),
        confusion_matrices({"": np.full((k, k), 123_456)}, names),
        area_intervals(names, colours, mean[:, 0], mean, "ha", {}, {}, {}),
    ):
        svg = inline_svg(figure, "room")
        assert all(axes.get_position().height > 0.05 for axes in figure.axes)
        assert names[-1] in svg


def test_inline_figures_take_the_theme_and_share_no_id():
    svgs = [inline_svg(confusion_matrices({"": np.array([[9, n], [2, 8]])}, NAMES), "label") for n in (1, 3)]
    for svg in svgs:
        assert "currentColor" in svg and INK not in svg
        assert "<style" not in svg and "<metadata" not in svg and "font-family" not in svg
        assert "water $1" in svg
        used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
        assert used == set(re.findall(r' id="([^"]+)"', svg))
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in svgs]
    assert not ids[0] & ids[1]


def test_the_same_figure_is_the_same_bytes(tmp_path):
    for name in ("a.svg", "a.png"):
        for i in (1, 2):
            figure = new_figure()
            figure.subplots().plot([0, 1], [1, 0])
            save_figure(figure, tmp_path / f"{i}-{name}")
        assert (tmp_path / f"1-{name}").read_bytes() == (tmp_path / f"2-{name}").read_bytes()


def test_simulated_sight_keeps_grey_grey():
    for matrix in VISIONS.values():
        np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=2e-6)


def test_our_own_colours_can_be_told_apart_by_everyone():
    assert not look_alikes(OKABE_ITO)
    assert not look_alikes(CLASS_COLOURS[:6])


def test_colours_that_cannot_be_told_apart_are_found():
    assert look_alikes(["#CC0000", "#CC0202"])[0] == (0, 1, "normal sight")
    assert [(i, j) for i, j, _ in look_alikes(["#C00000", "#0000C0", "#4A6A00"])] == [(0, 2)]


def test_text_of_the_page_has_enough_contrast():
    from importlib import resources

    css = resources.files("uncover.report").joinpath("assets", "page.css").read_text("utf-8")
    blocks = re.findall(r"{([^{}]*--paper:[^{}]*)}", css)
    themes = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in blocks]
    assert len(themes) == 3
    for theme in themes:
        pairs = [("ink", "paper"), ("muted", "paper"), ("accent", "paper"), ("ink", "panel")]
        pairs += [("muted", "panel"), ("accent-ink", "accent"), ("ink", "note"), ("muted", "note")]
        for ink, paper in pairs:
            assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)


def test_values_below_a_logarithmic_axis_are_marked_at_its_edge():
    drawing = new_figure(height=3.0)
    ax = drawing.subplots()
    values = [1e-60, 0.0, 0.01, 0.1]
    draw_model(ax, "BQDA", [0.2, 0.4, 0.6, 0.8], values)
    fit_score_axis(ax, "brier", values)
    edge = ax.get_ylim()[0]
    line, marks = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), [edge, edge, 0.01, 0.1])
    assert line.get_markevery() == [2, 3]
    np.testing.assert_array_equal(marks.get_xydata(), [[0.2, edge], [0.4, edge]])
