"""Values that carry the covariance of their measurement wherever they go."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.covariances import Covariances

Array = NDArray[np.float64]


class Measured:
    """Measured values and the covariance of their errors, together.

    scikit-learn hands X alone to a model in ``cross_val_score``, ``GridSearchCV`` and pipelines; an argument
    ``X_cov`` beside it would be dropped or not cut like X. This goes through all of them as X. It has a
    length and a shape, is indexed by rows, and refuses to become a plain array.

    Parameters
    ----------
    X : array of shape (sample, feature) or (sample, realisation, feature)
        Values. A data frame keeps the names of its columns.
    cov : array, optional
        Covariance of the errors of each sample (in each realisation), independent between samples:
        (feature,) or (sample, feature) variances, (feature, feature) or (sample, feature, feature)
        covariances.
    systematic : array, optional
        Covariance of an error that all samples have in common: (feature,) or (feature, feature). It
        cancels between samples of one scene, and never averages out.

    Attributes
    ----------
    X : array of shape (sample, feature) or (sample, realisation, feature)
    covariances : Covariances or None
    systematic : array of shape (feature, feature) or None

    Examples
    --------
    >>> m = Measured([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], cov=[0.1, 0.2])
    >>> len(m), m.shape
    (3, (3, 2))
    >>> m[1:].X.tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    """

    def __init__(
        self, X: Any, cov: ArrayLike | Covariances | None = None, systematic: ArrayLike | None = None
    ) -> None:
        self.X = X if hasattr(X, "iloc") else np.asarray(X)
        if self.X.ndim not in (2, 3):
            raise ValueError(
                "Measured needs values of shape (sample, feature) or (sample, realisation, feature), got "
                f"{self.X.shape}."
            )
        n, p = len(self.X), self.X.shape[-1]
        self.covariances = cov if cov is None or isinstance(cov, Covariances) else Covariances.read(cov, n, p)
        self.systematic = None if systematic is None else read_systematic(systematic, p)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return tuple(self.X.shape)

    @property
    def ndim(self) -> int:
        """Number of axes of the values."""
        return int(self.X.ndim)

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return np.asarray(self.X).dtype

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, key: Any) -> Self:
        """Select rows. Columns are not selected: their covariances would be lost silently."""
        rows = _rows(key)
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return type(self)(X, None if self.covariances is None else self.covariances[rows], self.systematic)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """Put samples of one scene together.

        Examples
        --------
        >>> a, b = Measured([[1.0]], cov=[0.1]), Measured([[2.0], [3.0]], cov=[0.5])
        >>> Measured.concatenate([a, b]).covariances.variances().ravel()
        array([0.1, 0.5, 0.5])
        """
        first = parts[0]
        for part in parts[1:]:
            if not _equal(part.systematic, first.systematic):
                raise ValueError(
                    "samples with different systematic covariances come from different scenes and have no "
                    "common error; fit and predict them scene by scene."
                )
            if (part.covariances is None) != (first.covariances is None):
                raise ValueError(
                    "some of the samples have a covariance and some have none; give zeros there."
                )
        X = _stack([part.X for part in parts])
        each = [(part.covariances, len(part)) for part in parts if part.covariances is not None]
        return cls(X, Covariances.join(each) if each else None, first.systematic)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise TypeError(
            "a Measured does not become a plain array, because its covariance would be lost; use .X for the "
            "values, or MeasuredScaler in place of a scaler that takes arrays only."
        )

    def __repr__(self) -> str:
        forms = []
        if self.covariances is not None:
            per_sample = self.covariances.own is not None or self.covariances.factor is not None
            forms.append("a covariance for each sample" if per_sample else "one covariance for all samples")
        if self.systematic is not None:
            forms.append("a systematic covariance")
        return f"Measured(shape={self.shape}, {' and '.join(forms) or 'no covariance'})"


def read_systematic(covariance: ArrayLike, n_features: int) -> Array:
    """Return the covariance of a common error as a matrix; takes (feature,) or (feature, feature).

    Examples
    --------
    >>> read_systematic([1.0, 4.0], 2)
    array([[1., 0.],
           [0., 4.]])
    """
    array = np.asarray(covariance, np.float64)
    if array.shape not in [(n_features,), (n_features, n_features)]:
        raise ValueError(
            f"a systematic covariance of shape {array.shape} does not fit {n_features} features: it needs "
            f"({n_features},) variances or ({n_features}, {n_features}); it is one for all samples."
        )
    return Covariances.read(array, n_features + 1, n_features).matrices()[0]


def _rows(key: Any) -> Any:
    """The rows of an index such as scikit-learn makes: a key, or a key and an ellipsis."""
    if isinstance(key, tuple):
        if len(key) != 2 or (key[1] is not Ellipsis and key[1] != slice(None)):
            raise IndexError("Measured is indexed by rows only; use .X to select features of the values.")
        key = key[0]
    return [key] if isinstance(key, (int, np.integer)) else key


def _equal(a: Array | None, b: Array | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def _stack(parts: list[Any]) -> Any:
    if not hasattr(parts[0], "iloc"):
        return np.concatenate(parts)
    import pandas as pd

    return pd.concat(parts)
