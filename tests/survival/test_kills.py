"""Commands that are killed at any moment, and go on to the same bytes."""

import shutil
import signal

import numpy as np
import pytest

from survival_cases import COMMANDS, copy_inputs, state

#: Kills of each command in every run of the tests, and in the slow ones: 1,020 of 14 commands.
FEW, MANY = 3, {"demo": 12, "map": 52, "map-zarr": 39, "map-netcdf": 39, "change": 39, "report": 39}
#: The others have tests of their own.
QUICK = ("labels", "fit", "realise", "evaluate", "areas", "view")


def check_killed(command, where, inputs, whole):
    """What a killed run leaves: nothing, work that is called unfinished, or all of the product."""
    made, unfinished = state(where, inputs)
    if command.in_steps:
        each = {name for name in made if not name.endswith(".partial")}
        assert command.name == "demo" or all(made[name] == whole.get(name) for name in each)
        return made == whole and not unfinished
    halves = [name for name, digest in made.items() if whole.get(name) != digest]
    assert not halves, f"half of a product has its name: {halves[:5]}"
    main = [name for name in made if name.split("/")[0] == command.out]
    assert not main or made == whole, "the product stands there without its companions"
    return bool(main)


def killed_often(command, launcher, originals, tmp_path, kills):
    """Kill and go on, half of the times in the last third of all events; how many kills hit."""
    inputs = copy_inputs(originals, tmp_path / "a")
    (usual,) = launcher.run(tmp_path / "a", command.arguments)
    assert usual.code == 0, usual.said
    whole, left = state(tmp_path / "a", inputs)
    assert whole and not left
    rng, hit, round_number, where = np.random.default_rng(3), 0, 0, None
    for attempt in range(4 * kills):
        if where is None:
            round_number += 1
            where = tmp_path / f"b{round_number}"
            copy_inputs(originals, where)
        line = (*command.arguments, *command.again)
        last = attempt % 2 == 0
        at = int(rng.integers(usual.events * 2 // 3, usual.events + 1)) if last else None
        after = None if last else float(rng.uniform(0, usual.seconds))
        (end,) = launcher.run(where, line, kill_at=at, kill_after=after)
        finished = check_killed(command, where, inputs, whole)
        if end.code == -signal.SIGKILL:
            hit += 1
        else:
            assert end.code == 0, end.said
            assert state(where, inputs) == (whole, set()), "another product, or unfinished work left behind"
        if finished or end.code == 0 or hit == kills:
            if not finished:
                (end,) = launcher.run(where, line)
                assert end.code == 0, end.said
                assert state(where, inputs) == (whole, set())
            shutil.rmtree(where)
            where = None
        if hit == kills:
            return hit
    raise AssertionError(f"only {hit} kills hit")


@pytest.mark.parametrize("name", QUICK)
def test_a_killed_command_goes_on_to_the_same_bytes(name, launcher, originals, tmp_path):
    assert killed_often(COMMANDS[name], launcher, originals, tmp_path, FEW) == FEW


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_many_times(name, launcher, originals, tmp_path):
    kills = MANY.get(name, 100)
    assert killed_often(COMMANDS[name], launcher, originals, tmp_path, kills) == kills


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith(("map", "demo"))])
def test_a_signal_stops_a_command_in_one_line(name, number, launcher, originals, tmp_path):
    """At the end of a unit where it has units, else where it is; and it goes on to the same bytes."""
    command = COMMANDS[name]
    inputs = copy_inputs(originals, tmp_path / "a")
    (usual,) = launcher.run(tmp_path / "a", command.arguments)
    assert usual.code == 0, usual.said
    whole, _ = state(tmp_path / "a", inputs)
    for part in (0.2, 0.6):
        where = tmp_path / f"b{part}"
        copy_inputs(originals, where)
        at = max(1, round(part * usual.events))
        (end,) = launcher.run(where, command.arguments, kill_at=at, number=number)
        assert end.code == 128 + number, end.said
        last = end.said.splitlines()[-1]
        assert last == "stopped" or (last == "stopped; go on with --resume" and "--resume" in command.again)
        assert "Traceback" not in end.said
        finished = check_killed(command, where, inputs, whole)
        if not finished:
            kept = state(where, inputs)[1]
            assert bool(kept) == last.endswith("--resume"), "work is kept, and nobody says so"
            (end,) = launcher.run(where, (*command.arguments, *command.again))
            assert end.code == 0, end.said
        assert state(where, inputs) == (whole, set())
