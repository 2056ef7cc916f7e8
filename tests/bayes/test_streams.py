"""Random numbers by name."""

import subprocess
import sys

import numpy as np
import pytest

from uncover.bayes.streams import stream


def first(*args):
    return stream(*args).integers(2**63)


def test_seed_and_names_decide_and_nothing_else():
    expected = first(3, "aod", "scene", 1)
    stream(3, "other").random(100)
    assert first(3, "aod", "scene", 1) == expected
    np.random.default_rng(3).random()
    assert first(3, "aod", "scene", 1) == expected


def test_every_name_has_numbers_of_its_own():
    names = [
        (),
        ("a",),
        ("b",),
        ("a", "b"),
        ("ab",),
        ("a", "b", ""),
        ("a", 1),
        ("a", 2),
        ("a, b",),
        ("'a', 'b'",),
    ]
    assert len({first(0, *name) for name in names} | {first(1, *name) for name in names}) == 2 * len(names)


def test_the_same_numbers_in_another_process():
    """Python's own hash differs between processes; the streams do not."""
    code = "from uncover.bayes.streams import stream; print(stream(0, 'aod', 7).integers(2**63))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(out.stdout) == first(0, "aod", 7)


def test_streams_are_not_correlated():
    a, b = (stream(0, "x", i).standard_normal(100_000) for i in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / np.sqrt(100_000)


def test_no_seed_gives_fresh_numbers():
    assert first(None, "a") != first(None, "a")


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative"):
        stream(-1, "a")
