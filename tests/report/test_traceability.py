"""The section Traceability: what enters, which effect has which share, and how far worlds have converged."""

from types import SimpleNamespace

import numpy as np

from uncover.pipeline.adaptive_draws import AdaptiveDraws
from uncover.report.map_report import quantity_tables
from uncover.report.page import Figure, Note, Page, Table, render
from uncover.report.traceability import traceability_section

AOD = {
    "name": "aerosol optical depth at 550 nm",
    "estimate": 0.12,
    "standard_uncertainty": 0.08,
    "units": "1",
    "distribution": "Gaussian, truncated at 0 and 2",
    "between_pixels": "systematic",
    "draws": {"number": 50, "method": "quantile", "mean": 0.13, "standard_deviation": 0.07},
}
KIND = {
    "name": "aerosol model",
    "estimate": "continental",
    "distribution": "equal probabilities of continental, desert",
    "draws": {"number": 50, "method": "quantile"},
    "between_pixels": "systematic",
}
DIFFUSER = {"name": "diffuser, absolute", "standard_uncertainty": [1.0], "between_bands": "full"}
SHARES = {
    "ozone": {"mean_nat": 0.001, "share": 0.1, "of_area_variance": {"a": 0.3, "b": 0.2}},
    "aod": {
        "mean_nat": 0.009,
        "share": 0.9,
        "of_area_variance": {"a": 0.7, "b": 0.8},
        "of_area_variance_error": {"a": 0.1},
    },
}


def section(**more):
    stated = {"quantities": [AOD, KIND, DIFFUSER], "correction": "look-up table"}
    item = {"uncover:measurement_uncertainty": stated, "uncover:worlds": 50} | more
    areas = SimpleNamespace(
        worlds=np.array([[1.0, 3.0], [4.0, 2.0]]),
        spread=np.array([1.4, 1.4]),
        spread_error=np.array([1.0, 1.0]),
        unit="ha",
    )
    summary = SimpleNamespace(item={"properties": item}, areas=areas, names=("a", "b"))
    return traceability_section(summary, quantity_tables(item, None))


def named(name, made):
    return next(part for part in made.parts if isinstance(part, Figure) and part.name == name)


def test_every_quantity_is_in_the_diagram_and_in_the_table():
    made = section()
    diagram = next(part for part in made.parts if isinstance(part, Figure))
    table = next(part for part in made.parts if isinstance(part, Table))
    for quantity in (AOD, KIND, DIFFUSER):
        assert quantity["name"].split(", ")[0] in diagram.alternative
        assert quantity["name"] in [row[0] for row in table.rows]
    cells = {row[0]: row for row in table.rows}
    assert cells["aerosol model"][5] == "equal probabilities of continental, desert; 50 draws"
    assert "between bands full" in cells["diffuser, absolute"][6] and cells["diffuser, absolute"][2] == "–"
    assert 'id="traceability"' in render(Page("title", "subtitle", (made,)))


def test_the_effect_with_the_largest_share_is_named_first_and_in_words():
    figure = named("effects-figure", section(**{"uncover:effect_shares": SHARES}))
    assert [row[0] for row in figure.numbers.rows] == ["aod", "ozone"]
    assert figure.numbers.rows[0][1:] == ("0.009", "90.0 %", "70.0 % ± 10.0 %", "80.0 %")
    assert "known without error, aod would take about 90.0 %" in figure.reading
    assert any("not split by effect" in part.text for part in section().parts if isinstance(part, Note))


def test_a_training_scene_of_the_same_name_may_be_another_one():
    provenance = {"sources": [{"name": "s", "uncertainty": {"quantities": [AOD]}}]}
    for paired, words in (
        (True, "training scene, which is this one"),
        (False, "training scene s, another one"),
    ):
        item = {"uncover:scene": "s", "uncover:paired": paired}
        (table,) = quantity_tables(item, provenance)
        assert table.rows[0][1] == words


def test_convergence_is_that_of_the_blocks_or_of_a_stated_number():
    stated = section()
    captions = [part.caption for part in stated.parts if isinstance(part, Table)]
    assert captions[1].startswith("Monte Carlo convergence: 2 worlds")
    found = AdaptiveDraws(1, 25)
    for i in range(3):
        found = found.add(np.array([0.5]), np.array([0.02]), 0.03 + 1e-4 * i)
    record = found.facts(["a"])
    figure = named("convergence-figure", section(**{"uncover:adaptive_draws": record}))
    assert found.stable and "is stable with 75 worlds" in figure.reading
    assert [row[0] for row in figure.numbers.rows] == list(record["quantities"])


def test_a_map_without_stated_uncertainty_has_no_such_section():
    summary = SimpleNamespace(item={"properties": {}}, areas=None, names=())
    assert traceability_section(summary, []) is None
