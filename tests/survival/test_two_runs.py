"""Two processes that write into one place at the same time: one makes the product, the other says why not."""

import shutil

import pytest

from survival_cases import COMMANDS, copy_inputs, state

QUICK = ("labels", "fit", "realise", "evaluate", "view")


def together(command, launcher, originals, tmp_path, times):
    """Begin a command twice at once, so many times."""
    inputs = copy_inputs(originals, tmp_path / "a")
    (usual,) = launcher.run(tmp_path / "a", command.arguments)
    assert usual.code == 0, usual.said
    whole, _ = state(tmp_path / "a", inputs)
    for _ in range(times):
        where = tmp_path / "b"
        copy_inputs(originals, where)
        ends = launcher.run(where, command.arguments, command.arguments)
        assert sorted(end.code for end in ends) == [0, 1], [end.said for end in ends]
        (loser,) = (end for end in ends if end.code)
        (line,) = (line for line in loser.said.splitlines() if line.startswith("Error: "))
        assert "another run (process " in line or "exists already" in line
        assert "Traceback" not in loser.said
        assert state(where, inputs) == (whole, set())
        shutil.rmtree(where)


@pytest.mark.parametrize("name", QUICK)
def test_one_of_two_wins(name, launcher, originals, tmp_path):
    together(COMMANDS[name], launcher, originals, tmp_path, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_one_of_two_wins_each_time(name, launcher, originals, tmp_path):
    together(COMMANDS[name], launcher, originals, tmp_path, 10 if name != "demo" else 3)
