"""The optical depth that a product was made with: its own band, its mean, and draws that stay possible."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from safe_trees import shared
from uncover.atmosphere import Geometry, LookupTable, State
from uncover.measurement import aerosol_optical_depth
from uncover.pipeline import RealiseOptions, realise_scene
from uncover.raster import Atmosphere, Grid, SceneOptions, open_scene, scene_from_array
from uncover.raster.angles import AngleField, AngleGrids
from uncover.raster.layers import BandGroup, Calibration
from uncover.raster.tiles import ArrayPlanes

GRID = Grid("EPSG:32633", (10, 0, 300000, 0, -10, 5000000), width=40, height=30)
BANDS = ("B02", "B04", "B08")
GEOMETRY = Geometry(40, 5, 140)
WATER, OZONE = 1.5, 330.0


def towards(zenith, azimuth):
    nodes = np.ones((2, 2))
    return AngleField.from_degrees(zenith * nodes, azimuth * nodes, (300000, 5000000), (5000, 5000))


def surface_product(aot, stated=None):
    """An L2A scene with an AOT band in thousandths (0 is nodata), or with none."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0.02, 0.3, (3, *GRID.shape)).astype(np.float32)
    layer = None
    if aot is not None:
        numbers = np.rint(np.asarray(aot) * 1000).astype(np.uint16)
        layer = BandGroup(ArrayPlanes(numbers[None], GRID), ("AOT",), (Calibration(1e-3, nodata=0),))
    return replace(
        scene_from_array(values, GRID, BANDS),
        level="L2A",
        angle_grids=AngleGrids(sun=towards(40, 150), view=towards(5, 290)),
        atmosphere=Atmosphere(aot=stated, water_vapour=WATER, ozone=OZONE, aot_method="SEN2COR_DDV"),
        aot_layer=layer,
    )


def moved(values, before, after):
    """Reflectance (band, pixel) undone at one optical depth and corrected at another, by the table."""
    table = LookupTable("S2A", BANDS)
    toa = table.simulate(values.astype(float), State(before, WATER, OZONE), GEOMETRY, band_axis=0)
    return table.correct(toa, State(after, WATER, OZONE), GEOMETRY, band_axis=0)


@pytest.fixture
def aot():
    """Left half hazy, right half clear, one corner without a value."""
    depths = np.full(GRID.shape, 0.282)
    depths[:, 20:] = 0.05
    depths[:3, :4] = 0.0
    return depths


def test_a_product_that_states_none_has_the_mean_of_its_band(aot):
    scene = surface_product(aot)
    mean = np.rint(aot[aot > 0] * 1000).mean() / 1000  # in float32 the band has seven digits
    assert scene.mean_aot() == pytest.approx(mean, abs=1e-7)
    assert realise_scene(scene, RealiseOptions(uncertainty=0.0, draws=1)).aod == pytest.approx(mean, abs=1e-7)
    cut = scene.crop(scene.grid.window & type(scene.grid.window)(0, 20, 10, 10))
    assert cut.mean_aot() == scene.mean_aot()  # worlds do not depend on the crop


def test_another_optical_depth_changes_a_product_that_states_none(aot):
    scene = surface_product(aot)
    block, own = scene.read().reflectance, scene.mean_aot()
    worlds = realise_scene(scene, RealiseOptions(aod=own + 0.1, uncertainty=0.0, draws=1)).read().values[0]
    for where, depth in ((aot == 0.282, 0.282), (aot == 0.05, 0.05)):
        np.testing.assert_allclose(worlds[:, where], moved(block[:, where], depth, depth + 0.1), atol=2e-6)
    blue = (worlds - block)[0][aot > 0]
    assert np.median(np.abs(blue)) > 0.001  # before, --aod moved nothing


@pytest.mark.parametrize("rule", ["truncate", "clip", "gamma"])
def test_draws_stay_possible_at_every_pixel(aot, rule):
    scene = surface_product(aot)
    options = RealiseOptions(draws=400, method="quantile", impossible=rule)
    realised = realise_scene(scene, options)
    own, u = scene.mean_aot(), realised.draws.quantity.standard_uncertainty
    z = realised.draws.scores
    depth = 0.05
    law = {
        "truncate": stats.truncnorm(-depth / u, (2 - depth) / u, depth, u),
        "gamma": stats.gamma((depth / u) ** 2, scale=u**2 / depth),
    }.get(rule)
    drawn = np.clip(depth + u * z, 0, 2) if law is None else law.ppf(stats.norm.cdf(z) * law.cdf(2))
    where = np.flatnonzero(aot.ravel() == depth)[:5]
    block = scene.read().reflectance.reshape(3, -1)[:, where]
    worlds = realised.read().values.reshape(400, 3, -1)[:, :, where]
    for r in (0, 150, 399):
        np.testing.assert_allclose(worlds[r], moved(block, depth, drawn[r]), atol=3e-5)
    if rule == "truncate":
        old = np.maximum(depth + realised.draws.values - own, 0.0)  # the error of the mean, cut off at zero
        print(f"worlds at zero: {(old == 0).mean():.2f} before, {(drawn <= 0).mean():.2f} after; u = {u:.3f}")
        assert (old == 0).mean() > 0.1 and (drawn > 0).all()
        assert drawn.mean() == pytest.approx(law.mean(), rel=1e-3)


@pytest.mark.parametrize("aot", [None, np.zeros(GRID.shape)])
def test_a_product_without_any_optical_depth(aot):
    scene = surface_product(aot)
    with pytest.raises(ValueError, match="the aerosol optical depth is missing; give --aod"):
        realise_scene(scene, RealiseOptions())
    with pytest.warns(UserWarning, match="does not say at which optical depth it was corrected"):
        realised = realise_scene(scene, RealiseOptions(aod=0.2, draws=2))
    assert realised.aod == 0.2


def test_the_mean_is_what_a_real_product_states():
    product = next(shared("safe_l2a_real").glob("*.SAFE"))
    scene = open_scene(product, SceneOptions(bands=("B02", "B04", "B8A", "B11")))
    assert scene.mean_aot() == pytest.approx(scene.atmosphere.aot, abs=1e-6)  # GRANULE_MEAN_AOT: 0.089132


def test_gamma_has_an_upper_end():
    aod = aerosol_optical_depth(0.3, highest=2.0, impossible="gamma")
    drawn = aod.draw(200, scene="s", seed=0, method="quantile")
    u = aod.standard_uncertainty
    law = stats.gamma((0.3 / u) ** 2, scale=u**2 / 0.3)
    np.testing.assert_allclose(drawn.values, law.ppf(stats.norm.cdf(drawn.scores) * law.cdf(2.0)), rtol=1e-9)
    narrow = aerosol_optical_depth(0.3, standard_uncertainty=0.3, highest=0.5, impossible="gamma")
    assert narrow.draw(500, scene="s", seed=0).values.max() < 0.5
