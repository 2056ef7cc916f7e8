"""Features computed from bands: values, derivatives, propagated errors, and what is no formula."""

import numpy as np
import pytest

from uncover.bayes.covariances import Covariances
from uncover.measurement.formulas import INDICES, Formula, bands_needed, jacobian, propagated, read_formulas

FORMULAS = [
    *INDICES,
    "(B08-B04)/(B08+B04)",
    "B08/B04",
    "-B02**2 + 3*(B03 - 1.5)",
    "B11**-0.5",
    "+B04*B04*B08",
]
OFFERED = ("B02", "B03", "B04", "B05", "B08", "B11", "B12")


@pytest.fixture
def bands():
    rng = np.random.default_rng(0)
    return {band: rng.uniform(0.02, 0.1 if band == "B02" else 0.5, 50) for band in OFFERED}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_those_of_python_and_slopes_those_of_differences(name, bands):
    formula = Formula(name)
    text = INDICES.get(name, name)
    found, slopes = formula.with_slopes(bands)
    np.testing.assert_allclose(found, eval(text, {"__builtins__": {}}, dict(bands)), rtol=1e-13)
    assert set(slopes) == set(formula.bands)
    for band in formula.bands:
        step = 1e-6
        up, down = ({**bands, band: bands[band] + sign * step} for sign in (1, -1))
        difference = (formula.values(up) - formula.values(down)) / (2 * step)
        np.testing.assert_allclose(slopes[band], difference, rtol=2e-6, atol=1e-7)


def test_covariances_are_those_of_simulated_errors():
    rng = np.random.default_rng(1)
    order = ("B04", "B08")
    true = {"B04": np.array([0.08]), "B08": np.array([0.35])}
    error = np.array([[1.0e-6, 4e-7], [4e-7, 4e-6]])
    formulas = [Formula("NDVI"), Formula("B08/B04"), Formula("B08")]
    found = propagated(Covariances(error, None, None), jacobian(formulas, true, order)).matrices()[0]
    drawn = rng.multivariate_normal([0.08, 0.35], error, 400_000).T
    simulated = np.cov([f.values(dict(zip(order, drawn, strict=True))) for f in formulas])
    np.testing.assert_allclose(found, simulated, rtol=0.02)


def test_a_division_by_zero_is_a_missing_value(bands):
    at_zero = {**bands, "B04": np.zeros(50), "B08": np.zeros(50)}
    assert np.isnan(Formula("NDVI").values(at_zero)).all()
    assert np.isnan(Formula("B02/B04").values(at_zero)).all()


@pytest.mark.parametrize(
    "name",
    [
        "__import__('os').system('true')", "B04.real", "B04[0]", "lambda: B04", "B04 if B08 else B02",
        "B04 and B08", "'B04'", "B04**B08", "max(B04,B08)", "B04 //B08", "B04:=2", "1j*B04", "True*B04",
        "(B04", "B04 < B08",
        "B04 B08", "2", "(1/0)*2", "B04/0", "B04/(B08-B08)", "B02+" * 300 + "B02",
    ],
)  # fmt: skip
def test_what_is_no_formula_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match="feature") as refused:
        read_formulas([name], OFFERED, "scene.tif")
    assert "\n" not in str(refused.value)


def test_names_of_bands_come_first():
    stored = read_formulas("NDVI,B4", ("NDVI", "B04"), "scene.tif")
    assert [(each.name, each.is_band, each.bands) for each in stored] == [
        ("NDVI", True, ("NDVI",)), ("B04", True, ("B04",)),
    ]  # fmt: skip
    assert bands_needed(read_formulas("NDVI, b8 / b2", OFFERED, "s")) == ("B04", "B08", "B02")
    with pytest.raises(ValueError, match="NDVI twice"):
        read_formulas("NDVI,NDVI", OFFERED, "s")
    with pytest.raises(ValueError, match="names no feature"):
        read_formulas(" , ", OFFERED, "s")
