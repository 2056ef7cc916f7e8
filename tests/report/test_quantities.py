"""The report's table of input quantities: every one by name, with what is recorded of it."""

from uncover.measurement import Quantity
from uncover.report.map_report import quantity_tables


def test_every_quantity_of_scene_and_training_has_a_row():
    noise = {
        "name": "noise",
        "estimate": 0.0,
        "standard_uncertainty": [0.01, 0.02],
        "units": "1",
        "distribution": "Gaussian",
        "between_pixels": "random",
        "source": "u.csv",
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
    assert first[:4] == ("noise", "this scene", "0", "0.01, 0.02")
    assert first[5:] == ("random between pixels, between bands up to 0.3", "u.csv")
    assert second[:4] == ("aod", "training scene june", "0.12", "0.0768")
    assert "truncated at 0 and 2: mean 0.1296, standard deviation 0.06821" in second[4]
    assert "25 draws: 0.131, 0.07" in second[4]


def test_without_quantities_there_is_no_table():
    assert quantity_tables({}, None) == []
