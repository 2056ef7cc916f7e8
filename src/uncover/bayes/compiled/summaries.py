"""All that a map says of its pixels: sums of probabilities, p-values and entropies over realisations."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.bayes.compiled.functions import exponential, log_one_plus, one_less_exponential
from uncover.bayes.compiled.lanes import (
    INNER,
    OPTIONS,
    borrowed,
    full,
    lanes_of,
    larger,
    lesser,
    load,
    number,
    store,
)
from uncover.bayes.compiled.weighing import BLOCK, FEW, Room, look, make_room


@njit(**INNER)
def add_typicality(v, dof, tail, total):
    """Add p-values: e^(−νv/2) Σ_j c_j w^j with w = ν/2·(1 − e^(−v)), for an even number of features."""
    highest = v.dtype.type(88)
    last = tail.shape[1] - 1
    for c in range(v.shape[0]):
        half = v.dtype.type(0.5) * dof[c]
        for b in range(0, v.shape[1], lanes_of(v)):
            depth = load(v, (c, b))
            w = lesser(half * one_less_exponential(depth), highest)
            y = full(number(tail, (c, last)))
            for j in range(1, last + 1):
                y = y * w + number(tail, (c, last - j))
            store(total, (c, b), load(total, (c, b)) + exponential(-(half * depth)) * y)


@njit(**INNER)
def add_typicality_by_table(v, scale, table, total):
    """Add p-values read from a table over √v, for an odd number of features."""
    K, n = v.shape
    last = v.dtype.type(table.shape[1] - 2)
    for k in range(K):
        for b in range(n):
            place = np.sqrt(v[k, b]) * scale[k]
            place = place if place < last else last
            left = np.int64(place)
            before = table[k, left]
            total[k, b] += before + (place - v.dtype.type(left)) * (table[k, left + 1] - before)


@njit(**INNER)
def find_entropy(seen, inner):
    """Entropies −Σ p log p = log Σ exp(t) − Σ p t."""
    K, n = seen.e.shape
    one = inner.dtype.type(1)
    for b in range(0, n, lanes_of(inner)):
        h = log_one_plus(one / load(seen.s, (b,)) - one)
        for k in range(K):
            h = h - load(seen.e, (k, b)) * load(seen.t, (k, b))
        store(inner, (b,), h)


@njit(**INNER)
def _add_model_part(lens, w, fold, seen, inner, model):
    """Add H·(1 − e^(−I/H)) with I = ½ Σ v p(1−p), v the variance of the log odds and H the entropy."""
    one, half, tiny = model.dtype.type(1), model.dtype.type(0.5), model.dtype.type(1e-30)
    for b in range(0, len(model), lanes_of(model)):
        information = full(model.dtype.type(0))
        for k in range(seen.e.shape[0]):
            p = load(seen.e, (k, b))
            if lens.between.shape[1] == 0:
                information += _variance_of_class(lens, w, fold, k, b, seen) * (p * (one - p))
            for other in range(min(k, lens.between.shape[1])):
                information += _of_pair(lens, w, k, other, b, seen) * (p * load(seen.e, (other, b)))
        h = larger(load(inner, (b,)), tiny)
        part = h * (one - exponential(-(half * information) / h))
        store(model, (b,), load(model, (b,)) + part)


@njit(**INNER)
def _of_pair(lens, w, k, other, b, seen):
    """KL_kl + KL_lk of two classes of one covariance, as in :func:`second_order.pair_information`."""
    one, half, quarter = seen.q.dtype.type(1), seen.q.dtype.type(0.5), seen.q.dtype.type(0.25)
    largest = lens.largest[0]
    first = lesser(load(seen.q, (k, b)), largest) * number(lens.inverse_dof, (w, k))
    second = lesser(load(seen.q, (other, b)), largest) * number(lens.inverse_dof, (w, other))
    b_first, b_second = number(lens.variance, (w, k, 2)), number(lens.variance, (w, other, 2))
    s, t, apart = first * (one / b_first), second * (one / b_second), number(lens.between, (w, k, other))
    gram = (half * apart) * (s + t) - quarter * (s - t) * (s - t)
    gram = larger(gram - quarter * apart * apart, seen.q.dtype.type(0))
    moved = (t + (gram - first) * b_first) / (one + first) + (s + (gram - second) * b_second) / (one + second)
    constant = number(lens.variance, (w, k, 0)) + number(lens.variance, (w, other, 0))
    return moved * (half * number(lens.variance, (w, k, 1))) + constant


@njit(**INNER)
def _variance_of_part(lens, w, c, b, seen):
    """a + b·v − c·u/(1 + u), with u = q/ν and v = log(1 + u)."""
    one = seen.q.dtype.type(1)
    u = lesser(load(seen.q, (c, b)), lens.largest[0]) * number(lens.inverse_dof, (w, c))
    growing = number(lens.variance, (w, c, 1)) * load(seen.v, (c, b))
    return number(lens.variance, (w, c, 0)) + growing - number(lens.variance, (w, c, 2)) * (u / (one + u))


@njit(**INNER)
def _variance_of_class(lens, w, fold, k, b, seen):
    """Variance of the log odds of a class: Σ r² v / T² over its parts, to first order."""
    if fold is None:
        return _variance_of_part(lens, w, k, b, seen)
    total = full(seen.q.dtype.type(0))
    for c in range(fold.first[k], fold.first[k + 1]):
        share = load(seen.r, (c, b))
        total += share * share * _variance_of_part(lens, w, c, b, seen)
    sharpness = seen.q.dtype.type(fold.sharpness[0])
    return total * (sharpness * sharpness)


@njit(**INNER)
def _most_probable(t, found, best):
    """The first class whose log joint is the maximum, which is 0."""
    K, n = t.shape
    for b in range(n):
        found[b] = 0
        best[b] = 0
    for k in range(K):
        label = np.int32(k)
        for b in range(n):
            hit = np.int32(t[k, b] == 0) * (np.int32(1) - found[b])
            best[b] += hit * label
            found[b] += hit


class Desk(NamedTuple):
    """Room for a block of pixels: what was measured of it, what is found, and sums over realisations."""

    measured: NDArray[np.float64]  # (feature, pixel)
    raw: NDArray[Any]  # (feature, pixel), the same rounded
    room: Room
    again: Room
    inner: NDArray[Any]  # (pixel,), entropies of one realisation
    found: NDArray[np.int32]  # (pixel,)
    best: NDArray[np.int32]  # (pixel,)
    sums: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]  # as they are put out


@njit(**INNER)
def _make_desk(even, lens, exact, fold):
    kind, parts = lens.whitening.dtype, lens.dof.shape[1]
    K = parts if fold is None else len(fold.first) - 1
    return Desk(
        measured=np.zeros((even, BLOCK)),
        raw=np.zeros((even, BLOCK), kind),
        room=make_room(even, BLOCK, lens, fold),
        again=make_room(even, FEW, exact, fold),
        inner=np.empty(BLOCK, kind),
        found=np.empty(BLOCK, np.int32),
        best=np.empty(BLOCK, np.int32),
        sums=(
            np.empty((K, BLOCK), kind),
            np.empty((parts, BLOCK), kind),
            np.empty(BLOCK, kind),
            np.empty(BLOCK, kind),
        ),
    )


@njit(**INNER)
def _load_planes(planes, r, start, m, units, desk):
    """A block of planes (realisation, feature, pixel) as physical values, in double precision and rounded.

    The last pixel fills the block.
    """
    scale, offset = units
    for j in range(planes.shape[1]):
        a, c = scale[j], offset[j]
        for b in range(m):
            desk.measured[j, b] = planes[r, j, start + b] * a + c
        for b in range(m, BLOCK):
            desk.measured[j, b] = desk.measured[j, m - 1]
        for b in range(BLOCK):
            desk.raw[j, b] = desk.measured[j, b]


@njit(**INNER)
def _add(lens, w, fold, p, desk):
    """Add what was seen in one realisation to the sums, and find the most probable class."""
    probability, p_value, inner, model = desk.sums
    seen = desk.room.seen
    for k in range(probability.shape[0]):
        for b in range(0, BLOCK, lanes_of(probability)):
            store(probability, (k, b), load(probability, (k, b)) + load(seen.e, (k, b)))
    if p % 2:
        add_typicality_by_table(seen.v, lens.table_scale[w], lens.table[w], p_value)
    else:
        add_typicality(seen.v, lens.dof[w], lens.tail[w], p_value)
    find_entropy(seen, desk.inner)
    _add_model_part(lens, w, fold, seen, desk.inner, model)
    _most_probable(seen.t, desk.found, desk.best)
    for b in range(0, BLOCK, lanes_of(inner)):
        store(inner, (b,), load(inner, (b,)) + load(desk.inner, (b,)))


@njit(**INNER)
def _put_out(sums, start, m, out):
    """Write the sums of a block to their place."""
    probability, p_value, inner, model = sums
    for b in range(m):
        out.inner[start + b] = inner[b]
        out.model[start + b] = model[b]
    for k in range(probability.shape[0]):
        for b in range(m):
            out.probability[k, start + b] = probability[k, b]
    for c in range(p_value.shape[0]):
        for b in range(m):
            out.typicality[c, start + b] = p_value[c, b]


@njit(**OPTIONS)
def summarise(planes, units, air, realisations, worlds, lens, exact, fold, twice, out):
    """Sums over pairs of realisation and world of all that a map says of its pixels.

    ``planes`` are (realisation, feature, pixel) numbers, physical after ``units``, their scales and offsets.
    ``air`` are coefficients (realisation, 3, feature), rounded and not; if there are any, there is one plane
    a feature, at the top of the atmosphere. ``out`` has the rows probability (class, pixel), typicality
    (part, pixel), inner (pixel), model (pixel), and the most probable class (pair, pixel).
    """
    p = planes.shape[1]
    desk = _make_desk(p + p % 2, lens, exact, fold)
    _summarise(planes, units, air, realisations, worlds, lens, exact, fold, twice, desk, out)


@njit(**INNER)
def _summarise(planes, units, air, realisations, worlds, lens, exact, fold, twice, desk, out):
    planes, lens, exact, out = borrowed(planes), borrowed(lens), borrowed(exact), borrowed(out)
    coefficients, precise = borrowed(air)
    fold, desk = borrowed(fold), borrowed(desk)
    p, n = planes.shape[1:]
    corrected = coefficients.shape[0] > 0
    none, nothing = desk.raw[:0], desk.measured[:0]
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for total in desk.sums[:2]:
            total[:] = 0
        for total in desk.sums[2:]:
            total[:] = 0
        for i in range(len(realisations)):
            r, w = realisations[i], worlds[i]
            if i == 0 or not corrected:
                _load_planes(planes, 0 if corrected else r, start, m, units, desk)
            own, own_precise = (coefficients[r], precise[r]) if corrected else (none, nothing)
            look(
                desk.raw, desk.measured, own, own_precise, lens, exact, w, fold, twice,
                desk.room, desk.again,
            )  # fmt: skip
            _add(lens, w, fold, p, desk)
            for b in range(m):
                out.best[i, start + b] = desk.best[b]
        _put_out(desk.sums, start, m, out)
