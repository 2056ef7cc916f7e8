"""`uncover map --dry-run`: time, as it then takes; in processes of their own, as a user runs them."""

import json
import re
import subprocess
import sys

import pytest

from map_cases import fitted, reflectance, save_model, write_scene
from uncover.pipeline import mapping

LABEL = re.compile(r"^time +(\d+) s, if the machine is as busy as now$", re.MULTILINE)


def uncover(*words, cwd):
    command = [sys.executable, "-m", "uncover.cli", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow  # a busy machine is no test of a clock
@pytest.mark.parametrize("side", [100, 1200])
def test_the_time_is_right_within_a_factor_of_two(tmp_path, side):
    """Small maps are opening, loading and drawing; large ones are pixels; a second is the clock's noise."""
    model = save_model(tmp_path / "m.uncover", fitted())
    scene = write_scene(tmp_path / "scene.tif", reflectance(side, side))
    uncover("map", model, scene, "--out", "first", cwd=tmp_path)  # compiles, once
    said = int(LABEL.search(uncover("map", model, scene, "--out", "map", "--dry-run", cwd=tmp_path)).group(1))
    uncover("map", model, scene, "--out", "map", cwd=tmp_path)
    took = json.loads((tmp_path / "map/run.json").read_text())["seconds"]
    assert took / 2 - 1 <= said <= 2 * took + 1
    assert said >= 1


def test_time_is_all_that_a_map_does(tmp_path, monkeypatch):
    """A clock that only units move: one for each of two threads, computed until a second has passed."""
    now = [0.0]
    monkeypatch.setattr(mapping.time, "monotonic", lambda: now[0])

    class Slow:
        def __init__(self, threads, ahead):
            self.threads = threads

        def run(self, mapper, numbers):
            for number in numbers:
                now[0] += 0.25 + (3.0 if now[0] == 0 else 0.0)  # the first loads the kernels
                yield number

    monkeypatch.setattr(mapping, "Threads", Slow)
    model = save_model(tmp_path / "m.uncover", fitted())
    scene = write_scene(tmp_path / "scene.tif", reflectance(512, 1024))
    found = mapping.forecast(model, scene, mapping.MapOptions(threads=2))
    written = (
        512 * 1024 * mapping.PreparedMap.of(model, scene, mapping.MapOptions()).mapper.product.bytes_per_pixel
    )
    files = mapping._FINISH + written / 2**20 * mapping._PER_MEGABYTE
    assert found.units == 8
    assert found.seconds == pytest.approx(3.0 + 8 * 0.25 + files)
