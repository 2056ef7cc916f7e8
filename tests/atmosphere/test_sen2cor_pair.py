"""The embedded table on real pixels, against Sen2Cor's correction of the same pixels."""

import numpy as np
import pytest
from benchmarks import sen2cor_pair


@pytest.fixture(scope="module")
def rows():
    pytest.importorskip("rasterio", reason="rasterio reads the pair of products")
    if not sen2cor_pair.DATA.exists():
        pytest.skip(f"no {sen2cor_pair.DATA.name} in ../shared/data")
    return sen2cor_pair.compare()


def test_but_for_the_slope_of_each_pixel_it_is_the_correction_of_sen2cor(rows):
    """Sen2Cor also corrects for terrain: one factor per pixel, taken from other bands, explains the rest."""
    for band in ("B2", "B3", "B4", "B5", "B6", "B7", "B11", "B12"):
        assert rows[band]["correlation_level"] > 0.98, band


def test_the_haze_is_removed_where_it_is_thickest(rows):
    for band in ("B1", "B2"):
        removed = rows[band]["toa"] - rows[band]["table"]
        assert removed > 0.5 * (rows[band]["toa"] - rows[band]["sen2cor"])
    np.testing.assert_allclose([rows[b]["ratio"] for b in ("B3", "B4")], 1, atol=0.1)
