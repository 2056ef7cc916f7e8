"""What several realisations of one sample mean: how they are counted in fitting and read in prediction."""

from dataclasses import dataclass, replace

import numpy as np

from uncover.bayes.covariances import Covariances
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
    """

    classes: Moments
    within_scatter: np.ndarray
    within_dof: float
    realisations: int

    def __add__(self, other):
        return Statistics(
            self.classes + other.classes,
            self.within_scatter + other.within_scatter,
            self.within_dof + other.within_dof,
            self.realisations if self.realisations == other.realisations else 0,
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


class Independent:
    """Samples whose errors have nothing in common; their noise may be known."""

    counts_rows = False

    def measured(self, inputs):
        """Points with known noise to learn through, or None."""
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

    def collect(self, X, membership):
        """Statistics of labelled samples."""
        return _nested(X, membership).statistics

    def measured(self, inputs):
        """Points with known noise to learn through, or None."""
        if inputs.X.ndim == 2 or inputs.X.shape[1] == 1:
            return super().measured(inputs)
        return inputs.X.mean(axis=1, dtype=np.float64), _covariances_of_draws(inputs.X)

    def views(self, inputs, pairing):
        """One view, of the means, with the covariance of each sample's draws."""
        X = inputs.X
        if X.ndim == 2:
            return [View(X, noise=inputs.noise)]
        if X.shape[1] == 1:
            return [View(X[:, 0])]
        return [View(X.mean(axis=1, dtype=np.float64), noise=_covariances_of_draws(X))]


class Shared:
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

    def measured(self, inputs):
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
            return [View(means, MEAN_WORLD, other, noise=_covariances_of_draws(X))]
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


def _covariances_of_draws(X):
    """Covariance of the draws of each sample: (sample, feature, feature)."""
    n, R, p = X.shape
    out = np.empty((n, p, p))
    for block in _blocks(n, R * p):
        x = X[block].astype(np.float64)
        x -= x.mean(1, keepdims=True)
        out[block] = np.swapaxes(x, 1, 2) @ x / (R - 1)
    return Covariances(None, None, out)


def _blocks(n_rows, numbers_per_row):
    """Slices of rows that hold a fixed quantity of numbers."""
    rows = max(1, _BLOCK_NUMBERS // max(1, numbers_per_row))
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]
