"""X, y and weights as users pass them, brought into one shape at the door. No statistics here."""

from contextlib import contextmanager

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    validate_data,
)

from uncover.bayes.covariances import Covariances
from uncover.engines.arrays import namespace, to_host
from uncover.engines.threads import in_order
from uncover.estimators.choices import check_choice
from uncover.measurement.measured import Measured
from uncover.measurement.observation import Observation
from uncover.models.deconvolution import worlds_without_noise
from uncover.warn import warn

_FEATURE_DIMS = ("band", "feature")
_REALISATION_DIM = "realisation"
_DTYPES = [np.float64, np.float32]
# Numbers from which threads pay.
_MANY = 1 << 18


def read_inputs(estimator, X, X_cov=None, *, reset, allow_nan=False):
    """Return values and covariances, from X and X_cov or from a Measured."""
    systematic = None
    if isinstance(X, Measured):
        if X_cov is not None:
            raise ValueError("X is a Measured and has a covariance of its own; leave out X_cov.")
        X, X_cov, systematic = X.X, X.covariances, X.systematic
    X = to_host(X)
    values = read_samples(estimator, X, reset=reset, allow_nan=allow_nan)
    if X_cov is None:
        return Observation(values, None, systematic, complete=not allow_nan)
    if values.ndim == 3 and getattr(estimator, "realisations", "draws") in ("draws", "repeats"):
        raise ValueError(
            "X_cov came with several realisations of each sample, whose spread is their noise here; leave it "
            'out, or give worlds of a shared error (realisations="pooled" or "shared").'
        )
    if not isinstance(X_cov, Covariances):
        X_cov = Covariances.read(X_cov, len(values), values.shape[-1])
    return Observation(values, X_cov, systematic, complete=not allow_nan)


def to_learn_from(estimator, observation, membership):
    """Return the observation; of several realisations with known noise, as samples of true values."""
    X, noise = observation.X, observation.noise
    if noise is None or X.ndim == 2:
        return observation
    names = getattr(estimator, "feature_names_in_", np.arange(X.shape[-1]))
    warn_of_units(noise, np.nanstd(X, axis=(0, 1)), names)
    X = worlds_without_noise(X, noise, membership).astype(X.dtype)
    return Observation(X, None, observation.systematic, observation.complete)


def warn_of_units(noise, spread, names, *, training=True):
    """Warn where standard uncertainties and the spread of the data are too far apart to be in one unit.

    Some quantities are known very well, such as a period: small uncertainties are odd only if those of all of
    several features are, and are said once, in training.
    """
    uncertainty = np.sqrt(np.median(noise.variances(), axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((uncertainty > 0) & (spread > 0), uncertainty / spread, 1.0)
    small = training and len(ratio) > 1 and bool((ratio < 1e-4).all())
    if small or (ratio > 30).any():
        worst = int(np.argmax(-ratio if small else ratio))
        warn(
            f"feature {names[worst]} has a standard deviation of {spread[worst]:.3g} in the data and a "
            f"typical standard uncertainty of {uncertainty[worst]:.3g} in X_cov: are both in the same units?",
        )


def warn_of_single(kind, X):
    """Say that one realisation has no spread, where that is what the noise would be known by."""
    if kind.noise_by_spread and X.ndim == 3 and X.shape[1] == 1:
        warn(
            f'X has 1 realisation of each sample; realisations="{kind.name}" takes the noise from their '
            "spread, which is not known. X is taken as it is: give more realisations, or X_cov.",
        )


@contextmanager
def _naming_the_remedy(estimator):
    """Say of missing values what can be done with them here."""
    try:
        yield
    except ValueError as error:
        if "contains NaN" not in str(error):
            raise
        name = type(estimator).__name__
        remedy = f'{name}(missing="marginalise") takes NaN as a missing feature.'
        if not hasattr(estimator, "missing"):
            remedy = f"{name} needs all features; MeasurementAware and BayesianClassifier do without."
        raise ValueError(f"Input X contains NaN: {remedy}") from None


def read_samples(estimator, X, *, reset, allow_nan=False):
    """Return X as a float array of shape (sample, feature) or (sample, realisation, feature).

    Records or checks ``n_features_in_`` and ``feature_names_in_`` of the estimator. Takes NumPy arrays
    and nested lists of both shapes, pandas data frames, and xarray data arrays whose dimensions are
    named ``band`` (or ``feature``), optionally ``realisation``, and anything for the samples, in any order.
    """
    options = {"dtype": _DTYPES, "ensure_all_finite": "allow-nan" if allow_nan else True}
    if not _is_xarray(X):
        flat, shape = _flatten(X)
        if _known_to_be_finite(flat):
            options["ensure_all_finite"] = False
        with _naming_the_remedy(estimator):
            checked = validate_data(estimator, flat, reset=reset, **options)
        return checked if shape is None else checked.reshape(shape)
    values, names = _from_xarray(X)
    flat, _ = _flatten(values)
    _record_or_check_features(estimator, flat.shape[1], names, reset=reset)
    with _naming_the_remedy(estimator):
        return check_array(flat, estimator=estimator, **options).reshape(values.shape)


def select_rows(X, rows):
    """Some samples of a data frame, an array, nested lists or a Measured."""
    return X.iloc[rows] if hasattr(X, "iloc") else (X if hasattr(X, "shape") else np.asarray(X))[rows]


def takes_gaps(estimator):
    """Return whether an estimator takes NaN as a missing feature."""
    check_choice("missing", estimator.missing, ("error", "marginalise"))
    return estimator.missing == "marginalise"


def read_device_samples(estimator, X, *, reset):
    """Return X on a device as it is, once it is known to be a float array of one of the two shapes."""
    xp = namespace(X)
    expected = X.shape[-1] if reset and X.ndim else estimator.n_features_in_
    if X.ndim not in (2, 3) or X.shape[-1] != expected or 0 in X.shape:
        features = "" if reset else f" with {expected} features"
        raise ValueError(
            f"X has the shape {tuple(X.shape)}; {type(estimator).__name__} needs (sample, feature) or "
            f"(sample, realisation, feature){features}, and at least one of each."
        )
    if X.dtype not in (xp.float32, xp.float64):
        raise ValueError(f"X has the type {X.dtype}; on a device it must be float32 or float64.")
    # A sum is one pass without copies; one of finite numbers may be infinite.
    if not bool(xp.isfinite(xp.sum(X))) and not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity.")
    _record_or_check_features(estimator, X.shape[-1], None, reset=reset)
    return X


def _known_to_be_finite(X):
    """True where a large array was found finite, in several threads; scikit-learn checks in one."""
    if not isinstance(X, np.ndarray) or X.dtype not in _DTYPES or X.ndim != 2 or X.size < _MANY:
        return False
    size = max(1, _MANY // X.shape[1])
    pieces = [X[start : start + size] for start in range(0, len(X), size)]
    return all(in_order(_finite_sum, pieces))


@np.errstate(over="ignore", invalid="ignore")
def _finite_sum(X):
    return np.isfinite(X.sum())


def _flatten(X):
    """X with one row for each realisation, and the shape to give it back; None for two-dimensional X."""
    shape = _shape_of(X)
    if len(shape) > 3:
        raise ValueError(
            f"X has {len(shape)} dimensions; it needs (sample, feature) or (sample, realisation, feature)."
        )
    if len(shape) < 3:
        return X, None
    n, n_realisations, p = shape
    if n_realisations == 0:
        raise ValueError(f"X of shape {shape} has 0 realisations; each sample needs at least 1.")
    return np.asarray(X).reshape(n * n_realisations, p), shape


def _shape_of(X):
    if hasattr(X, "shape"):
        return tuple(X.shape)
    try:
        return np.asarray(X).shape
    except ValueError:  # ragged nested lists: scikit-learn's own check says so
        return (0, 0)


def _is_xarray(X):
    return hasattr(X, "dims") and hasattr(X, "coords") and hasattr(X, "transpose")


def _from_xarray(X):
    """Values with samples first and features last, and the names of the features if they have any."""
    feature = next((dim for dim in _FEATURE_DIMS if dim in X.dims), None)
    if feature is None:
        raise ValueError(
            f"X has the dimensions {tuple(X.dims)}; one must be named 'band' or 'feature'. "
            "Rename it: X.rename(old='band')."
        )
    inner = [dim for dim in (_REALISATION_DIM,) if dim in X.dims]
    outer = [dim for dim in X.dims if dim not in (feature, *inner)]
    if not outer:
        raise ValueError(f"X has the dimensions {tuple(X.dims)} and none for the samples.")
    values = np.asarray(X.transpose(*outer, *inner, feature).data)
    values = values.reshape((-1, *values.shape[len(outer) :]))
    names = X.coords[feature].values if feature in X.coords else None
    if names is None or names.dtype.kind not in "OUT":
        return values, None
    return values, np.array([str(name) for name in names], dtype=object)


def _record_or_check_features(estimator, n_features, names, *, reset):
    """Do for xarray what scikit-learn does for data frames."""
    if reset:
        estimator.n_features_in_ = n_features
        if names is not None:
            estimator.feature_names_in_ = names
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if known is None or names is None:
        return
    if list(known) != list(names):
        raise ValueError(
            f"X has the features {_listed(names)}, the model was fitted on {_listed(known)}. "
            "Names and order must be the same: select them by X.sel(band=[...])."
        )


def _listed(names, most=12):
    shown = ", ".join(str(name) for name in names[:most])
    return f"[{shown}{', …' if len(names) > most else ''}]"


def read_labels(estimator, y, n_samples):
    """Return y as a one-dimensional array of class labels."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    if _is_xarray(y):
        y = np.asarray(y.data).ravel()
    y = _check_y(y, estimator=estimator)
    if _span(y) is None:
        check_classification_targets(y)
    check_consistent_length(y, np.empty(n_samples))
    return y


def read_weights(sample_weight, X):
    """Return the weights as float64, or None: finite, not negative, not all zero."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every sample: there is nothing to fit.")
    return weight


def _span(y):
    """Smallest and largest of whole numbers that are close together: labels that a table can hold.

    scikit-learn's checks would sort them, and could not find anything.
    """
    if len(y) == 0 or y.dtype.kind not in "iu" or not np.can_cast(y.dtype, np.int64):
        return None
    low, high = int(y.min()), int(y.max())
    return (low, high) if high - low < len(y) // 4 else None


def _places(y, low):
    """Places of labels in a table that begins with the label ``low``."""
    return y if low == 0 else y.astype(np.int64) - low


def different(y):
    """Return the labels that there are, sorted."""
    span = _span(y)
    if span is None:
        return np.unique(y)
    low, high = span
    there = np.zeros(high - low + 1, bool)
    there[_places(y, low)] = True
    return (np.flatnonzero(there) + low).astype(y.dtype)


def encode(y, classes):
    """Return the position of each label in the sorted classes; a label that is not there is an error."""
    span = _span(y)
    if span is not None:
        every = np.arange(span[0], span[1] + 1)
        codes = np.where(np.isin(every, classes), np.searchsorted(classes, every), -1).astype(np.int32)
        codes = codes[_places(y, span[0])]
        if codes.min() >= 0:
            return codes
    codes = np.searchsorted(classes, y)
    known = codes < len(classes)
    known[known] = classes[codes[known]] == y[known]
    if not known.all():
        strange = np.unique(y[~known])
        raise ValueError(
            f"y has the class(es) {_listed([repr(s) for s in strange.tolist()])}, which are not among the "
            f"classes given first: {_listed([repr(c) for c in classes.tolist()])}."
        )
    return codes
