"""Training samples that are kept from the model, to calibrate sets of classes with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.streams import stream
from uncover.estimators.conformal import ConformalSets
from uncover.models.record import FittedEstimator
from uncover.models.sets import samples_needed
from uncover.pipeline.ground import Groups, together
from uncover.pipeline.training_sources import Batch, FitOptions, TrainingSource

# Share of the samples of a class that is kept, and samples that are enough.
_SHARE, _ENOUGH = 0.3, 2000


@dataclass
class HeldOut:
    """Keeps some samples of each class, at random, and lets the others through; groups as a whole."""

    coverage: float
    share: dict[str, float]  # of each class
    seed: int
    rng: np.random.Generator
    kept: list[Batch] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Sequence[TrainingSource], options: FitOptions) -> HeldOut:
        """Keep 30 % of the samples of each class, of many samples fewer: about 2,000 of each are enough."""
        assert options.coverage is not None
        drawn: dict[str, int] = {}
        for source in sources:
            for name, n in source.drawn.items():
                drawn[name] = drawn.get(name, 0) + n
        share = {name: min(_SHARE, _ENOUGH / max(n, 1)) for name, n in drawn.items()}
        return cls(options.coverage, share, options.seed, stream(options.seed, "kept for sets"))

    def rest(self, batch: Batch) -> Batch:
        """Samples of a batch that are left for the model."""
        share = np.array([self.share[str(name)] for name in batch.classes])
        mine = self.rng.random(len(share)) < share
        rest = ~mine
        if batch.groups is not None:  # of a group that is kept, no sample is for the model
            whole = self._kept_groups(batch.groups)
            mine, rest = whole & (self.rng.random(len(share)) < share / _SHARE), ~whole
            if batch.inner is not None:  # next to another group, a sample is too easily predicted
                mine &= batch.inner
        if mine.any():
            self.kept.append(batch.take(mine))
        return batch.take(rest)

    def _kept_groups(self, groups: Groups) -> NDArray[np.bool_]:
        """Samples of groups that are kept, as a mask; the same groups in every batch."""
        numbers, which = np.unique(groups, return_inverse=True)
        drawn = [stream(self.seed, "kept group", int(number)).random() for number in numbers]
        return (np.array(drawn) < _SHARE)[which.ravel()]

    @property
    def count(self) -> dict[str, int]:
        """Samples of each class that were kept."""
        names = np.concatenate([batch.classes for batch in self.kept] or [np.empty(0, np.str_)])
        return {str(name): int(n) for name, n in zip(*np.unique(names, return_counts=True), strict=True)}

    def check(self, samples: Mapping[str, int]) -> None:
        """Refuse classes, given with all their samples, of which too few were kept or none is left."""
        need, kept, groups = samples_needed(self.coverage), self.count, self._groups()
        for name, n in samples.items():
            mine = kept.get(name, 0)
            units = mine if groups is None else groups.get(name, 0)
            if units < need or mine == n:
                enough = math.ceil(1.5 * need / _SHARE)
                of, unit, such = "", "samples", ""
                if groups is not None:
                    of, unit, such = f" in {units} group(s)", "groups", " (polygons, or squares of --block)"
                raise ValueError(
                    f"class {name!r} has {n} samples, of which {mine}{of} were kept to calibrate sets of "
                    f"classes; a coverage of {self.coverage:g} needs {need} kept {unit} of each class, so "
                    f"about {enough} {unit}{such}: label more, or lower --coverage"
                )

    def _groups(self) -> dict[str, int] | None:
        """Groups of each class that were kept; None where samples belong to none."""
        if all(batch.groups is None for batch in self.kept):
            return None
        everything = joined(self.kept)
        assert everything.groups is not None
        names = {str(name): everything.classes == name for name in np.unique(everything.classes)}
        return {name: len(np.unique(everything.groups[mine])) for name, mine in names.items()}

    def calibrated(self, model: FittedEstimator) -> ConformalSets:
        """The fitted model with its sets."""
        everything = all_at_once(self.kept)
        sets = ConformalSets(model, self.coverage, _SHARE)
        noise = {} if everything.covariances is None else {"X_cov": everything.covariances}
        return sets.calibrate(everything.values, everything.classes, groups=everything.groups, **noise)


def check_coverage(coverage: float) -> None:
    """Refuse what is no share, and what would need more samples than are kept.

    >>> check_coverage(1.0)
    Traceback (most recent call last):
    ...
    ValueError: the coverage is 1; it lies between 0 and 1, such as 0.9
    """
    if not 0 < coverage < 1:
        raise ValueError(f"the coverage is {coverage:g}; it lies between 0 and 1, such as 0.9")
    if 2 * samples_needed(coverage) > _ENOUGH:
        highest = 1 - 2 / _ENOUGH
        raise ValueError(
            f"the coverage is {coverage:g}; at most {highest:g} is possible with the {_ENOUGH:,} samples of "
            "each class that are kept to calibrate sets"
        )


def all_at_once(batches: Sequence[Batch]) -> Batch:
    """All samples in one batch; they need the same number of realisations."""
    numbers = sorted({1 if b.values.ndim == 2 else b.values.shape[1] for b in batches})
    if len(numbers) > 1:
        raise ValueError(
            f"the samples have {' and '.join(map(str, numbers))} realisations; this needs the same number of "
            "each (--realisations draws, --calibrate, --coverage, --model mda or recommended)"
        )
    return joined(batches)


def joined(batches: Sequence[Batch]) -> Batch:
    """Batches of one kind as one."""
    if len(batches) == 1:
        return batches[0]
    stated = [(b.covariances, len(b.classes)) for b in batches if b.covariances is not None]
    return Batch(
        np.concatenate([b.values for b in batches]),
        np.concatenate([b.classes for b in batches]),
        together([b.groups for b in batches], [len(b.classes) for b in batches]),
        Covariances.join(stated) if stated else None,
        None if any(b.sure is None for b in batches) else np.concatenate([b.sure for b in batches]),
        _all_inner(batches) if any(b.inner is not None for b in batches) else None,
    )


def _all_inner(batches: Sequence[Batch]) -> NDArray[np.bool_]:
    return np.concatenate([np.ones(len(b.classes), bool) if b.inner is None else b.inner for b in batches])
