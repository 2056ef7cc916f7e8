"""A pool on a graphics processor: what its members say of pixels, and all layers of a map, by CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_densities import Pairs
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.cuda import (
    TYPES,
    check_cuda,
    log_joints_on_device,
    pool_kernel,
    settle,
    typicality_on_device,
)
from uncover.engines.members import FastForest, FastKernelMixture
from uncover.measurement.pool_prediction import Nodes, informed_views
from uncover.measurement.predictor import Predictor
from uncover.models.members import (
    ClassRanks,
    GaussianMember,
    KernelMember,
    LogisticMember,
    Scale,
    TreeMember,
)
from uncover.models.pool import STRANGE, Pool, PoolMember
from uncover.models.realisations import Structure

Array = NDArray[np.float64]

_THREADS, _BLOCKS, _CENTRES, _LIFT = 128, 4096, 64, 50 * np.log(2.0)
_KINDS = {GaussianMember: 0, KernelMember: 1, LogisticMember: 2, TreeMember: 3}


class Layers(NamedTuple):
    """Layers of a map, on the device."""

    # Probabilities, then total, measurement, model, overlap, margin and disagreement.
    rows: Any  # (class + 6, pixel)
    best: Any  # (world, pixel)
    typicality: Any  # (pixel,), or None


class Views(NamedTuple):
    """Values that members read: (view, feature, pixel), by transform."""

    points: dict[str, Any]  # all views
    mean: dict[str, Any]  # the mean of them, where worlds have models of their own


@dataclass(frozen=True, eq=False)
class DevicePool:
    """A pool whose members read pixels of the training scene, or without worlds, on a graphics processor.

    ``nodes`` in :meth:`layers` are worlds at which trees and kernels are read.
    """

    pool: Pool
    paired: bool

    def check(self, n_realisations: int, *, noisy: bool) -> None:
        """Refuse a machine without a device, and what the kernels do not reach."""
        check_cuda()
        pool, several = self.pool, n_realisations > 1
        by_world = pool.realisations == "shared"
        alone = pool.realisations in ("draws", "repeats") or (by_world and not self.paired)
        reads = all(self._reaches(member, n_realisations) for member in pool.members)
        if noisy or (several and alone) or (pool.systematic is not None and not self.paired) or not reads:
            raise ValueError(
                "--device cuda maps pixels as they are, or in worlds, by a pool of members that have learned "
                "all features and at most 32 classes without noise; it takes no stated uncertainty, worlds "
                "of another scene, repeats or draws: leave it out"
            )

    def _reaches(self, member: PoolMember, n_realisations: int) -> bool:
        model = member.model
        if member.reading == "uncertainties":
            return False
        if isinstance(model, GaussianMember):
            classes = model.model
            whole = bool(classes.used_features.all()) and len(classes.known_classes) == len(classes.classes)
            return (
                whole and classes.temperature == 1.0 and self._densities(member, n_realisations) is not None
            )
        if isinstance(model, KernelMember):
            return _fast_kernels(model)._arranged is not None
        if isinstance(model, TreeMember):
            return len(model.forest.left) < 1 << 23 and self.pool.n_features <= 256
        return not model.model._apart

    def _densities(self, member: PoolMember, n: int) -> tuple[FastClassDensities, Pairs] | None:
        assert isinstance(member.model, GaussianMember)
        classes = member.model.model
        structure = Structure(n if n > 1 else None)
        predictor = Predictor.of(classes, paired=self.paired)
        return predictor.densities(structure.realisations, classes.used_features)

    # ---- what members read -----------------------------------------------------------------------------

    def views(self, planes: NDArray[Any], coefficients: Array | None) -> Views:
        """Values of planes (realisation, feature, pixel), or of the first with coefficients."""
        import cupy

        source = cupy.ascontiguousarray(cupy.asarray(planes if coefficients is None else planes[0]))
        c = None if coefficients is None else cupy.asarray(coefficients, np.float64)
        n, views = planes.shape[-1], len(planes if coefficients is None else coefficients)
        each = [
            self._views_of(t, source, c, n, views) for t in sorted({m.transform for m in self.pool.members})
        ]
        return Views(*({t: part[i] for t, *part in each} for i in (0, 1)))

    def _views_of(self, transform: str, source: Any, c: Any, n: int, views: int) -> tuple[str, Any, Any]:
        import cupy

        floor = cupy.asarray(self.pool.floor, np.float64) if transform else None
        kernel = self._kernel("points", IN=TYPES[str(source.dtype)])
        found = []
        for mean in (False, True)[: 2 if self._by_world(views) else 1]:
            out = cupy.empty((1 if mean else views, self.pool.n_features, n), np.float32)
            self._run(kernel, n, (source, np.int64(n), np.int32(views), c, np.int32(mean), floor, out))
            found.append(out)
        return transform, found[0], found[-1]

    def _by_world(self, views: int) -> bool:
        return self.pool.realisations == "shared" and views > 1

    # ---- what they say ---------------------------------------------------------------------------------

    def layers(self, views: Views, nodes: Nodes | None, *, typicality: bool = True) -> Layers:
        """All layers of pixels."""
        import cupy

        pool, points = self.pool, next(iter(views.points.values()))
        R, _, n = points.shape
        M, K = len(pool.members), len(pool.classes)
        each = [R if m.gaussian or not self._by_world(R) else 1 for m in pool.members]
        first = np.concatenate([[0], np.cumsum(each)])
        logs = cupy.empty((int(first[-1]), K, n), np.float32)
        probability, shares = cupy.empty((M, K, n)), cupy.empty((M, n))
        parts = [logs[int(a) : int(b)] for a, b in pairwise(first)]
        variances = [
            self._read(member, views, nodes, joint, shares[i])
            for i, (member, joint) in enumerate(zip(pool.members, parts, strict=True))
        ]
        gates, places = self._gates(parts)
        found = self._typicality(views, parts) if typicality else None
        for i, member in enumerate(pool.members):
            given = member, views, nodes, parts[i], variances[i]
            self._calibrate(*given, probability[i], shares[i])
        rows = cupy.empty((K + 6, n), np.float32)
        best = cupy.empty((max(each), n), np.uint8)
        numbers = {"M": M, "V": max(each), "E": len(pool.exponents)}
        numbers |= {"VIEWS": _braces(each), "FIRST": _braces(first[:-1])}
        shift = pool.log_odds_shift
        arguments = (
            logs, probability, gates, _ints(places), _floats(self._trust), shares, np.int64(n),
            _floats(pool.exponents), _floats(pool.log_shares), None if shift is None else _floats(shift),
            np.int32(max(each)), rows, best,
        )  # fmt: skip
        self._run(self._kernel("conclude", **numbers), n, arguments)
        return Layers(rows, best, found)

    def _read(self, member: PoolMember, views: Views, nodes: Nodes | None, joint: Any, share: Any) -> Any:
        """Write log joints of a member in all its views; return the variances of those of kernels."""
        import cupy

        R, K, n = joint.shape
        if isinstance(member.model, GaussianMember):
            points = views.points[member.transform]
            densities, pairs = self._densities(member, len(points))  # type: ignore[misc]
            counts = np.zeros(R)
            which, weights = informed_views(R, nodes, self._few)
            counts[which] = weights
            share[...] = log_joints_on_device(densities, points, pairs, counts, joint)
            return None
        read = nodes if isinstance(member.model, KernelMember | TreeMember) and R > 1 else None
        at = np.arange(R) if read is None else read.worlds
        out = joint if read is None else cupy.empty((len(at), K, n), np.float32)
        variance = self._joints_of(member, views, at, out)
        if read is not None:
            weights = _floats(read.weights)
            arguments = (out, np.int64(n), np.int32(len(at)), weights, np.int32(R), joint)
            self._run(self._kernel("spread"), n, arguments, K)
        return variance

    def _joints_of(self, member: PoolMember, views: Views, at: NDArray[np.intp], out: Any) -> Any:
        """The same of a member that is not Gaussian, in some views."""
        import cupy

        n, model = out.shape[-1], member.model
        assert not isinstance(model, GaussianMember)
        given = self._points(member, views), np.int64(n), _ints(at)
        numbers, constants = self._constants(member)
        if isinstance(model, KernelMember):
            variance = cupy.empty(out.shape, np.float32)
            arguments = (*given, *constants, out, variance)
            self._run(self._kernel("kernel_joints", **numbers), n, arguments, len(at))
            return variance
        name = "tree_joints" if isinstance(model, TreeMember) else "logistic_joints"
        self._run(self._kernel(name), n, (*given, *constants, out), len(at))
        return None

    def _points(self, member: PoolMember, views: Views) -> Any:
        return views.mean[member.transform]  # all views, where these have no models of their own

    def _constants(self, member: PoolMember) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Macros and numbers of a member that is not Gaussian."""
        i = next(i for i, each in enumerate(self.pool.members) if each is member)
        return self._all_constants[i]

    @cached_property
    def _all_constants(self) -> dict[int, tuple[dict[str, Any], tuple[Any, ...]]]:
        found = {}
        for i, member in enumerate(self.pool.members):
            model = member.model
            if isinstance(model, KernelMember):
                found[i] = {"CENTRES": _CENTRES}, _kernel_constants(model)
            elif isinstance(model, TreeMember):
                found[i] = {}, _tree_constants(model)
            elif isinstance(model, LogisticMember):
                found[i] = {}, (_scale(model.scale), _floats(model.model.coefficients))
        settle()
        return found

    # ---- what counts -----------------------------------------------------------------------------------

    def _gates(self, joints: list[Any]) -> tuple[Any, list[int]]:
        """Gates of each kind (gate, pixel), and the number of that of each member; -1 for 1."""
        import cupy

        pool, n = self.pool, joints[0].shape[-1]
        if pool.by_relevance is None:
            return cupy.empty((1, n), np.float32), [-1] * len(pool.members)
        kernels = pool.members[pool.by_relevance].model
        assert isinstance(kernels, KernelMember)
        gaussians = [i for i, m in enumerate(pool.members) if m.gaussian]
        first = {
            t: next((i for i in gaussians if pool.members[i].transform == t), None) for t in ("", "log ")
        }
        out = cupy.empty((3, n), np.float32)
        if np.isinf(kernels.lowest):
            out[0] = 1.0
        else:
            joint = joints[pool.by_relevance]
            lowest = np.float32(kernels.lowest)
            self._run(self._kernel("nearness"), n, (joint, np.int64(n), np.int32(len(joint)), lowest, out[0]))
        for row, i in enumerate(first.values(), 1):
            if i is not None:
                constants = self._ranks_of[i]
                arguments = (joints[i], np.int64(n), np.int32(len(joints[i])), *constants, out[row])
                self._run(self._kernel("resemblance"), n, arguments)
        return out, [self._gate_of(member) for member in pool.members]

    def _gate_of(self, member: PoolMember) -> int:
        if member.model.heard == "everywhere":
            return 0 if member.transform else -1
        near = self.pool.trusts or member.model.heard == "near"
        return 0 if near else 1 if not member.transform else 2

    @cached_property
    def _ranks_of(self) -> dict[int, tuple[Any, ...]]:
        found = {}
        for i, member in enumerate(self.pool.members):
            model = member.model
            if isinstance(model, GaussianMember):
                bounds = [np.asarray(b) for b in model.ranks._bounds]
                begins = np.concatenate([[0], np.cumsum([len(b) for b in bounds])])
                found[i] = (
                    _floats(model.typical), np.int32(len(model.typical)), *_ranks(model.ranks),
                    _floats(np.concatenate(bounds)), _ints(begins), np.float32(STRANGE),
                )  # fmt: skip
        return found

    @cached_property
    def _trust(self) -> Array:
        """Trust in each member that ignores noise, of values without noise."""
        pool = self.pool
        if pool.noise is None:
            return np.ones(len(pool.members))
        alike = float(pool.noise.resemblance(np.zeros((1, pool.n_features))).ravel()[0])
        return np.array([1.0 if member.through_noise else alike for member in pool.members])

    def _typicality(self, views: Views, joints: list[Any]) -> Any:
        """p-values by ranks, and by the first Gaussian member where no training sample is stranger."""
        import cupy

        pool = self.pool
        gaussian, kernels = pool.first_gaussian, pool.by_relevance
        member = pool.members[gaussian]
        points = views.points[member.transform]
        densities, pairs = self._densities(member, len(points))  # type: ignore[misc]
        if pool.ranks is None or kernels is None:
            return typicality_on_device(densities, points, pairs, None, per_class=False)
        n = points.shape[-1]
        out, flags = cupy.empty(n, np.float32), cupy.empty(n, np.uint8)
        one, other = joints[gaussian], joints[kernels]
        given = one, np.int32(len(one)), other, np.int32(len(other)), np.int64(n)
        kernel, constants = self._kernel("ranked"), _ranks(pool.ranks)
        self._run(kernel, n, (*given, None, np.int64(n), *constants, None, out, flags))
        chosen = cupy.flatnonzero(flags)
        if len(chosen):
            tail = typicality_on_device(densities, points, pairs, chosen, per_class=True)
            arguments = (*given, chosen, np.int64(len(chosen)), *constants, tail, out, flags)
            self._run(kernel, len(chosen), arguments)
        return out

    def _calibrate(
        self,
        member: PoolMember,
        views: Views,
        nodes: Nodes | None,
        joint: Any,
        variance: Any,
        P: Any,
        share: Any,
    ) -> None:
        """Write probabilities of a member, and the share of its entropy that is due to its parameters."""
        model, (R, _, n) = member.model, joint.shape
        which, weights = informed_views(R, nodes, self._few)
        read = nodes if isinstance(model, KernelMember | TreeMember) and R > 1 else None
        at = which if read is None else np.arange(len(which))
        samples = model.samples if isinstance(model, TreeMember) else 0.0
        points = scale = covariances = None
        if isinstance(model, LogisticMember):
            points, scale = self._points(member, views), _scale(model.scale)
            covariances = self._inverse_of(member)
        arguments = (
            joint, np.int64(n), np.int32(R), np.float32(member.temperature), _floats(self.pool.log_shares),
            np.int32(_KINDS[type(model)]), np.int32(len(which)), _ints(which), _floats(weights), variance,
            _ints(at), np.float32(samples), points, scale, _ints(which), covariances, P, share,
        )  # fmt: skip
        self._run(self._kernel("calibrate"), n, arguments)

    def _inverse_of(self, member: PoolMember) -> Any:
        import cupy

        assert isinstance(member.model, LogisticMember)
        model = member.model.model
        K, d = model.coefficients.shape
        return cupy.asarray(np.ascontiguousarray(model._inverse.reshape(K, d, K, d).swapaxes(1, 2)))

    @property
    def _few(self) -> bool:
        return self.pool.realisations == "shared"

    # ---- launching -------------------------------------------------------------------------------------

    def _kernel(self, name: str, **numbers: Any) -> Any:
        numbers.setdefault("IN", "float")
        numbers.setdefault("CENTRES", _CENTRES)
        return pool_kernel(name, P=self.pool.n_features, K=len(self.pool.classes), **numbers)

    def _run(self, kernel: Any, n: int, arguments: tuple[Any, ...], across: int = 1) -> None:
        filled = tuple(np.uintp(0) if each is None else each for each in arguments)
        kernel((min(-(-n // _THREADS), _BLOCKS), across), (_THREADS,), filled)

    def block(self, views: int) -> int:
        """Pixels that are computed together: they fit into half of the free memory."""
        import cupy

        free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
        M, K, p = len(self.pool.members), len(self.pool.classes), self.pool.n_features
        each = 4 * (views * (2 * p + M * K + 2 * K) + 4 * M * K + 64)
        return int(max(1024, free // 2 // each))


def _fast_kernels(model: KernelMember) -> FastKernelMixture:
    mixture = model.mixture
    return FastKernelMixture(mixture.centres, mixture.share, mixture.bandwidth)


def _kernel_constants(model: KernelMember) -> tuple[Any, ...]:
    fast = _fast_kernels(model)
    assert fast._arranged is not None
    middle, (centres, offset, weight), first = fast._arranged
    mean, unit = model.scale.mean + model.scale.deviation * middle, model.scale.deviation * fast.bandwidth
    packed = np.concatenate([centres, offset[:, None], weight[:, None]], axis=1)
    packed = np.pad(packed, [(0, 0), (0, -packed.shape[1] % 4)])
    spread = np.float32(max(1.0, offset.max(initial=1.0)))
    return _scale(Scale(mean, unit)), _floats(packed), _ints(first), spread, np.float32(_LIFT)


def _tree_constants(model: TreeMember) -> tuple[Any, ...]:
    forest = model.forest
    fast = FastForest(
        forest.left,
        forest.right,
        forest.feature,
        forest.threshold,
        forest.count,
        forest.roots,
        forest.strength,
    )
    _, node, threshold, roots = fast._packed
    packed = np.stack([node.astype(np.int32), threshold.astype(np.float32).view(np.int32)], axis=1)
    return _scale(model.scale), _ints(packed), _ints(roots), np.int32(len(roots)), _floats(fast._said)


def _ranks(ranks: ClassRanks) -> tuple[Any, Any, Any]:
    return _floats(ranks.scores), _ints(ranks.first), np.float32(ranks.views)


def _scale(scale: Scale) -> Any:
    import cupy

    return cupy.asarray(np.stack([scale.mean, 1.0 / scale.deviation]))


def _floats(values: Any) -> Any:
    import cupy

    return cupy.asarray(np.ascontiguousarray(values, np.float32))


def _ints(values: Any) -> Any:
    import cupy

    return cupy.asarray(np.ascontiguousarray(values, np.int32))


def _braces(numbers: Any) -> str:
    return f"{{{', '.join(str(int(each)) for each in numbers)}}}"
