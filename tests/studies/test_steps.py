"""Steps that are done once: when they are done again, and what they never touch."""

import pytest

from uncover.studies.demo import Steps


@pytest.fixture
def steps(tmp_path):
    (tmp_path / "input.txt").write_text("one")
    return Steps(tmp_path)


def do(steps, text="made", **options):
    made = []

    def make():
        made.append(True)
        (steps.folder / "out").mkdir()
        (steps.folder / "out" / "file.txt").write_text(text)

    done = steps.do("step", options, [steps.folder / "input.txt"], ["out"], make)
    assert done == bool(made)
    return done


def test_a_step_is_done_once(steps):
    assert do(steps, size=1)
    assert not do(steps, size=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "input.txt").write_text("two"),
        lambda folder: (folder / "out" / "file.txt").write_text("damaged"),
        lambda folder: (folder / "out" / "file.txt").unlink(),
    ],
    ids=["input", "result changed", "result lost"],
)
def test_it_is_done_again_if_anything_changed(steps, change):
    do(steps)
    change(steps.folder)
    assert do(steps)
    assert not do(steps)


def test_other_options_make_it_anew(steps):
    do(steps, size=1)
    assert do(steps, "other", size=2)
    assert (steps.folder / "out" / "file.txt").read_text() == "other"


def test_a_step_that_was_stopped_is_done_from_the_start(steps):
    def stop():
        (steps.folder / "out").mkdir()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        steps.do("step", {}, [], ["out"], stop)
    assert do(steps)


def test_without_a_record_nothing_counts_as_made_by_a_step(steps):
    do(steps)
    (steps.folder / "steps.json").write_text("{damaged")
    with pytest.raises(ValueError, match="no earlier run made it"):
        do(steps)


def test_what_no_step_made_is_left_alone(steps):
    (steps.folder / "out").mkdir()
    (steps.folder / "out" / "mine.txt").write_text("precious")
    with pytest.raises(ValueError, match="name another folder"):
        do(steps)
    assert (steps.folder / "out" / "mine.txt").read_text() == "precious"


def test_the_times_of_a_run_do_not_count(steps):
    assert do(steps, size=1)
    (steps.folder / "out" / "run.json").write_text("10 s")
    assert not do(steps, size=1)
