"""What several realisations of one sample mean: how they are counted in fitting and read in prediction."""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from uncover.bayes.covariances import Covariances
from uncover.bayes.evidence import ScatterEvidence
from uncover.bayes.moments import Moments
from uncover.bayes.speed import in_order
from uncover.bayes.streams import stream
from uncover.estimators.arrays import on_device
from uncover.estimators.device_moments import means_and_scatter_within

MEAN_WORLD = -1
# Worlds of the model that each realisation of another scene is read with. One alone would leave what the two
# errors do together to chance.
_CROSSINGS = 8
# Numbers of one block of samples while means over realisations are taken.
_BLOCK_NUMBERS = 1 << 18
# Noise that counts for this many times the draws of a sample is the same for all samples.
_ALIKE = 1e4
# Weights that are tried: a finer choice changes nothing, and would depend on rounding.
_WEIGHTS = np.geomspace(1e-2, 1e6, 33)


@dataclass(frozen=True)
class Statistics:
    """All that fitting keeps of the samples; ``a + b`` is that of both sets of samples.

    Attributes
    ----------
    classes : Moments
        What the class models are updated with: batch (class,), or (world, class).
    within_scatter : array of shape (feature, feature)
        Scatter of the realisations about their own sample's mean, summed over samples.
    within_dof : float
        Its degrees of freedom, Σ wᵢ (R − 1).
    realisations : int
        R of the samples; 0 where different numbers were merged.
    noise_weight, scale_weight : float
        How many draws of a sample the shape of its noise is worth before they are seen, and how many numbers
        its size, because those of all are alike; 0 where each has its own, or there are no draws.
    """

    classes: Moments
    within_scatter: np.ndarray
    within_dof: float
    realisations: int
    noise_weight: float = 0.0
    scale_weight: float = 0.0

    def __add__(self, other):
        return Statistics(
            self.classes + other.classes,
            self.within_scatter + other.within_scatter,
            self.within_dof + other.within_dof,
            self.realisations if self.realisations == other.realisations else 0,
            min(self.noise_weight, other.noise_weight),
            min(self.scale_weight, other.scale_weight),
        )

    def rows_per_sample(self, kind):
        """Return how many rows of the moments each sample has on average: R where each counts, else 1."""
        if not kind.counts_rows:
            return 1.0
        rows = float(self.classes.count.sum())
        return rows / max(rows - self.within_dof, np.finfo(float).tiny)

    @property
    def noise(self):
        """Covariance of one realisation about its sample's mean, Σ̂_x; None where R was 1 throughout."""
        return self.within_scatter / self.within_dof if self.within_dof > 0 else None

    @property
    def drawn_noise(self):
        """What is known of the noise of draws before they are seen; None where there were none."""
        return None if self.noise is None else DrawnNoise(self.noise, self.noise_weight, self.scale_weight)


@dataclass(frozen=True)
class DrawnNoise:
    """Noise of samples of which R draws each are given: Σ_i ~ IW(a s_i C, a+p+1), C being that of all.

    The size s_i ~ IW(b, b+2) of a sample's noise is told by all p features of its draws, the shape by fewer
    numbers: s_i = (b + tr C⁻¹S_i) / (b + p(R − 1)) is expected after R draws of scatter S_i. The mean of the
    draws lies (1 + 1/R) Σ_i from the truth: once for the measurement that they are drawn around, and 1/R for
    the draws. Σ_i is the expected one:

        (1 + 1/R) (a s_i C + S_i) / (a + R − 1)
    """

    covariance: np.ndarray  # C, (feature, feature)
    weight: float  # a
    scale_weight: float = 0.0  # b

    @classmethod
    def of(cls, X, weight=None):
        """Of draws (sample, draw, feature) and weights of the samples; b, then a, of the highest evidence."""
        R = X.shape[1]
        scatter = _scatter_of_draws(X)
        share = np.full(len(X), 1.0 / len(X)) if weight is None else weight / weight.sum()
        C = np.tensordot(share, scatter, axes=1) / (R - 1)
        axes = _unit_axes(C)
        if axes.shape[1] == 0:
            return cls(C, 0.0)
        scatter = axes.T @ scatter @ axes
        size = np.trace(scatter, axis1=1, axis2=2)[:, None, None]
        b = _best_weight(size, axes.shape[1] * (R - 1.0), weight)
        expected = (b + size) / (b + axes.shape[1] * (R - 1.0))
        return cls(C, _best_weight(scatter / expected, R - 1.0, weight), b)

    def of_each(self, X):
        """Covariances of the distances of the draws' means from the truth."""
        R = X.shape[1]
        stretch = 1.0 + 1.0 / R
        axes = _unit_axes(self.covariance)
        freedom, b = axes.shape[1] * (R - 1), self.scale_weight
        if self.weight > _ALIKE * (R - 1) and b > _ALIKE * freedom:
            return Covariances(stretch * self.covariance, None, None)
        scatter = _scatter_of_draws(X)
        size = np.einsum("nij,ij->n", scatter, axes @ axes.T)
        expected = (b + size) / (b + freedom) if freedom else np.ones(len(X))
        if self.weight > _ALIKE * (R - 1):
            return Covariances(stretch * self.covariance, expected, None)
        own = self.weight * expected[:, None, None] * self.covariance + scatter
        return Covariances(None, None, stretch / (self.weight + R - 1) * own)


def _best_weight(scatter, freedom, weight):
    """How many degrees of freedom scatters (sample, direction, direction) being alike is worth."""
    n, p = scatter.shape[:2]
    seen = Moments(np.full(n, freedom + 1.0), np.zeros((n, p)), scatter, 0.0)
    evidence = ScatterEvidence.of(seen, np.eye(p))
    return float(max(_WEIGHTS, key=lambda a: evidence.at_each(np.array([a]), weight)[0]))


def _unit_axes(covariance):
    """Directions in which a covariance is not 0, scaled so that it is 1 along each: (feature, direction)."""
    unit = np.sqrt(np.diagonal(covariance))
    unit = np.where(unit > 0, unit, 1.0)
    value, axes = np.linalg.eigh(covariance / (unit[:, None] * unit))
    keep = value > 1e-10 * max(float(value[-1]), np.finfo(float).tiny)
    return axes[:, keep] / np.sqrt(value[keep]) / unit[:, None]


@dataclass(frozen=True)
class View:
    """One reading of new inputs: points for one world of class models.

    Attributes
    ----------
    points : array of shape (sample, feature)
    world : int or None
        Index into the leading batch axis of the posterior, where it has one; MEAN_WORLD for the average.
    other_scene : bool
        Whether the points' common error is independent of that of the training data: the spread of the
        class models over the worlds then counts as noise.
    repeats : int or None
        Of how many repeats the points are means; None where that has no meaning.
    noise : Covariances or None
        Known covariances of the points' errors.
    """

    points: np.ndarray
    world: int | None = None
    other_scene: bool = False
    repeats: int | None = None
    noise: Covariances | None = None


@dataclass(frozen=True)
class Pairing:
    """How the realisations of new inputs belong to the worlds of the training data."""

    worlds: int
    paired: bool
    seed: int | None
    noise: DrawnNoise | None = None


class Kind:
    """What the meanings of realisations have in common."""

    noise_by_spread = False

    def warn_of_single(self, X):
        """Say that one realisation has no spread, where that is what the noise would be known by."""
        if self.noise_by_spread and X.ndim == 3 and X.shape[1] == 1:
            warnings.warn(
                f'X has 1 realisation of each sample; realisations="{self.name}" takes the noise from their '
                "spread, which is not known. X is taken as it is: give more realisations, or X_cov.",
                UserWarning,
                stacklevel=4,
            )


class Independent(Kind):
    """Samples whose errors have nothing in common; their noise may be known."""

    counts_rows = False

    def knows_noise(self, inputs):
        """Whether the noise of the inputs is known."""
        return inputs.noise is not None

    def measured(self, inputs, weight=None):
        """Points with known noise to learn through, or None; ``weight`` (sample,) is that of the samples."""
        return None if inputs.noise is None else (inputs.X, inputs.noise)


class Pooled(Independent):
    """Every realisation is an observation of its own (the paper): N_k = R·n_k; probabilities averaged."""

    name = "pooled"
    counts_rows = True
    same_number = False
    by_realisation = True

    def collect(self, X, membership):
        """Statistics of labelled samples."""
        nested = _nested(X, membership)
        R, means = nested.realisations, nested.classes
        # Scatter of all rows = R · scatter of the means + scatter within the samples.
        pooled = Moments(
            R * means.count, means.mean, R * means.scatter + nested.within_by_class, means.residual
        )
        return replace(nested.statistics, classes=pooled)

    def views(self, inputs, pairing):
        """One view for each realisation."""
        X = inputs.X
        if X.ndim == 2:
            return [View(X, noise=inputs.noise)]
        return [View(X[:, r]) for r in range(X.shape[1])]

    def pairs(self, n_realisations, pairing):
        """Realisations with the world that each belongs to: none."""
        return [(r, None) for r in range(n_realisations)]


class Repeats(Independent):
    """Independent measurements of one true value: the mean is observed, with count n_k."""

    name = "repeats"
    same_number = True
    by_realisation = False
    noise_by_spread = True

    def collect(self, X, membership):
        """Statistics of labelled samples."""
        return _nested(X, membership).statistics

    def views(self, inputs, pairing):
        """One view, of the means, that says how many repeats stand behind them."""
        X = inputs.X
        if X.ndim == 2:
            return [View(X, repeats=1, noise=inputs.noise)]
        return [View(X.mean(axis=1, dtype=np.float64), repeats=X.shape[1])]


class Draws(Independent):
    """Monte Carlo draws around one measurement: their mean is the measurement, their spread its noise."""

    name = "draws"
    same_number = False
    by_realisation = False
    noise_by_spread = True

    def collect(self, X, membership):
        """Statistics of labelled samples."""
        statistics = _nested(X, membership).statistics
        if X.ndim == 2 or X.shape[1] == 1:
            return statistics
        noise = DrawnNoise.of(X, membership.weight)
        return replace(statistics, noise_weight=noise.weight, scale_weight=noise.scale_weight)

    def knows_noise(self, inputs):
        """Whether the noise of the inputs is known."""
        return inputs.noise is not None or (inputs.X.ndim == 3 and inputs.X.shape[1] > 1)

    def measured(self, inputs, weight=None):
        """Points with known noise to learn through, or None; ``weight`` (sample,) is that of the samples."""
        X = inputs.X
        if X.ndim == 2 or X.shape[1] == 1:
            return super().measured(inputs)
        return X.mean(axis=1, dtype=np.float64), DrawnNoise.of(X, weight).of_each(X)

    def views(self, inputs, pairing):
        """One view, of the means, with the noise that the training samples and their own draws tell of."""
        X = inputs.X
        if X.ndim == 2:
            return [View(X, noise=inputs.noise)]
        if X.shape[1] == 1:
            return [View(X[:, 0])]
        noise = pairing.noise or DrawnNoise(np.zeros((X.shape[2],) * 2), 0.0)
        return [View(X.mean(axis=1, dtype=np.float64), noise=noise.of_each(X))]


class Shared(Kind):
    """One error common to all samples of a scene: realisation r of every sample is world r.

    Within the scene that trained the model, world r predicts realisation r, and the probabilities are
    averaged. In another scene the two errors are independent, and densities are what has to be averaged over
    them: an input says something about the errors too. The average world is then seen through noise, the
    covariance of the class over the worlds plus that of the input over its realisations.
    """

    name = "shared"
    counts_rows = False
    same_number = True
    by_realisation = True

    def collect(self, X, membership):
        """Statistics of labelled samples, for each world."""
        worlds = (X if X.ndim == 3 else X[:, None, :]).swapaxes(0, 1)
        p = X.shape[-1]
        with np.errstate(over="ignore", invalid="ignore"):  # checked when the fit is concluded
            moments = membership.moments(worlds)
        return Statistics(moments, np.zeros((p, p)), 0.0, len(worlds))

    def knows_noise(self, inputs):
        """Whether the noise of single inputs is known: no, it is shared."""
        return False

    def measured(self, inputs, weight=None):
        """Points with known noise to learn through: none, an error that is shared is in no spread."""
        if inputs.noise is not None:
            raise ValueError(
                'realisations="shared" describes the whole error by its worlds and takes no X_cov beside it.'
            )

    def views(self, inputs, pairing):
        """One view for each pair of a realisation and a world; of another scene, one of the means."""
        X, other = inputs.X, not pairing.paired
        if X.ndim == 2 or X.shape[1] == 1:
            points = X if X.ndim == 2 else X[:, 0]
            return [View(points, MEAN_WORLD, other, noise=inputs.noise)]
        if other:
            means = X.mean(axis=1, dtype=np.float64)
            spread = _scatter_of_draws(X) / (X.shape[1] - 1)
            return [View(means, MEAN_WORLD, other, noise=Covariances(None, None, spread))]
        return [View(X[:, r], world) for r, world in self.pairs(X.shape[1], pairing)]

    def pairs(self, n_realisations, pairing):
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


KINDS = {kind.name: kind for kind in (Pooled(), Repeats(), Draws(), Shared())}


@dataclass(frozen=True)
class _Nested:
    classes: Moments  # (class,), of the means over realisations
    within_by_class: np.ndarray  # (class, feature, feature)
    within_dof: float
    realisations: int

    @property
    def statistics(self):
        return Statistics(self.classes, self.within_by_class.sum(0), self.within_dof, self.realisations)


@np.errstate(over="ignore", invalid="ignore")  # checked when the fit is concluded
def _nested(X, membership):
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
    for means, spread in in_order(lambda rows: _of_block(X[rows], membership[rows]), _blocks(n, R * p)):
        total, within = total + means, within + spread
    return _Nested(total, within, membership.total_weight(n) * (R - 1), R)


@np.errstate(over="ignore", invalid="ignore")
def _of_block(X, membership):
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


def _scatter_of_draws(X):
    """Scatter of the draws of each sample about their mean: (sample, feature, feature)."""
    n, R, p = X.shape
    out = np.empty((n, p, p))
    for block in _blocks(n, R * p):
        x = X[block].astype(np.float64)
        x -= x.mean(1, keepdims=True)
        out[block] = np.swapaxes(x, 1, 2) @ x
    return out


def _blocks(n_rows, numbers_per_row):
    """Slices of rows that hold a fixed quantity of numbers."""
    rows = max(1, _BLOCK_NUMBERS // max(1, numbers_per_row))
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]
