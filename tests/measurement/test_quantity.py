"""Laws of the draws: reproducible by name, right in mean and spread, never impossible."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from uncover.measurement import (
    Quantity,
    aerosol_optical_depth,
    cams_uncertainty,
    dark_vegetation_uncertainty,
)

RULES = ("truncate", "clip", "gamma")
METHODS = ("mc", "quantile", "quadrature")
SCENE = "GS2A_20210908T042701_032448_N03.01"


def draw(quantity, n=25, method="mc", seed=0, scene=SCENE):
    return quantity.draw(n, scene=scene, seed=seed, method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(aod=st.floats(0.005, 1.5), n=st.integers(1, 40))
def test_no_draw_is_negative_and_the_weights_are_probabilities(method, rule, aod, n):
    draws = draw(aerosol_optical_depth(aod, impossible=rule), n, method)
    assert draws.values.shape == draws.weights.shape == (n,)
    assert (draws.values >= 0).all()
    assert np.isfinite(draws.values).all()
    assert draws.weights.sum() == pytest.approx(1)


def test_draws_depend_on_seed_scene_name_and_world_alone():
    aod = aerosol_optical_depth(0.3)
    assert (draw(aod, 25).values[:10] == draw(aod, 10).values).all()  # more worlds begin with the fewer
    assert (draw(aod).values != draw(aod, seed=1).values).all()
    assert (draw(aod).values != draw(aod, scene="another").values).all()
    assert (draw(aod).values != draw(Quantity("other", 0.3, aod.standard_uncertainty)).values).all()


@pytest.mark.parametrize("method", METHODS)
def test_far_from_zero_every_rule_is_the_gaussian(method):
    quantities = [Quantity("q", 10.0, 0.5, impossible=rule) for rule in ("truncate", "clip", "refuse")]
    values = [draw(q, 20, method).values for q in quantities]
    for value in values:
        np.testing.assert_allclose(value, values[0], atol=1e-9)
    draws = draw(quantities[0], 40, "quadrature")
    assert draws.mean == pytest.approx(10.0)
    assert draws.standard_deviation == pytest.approx(0.5)


def test_the_standard_deviation_of_draws_is_that_of_a_sample():
    draws = draw(Quantity("q", 10.0, 0.5), 9, "mc")
    assert draws.standard_deviation == pytest.approx(np.std(draws.values, ddof=1))


def test_the_share_of_impossible_draws_that_the_rules_deal_with():
    for aod, share in ((0.1, 0.12), (0.05, 0.31)):
        assert stats.norm.cdf(-aod / cams_uncertainty(aod)) == pytest.approx(share, abs=0.005)


def test_truncation_is_the_truncated_gaussian_and_shifts_the_mean():
    aod = aerosol_optical_depth(0.1)
    values = draw(aod, 4001, "quantile").values
    u = aod.standard_uncertainty
    exact = stats.truncnorm(-0.1 / u, np.inf, loc=0.1, scale=u)
    np.testing.assert_allclose(np.sort(values), exact.ppf((np.arange(4001) + 0.5) / 4001), rtol=1e-9)
    assert values.mean() - 0.1 == pytest.approx(0.019, abs=0.0005)


def test_truncation_far_in_the_tail_keeps_its_digits():
    values = draw(Quantity("q", 0.0, 1.0, lowest=0.0), 1000, "quantile").values
    assert values.mean() == pytest.approx(np.sqrt(2 / np.pi), rel=1e-3)


def test_clipping_moves_the_mean_less_than_truncation_and_gamma_not_at_all():
    means = {rule: draw(aerosol_optical_depth(0.1, impossible=rule), 4001, "quantile").mean for rule in RULES}
    assert means["gamma"] == pytest.approx(0.1, abs=2e-4)
    assert 0.1 < means["clip"] < means["truncate"]


def test_gamma_keeps_the_standard_deviation():
    aod = aerosol_optical_depth(0.3, impossible="gamma")
    assert draw(aod, 40001, "quantile").standard_deviation == pytest.approx(
        aod.standard_uncertainty, rel=2e-3
    )


def test_upper_bound_is_kept():
    aod = aerosol_optical_depth(1.6, highest=2.0)
    assert draw(aod, 400).values.max() <= 2.0


def test_quantiles_are_much_closer_than_random_draws_at_the_same_cost():
    aod = aerosol_optical_depth(0.3)

    def attenuation(values, weights):  # a smooth thing to know, such as a transmittance
        return weights @ np.exp(-2.5 * values)

    fine = draw(aod, 20001, "quantile")
    exact = attenuation(fine.values, fine.weights)
    errors = [attenuation(d.values, d.weights) - exact for d in (draw(aod, seed=s) for s in range(200))]
    midpoints = draw(aod, 25, "quantile")
    assert np.sqrt(np.mean(np.square(errors))) > 10 * abs(
        attenuation(midpoints.values, midpoints.weights) - exact
    )


def test_quadrature_is_exact_for_polynomials():
    draws = draw(Quantity("q", 5.0, 0.3), 6, "quadrature")
    fourth = draws.weights @ (draws.values - 5.0) ** 4
    assert fourth == pytest.approx(3 * 0.3**4, rel=1e-6)


def test_quantile_worlds_of_two_scenes_are_not_in_the_same_order():
    aod = aerosol_optical_depth(0.3)
    one, other = draw(aod, 25, "quantile").values, draw(aod, 25, "quantile", scene="other").values
    np.testing.assert_allclose(np.sort(one), np.sort(other))
    assert (one != other).any()


def test_uncertainty_formulas():
    np.testing.assert_allclose(cams_uncertainty([0.0, 0.1, 0.5]), [0.12, 0.084, 0.22])
    np.testing.assert_allclose(dark_vegetation_uncertainty([0.0, 0.1, 0.5]), [0.10, 0.054, 0.29])
    assert aerosol_optical_depth(0.2, retrieval="SEN2COR_DDV").standard_uncertainty == pytest.approx(
        dark_vegetation_uncertainty(0.2)
    )
    assert aerosol_optical_depth(0.2, standard_uncertainty=0.01).standard_uncertainty == 0.01


def test_no_uncertainty_no_spread():
    assert set(draw(aerosol_optical_depth(0.2, standard_uncertainty=0.0)).values) == {0.2}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aerosol_optical_depth(None), "missing; give --aod"),
        (lambda: aerosol_optical_depth(float("nan")), "missing; give --aod"),
        (lambda: aerosol_optical_depth(-0.1), "aod is -0.1; it must be from 0"),
        (lambda: aerosol_optical_depth(0.1, retrieval="GUESS"), "'GUESS' has no known uncertainty"),
        (lambda: aerosol_optical_depth(0.1, standard_uncertainty=-1), "standard uncertainty of aod is -1"),
        (lambda: aerosol_optical_depth(0.1, impossible="ignore"), "choose one of 'truncate'"),
        (lambda: draw(aerosol_optical_depth(0.1), 0), "number of draws is 0"),
        (lambda: draw(aerosol_optical_depth(0.1), method="guess"), "method is 'guess'"),
        (lambda: draw(aerosol_optical_depth(0.1, impossible="refuse"), 99), "of 99 draws of aod are beyond"),
        (lambda: draw(aerosol_optical_depth(0.0, impossible="gamma")), "needs aod above 0"),
    ],
)
def test_bad_input_is_one_clear_line(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_the_record_has_the_distribution_that_is_drawn_from():
    """Against scipy's truncated Gaussian: bounds move the mean and take from the spread."""
    record = Quantity("aod", 0.12, 0.0768, highest=2.0).record()
    cut = stats.truncnorm(-0.12 / 0.0768, 1.88 / 0.0768, 0.12, 0.0768)
    assert record["estimate"] == 0.12 and record["standard_uncertainty"] == 0.0768
    assert record["distribution_mean"] == pytest.approx(cut.mean(), abs=1e-5)
    assert record["distribution_standard_deviation"] == pytest.approx(cut.std(), abs=1e-5)
