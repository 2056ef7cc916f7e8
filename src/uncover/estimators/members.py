"""The class models that BayesianClassifier averages: Gaussian, logistic, and one kernel a sample.

Each is fitted to training samples and says two things: the log joint of new inputs, and that of its training
samples by models that have not seen them.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.special import betaincinv, log_softmax, softmax
from sklearn.base import clone

from uncover.bayes.budget import entropy
from uncover.bayes.kernel_mixture import held_out_squares, median_square
from uncover.bayes.logistic import Logistic
from uncover.bayes.second_order import below_entropy, model_information
from uncover.bayes.streams import stream
from uncover.engines.members import FastKernelMixture
from uncover.estimators.calibration import fit_temperature
from uncover.estimators.groups import divide
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict

# More samples than this do not make the kernels better, only slower; and so for choosing their width.
MOST_CENTRES = 2048
MOST_TRIED = 512
# Bandwidths that are tried, in units of the median distance of samples: h² = 4 m² e^u.
BANDWIDTHS = np.exp(np.linspace(-6.0, 0.5, 14))
BY_RELEVANCE = "kernels by relevance"
# Share of the variance of a feature that counts as due to the classes, at least.
LEAST_RELEVANCE = 0.02
# Spread of a feature within classes, at least, of its whole spread: one that tells classes apart perfectly
# counts much, but not alone.
LEAST_SPREAD = 0.05
# Precisions of the prior of logistic coefficients that are tried, the strictest first.
PRECISIONS = (100.0, 10.0, 1.0, 0.1, 0.01)
FEWEST_FOR_FIVE_FOLDS = 1000
# With this confidence more of a class has lower scores than it is taken to have, by the samples seen.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Training:
    """Training samples as members see them.

    Attributes
    ----------
    inputs : Observation
    codes : array of int of shape (sample,)
    classes : array of shape (class,)
    groups : array of int of shape (sample,) or None
    seed : int
    scored : array of bool of shape (sample,) or None
        Which samples count when they are left out; all where None.
    """

    inputs: Observation
    codes: np.ndarray
    classes: np.ndarray
    groups: np.ndarray | None
    seed: int
    scored: np.ndarray | None = None

    @property
    def targets(self):
        """1 for the class of each sample: (sample, class)."""
        return np.eye(len(self.classes))[self.codes]

    def held_out_weight(self):
        """How much the prediction of each chosen sample, by a model without it, counts.

        Each stands for as many samples of its class as there are for one that was chosen. Samples of a group
        are right or wrong together: if those of group g stand for n_g, all groups are worth (Σ n_g)²/Σ n_g²
        independent samples (Kish's effective number). A class that is in one group only is unknown without
        it: its samples count nothing.
        """
        chosen = self.chosen()
        code = self.codes[chosen]
        stands_for = (np.bincount(self.codes) / np.bincount(code))[code]
        group = np.arange(len(chosen)) if self.groups is None else self.groups[chosen]
        if self.groups is not None:
            pairs = np.unique(np.stack([self.codes, self.groups]), axis=1)
            stands_for = stands_for * (np.bincount(pairs[0]) > 1)[code]
        if self.scored is not None:
            stands_for = stands_for * self.scored[chosen]
        sizes = np.bincount(group, stands_for)
        return stands_for * sizes.sum() / max((sizes**2).sum(), 1.0)

    def chosen(self):
        """Samples for what would take too long with all: at most so many, a share of each class.

        Of a rare class more than its share, so that it is not lost.
        """
        least = min(64, MOST_CENTRES / len(self.classes))
        return np.flatnonzero(self._rank_in_class < np.maximum(self._quota, least)[self.codes])

    def representative(self):
        """Which of the chosen samples make up a share of each class: booleans of shape (chosen sample,)."""
        chosen = self.chosen()
        return self._rank_in_class[chosen] < self._quota[self.codes[chosen]]

    @cached_property
    def _quota(self):
        """Samples of each class among the most that are chosen: (class,)."""
        count = np.bincount(self.codes)
        return count * min(1.0, MOST_CENTRES / len(self.codes))

    @cached_property
    def _rank_in_class(self):
        """Number of each sample within its class, in a random order: (sample,)."""
        order = stream(self.seed, "centres").permutation(len(self.codes))
        rank = np.empty(len(self.codes), dtype=int)
        for k in range(len(self.classes)):
            mine = order[self.codes[order] == k]
            rank[mine] = np.arange(len(mine))
        return rank


def rows_of_samples(X, seed):
    """One row a sample, (sample, feature): of several realisations, one at random."""
    if X.ndim == 2:
        return X.astype(np.float64)
    return X[np.arange(len(X)), one_realisation(X, seed)].astype(np.float64)


def one_realisation(X, seed):
    """Number of the realisation that stands for each sample, drawn at random: (sample,)."""
    return stream(seed, "one realisation each").integers(X.shape[1], size=len(X))


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
        return cls(rows.mean(0), np.where(_constant(rows), 1.0, rows.std(0)))

    @classmethod
    def by_relevance(cls, rows, targets):
        """Units of the spread σ within classes, over the correlation ratio η = √(1 − σ²/σ²_total).

        A feature that is the same in all classes hardly counts in distances, whatever it does.
        """
        total = cls.of(rows)
        means = (targets.T @ rows) / targets.sum(0)[:, None]
        freedom = max(len(rows) - len(means), 1)
        within = np.sqrt(((rows - targets @ means) ** 2).sum(0) / freedom)
        within = np.where(_constant(rows), total.deviation, within)
        relevance = np.sqrt(np.clip(1.0 - (within / total.deviation) ** 2, LEAST_RELEVANCE, 1.0))
        return cls(total.mean, np.maximum(within, LEAST_SPREAD * total.deviation) / relevance)

    def __call__(self, points):
        """Bring points to that scale."""
        return (points - self.mean) / self.deviation


def _constant(rows):
    """Which features have one value only, but for rounding."""
    return rows.std(0) <= 16 * np.finfo(float).eps * np.abs(rows.mean(0))


@dataclass(frozen=True)
class ClassRanks:
    """Scores of the training samples of each class for their class, by models that have not seen them.

    A class is ranked by itself: the members of a rare class are not strange because they are few.

    Attributes
    ----------
    scores : array of shape (score,)
        Those of each class together, and sorted.
    first : array of int of shape (class + 1,)
        Scores of class k are first[k] … first[k + 1] − 1.
    views : int
        Scores of one sample.
    """

    scores: np.ndarray
    first: np.ndarray
    views: int

    @classmethod
    def of(cls, scores, codes):
        """Of held-out scores (sample, view, class) and the classes of the samples.

        >>> ranks = ClassRanks.of(np.array([[[0.1, 9.0]], [[0.3, 9.0]], [[9.0, 0.2]]]), np.array([0, 0, 1]))
        >>> ranks.p_value(np.array([[[0.2, 0.1]]])).round(3)
        array([[[0.667, 0.5  ]]])
        """
        each = [np.sort(scores[codes == k, :, k].ravel()) for k in range(scores.shape[-1])]
        first = np.cumsum([0, *(len(part) for part in each)])
        return cls(np.concatenate(each), first, scores.shape[1])

    def below(self, scores, side):
        """Number of samples of each class with lower scores than these, for scores (sample, view, class)."""
        found = np.empty(scores.shape)
        for k, (start, stop) in enumerate(pairwise(self.first)):
            found[..., k] = np.searchsorted(self.scores[start:stop], scores[..., k], side=side)
        return found / self.views

    def p_value(self, scores):
        """Conformal p-value for each class, (1 + samples whose score is no higher)/(1 + n): as ``scores``."""
        return (self.below(scores, "right") + 1.0) / (self._sizes + 1.0)

    def surely_below(self, scores):
        """Share of each class that has lower scores, at least with 95 % confidence: as ``scores``.

        The r-th lowest of n scores has a share Beta(r, n + 1 − r) of the class below it (Clopper and Pearson
        1934): few samples show little.
        """
        below = self.below(scores, "left")
        for k, bounds in enumerate(self._bounds):
            below[..., k] = np.interp(below[..., k], np.arange(len(bounds)), bounds)
        return below

    @cached_property
    def _bounds(self):
        """Lower bounds of the shares, for each class and number of samples below: list of (n + 1,)."""
        sizes = [round(n) for n in self._sizes]
        above = [np.arange(n, 0, -1) for n in sizes]
        return [np.concatenate([[0.0], betaincinv(a[::-1], a, 1.0 - CONFIDENCE)]) for a in above]

    @property
    def _sizes(self):
        return np.diff(self.first) / self.views


class KernelMember:
    """One kernel a sample, its width chosen by the held-out score."""

    def __init__(self, name, scale, mixture, lowest):
        self.name, self.scale, self.mixture, self.lowest = name, scale, mixture, lowest

    @classmethod
    def fit(cls, training, *, by_relevance=False):
        """Fit, and return the member and its held-out log joint of the chosen samples: (sample, 1, class)."""
        rows, chosen = rows_of_samples(training.inputs.X, training.seed), training.chosen()
        scale = Scale.by_relevance(rows, training.targets) if by_relevance else Scale.of(rows)
        centres, targets = scale(rows[chosen]), training.targets[chosen]
        share = targets * (training.targets.sum(0) / targets.sum(0))
        groups = None if training.groups is None else training.groups[chosen]
        few = stream(training.seed, "few").permutation(len(chosen))[:MOST_TRIED]
        weight = training.held_out_weight()[few]
        widths = 2.0 * np.sqrt(median_square(centres[few]) * BANDWIDTHS)
        squares = np.concatenate(list(held_out_squares(centres, few, groups)))
        tried = [FastKernelMixture(centres, share, float(width)) for width in widths]
        score = [best_score(mixture.log_joint_at(squares), targets[few], weight) for mixture in tried]
        mixture = tried[int(np.argmax(score))]
        joint = mixture.leave_one_out(np.arange(len(chosen)), groups)
        density = np.logaddexp.reduce(joint, axis=1)
        lowest = float(np.min(density, where=np.isfinite(density), initial=np.inf))
        name = BY_RELEVANCE if by_relevance else "kernels"
        return cls(name, scale, mixture, lowest), joint[:, None]

    def log_joint(self, inputs):
        """Log joint of new inputs: (sample, view, class)."""
        return np.stack([self.mixture.log_joint(self.scale(x)) for x in views_of(inputs.X)], axis=1)

    def information(self, log_joint, inputs, temperature):
        """What knowing the density of each class would tell of the class, to second order: (sample,)."""
        total = 0.0
        for r, x in enumerate(views := views_of(inputs.X)):
            P = softmax(log_joint[:, r] / temperature, axis=-1)
            variance = self.mixture.relative_variance(log_joint[:, r], self.scale(x)) / temperature**2
            total = total + model_information(P, variance, entropy(P))
        return total / len(views)

    def nearness(self, log_joint):
        """Density over that of the training sample in the emptiest place, at most 1: (sample,)."""
        if np.isinf(self.lowest):  # no training sample has another
            return np.ones(len(log_joint))
        density = np.logaddexp.reduce(log_joint, axis=-1)
        return np.exp(np.minimum(density - self.lowest, 0.0)).mean(axis=1)


class LogisticMember:
    """Logistic regression, the strength of its prior chosen by the held-out score."""

    name = "logistic"

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
        weight = training.held_out_weight()
        for precision in PRECISIONS:
            start = None if model is None else model.coefficients
            model = Logistic.fit(x[chosen], targets[chosen], precision, start=start)
            if groups is None:
                odds = model.leave_one_out(x[chosen], targets[chosen])
            else:
                odds = model.leave_groups_out(x[chosen], targets[chosen], groups)
            tried.append((_score(odds, targets[chosen], weight), model, odds))
        _, best, odds = max(tried, key=lambda one: one[0])
        if len(chosen) < len(x):
            best = Logistic.fit(x, targets, best.precision, start=best.coefficients)
        return cls(scale, best), odds[:, None]

    def log_joint(self, inputs):
        """Log odds of new inputs: (sample, view, class)."""
        return np.stack([self.model.log_odds(self.scale(x)) for x in views_of(inputs.X)], axis=1)

    def information(self, log_joint, inputs, temperature):
        """What knowing the coefficients would tell of the class, to second order: (sample,)."""
        total = 0.0
        for r, x in enumerate(views := views_of(inputs.X)):
            P = softmax(log_joint[:, r] / temperature, axis=-1)
            V = self.model.covariance_of_log_odds(self.scale(x).astype(np.float64)) / temperature**2
            along = np.einsum("nk,nkk->n", P, V) - np.einsum("nj,njk,nk->n", P, V, P)
            total = total + below_entropy(0.5 * along, entropy(P))
        return total / len(views)


class GaussianMember:
    """A Gaussian for each class; held out by folds, because the prior is made of the samples too."""

    def __init__(self, model, ranks, typical):
        self.model, self.ranks, self.typical = model, ranks, typical

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
        fitted.model_ = replace(fitted.model_, systematic=training.inputs.systematic)
        fold, out = _folds(training), None
        for part in np.unique(fold):
            held, kept = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
            inputs = training.inputs[kept]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # said once, of all samples
                without = clone(model).fit(
                    inputs.X, labels[kept], X_cov=inputs.noise, classes=training.classes
                )
                joint = log_joint_of(without, training.inputs[held])
            if out is None:
                out = np.empty((len(fold), *joint.shape[1:]))
            out[held] = joint
        chosen = training.chosen()
        out = out[chosen]
        typical = np.sort(_log_density(out[training.representative()]).ravel())
        return cls(fitted, ClassRanks.of(out, training.codes[chosen]), typical), out

    def resemblance(self, log_joint):
        """Share of training samples that are stranger, each by models without it: (sample,).

        Of all samples by density, or of those of a class by the class's joint density, mean over classes by
        probability, whichever is more: members of a rare class are not strange, though most samples lie where
        there are more.
        """
        of_all = np.searchsorted(self.typical, _log_density(log_joint), side="left") / len(self.typical)
        of_class = (softmax(log_joint, axis=-1) * self.ranks.surely_below(log_joint)).sum(axis=-1)
        return np.maximum(of_all.mean(axis=1), of_class.mean(axis=1))

    def log_joint(self, inputs, *, paired=True):
        """Log joint of new inputs: (sample, view, class)."""
        return log_joint_of(self.model, inputs, paired=paired)


def log_joint_of(model, inputs, *, paired=True):
    """Log joint of inputs by a fitted generative model: (sample, view, class)."""
    return predict(model.model_, inputs, paired=paired).log_joint()


def _log_density(log_joint):
    """log p(x) from the log joint (..., class); of what is impossible for all classes, −∞."""
    with np.errstate(invalid="ignore"):
        return np.logaddexp.reduce(log_joint, axis=-1)


def _folds(training):
    """Fold of each sample: a like share of each class in each; whole groups in one."""
    folds = 10 if len(training.codes) < FEWEST_FOR_FIVE_FOLDS else 5
    return divide(training.codes, training.groups, folds, stream(training.seed, "folds"))


def _score(log_odds, targets, weight):
    """Sum of the log probabilities of the true classes, weighted; of classes that are unknown, none."""
    known = np.isfinite(np.where(targets > 0, log_odds, 0.0)).all(1)
    own = (log_softmax(log_odds[known], axis=1) * targets[known]).sum(1, where=targets[known] > 0)
    return float(weight[known] @ own)


def best_score(log_joint, targets, weight):
    """The score at the best temperature."""
    return _score(log_joint / fit_temperature(log_joint[:, None], targets, weight), targets, weight)
