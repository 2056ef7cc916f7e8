import numpy as np
import pytest

from uncover.raster.scratch import PlainTiff
from uncover.raster.tiles import open_raster

TILE = 64


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("shape", [(1, 64, 64), (1, 10, 10), (2, 65, 63), (6, 130, 200)])
def test_gdal_finds_every_tile_where_it_was_put(tmp_path, shape, dtype):
    bands, height, width = shape
    numbers = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    tiff = PlainTiff(height, width, bands, dtype, TILE)
    with open(tmp_path / "plain.tif", "wb") as file:
        file.truncate(tiff.size)
        file.write(tiff.head())
        for number in np.random.default_rng(1).permutation(tiff.tiles):
            row, col = (TILE * int(place) for place in divmod(number, -(-width // TILE)))
            assert tiff.number(row, col) == number
            tile = np.full((bands, TILE, TILE), 77, dtype)
            part = numbers[:, row : row + TILE, col : col + TILE]
            tile[:, : part.shape[1], : part.shape[2]] = part
            file.seek(tiff.place(int(number)))
            file.write(tile.tobytes())
        assert file.seek(0, 2) == tiff.size
    with open_raster(str(tmp_path / "plain.tif")) as dataset:
        assert dataset.block_shapes == [(TILE, TILE)] * bands
        np.testing.assert_array_equal(dataset.read(), numbers)


def test_more_than_four_gigabytes_have_a_place():
    tiff = PlainTiff(100_000, 100_000, 20, "float32", 256)
    assert tiff.place(tiff.tiles - 1, 19) + tiff.plane_bytes == tiff.size > 100_000**2 * 80
