import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import rasterio
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from uncover.raster import (
    CubeBlock,
    CubeLayout,
    Grid,
    Quality,
    ReadError,
    SampleBlock,
    SceneError,
    Window,
    open_cube,
    open_samples,
    write_cube,
    write_samples,
)
from uncover.raster.journal import Journal

GRID = Grid("EPSG:32633", (10.0, 0.0, 300000.0, 0.0, -10.0, 5000000.0), 90, 70)
BANDS = ("B02", "B03", "B8A")


def layout(grid=GRID, realisations=4, **more):
    aod = np.linspace(0.1, 0.2, realisations)
    return CubeLayout(grid, BANDS, realisations, identity="GS2A_1", coordinates={"aod": aod}, **more)


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 16 x 16 pixels, so that a small cube has many."""
    monkeypatch.setattr("uncover.raster.cube.CHUNK_BYTES", 16 * 16 * 4 * 3 * 4)


VALUES = np.random.default_rng(0).normal(size=(4, 3, *GRID.shape)).astype(np.float32)
QUALITY = (np.random.default_rng(1).uniform(size=GRID.shape) < 0.1).astype(np.uint16)
VALUES[:, :, QUALITY == 1] = np.nan


def produce(window):
    return CubeBlock(window, VALUES[:, :, *window.slices], QUALITY[window.slices])


def test_what_is_written_is_read(tmp_path, small_chunks):
    cube = write_cube(tmp_path / "a.zarr", layout(attributes={"seed": 3}), produce)
    assert open_cube(tmp_path / "a.zarr").grid == cube.grid == GRID
    assert (cube.bands, cube.realisations, cube.identity) == (BANDS, 4, "GS2A_1")
    assert cube.attributes == {"seed": 3}
    np.testing.assert_array_equal(cube.coordinates["aod"], np.linspace(0.1, 0.2, 4))
    window = Window(7, 20, 41, 33)
    block = cube.read(window)
    np.testing.assert_array_equal(block.values, VALUES[:, :, *window.slices])
    np.testing.assert_array_equal(block.quality, QUALITY[window.slices])
    assert cube.chunk == (16, 16)
    assert not (tmp_path / "a.zarr.partial").exists()


def test_blocks_give_each_sample_once_and_finite(tmp_path, small_chunks):
    cube = write_cube(tmp_path / "a.zarr", layout(), produce)
    samples = np.concatenate([block.samples() for block in cube])
    assert samples.shape == ((QUALITY == 0).sum(), 4, 3)
    assert np.isfinite(samples).all()
    together = np.moveaxis(VALUES[:, :, QUALITY == 0], 2, 0)
    order = np.lexsort(samples.reshape(len(samples), -1).T)
    np.testing.assert_array_equal(samples[order], together[np.lexsort(together.reshape(len(together), -1).T)])


def test_statistics_from_blocks_are_those_of_the_whole(tmp_path, small_chunks):
    cube = write_cube(tmp_path / "a.zarr", layout(), produce)
    count, total = 0, np.zeros(3)
    for block in cube:
        samples = block.samples().astype(np.float64)
        count += samples.shape[0] * samples.shape[1]
        total += samples.sum(axis=(0, 1))
    whole = VALUES[:, :, QUALITY == 0].astype(np.float64)
    np.testing.assert_allclose(total / count, whole.mean(axis=(0, 2)), rtol=1e-10)


def test_gdal_reads_it(tmp_path):
    path = tmp_path / "a.zarr"
    write_cube(path, layout(), produce)
    with rasterio.open(f'ZARR:"{path}":/reflectance') as dataset:
        assert dataset.crs.to_epsg() == 32633
        assert tuple(dataset.transform)[:6] == GRID.transform
        np.testing.assert_array_equal(dataset.read(1 + 2 * 3 + 1), VALUES[2, 1])


def test_xarray_reads_it(tmp_path):
    write_cube(tmp_path / "a.zarr", layout(), produce)
    with xr.open_dataset(tmp_path / "a.zarr", engine="zarr", decode_coords="all") as dataset:
        assert dataset.reflectance.dims == ("realisation", "band", "y", "x")
        assert dataset.band.values.tolist() == list(BANDS)
        np.testing.assert_allclose(dataset.aod, np.linspace(0.1, 0.2, 4))
        assert "crs_wkt" in dataset.spatial_ref.attrs
        meanings = dataset.quality.attrs["flag_meanings"].split()
        assert dict(zip(meanings, dataset.quality.attrs["flag_masks"], strict=True))["cloud"] == Quality.CLOUD
        np.testing.assert_array_equal(dataset.reflectance.sel(band="B8A").values, VALUES[:, 2])


def contents(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}


@settings(max_examples=3, deadline=None)
@given(st.lists(st.integers(1, 29), min_size=1, max_size=3))
def test_a_run_that_is_stopped_goes_on_and_ends_the_same(tmp_path_factory, stops):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uncover.raster.cube.CHUNK_BYTES", 16 * 16 * 4 * 3 * 4)
        folder = tmp_path_factory.mktemp("cubes")
        write_cube(folder / "whole.zarr", layout(), produce)
        made = []
        for stop in stops:
            left = iter(range(stop))

            def fail_after(window, left=left):
                if next(left, None) is None:
                    raise ReadError("a block that cannot be read")
                made.append(window)
                return produce(window)

            try:
                write_cube(folder / "a.zarr", layout(), fail_after, resume=True)
            except ReadError:
                assert not (folder / "a.zarr").exists()
            else:
                break
        if not (folder / "a.zarr").exists():
            write_cube(folder / "a.zarr", layout(), lambda w: made.append(w) or produce(w), resume=True)
    assert len(made) == len(set(made)) == 30
    assert contents(folder / "a.zarr") == contents(folder / "whole.zarr")


KILLED = """
import os, signal, sys
import numpy as np
from uncover.raster import CubeBlock, CubeLayout, Grid, write_cube
import uncover.raster.cube as module
module.CHUNK_BYTES = 16 * 16 * 4 * 3 * 4
grid = Grid("EPSG:32633", (10.0, 0.0, 300000.0, 0.0, -10.0, 5000000.0), 90, 70)
count = 0
def produce(window):
    global count
    count += 1
    if count == 12 and sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng([window.row, window.col])
    values = rng.normal(size=(4, 3, *window.shape)).astype(np.float32)
    return CubeBlock(window, values, np.zeros(window.shape, np.uint16))
write_cube(sys.argv[1], CubeLayout(grid, ("B02", "B03", "B8A"), 4), produce, resume=True)
print(count)
"""


def test_a_run_that_is_killed_goes_on(tmp_path):
    def run(name, word):
        return subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path / name), word],
            capture_output=True,
            text=True,
            check=False,
        )

    assert run("a.zarr", "die").returncode == -signal.SIGKILL
    assert not (tmp_path / "a.zarr").exists()
    with pytest.raises(SceneError, match="unfinished"):
        open_cube(tmp_path / "a.zarr")
    assert run("a.zarr", "live").stdout.strip() == str(30 - 11)
    assert run("b.zarr", "live").stdout.strip() == "30"
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "b.zarr")


def test_other_inputs_under_the_same_name_are_refused(tmp_path, small_chunks):
    def some(window):
        if window.row > 16:
            raise ReadError("stop")
        return produce(window)

    path = tmp_path / "a.zarr"
    with pytest.raises(ReadError):
        write_cube(path, layout(), some, inputs={"seed": 1})
    with pytest.raises(SceneError, match="unfinished run"):
        write_cube(path, layout(), produce, inputs={"seed": 1})
    with pytest.raises(SceneError, match="other inputs"):
        write_cube(path, layout(), produce, inputs={"seed": 2}, resume=True)
    write_cube(path, layout(), produce, inputs={"seed": 1}, resume=True)
    with pytest.raises(SceneError, match="exists already"):
        write_cube(path, layout(), produce, inputs={"seed": 1}, resume=True)


def test_nothing_is_left_when_the_first_block_fails(tmp_path):
    def fail(window):
        raise ReadError("bad input")

    with pytest.raises(ReadError):
        write_cube(tmp_path / "a.zarr", layout(), fail)
    with pytest.raises(SceneError, match="is needed"):
        write_cube(tmp_path / "a.zarr", layout(), lambda w: CubeBlock(w, VALUES[:2], QUALITY))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line_and_can_be_resumed(tmp_path, small_chunks, monkeypatch):
    import uncover.raster.cube as module

    store, calls = module._store, iter(range(5))

    def full(*arguments):
        if next(calls, None) is None:
            raise OSError(28, os.strerror(28))
        store(*arguments)

    monkeypatch.setattr(module, "_store", full)
    with pytest.raises(SceneError, match="No space left on device") as error:
        write_cube(tmp_path / "a.zarr", layout(), produce)
    assert "\n" not in str(error.value)
    monkeypatch.setattr(module, "_store", store)
    np.testing.assert_array_equal(
        write_cube(tmp_path / "a.zarr", layout(), produce, resume=True).read().values, VALUES
    )


def test_a_lost_or_damaged_chunk_is_an_error_and_not_nodata(tmp_path, small_chunks):
    cube = write_cube(tmp_path / "a.zarr", layout(), produce)
    chunk = cube.path / "reflectance" / "0.0.1.2"
    content = chunk.read_bytes()
    for length in (0, 10, 16, len(content) // 2, len(content) - 1):
        chunk.write_bytes(content[:length])
        with pytest.raises(ReadError, match=r"0\.0\.1\.2 has been cut"):
            cube.read(Window(16, 32, 4, 4))
    chunk.write_bytes(content[:20] + bytes(len(content) - 20))
    with pytest.raises(ReadError, match="damaged"):
        cube.read(Window(16, 32, 4, 4))
    chunk.unlink()
    with pytest.raises(ReadError, match=r"lacks reflectance/0\.0\.1\.2"):
        cube.read()
    cube.read(Window(0, 0, 16, 16))


def test_progress_counts_every_block_also_after_resuming(tmp_path, small_chunks):
    seen = []
    write_cube(
        tmp_path / "a.zarr", layout(), produce, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(i, 30) for i in range(1, 31)]


def test_memory_is_that_of_a_block(tmp_path):
    grid = Grid("EPSG:32633", (10.0, 0.0, 300000.0, 0.0, -10.0, 5000000.0), 512, 512)
    plan = layout(grid, realisations=25)

    def blank(window):
        values = np.zeros((25, 3, *window.shape), np.float32)
        return CubeBlock(window, values, np.zeros(window.shape, np.uint16))

    tracemalloc.start()
    cube = write_cube(tmp_path / "a.zarr", plan, blank)
    for _block in cube:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block = 25 * 3 * 4 * plan.edge**2
    assert len(plan.blocks()) == 16
    assert peak < 4 * block < 25 * 3 * 4 * 512**2


def test_what_is_no_cube(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(SceneError):
        open_cube(tmp_path / "a.zarr")
    rotated = Grid("EPSG:32633", (7.0, 7.0, 0.0, 7.0, -7.0, 0.0), 5, 5)
    with pytest.raises(SceneError, match="rotated"):
        write_cube(tmp_path / "b.zarr", layout(rotated), produce)
    assert not (tmp_path / "b.zarr.partial").exists()


class TestSamples:
    WINDOWS = tuple(GRID.blocks(32))

    @staticmethod
    def produce(window):
        chosen = (QUALITY[window.slices] == 0) & (np.indices(window.shape).sum(axis=0) % 5 == 0)
        if window.row == 32:
            chosen[:] = False
        values = np.moveaxis(VALUES[:, :, *window.slices][:, :, chosen], 2, 0)
        return SampleBlock(values, {"label": np.full(len(values), window.col, np.int32)})

    def test_round_trip(self, tmp_path):
        path = tmp_path / "s.zarr"
        samples = write_samples(path, BANDS, self.WINDOWS, self.produce, attributes={"scheme": "x"})
        blocks = [self.produce(window) for window in self.WINDOWS]
        assert samples.count == sum(map(len, blocks))
        assert open_samples(path).attributes == {"scheme": "x"}
        whole = samples.read()
        np.testing.assert_array_equal(whole.values, np.concatenate([b.values for b in blocks]))
        np.testing.assert_array_equal(
            whole.columns["label"], np.concatenate([b.columns["label"] for b in blocks])
        )
        assert sum(len(block) for block in samples) == samples.count
        with xr.open_dataset(path, engine="zarr") as dataset:
            assert dataset.reflectance.dims == ("sample", "realisation", "band")

    @pytest.mark.parametrize("stop", [1, 4, 8])
    def test_resumed_is_the_same(self, tmp_path, stop):
        whole = write_samples(tmp_path / "whole.zarr", BANDS, self.WINDOWS, self.produce).read()
        left = iter(range(stop))

        def fail(window):
            if next(left, None) is None:
                raise ReadError("stop")
            return self.produce(window)

        with pytest.raises(ReadError):
            write_samples(tmp_path / "a.zarr", BANDS, self.WINDOWS, fail)
        again = write_samples(tmp_path / "a.zarr", BANDS, self.WINDOWS, self.produce, resume=True).read()
        np.testing.assert_array_equal(again.values, whole.values)
        np.testing.assert_array_equal(again.columns["label"], whole.columns["label"])

    def test_none_or_nan(self, tmp_path):
        empty = SampleBlock(np.zeros((0, 4, 3), np.float32))
        missing = SampleBlock(np.full((2, 4, 3), np.nan, np.float32))
        with pytest.raises(SceneError, match="no sample came"):
            write_samples(tmp_path / "a.zarr", BANDS, self.WINDOWS, lambda window: empty)
        with pytest.raises(SceneError, match="finite values"):
            write_samples(tmp_path / "a.zarr", BANDS, self.WINDOWS, lambda window: missing)
        assert list(tmp_path.iterdir()) == []

    def test_a_lost_chunk_is_an_error(self, tmp_path):
        samples = write_samples(tmp_path / "a.zarr", BANDS, self.WINDOWS, self.produce)
        (samples.path / "label" / "0").unlink()
        with pytest.raises(ReadError, match="lacks label/0"):
            samples.read()


def test_a_journal_forgets_the_line_that_was_cut(tmp_path):
    journal = Journal(tmp_path / "journal", "key")
    journal.add("a", note=1)
    journal.add("b", note=2)
    content = journal.path.read_bytes()
    journal.path.write_bytes(content[:-5])
    again = Journal(tmp_path / "journal", "key")
    assert again.done == {"a": 1}
    again.add("b", note=3)
    assert Journal(tmp_path / "journal", "key").done == {"a": 1, "b": 3}
    with pytest.raises(SceneError, match="other inputs"):
        Journal(tmp_path / "journal", "another")
