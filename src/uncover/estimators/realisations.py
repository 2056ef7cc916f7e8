"""What several realisations of one sample mean: how they are counted in fitting and read in prediction."""

from dataclasses import dataclass, replace

import numpy as np

from uncover.bayes.moments import Moments
from uncover.bayes.streams import stream

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
        Index into the leading batch axis of the posterior, where it has one.
    repeats : int or None
        Of how many repeats the points are means; None where that has no meaning.
    """

    points: np.ndarray
    world: int | None = None
    repeats: int | None = None


class Pooled:
    """Every realisation is an observation of its own (the paper): N_k = R·n_k; probabilities averaged."""

    name = "pooled"
    same_number = False

    def collect(self, X, codes, n_classes, weight):
        """Statistics of labelled samples."""
        nested = _nested(X, codes, n_classes, weight)
        R = nested.realisations
        means = nested.classes
        # Scatter of all rows = R · scatter of the means + scatter within the samples.
        pooled = Moments(
            R * means.count, means.mean, R * means.scatter + nested.within_by_class, means.residual
        )
        return replace(nested.statistics, classes=pooled)

    def views(self, X, fitted):
        """One view for each realisation."""
        return [View(X)] if X.ndim == 2 else [View(X[:, r]) for r in range(X.shape[1])]


class Repeats:
    """Independent measurements of one true value: the mean is observed, with count n_k."""

    name = "repeats"
    same_number = True

    def collect(self, X, codes, n_classes, weight):
        """Statistics of labelled samples."""
        return _nested(X, codes, n_classes, weight).statistics

    def views(self, X, fitted):
        """One view, of the means, that says how many repeats stand behind them."""
        if X.ndim == 2:
            return [View(X, repeats=1)]
        return [View(X.mean(axis=1, dtype=np.float64), repeats=X.shape[1])]


class Draws:
    """Monte Carlo draws around one measurement: their mean is the measurement."""

    name = "draws"
    same_number = False

    def collect(self, X, codes, n_classes, weight):
        """Statistics of labelled samples."""
        return _nested(X, codes, n_classes, weight).statistics

    def views(self, X, fitted):
        """One view, of the means."""
        return [View(X if X.ndim == 2 else X.mean(axis=1, dtype=np.float64))]


class Shared:
    """One error common to all samples of a scene: realisation r of every sample is world r."""

    name = "shared"
    same_number = True

    def collect(self, X, codes, n_classes, weight):
        """Statistics of labelled samples, for each world."""
        worlds = np.moveaxis(X if X.ndim == 3 else X[:, None, :], 1, 0)
        with np.errstate(over="ignore", invalid="ignore"):  # checked when the fit is concluded
            moments = Moments.by_group(worlds, codes, n_classes, weight)
        p = X.shape[-1]
        return Statistics(moments, np.zeros((p, p)), 0.0, len(worlds))

    def views(self, X, fitted):
        """One view for each pair of a realisation and a world."""
        R = fitted.realisations
        if X.ndim == 2 or X.shape[1] == 1:
            return [View(X if X.ndim == 2 else X[:, 0], world) for world in range(R)]
        new = X.shape[1]
        if fitted.paired and R not in (1, new):
            raise ValueError(
                f"X has {new} realisations and the model {R} worlds. Within the scene that trained the model "
                f"they belong together one by one, so {R} are needed; for another scene pass paired=False."
            )
        worlds = np.arange(R) if fitted.paired else stream(fitted.seed, "pairing").permutation(R)
        n_pairs = max(R, new)
        return [View(X[:, r % new], int(worlds[r % R])) for r in range(n_pairs)]


@dataclass(frozen=True)
class Fitted:
    """What reading new inputs needs to know of the fit."""

    realisations: int
    paired: bool
    seed: int | None


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
def _nested(X, codes, n_classes, weight):
    """Moments of the samples' means for each class, and the scatter within the samples, in blocks."""
    if X.ndim == 2:
        p = X.shape[1]
        moments = Moments.by_group(X, codes, n_classes, weight)
        return _Nested(moments, np.zeros((n_classes, p, p)), 0.0, 1)
    n, R, p = X.shape
    means = np.empty((n, p))
    within = np.zeros((n_classes, p, p))
    rows = max(1, _BLOCK_NUMBERS // (R * p))
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        x = X[block].astype(np.float64)
        means[block] = x.mean(1)
        x -= means[block][:, None, :]
        scaled = x if weight is None else x * weight[block][:, None, None]
        for k in np.unique(codes[block]):
            mine = codes[block] == k
            within[k] += scaled[mine].reshape(-1, p).T @ x[mine].reshape(-1, p)
    dof = float((n if weight is None else weight.sum()) * (R - 1))
    return _Nested(Moments.by_group(means, codes, n_classes, weight), within, dof, R)
