"""All that a map says of its pixels: sums over realisations, and what follows from their averages.

The formulas are those of :mod:`uncover.bayes.budget`.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from uncover.engines.compiled.functions import artanh_series, exponential, log_one_plus
from uncover.engines.compiled.scores import BLOCK, FEW, Workspace, find_distances, make_workspace, score_block
from uncover.engines.compiled.simd import (
    INNER,
    OPTIONS,
    borrowed,
    full,
    larger,
    lesser,
    load,
    number,
    simd_width,
    store,
)
from uncover.engines.compiled.typicality import add_typicality, add_typicality_by_table

# Points concluded together.
CONCLUDED = 512


@njit(**INNER)
def find_entropy(scores, inner):
    """Entropies −Σ p log p = log Σ exp(t) − Σ p t."""
    K, n = scores.e.shape
    one = inner.dtype.type(1)
    for b in range(0, n, simd_width(inner)):
        h = log_one_plus(one / load(scores.s, (b,)) - one)
        for k in range(K):
            h = h - load(scores.e, (k, b)) * load(scores.t, (k, b))
        store(inner, (b,), h)


@njit(**INNER)
def _add_model_part(densities, w, components, scores, inner, model):
    """Add H·(1 − e^(−I/H)) with I = ½ Σ v p(1−p), v the variance of the log odds and H the entropy."""
    one, half, tiny = model.dtype.type(1), model.dtype.type(0.5), model.dtype.type(1e-30)
    for b in range(0, len(model), simd_width(model)):
        information = full(model.dtype.type(0))
        for k in range(scores.e.shape[0]):
            p = load(scores.e, (k, b))
            if densities.between.shape[1] == 0:
                information += _variance_of_class(densities, w, components, k, b, scores) * (p * (one - p))
            for other in range(min(k, densities.between.shape[1])):
                information += _of_pair(densities, w, k, other, b, scores) * (p * load(scores.e, (other, b)))
        h = larger(load(inner, (b,)), tiny)
        part = h * (one - exponential(-(half * information) / h))
        store(model, (b,), load(model, (b,)) + part)


@njit(**INNER)
def _of_pair(densities, w, k, other, b, scores):
    """KL_kl + KL_lk of two classes of one covariance, as in :func:`second_order.pair_information`."""
    one, half, quarter = scores.q.dtype.type(1), scores.q.dtype.type(0.5), scores.q.dtype.type(0.25)
    largest = densities.largest[0]
    first = lesser(load(scores.q, (k, b)), largest) * number(densities.inverse_dof, (w, k))
    second = lesser(load(scores.q, (other, b)), largest) * number(densities.inverse_dof, (w, other))
    b_first, b_second = number(densities.variance, (w, k, 2)), number(densities.variance, (w, other, 2))
    s, t, apart = first * (one / b_first), second * (one / b_second), number(densities.between, (w, k, other))
    gram = (half * apart) * (s + t) - quarter * (s - t) * (s - t)
    gram = larger(gram - quarter * apart * apart, scores.q.dtype.type(0))
    moved = (t + (gram - first) * b_first) / (one + first) + (s + (gram - second) * b_second) / (one + second)
    constant = number(densities.variance, (w, k, 0)) + number(densities.variance, (w, other, 0))
    return moved * (half * number(densities.variance, (w, k, 1))) + constant


@njit(**INNER)
def _variance_of_component(densities, w, c, b, scores):
    """a + b·v − c·u/(1 + u), with u = q/ν and v = log(1 + u)."""
    one = scores.q.dtype.type(1)
    u = lesser(load(scores.q, (c, b)), densities.largest[0]) * number(densities.inverse_dof, (w, c))
    growing = number(densities.variance, (w, c, 1)) * load(scores.v, (c, b))
    return (
        number(densities.variance, (w, c, 0))
        + growing
        - number(densities.variance, (w, c, 2)) * (u / (one + u))
    )


@njit(**INNER)
def _variance_of_class(densities, w, components, k, b, scores):
    """Variance of the log odds of a class: Σ r² v / T² over its components, to first order."""
    if components is None:
        return _variance_of_component(densities, w, k, b, scores)
    total = full(scores.q.dtype.type(0))
    for c in range(components.first[k], components.first[k + 1]):
        share = load(scores.r, (c, b))
        total += share * share * _variance_of_component(densities, w, c, b, scores)
    sharpness = scores.q.dtype.type(components.sharpness[0])
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


class BlockWorkspace(NamedTuple):
    """Workspace of a block of pixels: measured values, scores, and sums over realisations."""

    measured: NDArray[np.float64]  # (feature, pixel)
    raw: NDArray[Any]  # (feature, pixel), the same rounded
    work: Workspace
    double: Workspace
    inner: NDArray[Any]  # (pixel,), entropies of one realisation
    found: NDArray[np.int32]  # (pixel,)
    best: NDArray[np.int32]  # (pixel,)
    sums: tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]  # as they are put out


@njit(**INNER)
def _make_block(even, densities, exact, components):
    kind, n_components = densities.whitening.dtype, densities.dof.shape[1]
    K = n_components if components is None else len(components.first) - 1
    return BlockWorkspace(
        measured=np.zeros((even, BLOCK)),
        raw=np.zeros((even, BLOCK), kind),
        work=make_workspace(even, BLOCK, densities, components),
        double=make_workspace(even, FEW, exact, components),
        inner=np.empty(BLOCK, kind),
        found=np.empty(BLOCK, np.int32),
        best=np.empty(BLOCK, np.int32),
        sums=(
            np.empty((K, BLOCK), kind),
            np.empty((n_components, BLOCK), kind),
            np.empty(BLOCK, kind),
            np.empty(BLOCK, kind),
        ),
    )


@njit(**INNER)
def _load_planes(planes, r, start, m, units, block):
    """A block of planes (realisation, feature, pixel) as physical values, in double precision and rounded.

    The last pixel fills the block.
    """
    scale, offset = units
    for j in range(planes.shape[1]):
        a, c = scale[j], offset[j]
        for b in range(m):
            block.measured[j, b] = planes[r, j, start + b] * a + c
        for b in range(m, BLOCK):
            block.measured[j, b] = block.measured[j, m - 1]
        for b in range(BLOCK):
            block.raw[j, b] = block.measured[j, b]


@njit(**INNER)
def _add_p_values(typical, w, p, scores, p_value):
    """Add the p-values of one realisation to their sums."""
    if p % 2:
        add_typicality_by_table(scores.v, typical.table_scale[w], typical.table[w], p_value)
    else:
        add_typicality(scores.v, typical.dof[w], typical.tail[w], p_value)


@njit(**INNER)
def _find_typical_distances(block, typical, w):
    """log(1 + q/ν) of the densities of typicality, which have the same centre, in the place of the others."""
    find_distances(typical, w, block.work)
    scores, largest = block.work.scores, typical.largest[0]
    for c in range(scores.q.shape[0]):
        for b in range(0, BLOCK, simd_width(scores.q)):
            u = lesser(load(scores.q, (c, b)), largest) * number(typical.inverse_dof, (w, c))
            store(scores.v, (c, b), log_one_plus(u))


@njit(**INNER)
def _add(densities, w, components, block):
    """Add the scores of one realisation to the sums, and find the most probable class."""
    probability, _, inner, model = block.sums
    scores = block.work.scores
    for k in range(probability.shape[0]):
        for b in range(0, BLOCK, simd_width(probability)):
            store(probability, (k, b), load(probability, (k, b)) + load(scores.e, (k, b)))
    find_entropy(scores, block.inner)
    _add_model_part(densities, w, components, scores, block.inner, model)
    _most_probable(scores.t, block.found, block.best)
    for b in range(0, BLOCK, simd_width(inner)):
        store(inner, (b,), load(inner, (b,)) + load(block.inner, (b,)))


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
def summarise(
    planes, units, air, realisations, worlds, densities, exact, typical, components, recompute, out
):
    """Sums over pairs of realisation and world of all that a map says of its pixels.

    ``planes`` are (realisation, feature, pixel) numbers, physical after ``units``, their scales and offsets.
    ``air`` are coefficients (realisation, 3, feature), rounded and not; if there are any, there is one plane
    a feature, at the top of the atmosphere. ``typical`` are the densities that p-values are read from, and
    whether these are others than ``densities``. ``out`` has the rows probability (class, pixel), typicality
    (component, pixel), inner (pixel), model (pixel), and the most probable class (pair, pixel).
    """
    p = planes.shape[1]
    block = _make_block(p + p % 2, densities, exact, components)
    _summarise(
        planes, units, air, realisations, worlds, densities, exact, typical, components, recompute, block, out
    )


@njit(**INNER)
def _summarise(
    planes, units, air, realisations, worlds, densities, exact, typical, components, recompute, block, out
):
    planes, densities, exact, out = borrowed(planes), borrowed(densities), borrowed(exact), borrowed(out)
    coefficients, precise = borrowed(air)
    references, apart = borrowed(typical[0]), typical[1]
    components, block = borrowed(components), borrowed(block)
    p, n = planes.shape[1:]
    corrected = coefficients.shape[0] > 0
    none, nothing = block.raw[:0], block.measured[:0]
    for start in range(0, n, BLOCK):
        m = min(BLOCK, n - start)
        for total in block.sums[:2]:
            total[:] = 0
        for total in block.sums[2:]:
            total[:] = 0
        for i in range(len(realisations)):
            r, w = realisations[i], worlds[i]
            if i == 0 or not corrected:
                _load_planes(planes, 0 if corrected else r, start, m, units, block)
            own, own_precise = (coefficients[r], precise[r]) if corrected else (none, nothing)
            score_block(
                block.raw, block.measured, own, own_precise, densities, exact, w, components, recompute,
                block.work, block.double,
            )  # fmt: skip
            _add(densities, w, components, block)
            if apart:
                _find_typical_distances(block, references, w)
            _add_p_values(references, w, p, block.work.scores, block.sums[1])
            for b in range(m):
                out.best[i, start + b] = block.best[b]
        _put_out(block.sums, start, m, out)


@njit(**INNER)
def _surprise(p):
    """−p·log p in double precision, 0 for 0: by the series of artanh, p = 2^e·m with m from 1/√2 to √2."""
    x = p if p > 1e-300 else 1e-300
    bits = np.uint64(np.float64(x).view(np.uint64))
    raised = np.uint64((bits - np.uint64(0x3FE6A09E667F3BCD)) + np.uint64(0x3FF0000000000000))
    e = np.uint64(raised >> np.uint64(52))
    m = np.uint64(bits - np.uint64(np.uint64(e - np.uint64(1023)) << np.uint64(52))).view(np.float64)
    # 2^52 + e as bits, less 2^52: a conversion that vectors have.
    n = np.uint64(e | np.uint64(0x4330000000000000)).view(np.float64) - 4503599627371519.0
    s = (m - 1.0) / (m + 1.0)
    y = artanh_series(s * s)
    return -p * (n * 6.93147180369123816490e-01 + (s * y + n * 1.90821492927058770002e-10))


@njit(**OPTIONS)
def _entropy(probability, start, total):
    """Entropies of a block of points (class, point)."""
    kind = total.dtype.type
    for b in range(len(total)):
        total[b] = kind(_surprise(np.float64(probability[0, start + b])))
    for k in range(1, len(probability)):
        for b in range(len(total)):
            total[b] += kind(_surprise(np.float64(probability[k, start + b])))
    for b in range(len(total)):
        total[b] = total[b] if total[b] > 0 else kind(0)


@njit(**OPTIONS)
def _rank(probability, start, first, second, number):
    """The most probable class, the first of equals; its probability and the next."""
    for b in range(len(first)):
        first[b] = probability[0, start + b]
        second[b] = 0
        number[b] = 0
    for k in range(1, len(probability)):
        here = np.int32(k)
        for b in range(len(first)):
            p, most = probability[k, start + b], first[b]
            less = p if p < most else most
            second[b] = less if less > second[b] else second[b]
            number[b] = here if p > most else number[b]
            first[b] = p if p > most else most


@njit(**OPTIONS)
def _split(total, inner, model, start, out):
    """Measurement, model and overlap of a block of points: never negative, and the total together."""
    zero = out.dtype.type(0)
    for b in range(len(total)):
        between = total[b] - inner[start + b]
        between = between if between > zero else zero
        rest = total[b] - between
        rest = rest if rest > zero else zero
        part = model[start + b] if model[start + b] < rest else rest
        overlap = total[b] - between - part
        out[0, start + b] = total[b]
        out[1, start + b] = between
        out[2, start + b] = part
        out[3, start + b] = overlap if overlap > zero else zero


@njit(**OPTIONS)
def conclude(probability, typicality, model, inner, worlds, out, disagreement, best):
    """From averages over worlds, classes first, to all that is said of a point.

    ``worlds`` (world, point) has the class in each world. Written to: ``out``, whose rows are total,
    measurement, model, overlap, margin and typicality; ``disagreement`` and ``best`` (point,).
    """
    K, n = probability.shape
    kind = probability.dtype
    total, first, second = np.empty(CONCLUDED, kind), np.empty(CONCLUDED, kind), np.empty(CONCLUDED, kind)
    number, others = np.empty(CONCLUDED, np.int32), np.empty(CONCLUDED, np.int32)
    for start in range(0, n, CONCLUDED):
        m = min(CONCLUDED, n - start)
        _entropy(probability, start, total[:m])
        _split(total[:m], inner, model, start, out)
        _rank(probability, start, first[:m], second[:m], number[:m])
        others[:] = 0
        for w in range(len(worlds)):
            for b in range(m):
                others[b] += np.int32(worlds[w, start + b] != number[b])
        for b in range(m):
            out[4, start + b] = first[b] - second[b]
            disagreement[start + b] = others[b] / len(worlds)
            best[start + b] = number[b]
        for b in range(m):
            out[5, start + b] = typicality[0, start + b]
        for k in range(1, K):
            for b in range(m):
                here, most = typicality[k, start + b], out[5, start + b]
                out[5, start + b] = here if here > most else most
