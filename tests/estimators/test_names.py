"""Feature names: kept from pandas and xarray, and checked."""

import numpy as np
import pytest

from uncover import BayesianLDA, BayesianNB, BayesianQDA

pd = pytest.importorskip("pandas")
xr = pytest.importorskip("xarray")

BANDS = ["B02", "B03", "B04"]


@pytest.fixture
def arrays(rng):
    y = np.arange(24) % 3
    return rng.normal(size=(24, 5, 3)) + y[:, None, None], y


def cube(X, dims=("pixel", "realisation", "band"), bands=BANDS):
    return xr.DataArray(X, dims=dims, coords={"band": bands})


@pytest.mark.parametrize("cls", [BayesianQDA, BayesianLDA, BayesianNB])
def test_a_data_frame_keeps_its_names(cls, arrays):
    X, y = arrays
    frame = pd.DataFrame(X[:, 0], columns=BANDS)
    clf = cls().fit(frame, pd.Series(y))
    assert clf.feature_names_in_.tolist() == BANDS
    np.testing.assert_array_equal(clf.predict_proba(frame), cls().fit(X[:, 0], y).predict_proba(X[:, 0]))
    with pytest.raises(ValueError, match="same order"):
        clf.predict(frame[BANDS[::-1]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- B08"):
        clf.predict(frame.rename(columns={"B04": "B08"}))
    with pytest.raises(ValueError, match="feature"):
        clf.predict(frame[BANDS[:2]])
    with pytest.raises(ValueError, match="same order"):
        clf.partial_fit(frame[BANDS[::-1]], y)


def test_an_xarray_keeps_its_names_and_shape_is_by_name(arrays):
    X, y = arrays
    plain = BayesianQDA().fit(X, y)
    expected = plain.predict_proba(X)
    data = cube(X)
    clf = BayesianQDA().fit(data, y)
    assert clf.feature_names_in_.tolist() == BANDS
    for dims in (
        ("band", "pixel", "realisation"),
        ("realisation", "band", "pixel"),
        ("pixel", "band", "realisation"),
    ):
        turned = data.transpose(*dims)
        np.testing.assert_array_equal(clf.predict_proba(turned), expected)
        np.testing.assert_array_equal(BayesianQDA().fit(turned, y).predict_proba(data), expected)


def test_an_image_is_read_pixel_by_pixel(arrays):
    X, y = arrays
    image = xr.DataArray(
        X.reshape(4, 6, 5, 3), dims=("y", "x", "realisation", "band"), coords={"band": BANDS}
    )
    labels = xr.DataArray(y.reshape(4, 6), dims=("y", "x"))
    clf = BayesianQDA().fit(image.transpose("band", "y", "realisation", "x"), labels)
    np.testing.assert_array_equal(clf.predict_proba(image), BayesianQDA().fit(X, y).predict_proba(X))
    single = image.isel(realisation=0)
    np.testing.assert_array_equal(clf.predict_proba(single), BayesianQDA().fit(X, y).predict_proba(X[:, 0]))


def test_other_names_or_another_order_are_errors(arrays):
    X, y = arrays
    clf = BayesianQDA().fit(cube(X), y)
    with pytest.raises(
        ValueError, match=r"features \[B04, B03, B02\], the model was fitted on \[B02, B03, B04\]"
    ):
        clf.predict(cube(X).sel(band=BANDS[::-1]))
    with pytest.raises(ValueError, match=r"X\.sel\(band="):
        clf.predict(cube(X, bands=["B02", "B03", "B08"]))
    with pytest.raises(ValueError, match="X has 2 features, but BayesianQDA is expecting 3"):
        clf.predict(cube(X).sel(band=BANDS[:2]))
    with pytest.raises(ValueError, match="the model was fitted on"):
        clf.partial_fit(cube(X).sel(band=BANDS[::-1]), y)


def test_pandas_and_xarray_know_each_others_names(arrays):
    X, y = arrays
    frame = pd.DataFrame(X[:, 0], columns=BANDS)
    by_frame = BayesianQDA().fit(frame, y)
    by_cube = BayesianQDA().fit(cube(X[:, 0], ("pixel", "band")), y)
    np.testing.assert_array_equal(by_frame.predict_proba(cube(X)), by_cube.predict_proba(cube(X)))
    with pytest.raises(ValueError, match="the model was fitted on"):
        by_frame.predict(cube(X).sel(band=BANDS[::-1]))
    with pytest.raises(ValueError, match="same order"):
        by_cube.predict(frame[BANDS[::-1]])


def test_dimensions_without_names_are_errors(arrays):
    X, y = arrays
    with pytest.raises(ValueError, match="one must be named 'band' or 'feature'"):
        BayesianQDA().fit(xr.DataArray(X[:, 0], dims=("a", "b")), y)
    with pytest.raises(ValueError, match="none for the samples"):
        BayesianQDA().fit(xr.DataArray(X[0], dims=("realisation", "band")), y)
    numbers = xr.DataArray(X[:, 0], dims=("pixel", "feature"))
    clf = BayesianQDA().fit(numbers, y)
    assert not hasattr(clf, "feature_names_in_")


def test_fitting_again_forgets_the_names(arrays):
    X, y = arrays
    clf = BayesianQDA().fit(cube(X), y).fit(X, y)
    assert not hasattr(clf, "feature_names_in_")
    clf = (
        BayesianQDA().fit(cube(X), y).fit(xr.DataArray(X[..., :2], dims=("pixel", "realisation", "band")), y)
    )
    assert not hasattr(clf, "feature_names_in_")
    assert clf.n_features_in_ == 2
