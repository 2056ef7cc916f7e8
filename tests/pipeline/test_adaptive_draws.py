"""The number of worlds by the adaptive procedure: blocks that hold each other, and what is stable."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from test_effects import ALL, scene

from fit_cases import safe_with_labels
from uncover.pipeline import MapOptions, RealiseOptions, realise_scene
from uncover.pipeline.adaptive_draws import AdaptiveDraws
from uncover.pipeline.prepared_map import _Again
from uncover.pipeline.scene_sources import SourceOptions
from uncover.raster import SceneError
from uncover.raster.mapper import Reader

pytestmark = pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")


@pytest.mark.parametrize("method", ["quantile", "mc"])
def test_worlds_of_some_blocks_are_the_first_of_more(method):
    options = ALL.__class__(aod=0.15, altitude=0.3, draws=6, effects=("all", "aerosol-model"), method=method)
    alone = realise_scene(scene(), options)
    three = realise_scene(scene(), ALL.__class__(**{**vars(options), "blocks": (0, 1, 2)}))
    last = realise_scene(scene(), ALL.__class__(**{**vars(options), "blocks": (2,)}))
    assert three.realisations == 18
    for name, values in three.worlds.items():
        assert values[:6] == alone.worlds[name] and values[12:] == last.worlds[name], name
        assert name == "aerosol_model" or values[:6] != values[6:12]
    for whole, first, end in zip(three.signal, alone.signal, last.signal, strict=True):
        np.testing.assert_array_equal(whole[:6], first)
        np.testing.assert_array_equal(whole[12:], end)
    assert np.isclose(three.weights.sum(), 1.0) and three.draws.around(0.2).shape == (18,)


def test_errors_cover_the_truth(rng):
    """Half widths of 95 % of what blocks of Gaussian numbers say hold the true mean in 95 % of cases."""
    inside = []
    for _ in range(400):
        found = AdaptiveDraws(1, 25)
        for _ in range(4):
            found = found.add(rng.normal(0.5, 0.01, 1), rng.normal(0.02, 0.001, 1), 0.03)
        inside.append(np.abs(found.means - [0.5, 0.02, 0.03]) <= found.errors() + 1e-15)
    hit = np.mean(inside, axis=0)
    assert (np.abs(hit[:2] - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 400)).all() and hit[2] == 1.0


def test_more_digits_take_more_blocks_and_too_many_are_refused(rng):
    def blocks(digits):
        found, draw = AdaptiveDraws(digits, 25), np.random.default_rng(3)
        while not found.stable and len(found.blocks) < 2000:
            found = found.add(draw.normal(0.5, 0.002, 1), draw.normal(0.02, 0.002, 1), 0.03)
        return len(found.blocks)

    assert 2 <= blocks(1) < blocks(2) < 2000
    with pytest.raises(SceneError, match=r"--draws auto:4 came; it takes 1, 2 or 3 significant digits"):
        MapOptions(digits=4)


def test_a_scene_that_is_read_in_the_worlds_of_the_training_has_no_free_number_of_them():
    source = SourceOptions(realise=RealiseOptions(aod=0.1))
    model = SimpleNamespace(realisations="shared", model_=SimpleNamespace(n_realisations=25))
    mapper = SimpleNamespace(reader=Reader(paired=True), observed=SimpleNamespace(identity="S2A"))
    with pytest.raises(SceneError) as caught:
        _Again(None, model, MapOptions(source=source, digits=1), mapper.reader, None).check(mapper)
    assert str(caught.value) == (
        "scene S2A trained the model, and is read in the worlds that did; --draws auto is for other scenes: "
        "give --draws 25"
    )


def test_a_map_with_enough_worlds_states_them(run, refused, tmp_path):
    tree, maps, _ = safe_with_labels(tmp_path, "L1C_03.01")
    worlds = ("--aod", 0.12, "--effects", "aod,ozone")
    fit = ("--labels", maps[0], "--scheme", "ukceh-lulucf", "--model", "published", "--count", 2000)
    made = run("fit", tree.path, *fit, *worlds, "--draws", 4, "--out", "m.uncover")
    assert made.exit_code == 0, made.output
    made = run("map", "m.uncover", tree.path, *worlds, "--draws", "auto", "--unpaired", "--out", "auto")
    assert made.exit_code == 0, made.output
    record = json.loads((tmp_path / "auto" / "item.json").read_text())["properties"]
    found = record["uncover:adaptive_draws"]
    assert found["stable"] and found["blocks"] >= 2 and record["uncover:worlds"] == 25 * found["blocks"]
    assert [each["worlds"] for each in found["history"]] == list(range(50, record["uncover:worlds"] + 1, 25))
    for each in found["quantities"].values():
        assert each["error"] <= each["tolerance"]
    words = refused("fit", tree.path, *fit, *worlds, "--draws", "auto", "--out", "n.uncover")
    assert "--draws auto came; only uncover map can tell when areas are stable: give a number" in words
    words = refused("map", "m.uncover", tree.path, *worlds, "--draws", "auto:4", "--out", "none")
    assert "--draws auto:4 came" in words
    words = refused("map", "m.uncover", tree.path, "--draws", "auto", "--out", "none")
    assert "--draws came without --aod or --product-aod" in words
    wrong = run("map", "m.uncover", tree.path, *worlds, "--draws", "many", "--out", "none")
    assert wrong.exit_code == 2 and "'many' is no number; give one, or auto, or auto:2" in wrong.stderr
    words = refused("map", "m.uncover", tree.path, tree.path, *worlds, "--draws", "auto", "--out", "none")
    assert "2 tiles make one map, and --draws auto may need another number of worlds in each" in words
