"""Small land cover maps, scenes and a command line that is run as a user runs it."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from label_maps import GRID, patchy, write_map
from uncover.cli import main
from uncover.labels import load_translation
from uncover.pipeline import FitOptions, SceneOptions


@dataclass
class Years:
    """Three years of a map with probabilities: arrays, and the files that hold them."""

    codes: list
    percent: list
    files: list

    @property
    def probabilities(self):
        return [f"{file}:2" for file in self.files]


@pytest.fixture
def years(tmp_path):
    rng = np.random.default_rng(1)
    base = patchy(0, GRID.shape, [1, 3, 4, 11, 13, 20], noise=0)
    codes = [np.where(rng.random(GRID.shape) < 0.1, rng.integers(1, 22, GRID.shape), base) for _ in range(3)]
    codes = [c.astype(np.uint8) for c in codes]
    percent = [rng.integers(93, 101, GRID.shape).astype(np.uint8) for _ in codes]
    files = [
        write_map(tmp_path / f"lcm{year}.tif", c, p)
        for year, c, p in zip((2018, 2019, 2020), codes, percent, strict=True)
    ]
    return Years(codes, percent, files)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command line in a folder of its own; returns the result of click's runner."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return command


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must fail with one clear line, and leave the folder as it was."""

    def listing():
        return sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.name != "__pycache__")

    def command(*arguments):
        before = listing()
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("Error: ")
        assert listing() == before
        return lines[0]

    return command


@pytest.fixture
def cut():
    """Cut a file at a share of its length."""

    def command(path, share):
        path = Path(path)
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        return path

    return command


@pytest.fixture
def problem(tmp_path):
    """Four bands, three realisations, labels on GRID; float32 throughout."""
    rng = np.random.default_rng(5)
    codes = load_translation("ukceh-lulucf")(patchy(6, GRID.shape, [1, 3, 4, 13]))
    centre = rng.normal(0.2, 0.05, (256, 4))[codes]
    truth = centre + rng.normal(0, 0.02, (*GRID.shape, 4))
    values = (truth[..., None, :] + rng.normal(0, 0.01, (*GRID.shape, 3, 4))).astype(np.float32)
    write_map(tmp_path / "scene.tif", *np.moveaxis(values[..., 0, :], -1, 0))
    write_map(tmp_path / "labels.tif", codes, nodata=0)
    options = FitOptions(
        labels=tmp_path / "labels.tif",
        scheme="lulucf",
        model="published",
        scene=SceneOptions(bands=("a", "b", "c", "d")),
    )
    return codes, values, options
