"""Cells: each is computed once, by anyone, and what was finished before a run was killed is kept."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from uncover.studies.cells import CellStore, Workers, extended, forecast, run_cells

FACTS = {"study": "tiny", "seed": 0}


@dataclass(frozen=True)
class Square:
    """Squares a number and leaves a note of it."""

    number: int
    log: str
    seconds: float = 0.0
    like: str = "square"

    @property
    def key(self):
        return f"square-{self.number}"

    def compute(self):
        time.sleep(self.seconds)
        with Path(self.log).open("a") as log:
            log.write(f"{self.number}\n")
        return {"square": self.number**2}

    def probe(self):
        return 3.0

    def complete(self, result):
        return "square" in result


def cells_of(folder, n=6, seconds=0.0):
    return [Square(i, str(folder / "log"), seconds) for i in range(n)]


def computed(folder):
    log = folder / "log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_a_cell_that_is_stored_is_not_computed_again(tmp_path):
    cells = cells_of(tmp_path)
    store = CellStore(tmp_path / "out", FACTS)
    store.save("square-2", {"square": "kept"})
    seen = []
    found = run_cells(cells, store, progress=lambda done, total: seen.append((done, total)))
    assert computed(tmp_path) == [0, 1, 3, 4, 5]
    assert list(found) == [cell.key for cell in cells]
    assert found["square-2"] == {"square": "kept"} and found["square-5"] == {"square": 25}
    assert seen == [(n, 6) for n in range(1, 7)]
    run_cells(cells, CellStore(tmp_path / "out", FACTS))
    assert len(computed(tmp_path)) == 5


@pytest.mark.parametrize("scheduled", [False, True])
def test_who_computes_makes_no_difference(tmp_path, scheduled):
    cells = cells_of(tmp_path)
    alone = run_cells(cells, CellStore(tmp_path / "one", FACTS))
    if scheduled:
        distributed = pytest.importorskip("distributed")
        with distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster:
            workers = Workers(scheduler=cluster.scheduler_address)
            assert run_cells(cells, CellStore(tmp_path / "many", FACTS), workers) == alone
    else:
        assert run_cells(cells, CellStore(tmp_path / "many", FACTS), Workers(2)) == alone


def test_a_killed_run_loses_at_most_the_cell_that_it_was_at(tmp_path):
    script = (
        "from pathlib import Path; from studies.test_cells import *; "
        f"run_cells(cells_of(Path({str(tmp_path)!r}), seconds=0.2), "
        f"CellStore(Path({str(tmp_path / 'out')!r}), FACTS))"
    )
    run = subprocess.Popen([sys.executable, "-c", script], env=_environment())
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "out").glob("cells/*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    kept = {path.stem for path in (tmp_path / "out" / "cells").glob("square-*.json")}
    before = computed(tmp_path)
    assert 2 <= len(kept) < 6
    assert len(before) - len(kept) <= 1
    found = run_cells(cells_of(tmp_path), CellStore(tmp_path / "out", FACTS))
    again = computed(tmp_path)[len(before) :]
    assert sorted(again) == [i for i in range(6) if f"square-{i}" not in kept]
    assert [one["square"] for one in found.values()] == [i**2 for i in range(6)]


def _environment():
    import os

    tests = Path(__file__).parents[1]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent), *sys.path])}


def test_a_half_written_cell_does_not_count(tmp_path):
    store = CellStore(tmp_path / "out", FACTS)
    (tmp_path / "out" / "cells" / ".square-0.json.partial").write_text('{"squ')
    assert store.load("square-0") is None
    assert run_cells(cells_of(tmp_path), store)["square-0"] == {"square": 0}
    assert not list((tmp_path / "out" / "cells").glob(".*"))


def test_a_folder_of_another_study_is_refused(tmp_path):
    CellStore(tmp_path / "out", FACTS)
    with pytest.raises(ValueError, match="begun with seed = 0, now it is 1; remove it"):
        CellStore(tmp_path / "out", {**FACTS, "seed": 1})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="holds other files"):
        CellStore(tmp_path / "full", FACTS)
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_cell_that_fails_fails_the_run_and_keeps_the_others(tmp_path):
    class Broken(Square):
        def compute(self):
            raise ArithmeticError("no square today")

    store = CellStore(tmp_path / "out", FACTS)
    with pytest.raises(ArithmeticError):
        run_cells([*cells_of(tmp_path, 2), Broken(7, "")], store)
    assert json.loads((tmp_path / "out" / "cells" / "square-1.json").read_text()) == {"square": 1}


def test_the_forecast_probes_one_cell_of_each_kind(tmp_path):
    cells = [*cells_of(tmp_path, 5), Square(9, "", like="other")]
    assert forecast(cells) == 18.0
    assert computed(tmp_path) == []


@pytest.mark.parametrize(
    "law", [lambda n, r: 2 + n * r, lambda n, r: r * (1 + 0.1 * n), lambda n, r: 0.5 * n]
)
def test_times_are_extended_along_rows_and_realisations(law):
    at = extended({(n, r): law(n, r) for n in (4.0, 12.0) for r in (1.0, 2.0)})
    assert at(400, 25) == pytest.approx(law(400, 25), rel=1e-9)


def test_times_that_shrink_by_chance_do_not_become_negative():
    at = extended({(1.0, 1.0): 0.3, (3.0, 1.0): 0.2, (1.0, 2.0): 0.4, (3.0, 2.0): 0.1})
    assert 0 < at(1000, 25) < 10


def test_a_study_goes_on_with_further_models(tmp_path):
    """Their cells are computed; those that are there are kept; other facts must be the same."""
    old = {**FACTS, "models": {"QDA": {"title": "plain"}}}
    new = {**FACTS, "models": {"QDA": {"title": "plain"}, "RF": {"title": "forest"}}}
    CellStore(tmp_path / "out", old).save("square-0", {"square": 0})
    store = CellStore(tmp_path / "out", new)
    assert json.loads((tmp_path / "out" / "study.json").read_text()) == new
    run_cells(cells_of(tmp_path, 2), store)
    assert computed(tmp_path) == [1]
    changed = {**FACTS, "models": {"QDA": {"title": "another"}}}
    with pytest.raises(ValueError, match="begun with models"):
        CellStore(tmp_path / "out", changed)


def test_a_stored_cell_that_lacks_a_part_is_computed_again(tmp_path):
    store = CellStore(tmp_path / "out", FACTS)
    store.save("square-1", {"other": 1})
    found = run_cells(cells_of(tmp_path, 2), store)
    assert computed(tmp_path) == [0, 1] and found["square-1"] == {"square": 1}


def test_a_folder_that_is_read_only_stays_as_it_is(tmp_path):
    CellStore(tmp_path / "out", {**FACTS, "models": {}, "pixels": 5})
    before = (tmp_path / "out" / "study.json").read_bytes()
    CellStore(tmp_path / "out", {**FACTS, "models": {"RF": {}}}, read_only=True)
    assert (tmp_path / "out" / "study.json").read_bytes() == before
    CellStore(tmp_path / "new", FACTS, read_only=True)
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match="begun with seed"):
        CellStore(tmp_path / "out", {"seed": 1}, read_only=True)
