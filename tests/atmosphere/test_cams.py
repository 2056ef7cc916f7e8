"""The optical depth of the CAMS forecast in a product: decoded, and read at a place and time."""

import struct
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from safe_trees import build_safe, shared
from uncover.atmosphere.grib import aod_at, aod_grids, constant_aod, encode_ibm
from uncover.measurement.quantity import cams_uncertainty
from uncover.pipeline.realisations import RealiseOptions, optical_depth
from uncover.raster import open_scene
from uncover.raster.grid import Window
from uncover.studies.landscape import LandscapeOptions, write_scene

NOON = datetime(2021, 6, 1, 12, tzinfo=UTC)
REAL = {
    "safe_l2a_real": datetime(2022, 10, 5, 11, 54, tzinfo=UTC),
    "s2_metadata": datetime(2025, 2, 28, 3, 29, tzinfo=UTC),
}


def grib(values, time=NOON, north=53.0, west=-2.0, south=52.0, east=0.0, hours=0, scanning=0):
    """A message of edition 1 with 16 bits a value, decimal scale 4, binary scale -2: steps of 2.5e-5."""
    rows, cols = np.shape(values)
    numbers = np.round((np.asarray(values) * 1e4 - 100.0) * 4).astype(">u2")
    ordered = numbers.T if scanning & 0x20 else numbers
    data = b"\x00\x80\x02" + encode_ibm(100.0) + b"\x10" + ordered.tobytes()
    data = (len(data) + 3).to_bytes(3, "big") + data
    product = bytearray(28)
    product[2], product[3], product[7], product[8] = 28, 210, 0x80, 207
    product[12:17] = [time.year - 2000, time.month, time.day, time.hour, time.minute]
    product[17:21], product[24], product[26:28] = [1, hours, 0, 0], 21, b"\x00\x04"
    corners = [abs(round(1000 * x)) | (0x800000 if x < 0 else 0) for x in (north, west, south, east)]
    places = [corner.to_bytes(3, "big") for corner in corners]
    grid = struct.pack(">BBBBBBHH", 0, 0, 32, 0, 255, 0, cols, rows)
    grid += places[0] + places[1] + b"\x00" + places[2] + places[3] + bytes(4) + bytes([scanning]) + bytes(4)
    body = bytes(product) + grid + data + b"7777"
    return b"GRIB" + (8 + len(body)).to_bytes(3, "big") + b"\x01" + body


FIELD = np.array([[0.10, 0.20, 0.12], [0.30, 0.40, 0.08]])  # latitudes 53, 52; longitudes -2, -1, 0


def test_nodes_come_back():
    (found,) = aod_grids(grib(FIELD))
    np.testing.assert_allclose(found.values, FIELD, atol=1.3e-5)
    np.testing.assert_allclose(found.latitudes, [53, 52])
    np.testing.assert_allclose(found.longitudes, [-2, -1, 0])
    assert found.time == NOON
    for row, latitude in enumerate((53, 52)):
        for col, longitude in enumerate((-2, -1, 0)):
            assert found.at(longitude, latitude) == pytest.approx(FIELD[row, col], abs=1.3e-5)


def test_between_nodes_it_is_bilinear():
    """Weights by hand: 0.75 of the way south, 0.4 of the way east from -1."""
    by_hand = 0.25 * (0.6 * 0.20 + 0.4 * 0.12) + 0.75 * (0.6 * 0.40 + 0.4 * 0.08)
    assert aod_at(grib(FIELD), -0.6, 52.25, NOON) == pytest.approx(by_hand, abs=1.3e-5)


def test_in_time_it_is_linear_between_two_fields_and_the_nearest_beyond():
    file = grib(FIELD) + grib(FIELD + 0.1, hours=3)
    for minutes, more in ((0, 0), (45, 0.025), (180, 0.1), (-60, 0), (240, 0.1)):
        seen = aod_at(file, -1.0, 53.0, NOON + timedelta(minutes=minutes))
        assert seen == pytest.approx(0.20 + more, abs=1.3e-5), minutes


def test_scanning_by_columns_and_northwards_is_the_same_field():
    other = grib(FIELD[::-1], north=52.0, south=53.0, scanning=0x60)
    assert aod_at(other, -0.6, 52.25, NOON) == pytest.approx(aod_at(grib(FIELD), -0.6, 52.25, NOON))


def test_a_field_may_cross_the_date_line():
    file = grib(FIELD, west=179.0, east=-179.0)
    assert aod_at(file, -179.6, 53.0, NOON) == pytest.approx(0.6 * 0.20 + 0.4 * 0.12, abs=1.3e-5)
    assert aod_at(file, 180.0, 53.0, NOON) == pytest.approx(0.20, abs=1.3e-5)


@pytest.mark.parametrize(
    ("file", "longitude", "time", "complaint"),
    [
        (grib(FIELD), 5.0, NOON, "covers longitudes from -2 to 0; the scene is at 5.000"),
        (grib(FIELD), -1.0, NOON + timedelta(days=1), "for 2021-06-01 12:00 and the scene was taken at"),
        (grib(FIELD)[:88], -1.0, NOON, "is cut short"),
        (b"", -1.0, NOON, "there is no field of aerosol optical depth"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(file, longitude, time, complaint):
    with pytest.raises(ValueError, match=complaint) as error:
        aod_at(file, longitude, 52.5, time)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("folder", REAL)
def test_real_files_are_as_rasterio_decodes_them(folder):
    """GDAL has a GRIB decoder of its own; node values of both agree to the last bit of float64."""
    rasterio = pytest.importorskip("rasterio")
    path = next(shared(folder).glob("*/GRANULE/*/AUX_DATA/AUX_CAMSFO"))
    (found,) = aod_grids(path.read_bytes())
    assert found.time == REAL[folder]
    with rasterio.open(path) as dataset:
        (band,) = (i for i in dataset.indexes if "var207" in dataset.tags(i)["GRIB_ELEMENT"])
        np.testing.assert_array_equal(found.values, dataset.read(band))
        assert int(dataset.tags(band)["GRIB_VALID_TIME"]) == found.time.timestamp()
        a, _, c, _, e, f = list(dataset.transform)[:6]
    np.testing.assert_allclose(found.longitudes, c + a * (np.arange(9) + 0.5), atol=1e-6)
    np.testing.assert_allclose(found.latitudes, f + e * (np.arange(9) + 0.5), atol=1e-6)


@pytest.mark.filterwarnings("ignore::uncover.raster.MaskWarning")
def test_a_real_product_takes_its_own_forecast(tmp_path):
    """In the north-western corner of the tile, which is the first node of the field, by the file itself."""
    scene = open_scene(build_safe(tmp_path, "L1C_05.11", size=60).path)
    found = optical_depth(scene, RealiseOptions())
    assert found.estimate == pytest.approx(0.23533, abs=2e-3)
    assert found.standard_uncertainty == pytest.approx(float(cams_uncertainty(found.estimate)))


def test_the_edges_of_a_tile_lie_a_little_outside_of_its_field():
    assert aod_at(grib(FIELD), 0.3, 53.2, NOON) == pytest.approx(0.12, abs=1.3e-5)
    assert aod_at(grib(FIELD), 0.3, 52.5, NOON) == pytest.approx((0.12 + 0.08) / 2, abs=1.3e-5)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A product of the embedded scene: no shared data is needed."""
    return write_scene(tmp_path_factory.mktemp("scene"), LandscapeOptions(size=60))


def with_forecast(scene, content):
    product = scene.product(2020)
    next(product.glob("GRANULE/*/AUX_DATA/AUX_CAMSFO")).write_bytes(content)
    return product


def test_a_scene_takes_the_forecast_in_its_middle_when_it_was_taken(scene):
    """By hand: pyproj for the place, the plane of the field for its value there."""
    pyproj = pytest.importorskip("pyproj")
    opened = open_scene(scene.product(2020))
    before = opened.sensing_time.replace(minute=0, second=0, microsecond=0)
    rows, cols = np.mgrid[0:3, 0:5]
    plane = 0.1 + 0.02 * rows + 0.03 * cols  # linear in place: bilinear interpolation is exact
    file = grib(plane, before, north=53.0, south=51.0, west=-2.0, east=0.0)
    file += grib(plane + 0.06, before, north=53.0, south=51.0, west=-2.0, east=0.0, hours=3)
    product = with_forecast(scene, file)
    to_degrees = pyproj.Transformer.from_crs(opened.grid.crs, "EPSG:4326", always_xy=True)
    elapsed = (opened.sensing_time - before).total_seconds() / 3600
    for cut in (opened.grid.window, Window(0, 0, 20, 10)):
        seen = open_scene(product).crop(cut)
        a, _, c, _, e, f = seen.grid.transform
        east, north = to_degrees.transform(c + a * seen.grid.width / 2, f + e * seen.grid.height / 2)
        by_hand = 0.1 + 0.02 * (53.0 - north) + 0.03 * (east + 2.0) / 0.5 + 0.06 * elapsed / 3
        found = optical_depth(seen, RealiseOptions())
        assert found.estimate == pytest.approx(by_hand, abs=1.3e-5)
        assert found.standard_uncertainty == pytest.approx(float(cams_uncertainty(found.estimate)))


def test_the_embedded_product_states_its_reported_optical_depth(tmp_path):
    made = write_scene(tmp_path, LandscapeOptions(size=60))
    for year in (2020, 2021):
        found = optical_depth(open_scene(made.product(year)), RealiseOptions())
        assert found.estimate == made.facts["years"][str(year)]["reported_aod"]


def test_a_constant_field_is_the_value_itself_everywhere():
    file = constant_aod(0.18, NOON, -2.0, 51.0, 0.0, 53.0)
    places = [(-1.9, 51.05), (-1.1, 52.1), (-0.003, 52.99)]
    assert {aod_at(file, *place, NOON) for place in places} == {0.18}
