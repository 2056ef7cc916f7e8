"""Scaling of values together with their covariances, as a scikit-learn transformer."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from uncover.measurement.measured import Measured


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
