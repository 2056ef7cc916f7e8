"""The class models that BayesianClassifier averages: Gaussian, logistic, and one kernel a sample.

Each is fitted to training samples and says two things: the log joint of new inputs, and that of its training
samples by models that have not seen them.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax
from sklearn.base import clone

from uncover.bayes.kernel_mixture import KernelMixture, held_out_squares, median_square
from uncover.bayes.logistic import Logistic
from uncover.bayes.streams import stream
from uncover.estimators.calibration import fit_temperature
from uncover.estimators.reading import Reader
from uncover.estimators.values import Inputs

# More samples than this do not make the kernels better, only slower; and so for choosing their width.
MOST_CENTRES = 2048
MOST_TRIED = 512
# Bandwidths that are tried, in units of the median distance of samples: h² = 4 m² e^u.
BANDWIDTHS = np.exp(np.linspace(-6.0, 0.5, 14))
BY_RELEVANCE = "kernels by relevance"
# Share of the variance of a feature that counts as due to the classes, at least.
LEAST_RELEVANCE = 0.02
# Precisions of the prior of logistic coefficients that are tried, the strictest first.
PRECISIONS = (100.0, 10.0, 1.0, 0.1, 0.01)
FEWEST_FOR_FIVE_FOLDS = 1000


@dataclass(frozen=True)
class Training:
    """Training samples as members see them.

    Attributes
    ----------
    inputs : Inputs
    codes : array of int of shape (sample,)
    classes : array of shape (class,)
    groups : array of int of shape (sample,) or None
    seed : int
    """

    inputs: Inputs
    codes: np.ndarray
    classes: np.ndarray
    groups: np.ndarray | None
    seed: int

    @property
    def targets(self):
        """1 for the class of each sample: (sample, class)."""
        return np.eye(len(self.classes))[self.codes]

    def held_out_weight(self):
        """How much the prediction of each chosen sample, by a model without it, counts.

        Samples of a group are right or wrong together. All count alike, and together as (Σ n_g)²/Σ n_g²
        independent ones, n_g being the sizes of the groups (Kish's effective number). A class that is in one
        group only is unknown without it: its samples count nothing.
        """
        chosen = self.chosen()
        if self.groups is None:
            return np.ones(len(chosen))
        group, code = self.groups[chosen], self.codes[chosen]
        pairs = np.unique(np.stack([code, group]), axis=1)
        several = np.bincount(pairs[0], minlength=len(self.classes)) > 1
        known = several[code].astype(float)
        sizes = np.bincount(group, known)
        return known * sizes.sum() / max((sizes**2).sum(), 1.0)

    def chosen(self):
        """Samples for what would take too long with all: at most so many, a share of each class."""
        n = len(self.codes)
        if n <= MOST_CENTRES:
            return np.arange(n)
        order = stream(self.seed, "centres").permutation(n)
        rank = np.empty(n, dtype=int)
        for k in range(len(self.classes)):
            mine = order[self.codes[order] == k]
            rank[mine] = np.arange(len(mine))
        quota = np.bincount(self.codes) * MOST_CENTRES / n
        return np.flatnonzero(rank < np.maximum(quota, min(64, MOST_CENTRES / len(quota)))[self.codes])


def rows_of_samples(X, seed):
    """One row a sample, (sample, feature): of several realisations, one at random."""
    if X.ndim == 2:
        return X.astype(np.float64)
    chosen = stream(seed, "one realisation each").integers(X.shape[1], size=len(X))
    return X[np.arange(len(X)), chosen].astype(np.float64)


def views_of(X):
    """Points of each realisation: arrays of shape (sample, feature)."""
    return [X] if X.ndim == 2 else [X[:, r] for r in range(X.shape[1])]


@dataclass(frozen=True)
class Scale:
    """Features brought to mean 0 and standard deviation 1."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, rows):
        """Of rows (sample, feature); a constant feature keeps its unit."""
        deviation = rows.std(0)
        constant = deviation <= 16 * np.finfo(float).eps * np.abs(rows.mean(0))
        return cls(rows.mean(0), np.where(constant, 1.0, deviation))

    @classmethod
    def by_relevance(cls, rows, targets):
        """Units of the spread σ within classes, over the correlation ratio η = √(1 − σ²/σ²_total).

        A feature that is the same in all classes hardly counts in distances, whatever it does.
        """
        total = cls.of(rows)
        means = (targets.T @ rows) / targets.sum(0)[:, None]
        freedom = max(len(rows) - len(means), 1)
        within = np.sqrt(((rows - targets @ means) ** 2).sum(0) / freedom)
        within = np.where(within > 1e-9 * total.deviation, within, total.deviation)
        relevance = np.sqrt(np.clip(1.0 - (within / total.deviation) ** 2, LEAST_RELEVANCE, 1.0))
        return cls(total.mean, within / relevance)

    def __call__(self, points):
        """Bring points to that scale."""
        return (points - self.mean) / self.deviation


class KernelMember:
    """One kernel a sample, its width chosen by the held-out score."""

    extrapolates = False

    def __init__(self, name, scale, mixture, typical):
        self.name, self.scale, self.mixture, self.typical = name, scale, mixture, typical

    @classmethod
    def fit(cls, training, *, by_relevance=False):
        """Fit, and return the member and its held-out log joint of the chosen samples: (sample, 1, class)."""
        rows, chosen = rows_of_samples(training.inputs.X, training.seed), training.chosen()
        scale = Scale.by_relevance(rows, training.targets) if by_relevance else Scale.of(rows)
        centres, targets = scale(rows[chosen]), training.targets[chosen]
        share = targets * (training.targets.sum(0) / targets.sum(0))
        groups = None if training.groups is None else training.groups[chosen]
        few = stream(training.seed, "few").permutation(len(chosen))[:MOST_TRIED]
        widths = 2.0 * np.sqrt(median_square(centres[few]) * BANDWIDTHS)
        squares = np.concatenate(list(held_out_squares(centres, few, groups)))
        tried = [KernelMixture(centres, share, float(width)) for width in widths]
        score = [best_score(mixture.log_joint_at(squares), targets[few]) for mixture in tried]
        mixture = tried[int(np.argmax(score))]
        joint = mixture.leave_one_out(np.arange(len(chosen)), groups)
        typical = np.sort(np.logaddexp.reduce(joint, axis=1))
        name = BY_RELEVANCE if by_relevance else "kernels"
        return cls(name, scale, mixture, typical), joint[:, None]

    def log_joint(self, inputs):
        """Log joint of new inputs: (sample, view, class)."""
        return np.stack([self.mixture.log_joint(self.scale(x)) for x in views_of(inputs.X)], axis=1)

    def typicality(self, log_joint):
        """Share of training samples, each seen by the others, in places as empty as these: (sample,).

        A p-value without assumptions: of new samples like the training ones, at most a share a is below a.
        """
        density = np.logaddexp.reduce(log_joint, axis=-1)
        below = np.searchsorted(self.typical, density, side="right")
        return ((below + 1.0) / (len(self.typical) + 1.0)).mean(axis=1)

    def nearness(self, log_joint):
        """Density over that of the training sample in the emptiest place, at most 1: (sample,)."""
        density = np.logaddexp.reduce(log_joint, axis=-1)
        lowest = self.typical[np.isfinite(self.typical)][:1]
        return (
            np.exp(np.minimum(density - lowest, 0.0)).mean(axis=1) if len(lowest) else np.ones(len(density))
        )


class LogisticMember:
    """Logistic regression, the strength of its prior chosen by the held-out score."""

    name = "logistic"
    extrapolates = True

    def __init__(self, scale, model):
        self.scale, self.model = scale, model

    @classmethod
    def fit(cls, training):
        """Fit, and return the member and its held-out log odds of the chosen samples: (sample, 1, class)."""
        rows, targets, chosen = (
            rows_of_samples(training.inputs.X, training.seed),
            training.targets,
            training.chosen(),
        )
        scale = Scale.of(rows)
        x, model, tried = scale(rows), None, []
        groups = None if training.groups is None else training.groups[chosen]
        for precision in PRECISIONS:
            start = None if model is None else model.coefficients
            model = Logistic.fit(x[chosen], targets[chosen], precision, start=start)
            if groups is None:
                odds = model.leave_one_out(x[chosen], targets[chosen])
            else:
                odds = model.leave_groups_out(x[chosen], targets[chosen], groups)
            tried.append((_score(odds, targets[chosen]), model, odds))
        _, best, odds = max(tried, key=lambda one: one[0])
        if len(chosen) < len(x):
            best = Logistic.fit(x, targets, best.precision, start=best.coefficients)
        return cls(scale, best), odds[:, None]

    def log_joint(self, inputs):
        """Log odds of new inputs: (sample, view, class)."""
        return np.stack([self.model.log_odds(self.scale(x)) for x in views_of(inputs.X)], axis=1)


class GaussianMember:
    """A Gaussian for each class; held out by folds, because the prior is made of the samples too."""

    extrapolates = True

    def __init__(self, model, typical):
        self.model, self.typical = model, typical

    @property
    def name(self):
        """Name of the estimator."""
        return type(self.model).__name__

    @classmethod
    def fit(cls, training, model):
        """Fit, and return the member and its held-out log joint: (chosen sample, view, class)."""
        labels = training.classes[training.codes]
        fitted = clone(model).fit(
            training.inputs.X, labels, X_cov=training.inputs.noise, classes=training.classes
        )
        fitted.systematic_ = training.inputs.systematic
        fold, out = _folds(training), None
        for part in np.unique(fold):
            held, kept = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
            inputs = _take(training.inputs, kept)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once, of all samples
                without = clone(model).fit(
                    inputs.X, labels[kept], X_cov=inputs.noise, classes=training.classes
                )
                joint = log_joint_of(without, _take(training.inputs, held))
            if out is None:
                out = np.empty((len(fold), *joint.shape[1:]))
            out[held] = joint
        out = out[training.chosen()]
        return cls(fitted, np.sort(_log_density(out).ravel())), out

    def typicality(self, log_joint):
        """Share of training samples, each by models without it, of a lower density than these: (sample,)."""
        below = np.searchsorted(self.typical, _log_density(log_joint), side="left")
        return (below / len(self.typical)).mean(axis=1)

    def log_joint(self, inputs, *, paired=True):
        """Log joint of new inputs: (sample, view, class)."""
        return log_joint_of(self.model, inputs, paired=paired)


def log_joint_of(model, inputs, *, paired=True):
    """Log joint of inputs by a fitted generative model: (sample, view, class)."""
    out = None
    for rows, sights in Reader(model, paired=paired, method="exact").blocks(inputs):
        joint = np.stack([model._spread_classes(sight.log_joint(), -np.inf) for sight in sights], axis=1)
        if out is None:
            out = np.empty((len(inputs.X), *joint.shape[1:]))
        out[rows] = joint
    return out


def _log_density(log_joint):
    """log p(x) from the log joint (..., class); of what is impossible for all classes, −∞."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(log_joint, axis=-1)


def _folds(training):
    """Fold of each sample: a like share of each class in each; whole groups in one."""
    folds = 10 if len(training.codes) < FEWEST_FOR_FIVE_FOLDS else 5
    return divide(training, folds, stream(training.seed, "folds"))


def divide(training, parts, rng):
    """Divide the samples, or the groups by their most frequent class, into parts: the part of each sample.

    Each class is in as many parts as it can be.
    """
    codes = training.codes
    if training.groups is not None:
        count = np.zeros((training.groups.max() + 1, len(training.classes)), dtype=int)
        np.add.at(count, (training.groups, codes), 1)
        codes = count.argmax(1)
    part = np.empty(len(codes), dtype=int)
    part[np.lexsort((rng.random(len(codes)), codes))] = np.arange(len(codes)) % parts
    return part if training.groups is None else part[training.groups]


def _take(inputs, rows):
    noise = None if inputs.noise is None else inputs.noise[rows]
    return Inputs(inputs.X[rows], noise, inputs.systematic)


def _score(log_odds, targets):
    """Sum of the log probabilities of the true classes."""
    known = np.isfinite(np.where(targets > 0, log_odds, 0.0)).all(1)
    return float((log_softmax(log_odds[known], axis=1) * targets[known])[targets[known] > 0].sum())


def best_score(log_joint, targets):
    """The score at the best temperature."""
    return _score(log_joint / fit_temperature(log_joint[:, None], targets), targets)
