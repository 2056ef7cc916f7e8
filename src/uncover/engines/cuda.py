"""The map path on a graphics processor: pixels, their realisations and all layers in one kernel, by CuPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import Pairs, tail_coefficients
from uncover.engines.class_densities import FastClassDensities

# As on the processor: pixels whose probabilities may be further off are recomputed in double precision.
TOLERANCE = 2e-5
_THREADS, _SHARED_BYTES = 128, 46 * 1024
_TYPES = {"uint16": "unsigned short", "float32": "float", "float64": "double"}


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
    """
    if densities.typical is not None:
        assert isinstance(densities.typical, FastClassDensities)
        options = {"coefficients": coefficients, "scale": scale, "offset": offset}
        found = summarise_on_device(replace(densities, typical=None), planes, pairs, **options)
        typicality = summarise_on_device(densities.typical, planes, pairs, **options).typicality
        return found._replace(typicality=typicality)
    import cupy

    torch_like = type(planes).__module__.split(".")[0] == "torch"
    source = cupy.ascontiguousarray(cupy.from_dlpack(planes) if torch_like else planes)
    n, classes = source.shape[-1], densities.n_classes
    single = source.dtype != np.float64
    out = cupy.empty((classes + 7, n), np.float32)
    best = cupy.empty((len(pairs.worlds), n), np.uint8)
    inexact = cupy.empty(n, np.uint8) if single else None
    job = _Job(densities, pairs, coefficients, scale, offset, str(source.dtype))
    job.run(source, None, out, best, inexact, single)
    if single:
        chosen = cupy.flatnonzero(inexact)
        if len(chosen):
            job.run(source, chosen, out, best, None, False)
    rows = [out[:classes], *out[classes:], best]
    if torch_like:
        import torch

        rows = [torch.from_dlpack(row) for row in rows]
    return Layers(*rows)


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
    except cupy.cuda.runtime.CUDARuntimeError:
        found = 0
    if not found:
        raise ValueError(
            "--device cuda found no GPU of NVIDIA on this machine, or no driver; leave out --device"
        )


def layers_on_host(
    densities: FastClassDensities, planes: Any, pairs: Pairs, coefficients: NDArray[np.float64] | None
) -> Layers:
    """:func:`summarise_on_device` of arrays of this machine, with layers on this machine."""
    import cupy

    found = summarise_on_device(densities, cupy.asarray(planes), pairs, coefficients=coefficients)
    return Layers(*(layer.get() for layer in found))


class _Job:
    """One problem, compiled and with its numbers on the device."""

    def __init__(
        self,
        densities: FastClassDensities,
        pairs: Pairs,
        coefficients: NDArray[np.float64] | None,
        scale: NDArray[np.float64] | None,
        offset: NDArray[np.float64] | None,
        dtype: str,
    ) -> None:
        self.densities, self.pairs, self.coefficients, self.dtype = densities, pairs, coefficients, dtype
        p = densities.n_features
        self.rounded = any(part is not None for part in (coefficients, scale, offset))
        self.scale = np.ones(p) if scale is None else np.asarray(scale)
        self.offset = np.zeros(p) if offset is None else np.asarray(offset)

    def run(self, source: Any, chosen: Any, out: Any, best: Any, inexact: Any, single: bool) -> None:
        """Launch the kernel for all pixels, or those chosen."""
        import cupy

        p, n = source.shape[-2:]
        K, worlds = self.densities.n_components, len(self.pairs.worlds)
        kind = np.dtype(np.float32 if single else np.float64)
        pixels = 2 if single else 1
        common = self.densities.between is not None
        kernel = _compiled(p, *self._classes(), common, single, _TYPES[self.dtype], pixels)
        records = self._records(kind)
        near = self.densities.centre.astype(kind)
        features = np.stack([self.scale, self.offset, near, self.densities.centre - near]).astype(kind)
        each = kind.itemsize * (records.shape[-1] * K + 3 * p)
        held = max(1, min(worlds, _SHARED_BYTES // each))
        coefficients = None if self.coefficients is None else cupy.asarray(self._chosen(kind))
        scales, table = self.densities.p_value_tables if p % 2 else (np.zeros((1, K)), np.zeros((1, K, 2)))
        order = self.pairs.worlds if p % 2 else np.zeros(worlds, int)
        count = n if chosen is None else len(chosen)
        device = cupy.cuda.Device()
        blocks = min(-(-count // (_THREADS * pixels)), 64 * device.attributes["MultiProcessorCount"])
        arguments = (
            source, np.int64(n), chosen, np.int64(count), cupy.asarray(features), coefficients,
            None if source.ndim == 2 else cupy.asarray(self.pairs.realisations.astype(np.int32)),
            cupy.asarray(records), np.int32(worlds), np.int32(held),
            cupy.asarray(table[order].astype(np.float32)), cupy.asarray(scales[order].astype(np.float32)),
            np.int32(table.shape[-1]), out, best, inexact,
        )  # fmt: skip
        given = tuple(np.uintp(0) if a is None else a for a in arguments)
        kernel((blocks,), (_THREADS,), given, shared_mem=held * each)

    def _classes(self) -> tuple[tuple[int, ...], float]:
        """Class of each component, and one over the temperature where classes have several of them."""
        components = self.densities.components
        return tuple(int(k) for k in components.owner), 1.0 / components.temperature

    def _chosen(self, kind: np.dtype[Any]) -> NDArray[Any]:
        assert self.coefficients is not None
        return np.ascontiguousarray(self.coefficients[self.pairs.realisations], dtype=kind)

    def _records(self, kind: np.dtype[Any]) -> NDArray[Any]:
        """Numbers of each class of each pair, in the order that the kernel reads: (pair, class, number)."""
        densities, p = self.densities, self.densities.n_features
        W, K = densities.dof.shape
        shift = densities.stacked[1].reshape(W, K, p)
        rows = [
            np.concatenate([-shift[..., i : i + 1], densities.whitening[..., i, : i + 1]], -1)
            for i in range(p)
        ]
        rounded = np.abs(densities.location - densities.centre)
        if self.rounded:
            rounded = rounded + np.abs(densities.location)
        weight = densities.log_weight - densities.log_weight.max(axis=1, keepdims=True)
        constants = [weight, densities.slope, 1.0 / densities.dof, 0.5 * densities.dof]
        tail = np.zeros((W, K, 1)) if p % 2 else tail_coefficients(p, densities.dof)
        between = [] if densities.between is None else [densities.between]
        parts = [
            *rows,
            np.stack(constants, -1),
            densities.variance,
            densities.rounding_bound(rounded),
            tail,
            *between,
        ]
        record = np.concatenate(parts, axis=-1)
        record = np.pad(record, [(0, 0), (0, 0), (0, -record.shape[-1] % 4)])
        return np.ascontiguousarray(record[self.pairs.worlds], dtype=kind)


@cache
def _compiled(
    p: int, owners: tuple[int, ...], sharpness: float, common: bool, single: bool, source: str, pixels: int
) -> Any:
    import cupy

    code = resources.files("uncover.engines").joinpath("summarise.cu").read_text("utf-8")
    options = {
        "P": p, "K": len(owners), "C": owners[-1] + 1, "OWNERS": f"{{{', '.join(map(str, owners))}}}",
        "SHARPNESS": repr(sharpness), "COMMON": int(common), "PX": pixels, "IN": source,
        "SINGLE": int(single), "REAL": "float" if single else "double", "TOLERANCE": TOLERANCE,
    }  # fmt: skip
    # Macros stand in the source: a type of two words would not survive a command line.
    head = "".join(f"#define {name} {value}\n" for name, value in options.items())
    return cupy.RawKernel(head + code, "summarise", options=("--std=c++14",))
