"""An option that would have no effect is refused: whoever gives one expects that it has."""

import pytest

from map_cases import BANDS, CLASSES, MEANS, fitted, reflectance, save_model, write_scene


@pytest.fixture(autouse=True)
def files(tmp_path):
    rows = [
        f"{','.join(f'{x:.4f}' for x in mean + 0.001 * i)},{name}"
        for i in range(8)
        for mean, name in zip(MEANS, CLASSES, strict=True)
    ]
    (tmp_path / "pixels.csv").write_text("\n".join([",".join([*BANDS, "class"]), *rows]))
    write_scene(tmp_path / "scene.tif", reflectance(32, 32))
    save_model(tmp_path / "model.uncover", fitted(n=60))


@pytest.mark.parametrize(
    ("idle", "words"),
    [
        (("--labels", "labels.tif"), "--labels came, and no scene or cube"),
        (("--bbox", 1, 2, 3, 4, "--aoi", "a.gpkg"), "--bbox, --aoi came, and no scene or cube"),
        (("--mask-classes", "none"), "--mask-classes came, and no scene or cube"),
        (("--mask-values", "3"), "--mask-values came without --mask"),
        (("--aod", 0.1), "--aod came, and no scene"),
        (("--mask", "m.tif", "--scene-id", "s"), "--mask, --scene-id came, and no scene"),
        (("--draws", 25), "--draws came without --aod or --product-aod"),
        (("--dem", "heights.tif"), "--dem came without --aod or --product-aod"),
    ],
)
def test_in_fitting_to_a_table(refused, idle, words):
    assert words in refused("fit", "pixels.csv", "--out", "m.uncover", *idle)


@pytest.mark.parametrize(
    ("idle", "words"),
    [
        (("--draws", 5, "--ozone", 300), "--draws, --ozone came without --aod or --product-aod"),
        (("--angles", 30, 5, 100), "--angles came without --aod or --product-aod"),
        (("--aod", 0.1, "--product-aod"), "--aod and --product-aod came"),
        (("--correlation", "r.csv"), "--correlation came without --uncertainty"),
        (("--between-pixels", "random"), "--between-pixels came without --uncertainty"),
        (("--threads", 0), "--threads is 0; give 1 or more"),
        (("--block", 0), "--block is 0; give 1 or more"),
        (("--dry-run", "--resume"), "--resume came with --dry-run, which estimates the whole map"),
    ],
)
def test_in_mapping(refused, idle, words):
    assert words in refused("map", "model.uncover", "scene.tif", "--out", "map", *idle)


@pytest.mark.parametrize(
    ("study", "idle", "words"),
    [
        ("synthetic", ("--data", "pixels.csv"), "--data came for the synthetic study"),
        ("synthetic", ("--class-field", "class"), "--class-field came for the synthetic study"),
        ("landcover", ("--labels", "labels.tif"), "--labels came without --data"),
        ("synthetic", ("--scheduler", "tcp://a:1", "--workers", 2), "--workers came with --scheduler"),
    ],
)
def test_in_a_study(refused, study, idle, words):
    assert words in refused("reproduce", study, "--out", "study", "--dry-run", *idle)


def test_in_a_report_of_a_study(refused, tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "study.json").write_text("{}")
    assert "--labels came for a study" in refused("report", "study", "--labels", "labels.tif")


def test_what_says_how_something_is_drawn_by_default_is_no_idle_option(run):
    assert run("fit", "pixels.csv", "--seed", 3, "--out", "m.uncover").exit_code == 0
    assert run("map", "m.uncover", "scene.tif", "--seed", 3, "--out", "map", "--dry-run").exit_code == 0
