"""SIGTERM and SIGINT: the unit is finished, what was computed is kept, and the exit code names the signal."""

import os
import signal
import subprocess
import sys
import time

import pytest

from map_cases import contents, fitted, reflectance, save_model, write_scene
from uncover.pipeline import MapOptions, map_scene


@pytest.fixture
def case(tmp_path):
    return (
        save_model(tmp_path / "m.uncover", fitted()),
        write_scene(tmp_path / "s.tif", reflectance(600, 700)),
    )


def started(tmp_path, case, *more):
    program = [sys.executable, "-c", SLOWLY, "map", *map(str, case), "--threads", "1"]
    run = subprocess.Popen(
        [*program, "--out", str(tmp_path / "map"), *more], stderr=subprocess.PIPE, text=True
    )
    journal = tmp_path / "map.partial" / "journal"
    deadline = time.monotonic() + 120
    while not (journal.exists() and journal.read_text().count("\n") > 2):
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    return run


#: Every unit takes a while, and is synchronised.
SLOWLY = """
import time
from uncover.cli import main
from uncover.raster import scratch
scratch.SECONDS_BETWEEN_SYNCS = 0.0
put = scratch.Scratch.put
def slowly(self, unit):
    time.sleep(0.15)
    put(self, unit)
scratch.Scratch.put = slowly
main(prog_name="uncover")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_at_the_end_of_a_unit(tmp_path, case, number):
    run = started(tmp_path, case)
    run.send_signal(number)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 128 + number
    assert said == "stopped; go on with --resume\n"
    assert not (tmp_path / "map").exists()
    if number == signal.SIGINT:
        return
    map_scene(*case, tmp_path / "map", MapOptions(resume=True))
    map_scene(*case, tmp_path / "undisturbed")
    assert contents(tmp_path / "map") == contents(tmp_path / "undisturbed")
    assert not (tmp_path / "map.partial").exists()


def test_a_second_signal_stops_at_once(tmp_path, case):
    run = started(tmp_path, case)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    began = time.monotonic()
    run.communicate(timeout=60)
    assert run.returncode == 143 and time.monotonic() - began < 10


def test_a_command_without_units_stops_where_it_is(tmp_path):
    code = "import os, signal, click\nfrom uncover.cli import main\n@main.command()\ndef wait():\n"
    code += "    os.kill(os.getpid(), signal.SIGTERM)\n    raise AssertionError\nmain(['wait'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ})
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "stopped\n")
