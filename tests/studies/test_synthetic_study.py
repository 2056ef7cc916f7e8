"""The synthetic study: its cells, and that nobody who computes them leaves a trace in the tables."""

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from study_cases import TINY
from uncover.metrics import SCORE_NAMES
from uncover.studies import synthetic
from uncover.studies.cells import CellStore, Workers, run_cells
from uncover.studies.models import PAPER
from uncover.studies.synthetic import (
    SyntheticCell,
    SyntheticScale,
    SyntheticStudy,
    draw_problem,
    synthetic_cells,
)


def test_tables_do_not_depend_on_the_number_of_workers(tmp_path):
    scale = SyntheticScale({2: 1}, (0.5,), (), points=40, realisations=2)
    models = (
        ("BQDA", "LDA"),
        ("NN",),
    )
    cells = [
        SyntheticCell(2, True, kind, 0.5, 0, group, scale.points, scale.realisations)
        for kind in scale.kinds
        for group in models
    ]
    found = []
    for n in (1, 2):
        results = run_cells(cells, CellStore(tmp_path / str(n), {}), Workers(n))
        found.append(SyntheticStudy().tables(cells, results))
    for name in ("scores", "means", "training"):
        assert_frame_equal(found[0][name], found[1][name], check_exact=True)


def test_noise_kinds_and_factors_see_the_same_points():
    cells = [c for c in synthetic_cells(TINY, 0) if c.p == 2 and c.covariance and c.data_set == 0]
    splits = [cell.split() for cell in cells]
    assert all((split.y == splits[0].y).all() for split in splits)
    means = [split.X_test.mean() for split in splits]
    assert len({round(mean, 12) for mean in means}) == 4  # two kinds, two factors


def test_all_realisations_of_a_point_are_on_one_side():
    split = next(c for c in synthetic_cells(TINY, 0)).split()
    assert split.X.shape == (640, 2, 2) and split.X_test.shape == (160, 2, 2)


def test_the_paper_scale_is_that_of_the_paper():
    cells = synthetic_cells(synthetic.SCALES["paper"], 0)
    sets = {(c.p, c.data_set) for c in cells}
    assert [sum(p == q for q, _ in sets) for p in (2, 10, 50)] == [60, 30, 30]
    assert {c.noise for c in cells} == {round(0.1 * i, 1) for i in range(1, 11)}
    assert {c.kind for c in cells} == {"gaussian", "uniform"}
    assert {(c.points, c.realisations) for c in cells} == {(1000, 100)}
    assert len({cell.key for cell in cells}) == len(cells)


def test_what_is_computed_first_is_whole_data_sets():
    """So the first data sets of an unfinished study can be summarised."""
    scale = synthetic.SCALES["standard"]
    cells = synthetic_cells(scale, 0)
    assert [c.data_set for c in cells] == sorted(c.data_set for c in cells)
    few = synthetic_cells(scale.first(2), 0)
    assert few == cells[: len(few)] and {c.data_set for c in few} == {0, 1}
    assert {(c.points, c.realisations) for c in cells} == {(1000, 25)}
    assert cells[0].key == "p2-covariance-set00-gaussian-0.2-BQDA-and-others"


def test_data_sets_that_are_hard_for_one_model_can_be_left_out():
    scale = SyntheticScale({2: 3}, (0.5,), (), kinds=("gaussian",), points=40, realisations=2)
    noisy = [SyntheticCell(2, True, "gaussian", 0.5, d, ("BQDA",), 40, 2) for d in range(3)]
    plain = synthetic.noise_free_cells(scale, 0)
    assert {c.realisations for c in plain} == {1} and {c.models for c in plain} == {PAPER}

    def result(cell):
        hard = cell.noise == 0 and cell.data_set == 1
        scores = dict.fromkeys(SCORE_NAMES, 0.5 if hard else 0.95)
        intervals = dict.fromkeys(SCORE_NAMES, (0.0, 1.0))
        found = {"trained": True, "scores": scores, "intervals": intervals, "zeros": 0}
        found |= {"fit_seconds": 1.0, "predict_seconds": 1.0}
        return {"models": [{"model": name, **found} for name in cell.models]}

    for cells, kept in (([*noisy, *plain], {0, 2}), (noisy, {0, 1, 2})):
        tables = SyntheticStudy().tables(cells, {cell.key: result(cell) for cell in cells})
        assert set(tables["scores"]["data_set"]) == kept
        assert set(tables["scores"]["noise"]) == {0.5}
    hard = [cell for cell in [*noisy, *plain] if cell.data_set == 1]
    with pytest.raises(ValueError, match="no data set has an F₁"):
        SyntheticStudy().tables(hard, {cell.key: result(cell) for cell in hard})


def test_problems_that_are_too_hard_are_drawn_again_but_not_for_ever(monkeypatch):
    monkeypatch.setattr("uncover.studies.synthetic._MOST_DRAWS", 1)
    refused = 0
    for seed in range(20):
        try:
            draw_problem(2, np.random.default_rng(seed), n_per_class=50)
        except ValueError as error:
            refused += 1
            assert "in 1 draws no problem of 2 features had an F₁ of 0.9; 50 points" in str(error)
    assert 0 < refused < 20
