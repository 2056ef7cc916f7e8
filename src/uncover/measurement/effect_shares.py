"""Split of what worlds do not agree upon by the effects that make them: Shapley values of information."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

Array = NDArray[np.float64]

#: Columns of the regression are at most this share of the worlds: squares come in where there is room.
_COLUMNS = 0.5
_LEAST = 1e-12


def regressors(scores: Mapping[str, Array]) -> dict[str, Array]:
    """Columns of each effect, (world, column): its standard scores, and their squares where there is room.

    ``scores`` are (world,) or (world, quantity), draws of each effect in standard units. Effects that are the
    same in all worlds are left out.
    """
    found = {name: np.reshape(z, (len(z), -1)) for name, z in scores.items()}
    found = {name: z[:, z.std(axis=0) > _LEAST] for name, z in found.items()}
    found = {name: z - z.mean(axis=0) for name, z in found.items() if z.shape[1]}
    worlds = len(next(iter(found.values()))) if found else 0
    used = sum(z.shape[1] for z in found.values())
    for name, z in found.items():
        squares = z**2 - (z**2).mean(axis=0)
        if z.shape[1] == 1 and used + 1 <= _COLUMNS * worlds and squares.std() > _LEAST:
            found[name], used = np.hstack([z, squares]), used + 1
    return found


def shares_of_information(P: NDArray[Any], columns: Mapping[str, Array]) -> Array:
    """Shapley values, in nats, of what knowing each effect would tell of the class: (effect, pixel).

    ``P`` are class probabilities (world, class, pixel). Knowing the effects S tells
    I(S) = H(P̄) − E H(E[P|S]), with E[P|S] by regression of P on the ``columns`` of S over the worlds. The
    share of an effect is what it adds to those before it, the mean over all orders of the effects. Shares add
    up to H(P̄) − E H(P) exactly: what regression leaves is shared out in proportion.

    >>> z = {"aod": np.array([-1.0, -1.0, 1.0, 1.0]), "ozone": np.array([-1.0, 1.0, -1.0, 1.0])}
    >>> p = np.array([0.2, 0.3, 0.7, 0.8])
    >>> shares_of_information(np.stack([p, 1 - p], axis=1)[:, :, None], regressors(z)).round(4).ravel()
    array([0.1317, 0.0059])
    """
    P = np.asarray(P, np.float64)
    mean = P.mean(axis=0)
    whole = np.maximum(_entropy(mean) - _entropy(P).mean(axis=0), 0.0)
    names, n = list(columns), P.shape[2]
    if not names:
        return np.zeros((0, n))
    Z = np.hstack([columns[name] for name in names])
    slope = np.tensordot(np.linalg.pinv(Z), P - mean, axes=1)  # (column, class, pixel)
    ends = np.cumsum([columns[name].shape[1] for name in names])
    parts = [
        np.tensordot(columns[name], slope[end - columns[name].shape[1] : end], axes=1)
        for name, end in zip(names, ends, strict=True)
    ]
    values = _shapley(len(names), lambda some: _information(mean, [parts[i] for i in some]))
    values = np.maximum(values, 0.0)
    total = values.sum(axis=0)
    return values * np.divide(whole, total, out=np.zeros(n), where=total > 0) + np.where(
        total > 0, 0.0, whole / len(names)
    )


def shares_of_variance(values: Array, columns: Mapping[str, Array]) -> Array:
    """Share of each effect in the variance over the worlds of some numbers (world, number): (effect, number).

    By the same regression; of effects that are drawn independently, these are Sobol's first-order indices and
    the Shapley effects in one. They add up to 1, or are 0 where nothing varies. What an effect without any
    influence would explain of few worlds by chance is taken off.
    """
    names = list(columns)
    if not names:
        return np.zeros((0, values.shape[1]))
    Z, apart = np.hstack([columns[name] for name in names]), values - values.mean(axis=0)
    slope = np.linalg.pinv(Z) @ apart
    worlds, free = len(Z), len(Z) - 1 - Z.shape[1]
    chance = ((apart - Z @ slope) ** 2).sum(axis=0) / (worlds * free) if free > 0 else 0.0
    ends = np.cumsum([columns[name].shape[1] for name in names])
    raw = [
        (columns[name] @ slope[end - columns[name].shape[1] : end]).var(axis=0)
        for name, end in zip(names, ends, strict=True)
    ]
    each = [np.maximum(v - columns[name].shape[1] * chance, 0.0) for name, v in zip(names, raw, strict=True)]
    whole = np.where(np.sum(each, axis=0) > 0, each, raw)
    total = np.sum(whole, axis=0)
    return np.asarray(np.divide(whole, total, out=np.zeros((len(names), values.shape[1])), where=total > 0))


def error_of_shares(values: Array, columns: Mapping[str, Array]) -> Array:
    """Monte Carlo standard error of `shares_of_variance`, by leaving out one world after the other."""
    n = len(values)
    if n < 3:
        return np.full((len(columns), values.shape[1]), np.nan)
    rows = [np.arange(n) != r for r in range(n)]
    each = [
        shares_of_variance(
            values[some], {name: z[some] - z[some].mean(axis=0) for name, z in columns.items()}
        )
        for some in rows
    ]
    return np.asarray(np.sqrt((n - 1) * np.var(each, axis=0)))


def _information(mean: Array, parts: list[Array]) -> Array:
    """What knowing some effects would tell, (pixel,), from their parts of the probabilities."""
    if not parts:
        return np.zeros(mean.shape[1])
    P = np.maximum(mean + sum(parts), 0.0)
    P /= P.sum(axis=1, keepdims=True)
    return np.asarray(_entropy(P.mean(axis=0)) - _entropy(P).mean(axis=0))


def _shapley(n: int, value: Any) -> Array:
    """Shapley values of n players; ``value`` is that of a tuple of them."""
    worth = {some: value(some) for size in range(n + 1) for some in combinations(range(n), size)}
    out = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        total = 0.0
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for some in combinations(others, size):
                total = total + weight * (worth[tuple(sorted((*some, i)))] - worth[some])
        out.append(total)
    return np.asarray(out)


def _entropy(P: Array) -> Array:
    """Entropy over the classes, the last axis but one."""
    return np.asarray(entr(P).sum(axis=-2))
