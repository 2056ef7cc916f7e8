"""Outlines of grids and reprojected polygons, against pyproj and shapely."""

import json

import numpy as np
import pyproj
import pytest
import rasterio
import shapely

from uncover.raster import Grid, burn_vector, window_of
from uncover.raster.footprint import footprint

TILE = Grid("EPSG:32632", (10.0, 0.0, 300_000.0, 0.0, -10.0, 6_700_000.0), 10_980, 10_980)  # at 60° N
ACROSS = {
    "zone 1": Grid("EPSG:32601", (10.0, 0.0, 160_000.0, 0.0, -10.0, 100_000.0), 2000, 100),
    "zone 60": Grid("EPSG:32660", (20.0, 0.0, 600_000.0, 0.0, -20.0, 7_200_000.0), 5490, 5490),
    "south-up": Grid("EPSG:32660", (20.0, 0.0, 600_000.0, 0.0, 20.0, 7_090_200.0), 5490, 5490),
    "degrees": Grid("EPSG:4326", (0.1, 0.0, 175.0, 0.0, -0.1, 10.0), 100, 80),
    "degrees below -180": Grid("EPSG:4326", (0.1, 0.0, -185.0, 0.0, -0.1, 10.0), 100, 80),
}


def places(grid, rows, cols):
    """Longitudes from -180 to 180 and latitudes of pixel coordinates, by pyproj."""
    a, b, c, d, e, f = grid.transform
    x, y = a * cols + b * rows + c, d * cols + e * rows + f
    if grid.crs != "EPSG:4326":
        x, y = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True).transform(x, y)
    return (np.asarray(x) + 180) % 360 - 180, np.asarray(y)


def inside_and_outside(grid):
    """Points of a lattice that reaches a tenth beyond the grid, none on its edge, and which lie in it."""
    rows, cols = np.meshgrid(
        np.linspace(-0.1, 1.1, 120) * grid.height, np.linspace(-0.1, 1.1, 124) * grid.width, indexing="ij"
    )
    within = (rows > 0) & (rows < grid.height) & (cols > 0) & (cols < grid.width)
    return *places(grid, rows.ravel(), cols.ravel()), within.ravel()


def in_box(box, lon, lat):
    """Membership in a bounding box as RFC 7946, section 5.2 reads it."""
    west, south, east, north = box
    wide = (lon >= west) & (lon <= east) if west <= east else (lon >= west) | (lon <= east)
    return wide & (lat >= south) & (lat <= north)


def test_the_footprint_of_a_full_tile_follows_its_curved_edges():
    geometry, box = footprint(TILE)
    dense = shapely.segmentize(shapely.geometry.shape(geometry).exterior, 1e-4)
    back = pyproj.Transformer.from_crs("EPSG:4326", TILE.crs, always_xy=True)
    line = shapely.LineString(np.column_stack(back.transform(*shapely.get_coordinates(dense).T)))
    edge = shapely.box(*TILE.bounds).exterior
    assert shapely.hausdorff_distance(line, edge, densify=0.01) < 2  # metres; 415 from four corners
    true = shapely.segmentize(edge, 10.0)
    ahead = pyproj.Transformer.from_crs(TILE.crs, "EPSG:4326", always_xy=True)
    lon, lat = ahead.transform(*shapely.get_coordinates(true).T)
    np.testing.assert_allclose(box, [lon.min(), lat.min(), lon.max(), lat.max()], atol=1e-5)


@pytest.mark.parametrize("name", ACROSS)
def test_what_crosses_the_antimeridian_is_cut_there(name):
    grid = ACROSS[name]
    geometry, box = footprint(grid)
    assert geometry["type"] == "MultiPolygon"
    shape = shapely.geometry.shape(geometry)
    assert shape.is_valid
    lon, lat, within = inside_and_outside(grid)
    np.testing.assert_array_equal(shapely.contains_xy(shape, lon, lat), within)
    assert box[0] > box[2]
    assert in_box(box, lon[within], lat[within]).all()
    for polygon in shape.geoms:
        assert polygon.exterior.is_ccw
        assert polygon.bounds[0] >= -180
        assert polygon.bounds[2] <= 180


def test_a_grid_around_the_pole_covers_the_pole():
    grid = Grid("EPSG:3031", (1000.0, 0.0, -400_000.0, 0.0, -1000.0, 500_000.0), 1000, 1000)
    geometry, box = footprint(grid)
    shape = shapely.geometry.shape(geometry)
    assert shape.is_valid
    lon, lat, within = inside_and_outside(grid)
    np.testing.assert_array_equal(shapely.contains_xy(shape, lon, lat), within)
    assert box[:3] == [-180, -90, 180]
    assert in_box(box, lon[within], lat[within]).all()


@pytest.mark.parametrize("west", [-180.0, 0.0])
def test_the_whole_world(west):
    geometry, box = footprint(Grid("EPSG:4326", (1.0, 0.0, west, 0.0, -1.0, 90.0), 360, 180))
    assert box == [-180, -90, 180, 90]
    assert shapely.geometry.shape(geometry).area == pytest.approx(360 * 180)


def test_without_a_place_there_is_no_outline():
    assert footprint(Grid(None, (10.0, 0.0, 0.0, 0.0, -10.0, 0.0), 10, 10)) is None


def test_long_edges_of_polygons_are_curves_in_another_projection(tmp_path):
    west, south, east, north = box = (5.6, 59.6, 7.2, 60.3)
    polygon = shapely.geometry.mapping(shapely.box(*box))
    shape = {"type": "Feature", "properties": {"class": 1}, "geometry": polygon}
    path = tmp_path / "field.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [shape]}))
    grid = Grid(TILE.crs, (100.0, 0.0, 300_000.0, 0.0, -100.0, 6_700_000.0), 1098, 1098)
    burnt = burn_vector(path, grid, "class").code > 0
    lon, lat = places(grid, *(np.indices(grid.shape) + 0.5))
    expected = (lon > west) & (lon < east) & (lat > south) & (lat < north)
    assert (burnt != expected).sum() == 0  # 3,246 pixels when only corners were moved


def test_edges_in_feet_and_points(tmp_path):
    """Units of the source are honoured, and points stay what they are."""
    path = tmp_path / "points.gpkg"
    import pyogrio

    shapes = np.array([shapely.Point(2e6, 6e5), shapely.box(1.99e6, 5.9e5, 2.3e6, 6.1e5)])
    pyogrio.raw.write(
        path, shapely.to_wkb(shapes), [np.array([1, 2])], ["class"], geometry_type="Unknown", crs="EPSG:2263",
        driver="GPKG", layer="l",
    )  # fmt: skip
    from uncover.raster.vectors import read_features

    grid = Grid("EPSG:32618", (1000.0, 0.0, 0.0, 0.0, -1000.0, 5_500_000.0), 2000, 2000)
    point, box = (feature.shape for feature in read_features(path, grid, ("class",)))
    assert point.geom_type == "Point"
    steps = np.linalg.norm(np.diff(shapely.get_coordinates(box), axis=0), axis=1)
    assert 900 < steps.max() < 1001
    assert rasterio.crs.CRS.from_epsg(2263).linear_units_factor[1] == pytest.approx(0.3048, abs=1e-4)


def written(path, shapes, crs="EPSG:4326"):
    import pyogrio

    codes = np.arange(1, len(shapes) + 1)
    pyogrio.raw.write(
        path, shapely.to_wkb(np.array(shapes)), [codes], ["class"], geometry_type="Unknown", crs=crs,
        driver="GPKG", layer="l",
    )  # fmt: skip
    return path


EQUATOR = Grid("EPSG:32633", (100.0, 0.0, 400_000.0, 0.0, -100.0, 30_000.0), 300, 400)
WORLD = shapely.box(-180, -90, 180, 90)


@pytest.mark.parametrize("far", [shapely.box(104, -1, 106, 1), shapely.box(-76, -1, -74, 1)])
def test_polygons_a_quarter_of_the_world_away_are_off_the_grid(tmp_path, far):
    """Where the transverse Mercator projection has no place at all, next to one that lies on the grid."""
    near = shapely.box(14.2, 0.1, 14.3, 0.2)
    found = burn_vector(written(tmp_path / "l.gpkg", [near, far, shapely.Point(105, 0)]), EQUATOR, "class")
    lon, lat = places(EQUATOR, *(np.indices(EQUATOR.shape) + 0.5))
    expected = (lon > 14.2) & (lon < 14.3) & (lat > 0.1) & (lat < 0.2)
    np.testing.assert_array_equal(found.code == 1, expected)
    assert found.lost == {"polygon(s) off the grid": {"2": 1}, "point(s) off the grid": {"3": 1}}


@pytest.mark.parametrize("grid", [EQUATOR, *(ACROSS[name] for name in ("zone 1", "zone 60", "south-up"))])
def test_the_whole_world_covers_every_grid(tmp_path, grid):
    path = written(tmp_path / "l.gpkg", [WORLD])
    assert (burn_vector(path, grid, "class").code == 1).all()
    assert window_of(grid, WORLD.bounds, "EPSG:4326") == grid.window


@pytest.mark.parametrize(
    "grid",
    [
        Grid("EPSG:3413", (10_000.0, 0.0, -400_000.0, 0.0, -10_000.0, 400_000.0), 80, 80),  # with the pole
        Grid("EPSG:3031", (10_000.0, 0.0, -400_000.0, 0.0, -10_000.0, 400_000.0), 80, 80),
        Grid("EPSG:3413", (1000.0, 0.0, 100_000.0, 0.0, -1000.0, -120_000.0), 80, 80),  # beside it
    ],
)
def test_shapes_at_the_poles_lie_where_pyproj_says(tmp_path, grid):
    sign = 1 if grid.crs == "EPSG:3413" else -1
    west, east, low, high = -170.0, 60.0, 80.0, 88.0
    shape = shapely.box(west, min(sign * low, sign * high), east, max(sign * low, sign * high))
    found = burn_vector(written(tmp_path / "l.gpkg", [shape]), grid, "class").code == 1
    lon, lat = places(grid, *(np.indices(grid.shape) + 0.5))
    np.testing.assert_array_equal(found, (lon > west) & (lon < east) & (abs(lat) > low) & (abs(lat) < high))


def test_large_and_crossed_polygons_are_cut_as_they_would_be_burnt(tmp_path):
    """A bow tie far larger than the grid, by the even-odd rule; another zone of UTM; Mollweide."""
    tie = shapely.Polygon([(10, -4), (20, 4), (20, -4), (10, 4)])
    found = burn_vector(written(tmp_path / "tie.gpkg", [tie]), EQUATOR, "class").code == 1
    lon, lat = places(EQUATOR, *(np.indices(EQUATOR.shape) + 0.5))
    np.testing.assert_array_equal(found, abs(lat) < 0.8 * abs(lon - 15))
    for crs in ("EPSG:32634", "EPSG:3857", "ESRI:54009"):
        there = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
        box = shapely.box(*there.transform(14.2, -0.1), *there.transform(14.4, 0.2))
        path = written(tmp_path / f"{crs[5:]}.gpkg", [box, shapely.buffer(box, 3e6)], crs)
        found = burn_vector(path, EQUATOR, "class").feature
        assert (found == 2).all()  # the later one covers it all


def test_a_world_grid_takes_shapes_of_a_zone(tmp_path):
    """A grid that has no place in the CRS of the shapes: they are brought to it as they are."""
    world = Grid("EPSG:4326", (0.1, 0.0, -180.0, 0.0, -0.1, 90.0), 3600, 1800)
    shape = shapely.box(400_000, 0, 600_000, 200_000)
    found = burn_vector(written(tmp_path / "l.gpkg", [shape], "EPSG:32633"), world, "class").code == 1
    rows, cols = np.nonzero(found)
    lon, lat = places(world, rows + 0.5, cols + 0.5)
    assert len(rows) == 18 * 18 and lon.min() > 14 and lon.max() < 16 and lat.min() > 0 and lat.max() < 2
