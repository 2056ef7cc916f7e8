"""Commands on a dask.distributed cluster give the bytes that they give alone."""

import os
import signal

import numpy as np
import pytest

import map_cases
import series_cases
from safe_trees import build_safe
from uncover.raster.cluster import computed

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Two workers, each a process of its own."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as running:
        yield running


@pytest.fixture(scope="module")
def scheduler(cluster):
    return cluster.scheduler_address


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return series_cases.Place(tmp_path_factory.mktemp("place"), share=0.3)


@pytest.fixture
def both(run, scheduler):
    """Run a command alone and on the cluster; {} stands for the output. Returns what it printed."""

    def command(*words, out):
        said = []
        for name, more in ((f"alone-{out}", ()), (f"there-{out}", ("--scheduler", scheduler))):
            result = run(*(str(word).replace("{}", name) for word in (*words, "--out", "{}", *more)))
            assert result.exit_code == 0, result.output
            said.append(result.stdout.replace(name, "{}"))
        assert said[0] == said[1]
        return said[0]

    return command


def same(folder, out):
    alone, there = folder / f"alone-{out}", folder / f"there-{out}"
    if alone.is_dir():
        assert map_cases.contents(alone) == map_cases.contents(there)
        assert len(map_cases.contents(alone)) > 2
    else:
        assert alone.read_bytes() == there.read_bytes()


def test_fit_of_dates_with_gaps_and_of_worlds(both, place, tmp_path):
    options = [*place.masked, "--level", "L2A", *place.label_options, "--model", "published"]
    both("fit", *place.scenes, "--as", "features", *options, out="dates.uncover")
    same(tmp_path, "dates.uncover")
    (tmp_path / "noise.csv").write_text("band,u\n" + "".join(f"{band},0.02\n" for band in series_cases.BANDS))
    noise = ["--uncertainty", tmp_path / "noise.csv", "--between-pixels", "random"]
    both("fit", place.scenes[0], *options, *noise, "--block", "100", out="noise.uncover")
    same(tmp_path, "noise.uncover")


def test_labels(both, tmp_path):
    for year, seed in ((2019, 1), (2020, 2)):
        codes = np.random.default_rng(seed).choice([1, 3, 4], (1, 1100, 1100), p=[0.2, 0.2, 0.6])
        map_cases.write_scene(tmp_path / f"lcm{year}.tif", codes.astype(np.uint8), names=None)
    said = both("labels", "lcm2019.tif", "lcm2020.tif", "--scheme", "ukceh-lulucf", out="labels.tif")
    assert "grassland" in said
    same(tmp_path, "labels.tif")


def test_realise(both, tmp_path):
    tree = build_safe(tmp_path / "product", "L1C_03.01", size=96)
    words = ["--aod", "0.12", "--aod-uncertainty", "0.03", "--draws", "3", "--bands", "B02,B03"]
    both("realise", tree.path, *words, out="cube.zarr")
    same(tmp_path, "cube.zarr")


def test_evaluate(run, both, place, tmp_path):
    """With single samples, whose groups go on from one block to the next."""
    scene = map_cases.write_scene(tmp_path / "s.tif", map_cases.reflectance(600, 550))
    model = map_cases.save_model(tmp_path / "m.uncover", map_cases.fitted())
    assert run("map", model, scene, "--out", "map").exit_code == 0
    rng = np.random.default_rng(3)
    rows, cols = rng.integers(0, 600, 400), rng.integers(0, 550, 400)
    names = rng.choice(map_cases.CLASSES, 400)
    lines = [
        f"{300005 + 10 * col},{4999995 - 10 * row},{name}"
        for row, col, name in zip(rows, cols, names, strict=True)
    ]
    (tmp_path / "points.csv").write_text("\n".join(["x,y,class", *lines]) + "\n")
    both("evaluate", "map", "--reference", "points.csv", "--draws", "100", out="evaluation")
    same(tmp_path, "evaluation")


def killing(number):
    """The number, by a worker that dies at the first try of number 3."""
    import time

    mark = os.environ.get("UNCOVER_TEST_MARK", "")
    if number == 3 and mark and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number * number


def test_a_worker_that_dies_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("UNCOVER_TEST_MARK", str(tmp_path / "mark"))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as running:
        found = list(computed(killing, range(8), running.scheduler_address))
    assert found == [n * n for n in range(8)]
    assert (tmp_path / "mark").exists()


def test_no_scheduler_is_one_line(run, place):
    labels = [*place.label_options, "--level", "L2A", "--model", "published", "--out", "m.uncover"]
    failed = run("fit", place.scenes[0], *labels, "--scheduler", "tcp://127.0.0.1:9")
    assert failed.exit_code == 1 and "no dask scheduler answers at tcp://127.0.0.1:9" in failed.stderr
    assert failed.stderr.count("Error:") == 1
