import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import rasterio

from safe_trees import write_raster
from uncover.raster import ReadError, SceneError, Window
from uncover.raster.tiles import TileCache, check_jp2, describe

SIDE, TILE = 512, 128


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(3).integers(1, 4000, (1, SIDE, SIDE)).astype(np.uint16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("jp2") / "whole.jp2"
    write_raster(path, numbers, (300000, 5000040), 10, "EPSG:32633", TILE)
    return path


def cut(whole, folder, share):
    content = whole.read_bytes()
    path = folder / f"cut_{share}.jp2"
    path.write_bytes(content[: int(len(content) * share)])
    return path


@pytest.mark.parametrize("threads", ["1", "ALL_CPUS"])
@pytest.mark.parametrize("share", [0.97, 0.5])
def test_a_truncated_file_raises_where_it_is_cut_and_reads_where_it_is_whole(
    whole, numbers, tmp_path, share, threads
):
    # Past the check of the file's length, as if that had let it through.
    source = replace(describe(whole).bands(1), path=str(cut(whole, tmp_path, share)))
    with rasterio.Env(GDAL_NUM_THREADS=threads):
        np.testing.assert_array_equal(
            source.read(Window(10, 10, 100, 300), TileCache(10**9)), numbers[:, 10:110, 10:310]
        )
        for window in (Window(0, 0, SIDE, SIDE), Window(300, 200, 212, 312)):
            with pytest.raises(ReadError, match="cannot be decoded"):
                source.read(window, TileCache(10**9))


@pytest.mark.parametrize("share", np.linspace(0.05, 0.999, 12).round(3).tolist())
def test_wherever_it_is_cut_a_tile_is_right_or_an_error(whole, numbers, tmp_path, share):
    source = replace(describe(whole).bands(1), path=str(cut(whole, tmp_path, share)))
    failed = 0
    for window in source.grid.blocks(TILE):
        try:
            read = source.read(window, TileCache(10**9))
        except ReadError:
            failed += 1
        else:
            np.testing.assert_array_equal(read, numbers[:, *window.slices])
    assert failed > 0


@pytest.mark.parametrize("share", [0.0, 0.97, 0.5, 0.001])
def test_a_truncated_file_is_refused_before_it_is_read(whole, tmp_path, share):
    with pytest.raises(SceneError) as error:
        describe(cut(whole, tmp_path, share))
    assert "\n" not in str(error.value)


def test_a_codestream_of_open_length_must_end_with_its_marker(whole, tmp_path):
    content = bytearray(whole.read_bytes())
    box = content.index(b"jp2c") - 4
    content[box : box + 4] = b"\0\0\0\0"
    path = tmp_path / "open.jp2"
    path.write_bytes(content)
    check_jp2(str(path))
    path.write_bytes(content[:-2])
    with pytest.raises(ReadError, match="end-of-codestream"):
        check_jp2(str(path))


def test_a_truncated_geotiff_raises(tmp_path, numbers):
    path = tmp_path / "whole.tif"
    write_raster(path, numbers, (300000, 5000040), 10, "EPSG:32633", TILE)
    source = describe(path).bands(1)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ReadError):
        source.read(Window(0, 0, SIDE, SIDE), TileCache(10**9))


def test_any_window_equals_the_array(whole, numbers):
    source, cache = describe(whole).bands(1), TileCache(10**9)
    rng = np.random.default_rng(5)
    for _ in range(20):
        row, col = rng.integers(0, SIDE - 1, 2)
        window = Window(
            int(row), int(col), int(rng.integers(1, SIDE - row)), int(rng.integers(1, SIDE - col))
        )
        np.testing.assert_array_equal(source.read(window, cache), numbers[:, *window.slices])


def test_each_tile_is_decoded_once_and_only_those_touched(whole, monkeypatch):
    from uncover.raster import tiles

    decoded = []
    load = tiles.BandFile._load
    monkeypatch.setattr(
        tiles.BandFile, "_load", lambda self, dataset, tile: decoded.append(tile) or load(self, dataset, tile)
    )
    source, cache = describe(whole).bands(1), TileCache(10**9)
    source.read(Window(0, 0, TILE, TILE), cache)
    assert decoded == [Window(0, 0, TILE, TILE)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda window: source.read(window, cache), source.grid.blocks(50)))
    assert len(decoded) == len(set(decoded)) == (SIDE // TILE) ** 2


def test_the_cache_stays_within_its_size_and_travels_empty():
    cache = TileCache(capacity=1000)
    for key in range(50):
        cache.get(key, lambda: np.zeros(300, np.uint8))
    assert cache._bytes <= 1000
    assert len(cache._tiles) == 3
    assert pickle.loads(pickle.dumps(cache)).capacity == 1000


def test_a_tile_that_failed_is_tried_again():
    cache = TileCache(1000)

    def fail():
        raise ReadError("no")

    with pytest.raises(ReadError):
        cache.get("a", fail)
    assert cache.get("a", lambda: np.ones(1)).item() == 1


def test_bands_and_windows_outside_are_refused(whole):
    info = describe(whole)
    with pytest.raises(SceneError, match="has 1 band"):
        info.bands(2)
    with pytest.raises(SceneError, match="does not lie inside"):
        info.bands(1).read(Window(500, 0, 20, 20), TileCache(1))


def test_a_file_that_is_no_raster_is_refused(tmp_path):
    path = tmp_path / "notes.tif"
    path.write_text("not a raster")
    with pytest.raises(ReadError, match="cannot be opened"):
        describe(path)


def test_a_file_is_opened_once_for_each_reader(whole, monkeypatch):
    cache, opened, real = TileCache(10**9), [], rasterio.open
    monkeypatch.setattr(rasterio, "open", lambda *args: opened.append(real(*args)) or opened[-1])
    with cache.opened(str(whole)) as first, cache.opened(str(whole)) as second:
        assert first is not second  # two readers at a time
    for _ in range(3):
        with cache.opened(str(whole)) as again:
            assert again in (first, second)
    assert len(opened) == 2
    with pytest.raises(ZeroDivisionError), cache.opened(str(whole)) as failed:
        raise ZeroDivisionError
    assert failed.closed  # what an error came from is not used again


def test_few_files_stay_open(whole, tmp_path):
    cache, seen = TileCache(10**9, spare=2), []
    for number in range(4):
        path = tmp_path / f"{number}.jp2"
        path.write_bytes(whole.read_bytes())
        with cache.opened(str(path)) as dataset:
            seen.append(dataset)
    assert [dataset.closed for dataset in seen] == [True, True, False, False]
    cache.close()
    assert all(dataset.closed for dataset in seen)
