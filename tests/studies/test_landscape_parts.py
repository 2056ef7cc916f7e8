"""Parts of the embedded scene by themselves: fields of noise, shapes, waters, farms, towns, codes."""

import numpy as np
import shapely
from numpy.testing import assert_array_equal

from uncover.studies.landscape.fields import Canvas, cell_hash, edges, enlarge, smooth_field, texture
from uncover.studies.landscape.geography import draw_geography, draw_history, draw_waters
from uncover.studies.landscape.kinds import CODE, class_codes, ukceh_codes
from uncover.studies.landscape.parcels import Cells, draw_parcels
from uncover.studies.landscape.scene import sure_map
from uncover.studies.landscape.settlements import build, place_towns


def test_fields_have_variance_one():
    rng = np.random.default_rng(0)
    field = smooth_field(rng, 200, 20_000, 500)
    assert abs(field.std() - 1) < 0.1 and np.abs(np.diff(field, axis=0)).max() < 1
    assert abs(texture(rng, 300, 2.0, 0.6).var() - 1) < 0.1


def test_numbers_of_cells_depend_on_their_place_alone():
    one, two = np.array([3]), np.array([4])
    both = cell_hash(1, np.array([3, 3]), np.array([4, 5]))
    assert both[0] == cell_hash(1, one, two)[0] != both[1]


def test_shapes_edges_and_finer_grids():
    assert Canvas(10, 100).paint([shapely.box(0, 0, 50, 20)]).sum() == 10
    assert_array_equal(edges(np.array([[1, 1, 2], [1, 1, 2]])), [[False, True, False]] * 2)
    fine = enlarge(np.array([[0, 1], [2, 3]], np.float32), 2, 4)
    assert fine[0].tolist() == [0.0, 0.5, 1.0, 1.0]


def test_waters_and_farms_are_of_the_size_that_is_said():
    waters = draw_waters(Canvas(400, 4000), seed=0)
    assert 0.02 < waters.fen.mean() < 0.04 and waters.river[:, 0].any()
    hectares = np.bincount(draw_parcels(200, 2000, seed=0).field.ravel()) * 1e-2
    assert 1 < np.median(hectares) < 10


def test_a_seed_is_nearest_to_itself(rng):
    cells = Cells.over(100, 50, rng)
    at = cells.seeds[2, 3]
    assert cells.nearest(at[:1], at[1:])[0] == 2 * cells.seeds.shape[1] + 3


def test_towns_cover_their_share_and_are_made_of_gardens_and_roofs():
    towns = place_towns(Canvas(400, 4000), np.zeros((400, 400), bool), seed=0)
    assert round(sum(np.pi * town.radius**2 for town in towns) / 4000**2, 3) == 0.075
    canvas, dry = Canvas(400, 2000), np.ones((400, 400), bool)
    built = build(canvas, place_towns(canvas, ~dry, 0), dry, 0)
    share = np.bincount(built.structure, minlength=7) / built.structure.size
    assert share[5] > 0.3 and share[:3].sum() > 0.15


def test_a_sure_map_is_sure_of_one_pixel_in_half_of_the_squares():
    percent = sure_map(np.full((100, 100), CODE["broadleaved trees"], np.uint8), seed=0)[1]
    sure = (percent > 95).reshape(50, 2, 50, 2).sum(axis=(1, 3))
    assert sure.max() == 1 and 0.4 < sure.mean() < 0.6


def test_without_change_fields_keep_their_class_and_not_their_crop():
    land = draw_geography(100, seed=0)
    assert land.surface.shape == (200, 200) and land.surface.max() < 2 * land.count
    history = draw_history(land, seed=0, change=False)
    classes = class_codes()[history.kinds]
    assert (classes == classes[0]).all() and (history.of(2020) != history.of(2021)).any()


def test_kinds_have_their_codes():
    assert class_codes()[[CODE["fen"], CODE["gardens"]]].tolist() == [4, 5]
    assert ukceh_codes()[CODE["conifers"]] == 2
