"""The command line: what a person sees, what a pipe sees, and what happens to bad input."""

import errno
import os
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from uncover.cli import console, main
from uncover.cli.console import counter, say
from uncover.progress import part_of, step


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


@pytest.mark.parametrize("twice", [["--labels", "a.tif", "--labels=b.tif"], ["--seed", "1", "--seed", "1"]])
def test_an_option_of_one_value_is_not_taken_twice(twice):
    """The last one would count, and nobody would know that the first was lost."""
    result = CliRunner().invoke(main, ["fit", "scene.tif", *twice, "--out", "m.uncover"])
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line == f"Error: {twice[0]} came 2 times, and takes one value; give it once"


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


def test_our_own_mistakes_are_one_line_and_show_where_they_happened_on_request(monkeypatch):
    monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=raiser(KeyError("band"))))
    result = CliRunner().invoke(main, ["fail"])
    assert result.stderr == "Error: KeyError: 'band'; uncover --debug … shows where\n"
    assert isinstance(CliRunner().invoke(main, ["--debug", "fail"]).exception, KeyError)


def test_a_line_quotes_no_whole_file(monkeypatch):
    problem = ValueError(f"the class {'x' * 1_000_000!r} is not known; " + "give another " * 1000)
    monkeypatch.setitem(main.commands, "fail", click.Command("fail", callback=raiser(problem)))
    assert 200 < len(CliRunner().invoke(main, ["fail"]).stderr) < 500


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


def test_a_warning_begins_its_line_beside_a_bar():
    """On a real terminal: the warning takes the line of the bar, which goes on in the next one."""
    program = """
import click
from uncover.cli import main
from uncover.cli.console import counter
from uncover.warn import warn
@main.command("look")
def look():
    with counter("look") as watch:
        watch.phase("opening")
        warn("it is dark")
        watch.phase("looking")
main(["look"])
"""
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    line = next(line for line in shown.splitlines() if "it is dark" in line)
    assert line.rpartition("\x1b[K")[2] == "Warning: it is dark"
    assert "look: looking" in shown.partition("it is dark")[2]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit", "not guaranteed for another date)"),
        ("fit", "with 0 the most frequent label wins"),
        ("fit", "(default: the formula of CAMS, or the product's)"),
        ("fit", "correlation of labels falls to 1/e"),
        ("fit", "qda: the published method; lda:"),
        ("map", "(default: decided from the datatake)"),
        ("map", "Data type of probability and uncertainty layers."),
        ("reproduce", "run again without it for the rest"),
    ],
)
def test_help_says_what_the_defaults_are(command, words):
    shown = CliRunner().invoke(main, [command, "--help"]).stdout
    assert words in " ".join(shown.split())


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_progress_in_a_pipe_is_a_line_a_minute_with_a_rate_of_the_last_seconds(monkeypatch, capsys):
    """90 s of preparation in the first piece, then 1000 pixels a second: the first estimate knows it."""
    clock = Clock()
    monkeypatch.setattr(console.time, "monotonic", clock)
    with counter("map", "pixels") as watch:
        watch.phase("mapping")
        watch(0, 500_000)
        clock.now = 90.0
        for done in range(1000, 200_001, 1000):
            watch(done, 500_000)
            clock.now += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "map: mapping, 1,000 of 500,000 pixels"  # nothing is known yet
    assert lines[1] == "map: mapping, 61,000 of 500,000 pixels, 1,000 pixels/s, 7 min left"
    assert len(lines) == 1 + 199 // 60


def test_a_few_large_pieces_give_no_estimate(monkeypatch, capsys):
    """Files of a map: what is left may be nearly done, or not begun."""
    clock = Clock()
    monkeypatch.setattr(console.time, "monotonic", clock)
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.0)
    with counter("map") as watch:
        for done in range(8):
            watch.phase("writing", done, 8)
            clock.now += 5.0
        assert "left" not in capsys.readouterr().err
        watch(8, 10)
        assert "10 s left" in capsys.readouterr().err


def test_silence_in_a_pipe_is_a_line_a_minute(monkeypatch, capsys):
    """Nobody counts, and still a line says what goes on; one more only when another minute has passed."""
    clock = Clock()
    monkeypatch.setattr(console.time, "monotonic", clock)
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LOOKS", 0.01)
    with counter("fit"):
        step("opening")
        clock.now = 61.0
        said, deadline = "", time.perf_counter() + 10
        while not said and time.perf_counter() < deadline:
            time.sleep(0.01)
            said = capsys.readouterr().err
        time.sleep(0.05)
        clock.now = 90.0
        step("fitting members", 2, 7)
    assert (said, capsys.readouterr().err) == ("fit: opening\n", "")


def test_steps_of_what_is_computed_are_shown(monkeypatch, capsys):
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.0)
    with counter("fit"):
        step("fitting members", 2, 7)
        with part_of("checking", 1, 3):
            step("fitting members", 2, 7)
    assert capsys.readouterr().err.splitlines() == ["fit: fitting members, 2 of 7", "fit: checking, 9 of 21"]


def test_progress_on_a_terminal_is_a_bar_with_phases(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(console.time, "monotonic", clock)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with counter("map", "pixels") as watch:
        watch.phase("opening")
        watch.phase("mapping")
        for done in range(0, 100, 10):
            watch(done, 100)
            clock.now += 1.0
        watch.phase("writing")
    shown = capsys.readouterr().err
    assert "left" not in shown[shown.index("map: writing") :]  # the rate of the phase before
    assert (
        "map: loading" in shown
        and "map: opening" in shown
        and "map: mapping" in shown
        and "100%" not in shown
    )
    assert "10 pixels/s, 1 s left" in shown
