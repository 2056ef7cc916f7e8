"""Some changed inputs of every reader, and those that once went wrong; `make fuzz` reads many more."""

import tempfile
from pathlib import Path

import pytest

from fuzzing.readers import HARNESSES
from fuzzing.run import EXPECTED, LINE, Corpus, NotMade, said
from uncover.cli.console import _one_line

#: (reader, seed, number) of inputs that once ended in a traceback.
ONCE_WRONG = {
    "tables of class shares": [(0, 18), (0, 70)],
    "model files": [(0, 56), (0, 98), (0, 214), (301, 15), (401, 12), (401, 13), (1003, 10), (1003, 29),
                    (1004, 11), (1004, 15)],
    "cubes": [(0, 52), (0, 122), (0, 151), (0, 176)],
    "folders of maps and evaluations": [(0, 145)],
    "tables of points": [(201, 34), (1003, 124)],
    "folders for the viewer": [(201, 28), (1001, 35), (2001, 85), (2001, 137)],
    "GeoJSON": [(2001, 96)],
    "cubes of samples": [(201, 9), (201, 12), (201, 21)],
    "regions of areas": [(0, 5), (0, 6)],
    "maps that are compared": [(0, 9)],
    "shapefiles and their tables": [(1002, 8), (1003, 103)],
    "stopped areas": [(801, 1), (801, 6), (1001, 1), (2001, 32)],
    "answers of a STAC API": [(1001, 777)],
    "a stopped cube": [(1002, 4)],
    "parameters of Sen2Cor, steps of a demonstration": [(801, 11)],
    "options of commands": [(1001, 94)],
}  # fmt: skip


@pytest.mark.parametrize("name", HARNESSES)
def test_a_hostile_file_is_one_line(name):
    with tempfile.TemporaryDirectory() as folder:
        try:
            corpus = Corpus.of(name, Path(folder))
        except NotMade:
            pytest.skip("the metadata that the products are made of are not here")
        assert corpus.read(0, 0) is None, "the minimal files themselves are read"
        few = max(2, int(16 * HARNESSES[name].weight))
        refused = 0
        for seed, number in [*ONCE_WRONG.get(name, ()), *((2, number) for number in range(1, few))]:
            error = corpus.read(seed, number)
            refused += error is not None
            assert error is None or (isinstance(error, EXPECTED) and said(error)), (seed, number)
            assert error is None or len(_one_line(error)) < LINE, (seed, number)
        assert refused or few < 10
