"""Transforms of measured values that carry realisations and covariances along: scaling, logarithm, ratios."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from uncover.measurement.formulas import propagated
from uncover.measurement.measured import Measured

Array = NDArray[np.float64]


class _MeasuredTransform(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the transforms: values of any shape, and covariances by the derivative."""

    def _values(self, x: Array) -> Array:
        raise NotImplementedError

    def _jacobian(self, x: Array) -> Array:
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what the transform needs from the training values."""
        self._learn(self._flat(X, reset=True))
        return self

    def _learn(self, rows: Array) -> None:
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """Transform values, realisation by realisation, and covariances if there are any."""
        check_is_fitted(self)
        rows = self._flat(X, reset=False)
        if not isinstance(X, Measured):
            shape = np.shape(X)
            values = self._values(rows)
            return values if len(shape) == 2 else values.reshape(*shape[:-1], values.shape[-1])
        if X.systematic is not None:
            raise ValueError(
                f"{type(self).__name__} cannot carry a systematic covariance: after it, the error of each "
                "sample is another. Draw realisations of the common error instead."
            )
        carried = None if X.covariances is None else propagated(X.covariances, self._jacobian(rows))
        return Measured(self._values(rows), carried)

    def _flat(self, X: Any, *, reset: bool) -> Array:
        values = X.X if isinstance(X, Measured) else X
        if np.ndim(values) == 3:
            values = np.asarray(values).reshape(-1, np.shape(values)[-1])
        return np.asarray(validate_data(self, values, dtype=np.float64, reset=reset))


class MeasuredLog(_MeasuredTransform):
    """The logarithm of positive values such as reflectance, with their covariances: Σ → Σ/(x xᵀ).

    Values are log(max(x − offset, floor)), the floor half of the smallest training value of each feature: a
    new value of 0 or below has a logarithm too. Takes :class:`~uncover.Measured`, plain arrays, and
    realisations of shape (sample, realisation, feature).

    Parameters
    ----------
    offset : float
        Taken from the values first, such as an additive offset that a product still has.

    Attributes
    ----------
    floor_ : array of shape (feature,)

    Examples
    --------
    >>> m = Measured([[1.0, 10.0], [2.0, 10.0]], cov=[0.01, 0.01])
    >>> log = MeasuredLog().fit_transform(m)
    >>> log.X.round(2).tolist(), log.covariances.variances().round(4).tolist()
    ([[0.0, 2.3], [0.69, 2.3]], [[0.01, 0.0001], [0.0025, 0.0001]])
    """

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset

    def _learn(self, rows: Array) -> None:
        x = rows - self.offset
        positive = np.where(x > 0, x, np.inf).min(0)
        if not np.all(np.isfinite(positive)):
            j = int(np.argmin(np.isfinite(positive)))
            raise ValueError(
                f"feature {j} has no value above {self.offset:g}: it has no logarithm. Leave it out, or give "
                "a lower offset."
            )
        self.floor_ = 0.5 * positive

    def _values(self, x: Array) -> Array:
        return np.log(np.maximum(x - self.offset, self.floor_))

    def _jacobian(self, x: Array) -> Array:
        slope = 1.0 / np.maximum(x - self.offset, self.floor_)
        return np.asarray(slope[:, :, None] * np.eye(x.shape[1]))


class MeasuredRatios(_MeasuredTransform):
    """Normalised differences (a−b)/(a+b) of features, such as NDVI, with their covariances to first order.

    Parameters
    ----------
    pairs : sequence of (int, int)
        Columns a and b of each ratio.
    keep : bool
        Whether the features themselves stay, before the ratios. The ratios of features that stay have no
        information of their own: their covariance is singular.

    Examples
    --------
    >>> m = Measured([[0.4, 0.1], [0.3, 0.3]], cov=[0.0001, 0.0001])
    >>> ndvi = MeasuredRatios([(0, 1)]).fit_transform(m)
    >>> ndvi.X.round(2).ravel().tolist(), np.sqrt(ndvi.covariances.variances()).round(3).ravel().tolist()
    ([0.6, 0.0], [0.033, 0.024])
    """

    def __init__(self, pairs: Sequence[tuple[int, int]], keep: bool = False) -> None:
        self.pairs = pairs
        self.keep = keep

    def _learn(self, rows: Array) -> None:
        wrong = [pair for pair in self.pairs if not all(0 <= j < rows.shape[1] for j in pair)]
        if wrong or not len(self.pairs):
            raise ValueError(
                f"pairs needs columns 0 … {rows.shape[1] - 1}, at least one pair; got {self.pairs}."
            )
        self.pairs_ = np.array(self.pairs, dtype=int)

    def _values(self, x: Array) -> Array:
        a, b = x[:, self.pairs_[:, 0]], x[:, self.pairs_[:, 1]]
        ratio = (a - b) / self._sum(a, b)
        return np.concatenate([x, ratio], axis=1) if self.keep else ratio

    def _jacobian(self, x: Array) -> Array:
        n, p = x.shape
        a, b = x[:, self.pairs_[:, 0]], x[:, self.pairs_[:, 1]]
        square = self._sum(a, b) ** 2
        J = np.zeros((n, len(self.pairs_), p))
        index = np.arange(len(self.pairs_))
        J[:, index, self.pairs_[:, 0]] += 2.0 * b / square
        J[:, index, self.pairs_[:, 1]] -= 2.0 * a / square
        if not self.keep:
            return J
        return np.concatenate([np.broadcast_to(np.eye(p), (n, p, p)), J], axis=1)

    @staticmethod
    def _sum(a: Array, b: Array) -> Array:
        total = a + b
        if np.any(total == 0):
            raise ValueError("a ratio (a−b)/(a+b) has a+b = 0; leave out those samples.")
        return total


class MeasuredScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Subtract the mean and divide by the standard deviation, of values and covariances together.

    x → (x − m)/s and Σ → Σ/(s sᵀ). Takes :class:`~uncover.Measured` or plain arrays, and returns the same.

    Attributes
    ----------
    mean_, scale_ : arrays of shape (feature,)
        m and s; s is 1 for a constant feature.

    Examples
    --------
    >>> m = Measured([[0.0, 10.0], [2.0, 30.0]], cov=[0.5, 50.0])
    >>> scaled = MeasuredScaler().fit_transform(m)
    >>> scaled.X.tolist(), scaled.covariances.variances().tolist()
    ([[-1.0, -1.0], [1.0, 1.0]], [[0.5, 0.5]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn mean and standard deviation of the values."""
        values = validate_data(self, _values(X), dtype=np.float64)
        self.mean_ = values.mean(0)
        deviation = values.std(0)
        constant = deviation <= 16 * np.finfo(np.float64).eps * np.abs(self.mean_)
        self.scale_ = np.where(constant, 1.0, deviation)
        return self

    def transform(self, X: Any) -> Any:
        """Scale values, and covariances if there are any."""
        check_is_fitted(self)
        values = validate_data(self, _values(X), dtype=np.float64, reset=False)
        return self._with(X, (values - self.mean_) / self.scale_, self.scale_)

    def inverse_transform(self, X: Any) -> Any:
        """Bring scaled values and covariances back."""
        check_is_fitted(self)
        values = np.asarray(_values(X), np.float64)
        return self._with(X, values * self.scale_ + self.mean_, 1.0 / self.scale_)

    def _with(self, X: Any, values: NDArray[Any], scale: NDArray[Any]) -> Any:
        if not isinstance(X, Measured):
            return values
        covariances = None if X.covariances is None else X.covariances.divided_by(scale)
        systematic = None if X.systematic is None else X.systematic / (scale[:, None] * scale)
        return Measured(values, covariances, systematic)


def _values(X: Any) -> Any:
    return X.X if isinstance(X, Measured) else X
