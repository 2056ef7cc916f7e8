"""Meanings of several realisations of one sample: how fitting counts them and prediction reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.bayes.gaps import Gaps
from uncover.bayes.moments import Moments
from uncover.bayes.streams import stream
from uncover.engines.arrays import on_device
from uncover.engines.device_moments import means_and_scatter_within
from uncover.engines.threads import in_order
from uncover.models.drawn_noise import DrawnNoise, blocks
from uncover.models.membership import Membership

Array = NDArray[np.float64]

MEAN_WORLD = -1
# Worlds of the model that each realisation of another scene is read with. One alone would leave what the two
# errors do together to chance.
_CROSSINGS = 8

REALISATIONS_WITH_GAPS = (
    "training samples of several realisations must have all features: X has NaN. Give their means, with "
    "X_cov for what the realisations spread, or leave such samples out."
)


@dataclass(frozen=True)
class Statistics:
    """All that fitting keeps of the samples; ``a + b`` is that of both sets of samples."""

    classes: Moments  # what the class models are updated with: batch (class,), or (world, class)
    within_scatter: (
        Array  # (feature, feature), of realisations about their sample's mean, summed over samples
    )
    within_dof: float  # its degrees of freedom, Σ wᵢ (R − 1)
    realisations: int  # R of the samples; 0 where different numbers were merged
    drawn: DrawnNoise | None = None  # what is known of a sample's noise before its draws are seen, if any are
    gaps: Gaps | None = None  # sums by pattern where samples lack features: classes are completed ones so far

    def __add__(self, other: Statistics) -> Statistics:
        if self.gaps is not None or other.gaps is not None:
            each = (one.gaps or Gaps.of_moments(one.classes) for one in (self, other))
            return self.of_gaps(reduce(add, each))
        return Statistics(
            self.classes + other.classes,
            self.within_scatter + other.within_scatter,
            self.within_dof + other.within_dof,
            self.realisations if self.realisations == other.realisations else 0,
        )

    @classmethod
    def of_gaps(cls, gaps: Gaps) -> Statistics:
        """Of samples that lack features."""
        p = gaps.n_features
        return cls(gaps.start(), np.zeros((p, p)), 0.0, 1, gaps=gaps)

    @property
    def noise_of_each_class(self) -> bool:
        """True where the noise of draws differs between the classes."""
        return self.drawn is not None and len(self.drawn.covariance) > 1

    def rows_per_sample(self, kind: Kind) -> float:
        """Return how many rows of the moments each sample has on average: R where each counts, else 1."""
        if not kind.counts_rows:
            return 1.0
        rows = float(self.classes.count.sum())
        return rows / max(rows - self.within_dof, np.finfo(float).tiny)

    @property
    def noise(self) -> Array | None:
        """Covariance of one realisation about its sample's mean, Σ̂_x; None where R was 1 throughout."""
        return np.asarray(self.within_scatter / self.within_dof) if self.within_dof > 0 else None


@dataclass(frozen=True)
class Structure:
    """Structure of samples, without their values."""

    realisations: int | None = None  # of each sample; None for one value without an axis of realisations
    noise: bool = False  # whether covariances of the samples' errors are given


class Noise(Enum):
    """Where the known noise of points comes from."""

    GIVEN = "covariances beside the values"
    DRAWN = "the draws of each sample, and those of the training samples"
    SPREAD = "the spread of the realisations of each sample, and covariances beside the values if any"


@dataclass(frozen=True)
class Reading:
    """One way to read samples: which value counts, and the class models of which world."""

    realisation: int | None = 0  # number of the one that is read; None: the mean over realisations
    world: int | None = None  # on the leading batch axis of the posterior; MEAN_WORLD for the average
    # The points' common error is independent of that of the training data: the spread of the class models
    # over the worlds then counts as noise.
    other_scene: bool = False
    repeats: int | None = None  # number of repeats whose mean is read; None where that has no meaning
    noise: Noise | None = None  # known noise of the points, if there is any


@dataclass(frozen=True)
class Pairing:
    """Assignment of the realisations of new inputs to the worlds of the training data."""

    worlds: int
    paired: bool
    seed: int | None


class Kind:
    """Base of the meanings of realisations: samples whose errors have nothing in common."""

    name: str
    counts_rows = False  # every realisation is an observation of its own
    same_number = False  # all samples need the same number of realisations
    by_realisation = False  # each realisation is read by itself
    noise_by_spread = False  # the noise is known by the spread of the realisations

    def collect(self, X: Any, membership: Membership, drawn: DrawnNoise | None = None) -> Statistics:
        """Statistics of labelled samples, which may lack features (NaN).

        ``drawn`` is what their draws are known to tell.
        """
        if not lacks_values(X):
            return self._collect(X, membership, drawn)
        if X.ndim == 3:
            raise ValueError(REALISATIONS_WITH_GAPS)
        each = (membership.of_class(k) for k in range(membership.n_classes))
        return Statistics.of_gaps(Gaps.of(X, each))

    def _collect(self, X: Any, membership: Membership, drawn: DrawnNoise | None) -> Statistics:
        return _nested(X, membership).statistics

    def add(self, before: Statistics, new: Statistics) -> Statistics:
        """Statistics of both sets of samples."""
        if self.same_number and new.realisations != before.realisations:
            raise ValueError(
                f"X has {new.realisations} realisations, the samples before had {before.realisations}; "
                f'realisations="{self.name}" needs the same number in every call.'
            )
        return before + new

    def knows_noise(self, structure: Structure) -> bool:
        """True where the noise of samples is known."""
        return structure.noise

    def measured(
        self,
        X: Any,
        noise: Covariances | None,
        membership: Membership | None = None,
        drawn: DrawnNoise | None = None,
    ) -> tuple[Any, Covariances] | None:
        """Points with known noise to learn through, or None; ``drawn`` is what draws are known to tell."""
        return None if noise is None else (X, noise)

    def readings(self, structure: Structure, pairing: Pairing) -> list[Reading]:
        """The ways to read samples of this structure."""
        raise NotImplementedError

    def pairs(self, n_realisations: int, pairing: Pairing) -> list[tuple[int, int | None]]:
        """Realisations with the world that each belongs to: none."""
        return [(r, None) for r in range(n_realisations)]


class Pooled(Kind):
    """Every realisation is an observation of its own (the paper): N_k = R·n_k; probabilities averaged."""

    name = "pooled"
    counts_rows = True
    by_realisation = True

    def _collect(self, X: Any, membership: Membership, drawn: DrawnNoise | None) -> Statistics:
        nested = _nested(X, membership)
        R, means = nested.realisations, nested.classes
        # Scatter of all rows = R · scatter of the means + scatter within the samples.
        pooled = Moments(
            R * means.count, means.mean, R * means.scatter + nested.within_by_class, means.residual
        )
        return replace(nested.statistics, classes=pooled)

    def readings(self, structure: Structure, pairing: Pairing) -> list[Reading]:
        """Each realisation by itself."""
        if structure.realisations is None:
            return [Reading(noise=_given(structure))]
        return [Reading(r, noise=_given(structure)) for r in range(structure.realisations)]


class Repeats(Kind):
    """Independent measurements of one true value: the mean is observed, with count n_k."""

    name = "repeats"
    same_number = True
    noise_by_spread = True

    def readings(self, structure: Structure, pairing: Pairing) -> list[Reading]:
        """The means, and how many repeats stand behind them."""
        if structure.realisations is None:
            return [Reading(repeats=1, noise=_given(structure))]
        return [Reading(None, repeats=structure.realisations)]


class DrawnRealisations(Kind):
    """Monte Carlo draws around one measurement: their mean is the measurement, their spread its noise."""

    name = "draws"
    noise_by_spread = True

    def _collect(self, X: Any, membership: Membership, drawn: DrawnNoise | None) -> Statistics:
        statistics = super()._collect(X, membership, drawn)
        if X.ndim == 2 or X.shape[1] == 1:
            return statistics
        return replace(statistics, drawn=drawn or DrawnNoise.of(X, membership))

    def knows_noise(self, structure: Structure) -> bool:
        """True where the noise of samples is known."""
        return structure.noise or (structure.realisations or 1) > 1

    def measured(
        self,
        X: Any,
        noise: Covariances | None,
        membership: Membership | None = None,
        drawn: DrawnNoise | None = None,
    ) -> tuple[Any, Covariances] | None:
        """Points with known noise to learn through, or None; ``drawn`` is what draws are known to tell."""
        if X.ndim == 2 or X.shape[1] == 1:
            return super().measured(X, noise)
        drawn = drawn or DrawnNoise.of(X, membership)
        each = drawn.of_classes(X)[0] if membership is None else drawn.of_labelled(X, membership)
        return X.mean(axis=1, dtype=np.float64), each

    def readings(self, structure: Structure, pairing: Pairing) -> list[Reading]:
        """The means, with the noise that the training samples and their own draws tell of."""
        if structure.realisations is None:
            return [Reading(noise=_given(structure))]
        return [Reading() if structure.realisations == 1 else Reading(None, noise=Noise.DRAWN)]


class Shared(Kind):
    """One error common to all samples of a scene: realisation r of every sample is world r.

    Within the scene that trained the model, world r predicts realisation r, and the probabilities are
    averaged. In another scene the two errors are independent, and densities are what has to be averaged over
    them: an input says something about the errors too. The average world is then seen through noise, the
    covariance of the class over the worlds plus that of the input over its realisations.
    """

    name = "shared"
    same_number = True
    by_realisation = True

    def _collect(self, X: Any, membership: Membership, drawn: DrawnNoise | None) -> Statistics:
        """Moments for each world."""
        worlds = (X if X.ndim == 3 else X[:, None, :]).swapaxes(0, 1)
        p = X.shape[-1]
        with np.errstate(over="ignore", invalid="ignore"):  # checked when the fit is concluded
            moments = membership.moments(worlds)
        return Statistics(moments, np.zeros((p, p)), 0.0, len(worlds))

    def knows_noise(self, structure: Structure) -> bool:
        """Return False: the noise of single samples is not known, it is shared."""
        return False

    def measured(
        self,
        X: Any,
        noise: Covariances | None,
        membership: Membership | None = None,
        drawn: DrawnNoise | None = None,
    ) -> None:
        """Points with known noise to learn through: none, an error that is shared is in no spread."""
        if noise is not None:
            raise ValueError(
                'realisations="shared" came with X_cov and one value of each sample; X needs several '
                "realisations, the worlds of the shared error: leave X_cov out, or give them."
            )

    def readings(self, structure: Structure, pairing: Pairing) -> list[Reading]:
        """Each pair of a realisation and a world; of another scene, the means."""
        other = not pairing.paired
        if structure.realisations in (None, 1):
            return [Reading(0, MEAN_WORLD, other, noise=_given(structure))]
        if other:
            return [Reading(None, MEAN_WORLD, other, noise=Noise.SPREAD)]
        assert structure.realisations is not None
        pairs = self.pairs(structure.realisations, pairing)
        return [Reading(r, world, noise=_given(structure)) for r, world in pairs]

    def pairs(self, n_realisations: int, pairing: Pairing) -> list[tuple[int, int | None]]:
        """Realisations with the world that each belongs to; of another scene, with several in turn."""
        R, new = pairing.worlds, n_realisations
        if pairing.paired and R not in (1, new):
            raise ValueError(
                f"X has {new} realisations and the model {R} worlds. Within the scene that trained the model "
                f"they belong together one by one, so {R} are needed; for another scene pass paired=False."
            )
        if pairing.paired:
            return [(r % new, r % R) for r in range(max(R, new))]
        worlds = stream(pairing.seed, "pairing").permutation(R)
        turns = min(_CROSSINGS, R, new)
        shifts = [turn * R // turns for turn in range(turns)]
        return [(r % new, int(worlds[(r + shift) % R])) for shift in shifts for r in range(max(R, new))]


def lacks_values(X: Any) -> bool:
    """Check whether any value is missing (NaN); on a device, where none may be, it is not looked for.

    >>> lacks_values(np.array([[1.0, np.nan]]))
    True
    """
    if on_device(X):
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum())) and bool(np.isnan(X).any())


def _given(structure: Structure) -> Noise | None:
    return Noise.GIVEN if structure.noise else None


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Pooled(), Repeats(), DrawnRealisations(), Shared())}


@dataclass(frozen=True)
class _Nested:
    classes: Moments  # (class,), of the means over realisations
    within_by_class: Array  # (class, feature, feature)
    within_dof: float
    realisations: int

    @property
    def statistics(self) -> Statistics:
        return Statistics(self.classes, self.within_by_class.sum(0), self.within_dof, self.realisations)


@np.errstate(over="ignore", invalid="ignore")  # checked when the fit is concluded
def _nested(X: Any, membership: Membership) -> _Nested:
    """Moments of the samples' means for each class, and the scatter within the samples, in blocks."""
    n, p = len(X), X.shape[-1]
    K = membership.n_classes
    if X.ndim == 2:
        return _Nested(membership.moments(X), np.zeros((K, p, p)), 0.0, 1)
    R = X.shape[1]
    if on_device(X):
        means, within = means_and_scatter_within(X, membership)
        return _Nested(membership.moments(means), within, membership.total_weight(n) * (R - 1), R)
    total, within = Moments.empty(p, (K,)), np.zeros((K, p, p))
    for means, spread in in_order(lambda rows: _of_block(X[rows], membership[rows]), blocks(n, R * p)):
        total, within = total + means, within + spread
    return _Nested(total, within, membership.total_weight(n) * (R - 1), R)


@np.errstate(over="ignore", invalid="ignore")
def _of_block(X: Any, membership: Membership) -> tuple[Moments, Array]:
    """Moments of the means of a block of samples, and the scatter within them, for each class."""
    p = X.shape[-1]
    x = X.astype(np.float64)
    means = x.mean(axis=1)
    x -= means[:, None, :]
    within = np.zeros((membership.n_classes, p, p))
    for k in range(membership.n_classes):
        rows, weight = membership.of_class(k)
        mine = x[rows]
        within[k] = (mine * weight[:, None, None]).reshape(-1, p).T @ mine.reshape(-1, p)
    return membership.moments(means), within
