"""The report's table of input quantities: every one by name, with what is recorded of it."""

from uncover.measurement import Quantity
from uncover.report.map_report import quantity_tables


def test_every_quantity_of_scene_and_training_has_a_row():
    noise = {
        "name": "noise",
        "estimate": 0.0,
        "standard_uncertainty": [0.01, 0.02],
        "units": "1",
        "expanded_uncertainty": [0.02, 0.06],
        "coverage_factor": [2.0, 3.0],
        "distribution": "Gaussian (assumed)",
        "between_pixels": "random",
        "source": "u.csv",
        "source_sha256": "1f",
        "between_bands": [[1.0, 0.3], [0.3, 1.0]],
    }
    aod = Quantity("aod", 0.12, 0.0768, highest=2.0).record() | {
        "draws": {"number": 25, "mean": 0.131, "standard_deviation": 0.07},
        "units": "1",
        "between_pixels": "systematic",
        "between_scenes": "independent",
        "source": "--aod",
    }
    item = {"uncover:measurement_uncertainty": {"quantities": [noise]}}
    provenance = {"sources": [{"name": "june", "uncertainty": {"quantities": [aod]}}, {"name": "july"}]}
    (table,) = quantity_tables(item, provenance)
    first, second = table.rows
    assert table.header[4] == "units"
    assert first[:5] == ("noise", "this scene", "0", "0.01, 0.02 (from U = 0.02, 0.06, k = 2, 3)", "1")
    assert first[5:] == (
        "Gaussian (assumed)", "random between pixels, between bands up to 0.3", "u.csv (SHA-256 1f)"
    )  # fmt: skip
    assert second[:5] == ("aod", "training scene june", "0.12", "0.0768", "1")
    assert "truncated at 0 and 2: mean 0.1296, standard deviation 0.06821" in second[5]
    assert "25 draws: 0.131, 0.07" in second[5]


def test_without_quantities_there_is_no_table():
    assert quantity_tables({}, None) == []
