"""Known covariances of many samples: one for all, multiples of one, variances, or one for each."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.linalg import slices

Array = NDArray[np.float64]

# Covariances that agree with multiples of one matrix to this relative tolerance are treated as such.
_PROPORTIONAL = 1e-12
# Differences from the transposed matrix that count as rounding, relative to the spread of the features.
_SYMMETRIC = 1e-8
_BLOCK_NUMBERS = 1 << 18


@dataclass(frozen=True)
class Covariances:
    """Covariance matrices Σ_i of n samples, stored by what they have in common.

    Either multiples of one matrix, Σ_i = factor_i · base, which can be decomposed once for all samples,
    or each its own: as variances (sample, feature) or matrices (sample, feature, feature).

    >>> Covariances.read([1.0, 4.0], n_samples=3, n_features=2).matrices().shape
    (1, 2, 2)
    >>> both = Covariances.read(np.array([[1.0, 4.0], [2.0, 8.0]]) , n_samples=2, n_features=2)
    >>> both.factor  # the second is twice the first
    array([1., 2.])
    """

    base: Array | None  # (feature, feature)
    factor: Array | None  # (sample,), or None where all are equal to the base
    own: Array | None  # (sample, feature) or (sample, feature, feature)

    @classmethod
    def read(cls, covariance: ArrayLike, n_samples: int, n_features: int) -> Self:
        """Take what users give: (p,) or (n, p) variances, (p, p) or (n, p, p) covariances.

        Where n = p, a symmetric array of shape (p, p) is one covariance for all samples, any other has
        the variances of each sample. An array of equal numbers could be either and is refused.
        """
        array = np.asarray(covariance, dtype=np.float64)
        n, p = n_samples, n_features
        _check_values(array)
        if array.shape == (p,):
            _check_variances(array)
            return cls(np.diag(array), None, None)
        if array.shape == (p, p) and (n != p or _is_one_matrix(array)):
            return cls(_checked_matrix(array[None])[0], None, None)
        if array.shape == (n, p):
            _check_variances(array)
            return cls._find_common(array)
        if array.shape == (n, p, p):
            return cls._find_common(_checked_matrix(array))
        raise ValueError(
            f"a covariance of shape {array.shape} does not fit {n} samples of {p} features. It needs ({p},) "
            f"or ({n}, {p}) variances, ({p}, {p}) or ({n}, {p}, {p}) covariances{_hint(array.shape, n, p)}."
        )

    @classmethod
    def _find_common(cls, own: Array) -> Self:
        """Multiples of one matrix are stored as such."""
        size = own.sum(-1) if own.ndim == 2 else np.trace(own, axis1=1, axis2=2)
        largest = int(np.argmax(size))
        if size[largest] <= 0:
            return cls(np.zeros((own.shape[-1],) * 2), None, None)
        factor = size / size[largest]
        shape = (-1,) + (1,) * (own.ndim - 1)
        tolerance = _PROPORTIONAL * max(float(own.max()), -float(own.min()))
        for rows in _blocks(own):
            difference = own[rows] - factor[rows].reshape(shape) * own[largest]
            if np.abs(difference).max() > tolerance:
                return cls(None, None, own)
        first = own[largest] if own.ndim == 3 else np.diag(own[largest])
        scale = factor[0] if factor[0] > 0 else 1.0
        return cls(first * scale, factor / scale, None)

    def __getitem__(self, rows: Any) -> Self:
        """Those of some samples, by slice, mask or index."""
        return type(self)(
            self.base,
            None if self.factor is None else self.factor[rows],
            None if self.own is None else self.own[rows],
        )

    def select_features(self, keep: NDArray[Any]) -> Self:
        """Covariances of some of the features."""

        def pick(a: Array) -> Array:
            return a[..., keep, :][..., keep]

        base = None if self.base is None else pick(self.base)
        own = self.own
        if own is not None:
            own = own[:, keep] if own.ndim == 2 else pick(own)
        return type(self)(base, self.factor, own)

    def matrices(self) -> Array:
        """As matrices: (1, feature, feature) where all are equal, else (sample, feature, feature)."""
        if self.own is not None:
            return self.own if self.own.ndim == 3 else self.own[:, :, None] * np.eye(self.own.shape[1])
        return _base(self)[None] if self.factor is None else self.factor[:, None, None] * _base(self)

    def variances(self) -> Array:
        """Diagonals: (1, feature) or (sample, feature)."""
        if self.own is not None:
            return self.own if self.own.ndim == 2 else np.diagonal(self.own, axis1=1, axis2=2)
        diagonal = np.diagonal(_base(self))
        return diagonal[None] if self.factor is None else self.factor[:, None] * diagonal

    def plus(self, covariance: Array) -> Self:
        """Covariances of the sum with an independent error that has one covariance for all samples."""
        if self.own is None and self.factor is None:
            return type(self)(_base(self) + covariance, None, None)
        return type(self)(None, None, self.matrices() + covariance)

    def of_each(self, n_samples: int) -> Array:
        """One matrix for every sample: (sample, feature, feature)."""
        matrices = self.matrices()
        return np.broadcast_to(matrices, (n_samples, *matrices.shape[1:]))

    def divided_by(self, scale: Array) -> Self:
        """Covariances of x/scale: (..., feature, feature) over the products of the features' scales."""
        squares = scale[:, None] * scale
        own = self.own
        if own is not None:
            own = own / scale**2 if own.ndim == 2 else own / squares
        return type(self)(None if self.base is None else self.base / squares, self.factor, own)

    @classmethod
    def join(cls, parts: "list[tuple[Self, int]]") -> Self:
        """Covariances of successive sets of samples, each given with its number of samples."""
        first = parts[0][0]
        common = all(part.factor is None and part.own is None for part, _ in parts)
        if common and all(np.array_equal(_base(part), _base(first)) for part, _ in parts):
            return first
        return cls._find_common(np.concatenate([part.of_each(n) for part, n in parts]))

    @property
    def is_diagonal(self) -> bool:
        """True where no covariance links two features."""
        if self.own is not None and self.own.ndim == 2:
            return True
        matrices = self.own if self.own is not None else self.matrices()[:1]
        return not np.any(matrices * (1.0 - np.eye(matrices.shape[-1])))


def _base(covariances: Covariances) -> Array:
    assert covariances.base is not None
    return covariances.base


def _check_values(array: Array) -> None:
    # A sum is finite where all numbers are, but for overflow: then they are looked at one by one.
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(array.sum())
    if not finite and not np.all(np.isfinite(array)):
        raise ValueError("the covariance has NaN or infinity; every number must be finite.")


def _check_variances(array: Array) -> None:
    if np.any(array < 0):
        raise ValueError(
            f"variances must not be negative, got {array.min():.6g}. (An array of shape (sample, feature) is "
            "read as variances; covariances have the shape (sample, feature, feature).)"
        )


def _is_one_matrix(array: Array) -> bool:
    """True where an array of shape (p, p), for p samples, is a covariance and not p rows of variances."""
    p = len(array)
    if p > 1 and array[0, 0] != 0 and np.all(array == array[0, 0]):
        raise ValueError(
            f"X_cov of shape ({p}, {p}) with the one value {array[0, 0]:.6g} could be the variances of {p} "
            f"samples or a covariance of {p} features. Give variances as shape ({p},), a covariance for "
            f"each sample as ({p}, {p}, {p}), or use Measured, which remembers what it was given."
        )
    return bool(_asymmetry(array) <= _SYMMETRIC)


def _asymmetry(matrices: Array) -> Array:
    """Largest difference from the transposed matrix, relative to the spread of the features: (...)."""
    spread = np.sqrt(np.abs(np.diagonal(matrices, axis1=-2, axis2=-1)))
    size = np.maximum(spread[..., :, None] * spread[..., None, :], np.finfo(np.float64).tiny)
    return np.asarray((np.abs(matrices - np.swapaxes(matrices, -1, -2)) / size).max((-2, -1)))


def _checked_matrix(matrices: Array) -> Array:
    asymmetry = np.concatenate([_asymmetry(matrices[rows]) for rows in _blocks(matrices)])
    if np.any(asymmetry > _SYMMETRIC):
        i = int(np.argmax(asymmetry))
        raise ValueError(f"covariance {i} is not symmetric; use (C + C.T) / 2 if it is meant to be.")
    _check_not_indefinite(matrices)
    return matrices


def _blocks(array: Array) -> list[slice]:
    """Slices of rows that hold a fixed quantity of numbers, so that checks need little memory."""
    return slices(len(array), max(1, _BLOCK_NUMBERS // max(1, array[:1].size)))


def _check_not_indefinite(matrices: Array) -> None:
    """Eigenvalues may be zero, and negative by rounding only."""
    for rows in _blocks(matrices):
        block = matrices[rows]
        spread = np.sqrt(np.maximum(np.diagonal(block, axis1=-2, axis2=-1), 0.0))
        safe = np.where(spread > 0, spread, 1.0)
        smallest = np.linalg.eigvalsh(block / (safe[:, :, None] * safe[:, None, :]))[:, 0]
        if np.any(smallest < -1e-6):
            i = int(np.argmin(smallest))
            raise ValueError(
                f"covariance {rows.start + i} is indefinite: scaled to unit diagonal its smallest eigenvalue "
                f"is {smallest[i]:.3g}. A covariance has no negative ones."
            )


def _hint(shape: tuple[int, ...], n: int, p: int) -> str:
    if shape == (n, p * p):
        return f"; flattened covariances need reshape({n}, {p}, {p})"
    if shape == (n,):
        return f"; one variance for each sample needs X_cov[:, None] * np.ones({p})"
    return ""
