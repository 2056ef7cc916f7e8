"""The command line: what a person sees, what a pipe sees, and what happens to bad input."""

import csv
import errno
import subprocess
import sys

import click
import numpy as np
import pytest
from click.testing import CliRunner

from uncover import load_model
from uncover.cli import main
from uncover.cli.progress import say
from uncover.studies.demo import KNOWN, N_TEST, UNKNOWN, run_demo, simulate


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return out, CliRunner().invoke(main, ["demo", "--out", str(out)])


def test_demo_runs_and_says_that_the_data_are_simulated(demo):
    out, result = demo
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("SIMULATED DATA")
    assert result.stderr == ""  # no terminal, no progress
    for name in ("model.uncover", "predictions.csv", "summary.txt", "describe.txt"):
        assert str(out / name) in result.stdout
        assert (out / name).stat().st_size > 0
    assert (out / "summary.txt").read_text(encoding="utf-8") in result.stdout
    assert not list(out.glob("*.partial"))


def test_demo_predictions_can_be_read_and_add_up(demo):
    out, _ = demo
    with (out / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == N_TEST * (len(KNOWN) + len(UNKNOWN))
    for row in rows:
        probability = {name: float(row[f"P({name})"]) for name in KNOWN}
        assert sum(probability.values()) == pytest.approx(1.0, abs=1e-5)
        assert row["class"] == max(probability, key=probability.__getitem__)
        parts = [float(row[f"{part}_nats"]) for part in ("measurement", "model", "overlap")]
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(float(row["total_nats"]), abs=1e-4)


def test_demo_model_file_is_a_model(demo):
    out, _ = demo
    model = load_model(out / "model.uncover")
    assert model.classes_.tolist() == sorted(KNOWN)
    assert model.provenance_["data"] == "simulated by uncover demo"
    assert (out / "describe.txt").read_text(encoding="utf-8") == model.describe()


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    return run_demo(tmp_path_factory.mktemp("again"))


def test_demo_is_the_same_every_time(demo, again):
    out, _ = demo
    for file in again.files:
        assert (out / file.name).read_bytes() == file.read_bytes(), file.name


def test_demo_claims_hold(again):
    ours, *peers = again.scores.values()
    assert all(ours.log_loss < peer.log_loss and ours.brier < peer.brier for peer in peers)
    known, unknown = again.flagged.values()
    assert known < 0.02 < 0.5 < unknown


def test_simulation_of_one_class_does_not_depend_on_the_others():
    both, y = simulate(KNOWN, 4, 2, seed=1)
    alone, _ = simulate({"water": KNOWN["water"]}, 4, 2, seed=1)
    np.testing.assert_array_equal(both[y == "water"], alone)


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_demo_into_a_place_that_is_no_folder_is_one_clear_line(tmp_path, place):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path / place)])
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: cannot write to ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["-h"], ["--version"]])
def test_help_is_there(arguments):
    result = CliRunner().invoke(main, arguments, prog_name="uncover")
    assert result.exit_code == 0
    assert "uncover" in result.stdout


@pytest.mark.parametrize("name", main.commands)
def test_help_of_every_command_has_an_example(name):
    shown = CliRunner().invoke(main, [name, "--help"]).stdout
    assert "Example" in shown
    assert f"  uncover {name} " in shown.split("Example", 1)[1]


def test_help_does_not_wait_for_what_commands_need():
    program = """
import sys
from click.testing import CliRunner
from uncover.cli import main
print(CliRunner().invoke(main, ["--help"]).stdout)
print(sorted({"numpy", "scipy", "sklearn", "rasterio", "xarray", "zarr", "dask"} & set(sys.modules)))
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.rstrip().endswith("[]")


def test_the_module_runs_every_command():
    command = [sys.executable, "-m", "uncover.cli", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Usage: uncover ")
    assert [line.split()[0] for line in shown.split("Commands:")[1].strip().splitlines()] == [*main.commands]


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (ValueError("two\n  lines"), "Error: two lines"),
        (OSError("disk is gone"), "Error: disk is gone"),
        (ImportError("needs rasterio"), "Error: needs rasterio"),
    ],
)
def test_what_is_wrong_with_the_input_is_one_line(monkeypatch, problem, line):
    monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=raiser(problem)))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr.splitlines()) == (1, [line])


def test_our_own_mistakes_show_where_they_happened(monkeypatch):
    monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=raiser(KeyError("band"))))
    assert isinstance(CliRunner().invoke(main, ["fail"]).exception, KeyError)


def test_a_reader_that_goes_away_hears_no_complaint(monkeypatch):
    gone = BrokenPipeError(errno.EPIPE, "Broken pipe")
    monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=raiser(gone)))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr) == (1, "")


def raiser(problem):
    def fail():
        raise problem

    return fail


def test_say_is_for_terminals_only(monkeypatch, capsys):
    say("fitting")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    say("fitting")
    assert "fitting" in capsys.readouterr().err
