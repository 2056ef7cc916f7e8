"""The map path on a graphics processor: pixels, their realisations and all layers in one kernel, by CuPy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import ClassDensities, Pairs, tail_coefficients
from uncover.bayes.linalg import invert_triangle
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.few_worlds import FewWorlds, few_worlds

# As on the processor: pixels whose probabilities may be further off are recomputed in double precision.
TOLERANCE = 2e-5
# Threads of a block and pixels of each of them; bytes of its shared memory.
THREADS, PIXELS, SHARED_BYTES = 128, 2, 74 * 1024
# Pixels of a block at least, where memory is short.
_FEWEST = 1024
# Fewer pixels than this are read in all worlds: choosing some takes longer. Log joints of a thread at most.
MANY_PIXELS, _MOST_KEPT = 1 << 20, 48
TYPES = {"uint16": "unsigned short", "float32": "float", "float64": "double"}


class Layers(NamedTuple):
    """Layers of a map, as arrays on the device, in single precision."""

    probability: Any  # (class, pixel)
    total: Any  # (pixel,)
    measurement: Any
    model: Any
    overlap: Any
    margin: Any
    typicality: Any
    disagreement: Any
    world_classes: Any  # (world, pixel), number of the most probable class in each, of uint8


class DrawnModels(NamedTuple):
    """Gaussians of the components by each draw of the parameters."""

    location: NDArray[np.float64]  # (draw, component, feature)
    whitening: NDArray[np.float64]  # (draw, component, feature, feature)
    log_weight: NDArray[np.float64]  # (draw, component)


def summarise_on_device(
    densities: FastClassDensities,
    planes: Any,
    pairs: Pairs,
    *,
    coefficients: NDArray[np.float64] | None = None,
    scale: NDArray[np.float64] | None = None,
    offset: NDArray[np.float64] | None = None,
) -> Layers:
    """All layers of pixels on the device, of uint16, float32 or float64: planes (feature, pixel).

    Numbers become physical by scale and offset; coefficients (realisation, 3, feature) correct them in each
    realisation, as in :meth:`ClassDensities.summarise`. Planes (realisation, feature, pixel) are realisations
    themselves. CuPy arrays and torch tensors in, the same kind out.

    Of a million pixels and more, where one smooth effect makes the realisations, log joints in most of them
    are interpolated; pixels for which that changes probabilities more than rounding may are read in all.
    """
    import cupy

    source = cupy.ascontiguousarray(_of_cupy(planes))
    n, classes = source.shape[-1], densities.n_classes
    strides = 1, n, n * densities.n_features if source.ndim == 3 else None
    problem = _Problem(densities, pairs, source, n, strides, (scale, offset), coefficients)
    out = cupy.empty((classes + 7, n), np.float32)
    best = cupy.empty((len(pairs.worlds), n), np.uint8)
    flags = problem.summarise(out, best, None)
    doubtful = cupy.flatnonzero(flags & 2)
    if len(doubtful):
        problem.typicality(doubtful, None, out[classes + 5])
    return Layers(*(_like(row, planes) for row in (out[:classes], *out[classes:], best)))


def probability_on_device(densities: FastClassDensities, X: Any, pairs: Pairs) -> Any:
    """P(class) of samples (sample, realisation, feature) there, averaged over pairs: (sample, class)."""
    problem, out = _of_samples(densities, X, pairs)
    problem.summarise(None, None, out)
    return _like(out, X)


def p_values_on_device(densities: FastClassDensities, X: Any, pairs: Pairs) -> Any:
    """p-values of the classes, averaged over pairs, of samples as above: (sample, class)."""
    problem, out = _of_samples(densities, X, pairs)
    problem.typicality(None, out, None)
    return _like(out, X)


def entropy_given_draws(
    densities: FastClassDensities, points: Any, P: Any, drawn: DrawnModels, temperature: float
) -> Any:
    """Mean entropy of the class once it is known which of some drawn models is right: (point,).

    Points (point, feature) and their probabilities P (point, class) are of double precision; odds of the
    classes are over the temperature.
    """
    problem, _ = _of_samples(densities, points[:, None, :], Pairs(*np.zeros((2, 1), int)))
    return _like(problem.given_draws(_of_cupy(P), drawn, temperature), points)


def _of_samples(densities: FastClassDensities, X: Any, pairs: Pairs) -> tuple[_Problem, Any]:
    import cupy

    source = cupy.ascontiguousarray(_of_cupy(X))
    n, realisations, p = source.shape
    problem = _Problem(densities, pairs, source, n, (realisations * p, 1, p), (None, None), None)
    return problem, cupy.empty((n, densities.n_classes), source.dtype)


def log_joints_on_device(
    densities: FastClassDensities, points: Any, pairs: Pairs, counts: NDArray[np.float64], out: Any
) -> Any:
    """Write log joints of the classes, (pair, class, pixel), of points (realisation, feature, pixel).

    Returns the model part of the budget, (pixel,), where pairs count by ``counts``. In double precision.
    """
    problem = _of_points(densities, points, pairs)
    return problem.log_joints(counts, out)


def typicality_on_device(
    densities: FastClassDensities, points: Any, pairs: Pairs, chosen: Any, *, per_class: bool
) -> Any:
    """p-values of some points, or of all: of the classes, (pixel, class), or the largest, (pixel,)."""
    import cupy

    problem, n = _of_points(densities, points, pairs), points.shape[-1]
    out = cupy.zeros((n, densities.n_classes) if per_class else n, np.float32)
    problem.typicality(chosen, out if per_class else None, None if per_class else out)
    return out


def _of_points(densities: FastClassDensities, points: Any, pairs: Pairs) -> _Problem:
    n, p = points.shape[-1], densities.n_features
    return _Problem(densities, pairs, points, n, (1, n, n * p), (None, None), None)


def has_kernels(X: Any) -> bool:
    """Tell whether an array lies where the kernels run: CuPy's, or a tensor on a device, where CuPy is."""
    if type(X).__module__.split(".")[0] == "torch":
        return bool(X.is_cuda) and find_spec("cupy") is not None
    return type(X).__module__.split(".")[0] == "cupy"


def _of_cupy(array: Any) -> Any:
    """A tensor as an array of CuPy that shares its memory."""
    import cupy

    return cupy.from_dlpack(array) if type(array).__module__.split(".")[0] == "torch" else array


def _like(array: Any, given: Any) -> Any:
    """The same as a tensor, where one was given."""
    if type(given).__module__.split(".")[0] != "torch":
        return array
    import torch

    return torch.from_dlpack(array)


def check_cuda() -> None:
    """Refuse a machine on which nothing can be computed by CUDA, in one line."""
    try:
        import cupy
    except ImportError:
        raise ValueError(
            "--device cuda needs CuPy, which is not installed: pip install cupy-cuda13x, or the build for "
            "your CUDA; or leave out --device"
        ) from None
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        if "insufficient" in str(problem).lower():
            raise ValueError(
                "--device cuda: the driver of this machine is older than the CUDA that CuPy was built for; "
                "renew the driver, install the build of CuPy for your CUDA, or leave out --device"
            ) from None
        found = 0
    if not found:
        raise ValueError(
            "--device cuda found no GPU of NVIDIA on this machine, or no driver; leave out --device"
        )
    try:
        cupy.empty(1)
        cupy.cuda.Stream(non_blocking=True)
    except _memory_errors() as problem:
        raise _too_little_memory(problem) from None


def _memory_errors() -> tuple[type[Exception], ...]:
    """Errors that a GPU whose memory is short may raise: CuPy's own, and that of the driver."""
    import cupy

    return cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError


def _too_little_memory(problem: Exception) -> Exception:
    """The one line that a GPU without memory gets; other errors of the driver stay as they are."""
    import cupy

    if not isinstance(problem, cupy.cuda.memory.OutOfMemoryError) and "Memory" not in str(problem):
        return problem
    return ValueError(
        f"--device cuda: the free memory of the GPU does not suffice for {_FEWEST} pixels; "
        "close what else uses it, or leave out --device"
    )


def layers_on_host(
    densities: FastClassDensities, planes: Any, pairs: Pairs, coefficients: NDArray[np.float64] | None
) -> Layers:
    """:func:`summarise_on_device` of arrays of this machine, with layers on this machine."""
    import cupy

    n = planes.shape[-1]

    def some(rows: slice) -> list[Any]:
        found = summarise_on_device(
            densities, cupy.asarray(planes[..., rows]), pairs, coefficients=coefficients
        )
        return [layer.get() for layer in found]

    parts = in_memory(some, n, n)
    return Layers(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def in_memory(work: Callable[[slice], list[Any]], n: int, size: int) -> list[list[Any]]:
    """Results of work on n pixels in blocks of a size, halved where memory of the device is short.

    Each thread has a stream of its own: what one computes runs beside what others copy.
    """
    import cupy

    found, start = [], 0
    with _stream():
        while start < n:
            try:
                found.append(work(slice(start, min(start + size, n))))
            except _memory_errors() as problem:
                error = _too_little_memory(problem)
                if error is problem:
                    raise
                cupy.get_default_memory_pool().free_all_blocks()
                if size <= _FEWEST:
                    raise error from None
                size = max(size // 2, _FEWEST)
                continue
            start += size
    return found


_of_thread = threading.local()


def _stream() -> Any:
    import cupy

    if not hasattr(_of_thread, "stream"):
        _of_thread.stream = cupy.cuda.Stream(non_blocking=True)
    return _of_thread.stream


@dataclass(frozen=True)
class _Problem:
    """Class densities and pixels that lie on the device."""

    densities: FastClassDensities
    pairs: Pairs
    source: Any
    count: int  # of pixels
    strides: tuple[int, int, int | None]  # to the next pixel, feature and realisation; None: there is one
    units: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]  # scale and offset
    coefficients: NDArray[np.float64] | None

    def summarise(self, out: Any, best: Any, samples: Any) -> Any:
        """Write all layers to ``out`` and ``best``, or probabilities to ``samples``; flags of the pixels.

        In single precision, and again in double where that does not suffice. Many pixels are read in few
        worlds, where the others follow from these, and again in all where that does not suffice.
        """
        import cupy

        single = self.source.dtype != np.float64
        flags = cupy.empty(self.count, np.uint8)
        few = self._few_worlds() if single and samples is None else None
        if few is None:
            self._summarise(None, single, out, best, samples, flags)
        else:
            self._interpolate(few, out, best, flags)
            chosen = cupy.flatnonzero(flags & 1)
            if len(chosen):
                self._summarise(chosen, True, out, best, None, flags)
        if single:
            chosen = cupy.flatnonzero(flags & 1)
            if len(chosen):
                again = None if samples is None else cupy.empty(samples.shape, np.float64)
                self._summarise(chosen, False, out, best, again, flags)
                if again is not None:
                    samples[chosen] = again[chosen]
        return flags

    def _few_worlds(self) -> FewWorlds | None:
        """Worlds that the others follow from, where that is worth it and can be."""
        if self.coefficients is None or self.count < MANY_PIXELS or self.densities.between is not None:
            return None
        few = few_worlds(self.densities, self.pairs, np.asarray(self.coefficients, np.float64))
        if few is None or few.weights.shape[1] * self.densities.n_components > _MOST_KEPT:
            return None
        return few if self._shared_of(few) <= SHARED_BYTES else None

    def _shared_of(self, few: FewWorlds) -> int:
        """Bytes of shared memory that a block needs for few worlds."""
        given = _Given.of(self.densities, True, self._rounded)
        K, p, nodes = self.densities.n_components, self.densities.n_features, few.weights.shape[1]
        whole = (len(few.weights) + 1) * -(-nodes // 4) * 4 + (nodes + 1) * given.records[0].size
        whole += nodes * K * given.shared_tail + -(-(nodes + 1) * 3 * p // 4) * 4
        return 4 * (whole + 2 * (nodes + 1) * K * THREADS)

    def _interpolate(self, few: FewWorlds, out: Any, best: Any, flags: Any) -> None:
        """Write all layers from few worlds."""
        import cupy

        given, some = _Given.of(self.densities, True, self._rounded), replace(self, pairs=few.pairs)
        nodes = few.weights.shape[1]
        weights = np.vstack([few.weights, few.weights.sum(axis=0)])
        weights = np.ascontiguousarray(np.pad(weights, [(0, 0), (0, -nodes % 4)]), np.float32)
        growth = np.abs(few.weights).sum(axis=1).max()
        arguments = (
            np.int64(self.count), given.records[some._worlds], given.tails[some._worlds],
            cupy.asarray(weights), np.int32(len(few.weights)), np.int32(few.check), np.float32(growth),
            *some._tables(given), given.bounds, out, best, flags,
        )  # fmt: skip
        kernel = self._kernel("interpolate", True, True, nodes=nodes)
        some._launch(kernel, given, arguments, None, self._shared_of(few), 1)

    def _summarise(self, chosen: Any, single: bool, out: Any, best: Any, samples: Any, flags: Any) -> None:
        layers = out is not None
        given = _Given.of(self.densities, single, self._rounded)
        worlds = len(self.pairs.worlds)
        tails = given.tails if layers else given.tails[:1]
        each = given.records[0].size + (given.shared_tail * self.densities.n_components if layers else 0)
        held = self._held(each, given.kind)
        kernel = self._kernel("summarise", single, layers)
        arguments = (
            given.records[self._worlds], tails[self._worlds] if layers else tails, np.int32(worlds),
            np.int32(held), *self._tables(given), given.bounds, out, samples, best, flags, np.int32(single),
        )  # fmt: skip
        head = np.int64(self.count), chosen, np.int64(self._how_many(chosen))
        shared = held * self._bytes(each, given.kind)
        self._launch(kernel, given, (*head, *arguments), chosen, shared, PIXELS if single else 1)

    def typicality(self, chosen: Any, out: Any, largest: Any) -> None:
        """Write p-values of the classes to ``out`` (pixel, class), or the largest of them to ``largest``."""
        single = self.source.dtype != np.float64
        given = _Given.of(self.densities, single, self._rounded)
        each = given.tails[0].size
        held = self._held(each, given.kind)
        arguments = (
            chosen, np.int64(self._how_many(chosen)), given.tails[self._worlds],
            np.int32(len(self.pairs.worlds)), np.int32(held), *self._tables(given), out, largest,
        )  # fmt: skip
        shared = held * self._bytes(each, given.kind)
        self._launch(self._kernel("typicality", single, True), given, arguments, chosen, shared, 1)

    def log_joints(self, counts: NDArray[np.float64], out: Any) -> Any:
        """Write log joints of the classes in each world, and return the model part of the budget."""
        import cupy

        given, densities = _Given.of(self.densities, False, False), self.densities
        each, part = given.records[0].size, cupy.empty(self.count, np.float64)
        held = self._held(each, given.kind)
        lifts = densities.log_weight.max(axis=1)[self._worlds]
        arguments = (
            np.int64(self.count), given.records[self._worlds], np.int32(len(self._worlds)), np.int32(held),
            cupy.asarray(lifts), cupy.asarray(counts), out, part,
        )  # fmt: skip
        kernel = self._kernel("log_joints", False, True)
        self._launch(kernel, given, arguments, None, held * self._bytes(each, given.kind), 1)
        return part

    def given_draws(self, P: Any, drawn: DrawnModels, temperature: float) -> Any:
        """Entropy of the class given each of some drawn models, averaged by what they say of the pixel."""
        import cupy

        given = _Given.of(self.densities, False, False)
        # Lower triangles that give the same distances.
        triangles = np.asarray(np.linalg.qr(drawn.whitening[..., ::-1], mode="r"))
        whitening = triangles[..., ::-1, ::-1]
        shift = whitening @ (drawn.location - given.near)[..., None]
        rows = _rows_of(whitening, shift[..., 0])
        record = cupy.asarray(_odd(_in_fours(drawn.log_weight[..., None]), rows))
        each, out = record[0].size, cupy.empty(self.count, np.float64)
        held = self._held(each, given.kind, len(record))
        kernel = self._kernel("given_draws", False, False, temperature)
        arguments = np.int64(self.count), record, np.int32(len(record)), np.int32(held), P, out
        self._launch(kernel, given, arguments, None, held * self._bytes(each, given.kind), 1)
        return out

    def _launch(
        self, kernel: Any, given: _Given, arguments: tuple[Any, ...], chosen: Any, shared: int, pixels: int
    ) -> None:
        """Run a kernel for all pixels, or those chosen."""
        import cupy

        p = self.densities.n_features
        scale, offset = (
            each if each is not None else np.full(p, i == 0) for i, each in enumerate(self.units)
        )
        features = np.stack([scale, offset, given.near]).astype(given.kind)
        coefficients = None
        if self.coefficients is not None:
            coefficients = cupy.asarray(self.coefficients[self.pairs.realisations].astype(given.kind))
        several = self.strides[2] is not None
        source = (
            self.source, *(np.int64(stride or 0) for stride in self.strides), cupy.asarray(features),
            coefficients, cupy.asarray(self.pairs.realisations.astype(np.int32)) if several else None,
        )  # fmt: skip
        count = self._how_many(chosen)
        processors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        blocks = min(-(-count // (THREADS * pixels)), 64 * processors)
        filled = tuple(np.uintp(0) if each is None else each for each in (*source, *arguments))
        kernel.max_dynamic_shared_size_bytes = shared
        kernel((blocks,), (THREADS,), filled, shared_mem=shared)

    def _kernel(
        self,
        name: str,
        single: bool,
        layers: bool,
        temperature: float | None = None,
        *,
        nodes: int = 0,
    ) -> Any:
        """Compile for this problem; classes of several components have log odds over a temperature."""
        densities = self.densities
        temperature = densities.components.temperature if temperature is None else temperature
        numbers = {
            "P": densities.n_features,
            "OWNERS": tuple(int(k) for k in densities.components.owner),
            "SHARPNESS": repr(1.0 / temperature),
            "COMMON": int(densities.between is not None),
            "APART": int(densities.typical is not None),
            "SINGLE": int(single),
            "IN": TYPES[str(self.source.dtype)],
            "PX": PIXELS if single and not nodes else 1,
            "NODES": nodes,
            "ADJACENT": int(self.strides[1] == 1),
            "ALL": int(layers),
        }
        return _compiled(name, THREADS, **numbers)

    def _tables(self, given: _Given) -> tuple[Any, Any, Any]:
        table, scale = given.table, given.table_scale
        odd = self.densities.n_features % 2
        return (
            table[self._worlds] if odd else table,
            scale[self._worlds] if odd else scale,
            np.int32(table.shape[-1] if odd else 0),
        )

    def _how_many(self, chosen: Any) -> int:
        return self.count if chosen is None else len(chosen)

    def _bytes(self, numbers: int, kind: Any) -> int:
        return int(np.dtype(kind).itemsize * (numbers + 3 * self.densities.n_features))

    def _held(self, numbers: int, kind: Any, most: int | None = None) -> int:
        """How many worlds fit into shared memory at a time; or others, of which there are so many."""
        import cupy

        allowed = cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        fits = min(allowed, SHARED_BYTES) // self._bytes(numbers, kind)
        return int(max(1, min(most or len(self.pairs.worlds), fits)))

    @property
    def _worlds(self) -> NDArray[np.int64]:
        return self.pairs.worlds

    @property
    def _rounded(self) -> bool:
        return self.coefficients is not None or any(each is not None for each in self.units)


class _Given(NamedTuple):
    """Numbers of class densities as the kernels take them, on the device."""

    kind: Any
    near: NDArray[Any]  # (feature,), the centre in this type
    records: Any  # (world, component, number)
    tails: Any  # (world, component, number)
    shared_tail: int  # numbers of a record of tails that layers need
    bounds: Any  # (component, 2)
    table: Any  # (world, component, step)
    table_scale: Any  # (world, component)

    @classmethod
    def of(cls, densities: FastClassDensities, single: bool, rounded: bool) -> _Given:
        """Arrange densities, once for each device."""
        import cupy

        return _given(densities, single, rounded, cupy.cuda.Device().id)


@lru_cache(maxsize=32)
def _given(densities: FastClassDensities, single: bool, rounded: bool, device: int) -> _Given:
    import cupy

    kind = np.dtype(np.float32 if single else np.float64)
    near, typical = densities.centre.astype(kind), densities.typical or densities
    moved = densities.centre - near
    p, (W, K) = densities.n_features, densities.dof.shape
    far = np.abs(densities.location - densities.centre)
    # Scaling and correcting round several times.
    bound = densities.rounding_bound(far + 2 * np.abs(densities.location) if rounded else far)
    weight = densities.log_weight - densities.log_weight.max(axis=1, keepdims=True)
    constants = np.stack([weight, densities.slope, 1.0 / densities.dof], -1)
    between = np.zeros((W, K, 0)) if densities.between is None else densities.between
    record = [_in_fours(constants, densities.variance, bound, between), _rows(densities, moved)]
    tail = np.zeros((W, K, 0)) if p % 2 else tail_coefficients(p, typical.dof)
    tails = _in_fours(np.stack([1.0 / typical.dof, 0.5 * typical.dof], -1), tail)
    scale, table = typical.p_value_tables if p % 2 else (np.zeros((1, K)), np.zeros((1, K, 2)))
    whole = _odd(tails, _rows(typical, moved))
    found = _Given(
        kind, near, cupy.asarray(_odd(*record).astype(kind)), cupy.asarray(whole.astype(kind)),
        whole.shape[-1] if typical is not densities else _odd(tails).shape[-1],
        cupy.asarray(_bounds(densities).astype(kind)), cupy.asarray(table.astype(np.float32)),
        cupy.asarray(scale.astype(np.float32)),
    )  # fmt: skip
    settle()
    return found


def settle() -> None:
    """Wait for copies to the device, which other threads use on streams of their own."""
    import cupy

    cupy.cuda.get_current_stream().synchronize()


def _rows(densities: ClassDensities, moved: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of the whitening matrices, for points less the centre as rounded."""
    W = densities.whitening
    return _rows_of(W, densities.stacked[1].reshape(densities.location.shape) + W @ moved)


def _rows_of(W: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of the triangles, each after what is subtracted."""
    return _in_fours(
        *(np.concatenate([-shift[..., i : i + 1], W[..., i, : i + 1]], -1) for i in range(W.shape[-1]))
    )


def _in_fours(*parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Parts of records one after the other, filled up to a multiple of four numbers."""
    record = np.concatenate(parts, axis=-1)
    return np.pad(record, [(0, 0), (0, 0), (0, -record.shape[-1] % 4)])


def _odd(*parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same, filled up to an odd number of fours."""
    record = np.concatenate(parts, axis=-1)
    return np.pad(record, [(0, 0), (0, 0), (0, 0 if record.shape[-1] // 4 % 2 else 4)])


def _bounds(densities: FastClassDensities) -> NDArray[np.float64]:
    """By how much distances that p-values are read from may be less than the others: (component, 2).

    With whitening matrices A and B of the two densities of a component and means m and m′,
    |B(x − m′)| ≥ s·|A(x − m)| − |B(m − m′)|, where s is the least singular value of BA⁻¹; in all worlds.
    Nothing is known, and s is 0, where the degrees of freedom change from world to world.
    """
    typical = densities.typical or densities
    root, away = np.ones(densities.n_components), np.zeros(densities.n_components)
    if densities.typical is not None:
        both = typical.whitening @ invert_triangle(densities.whitening)
        root = np.linalg.svd(both, compute_uv=False)[..., -1].min(axis=0)
        apart = typical.whitening @ (densities.location - typical.location)[..., None]
        away = np.sqrt((apart**2).sum((-2, -1))).max(axis=0)
    alike = (typical.dof == typical.dof[0]).all(axis=0)
    return np.stack([np.where(alike, 0.999 * root, 0.0), away], axis=-1)


@cache
def pool_kernel(name: str, **numbers: Any) -> Any:
    """A kernel of pool.cu, compiled with these macros."""
    import cupy

    code = resources.files("uncover.engines").joinpath("pool.cu").read_text("utf-8")
    head = "".join(f"#define {key} {value}\n" for key, value in numbers.items())
    return cupy.RawKernel(head + code, name, options=("--std=c++14",))


@cache
def _compiled(name: str, threads: int, *, OWNERS: tuple[int, ...], SINGLE: int, **numbers: Any) -> Any:
    import cupy

    code = resources.files("uncover.engines").joinpath("summarise.cu").read_text("utf-8")
    options = {
        **numbers, "K": len(OWNERS), "C": OWNERS[-1] + 1, "OWNERS": f"{{{', '.join(map(str, OWNERS))}}}",
        "SINGLE": SINGLE, "REAL": "float" if SINGLE else "double", "TOLERANCE": TOLERANCE, "THREADS": threads,
    }  # fmt: skip
    # Macros stand in the source: a type of two words would not survive a command line.
    head = "".join(f"#define {key} {value}\n" for key, value in options.items())
    return cupy.RawKernel(head + code, name, options=("--std=c++14",))
