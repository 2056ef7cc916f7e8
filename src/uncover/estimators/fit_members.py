"""Fitting the members of a pool, and what they say of samples left out.

Functions that fit a member return it with its held-out log joint: that of the chosen training samples by
models that have not seen them, of shape (sample, view, class). Where the noise of the samples is known, a
member may learn from drawn true values, several of each sample, and is asked about draws of the true value
that do not know the sample's class: these are its views.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn import config_context

from uncover.bayes.kernel_mixture import held_out_squares, median_square
from uncover.bayes.logistic import Logistic
from uncover.bayes.streams import stream
from uncover.engines.members import FastForest, FastKernelMixture
from uncover.estimators.calibration import fit_temperature
from uncover.estimators.groups import divide
from uncover.measurement.observation import Observation
from uncover.measurement.prediction import predict
from uncover.models import members
from uncover.models.class_model import ClassModel
from uncover.models.fit import NoisyPoints, components_of_classes, fit
from uncover.models.gaussian import GaussianClasses
from uncover.models.members import ClassRanks, Scale
from uncover.models.membership import Membership
from uncover.models.realisations import KINDS

# More samples than this do not make the kernels better, only slower; and so for choosing their width.
MOST_CENTRES = 2048
MOST_TRIED = 512
# Bandwidths that are tried, in units of the median distance of samples: h² = 4 m² e^u.
BANDWIDTHS = np.exp(np.linspace(-6.0, 0.5, 14))
# Precisions of the prior of logistic coefficients that are tried, the strictest first.
PRECISIONS = (100.0, 10.0, 1.0, 0.1, 0.01)
FEWEST_FOR_FIVE_FOLDS = 1000
TREES = 100
# Each tree is grown without one of so many parts of the samples, or of the groups.
PARTS = 4
# Numbers of samples that the parent of a node is worth, which are tried.
STRENGTHS = (0.25, 1.0, 4.0)
# Random signs of a sample, at least and at most, and of all samples, and points that are asked: from these
# the number of samples behind an answer is found.
FEWEST_SIGNS, MOST_SIGNS, SIGNS, MOST_ASKED = 32, 256, 1 << 15, 512
# Drawn true values of each training sample: those that trees take in turn, and those of kernels and logistic
# regression; draws by which the width of kernels is chosen, of half as many samples.
IMPUTATIONS, STACKED, FOR_WIDTH = 16, 4, 4
# Samples from which a fold learns through noise, which takes time, at most.
MOST_THROUGH_NOISE = 1024


@dataclass(frozen=True)
class Training:
    """Training samples as members see them."""

    observation: Observation
    codes: np.ndarray  # (sample,), number of the class
    classes: np.ndarray
    groups: np.ndarray | None  # (sample,), number of the group
    seed: int
    scored: np.ndarray | None = None  # (sample,), whether it counts when it is left out; None: all do
    realisations: str = "pooled"  # what several realisations of a sample mean
    weight: np.ndarray | None = None  # (sample,), how many samples it counts for; None: 1
    imputed: np.ndarray | None = None  # (sample, imputation, feature), drawn true values; None: X is exact
    asked: np.ndarray | None = None  # (chosen sample, draw, feature), true values drawn without its class
    ranked: np.ndarray | None = None  # (sample,), whether it is ranked among its class; None: all are

    @cached_property
    def targets(self):
        """1 for the class of each sample: (sample, class)."""
        return np.eye(len(self.classes))[self.codes]

    @cached_property
    def log_shares(self):
        """Logarithms of the class shares: (class,)."""
        learned = self.counts @ self.targets + 1.0
        return np.log(learned / learned.sum())

    @cached_property
    def counts(self):
        """Weight of each sample: (sample,)."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    def class_ranks(self, joint):
        """Ranks of the chosen samples, by log joints (chosen sample, view, class), within their classes."""
        chosen = self.chosen()
        kept = slice(None) if self.ranked is None else self.ranked[chosen]
        return ClassRanks.of(joint[kept], self.codes[chosen][kept])

    def membership(self, rows=slice(None)):
        """Labels and weights of some samples."""
        weight = None if self.weight is None else self.weight[rows]
        return Membership(len(self.classes), self.codes[rows], None, weight)

    def log(self, floor):
        """The same of logarithms of the features."""

        def carried(values):
            return None if values is None else np.log(np.maximum(values, floor))

        return replace(
            self,
            observation=self.observation.log(floor),
            imputed=carried(self.imputed),
            asked=carried(self.asked),
        )

    def exact(self, X=None):
        """The same with values taken as exact: those of the observation, or others (sample, feature)."""
        X = self.observation.X if X is None else X
        return replace(self, observation=Observation(X), imputed=None, asked=None)

    def held_out_weight(self):
        """Weight of the prediction of each chosen sample by a model without it.

        Each stands for as many samples of its class as there are for one that was chosen. Samples of a group
        are right or wrong together: if those of group g stand for n_g, all groups are worth (Σ n_g)²/Σ n_g²
        independent samples (Kish's effective number). A class that is in one group only is unknown without
        it: its samples count nothing.
        """
        chosen = self.chosen()
        code, counts = self.codes[chosen], self.counts
        stands_for = (np.bincount(self.codes, counts) / np.bincount(code, counts[chosen]))[code]
        stands_for = stands_for * counts[chosen]
        group = np.arange(len(chosen)) if self.groups is None else self.groups[chosen]
        if self.groups is not None:
            pairs = np.unique(np.stack([self.codes, self.groups]), axis=1)
            stands_for = stands_for * (np.bincount(pairs[0]) > 1)[code]
        if self.scored is not None:
            stands_for = stands_for * self.scored[chosen]
        if self.groups is None and self.weight is not None:
            return stands_for  # a sample of weight 2 is two
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

    def chosen_groups(self):
        """Numbers of the groups of the chosen samples, which are left out together: (chosen sample,)."""
        chosen = self.chosen()
        return np.arange(len(chosen)) if self.groups is None else self.groups[chosen]

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

    @cached_property
    def rows(self):
        """One row a sample, (sample, feature): of several realisations, one at random."""
        X = self.observation.X
        if X.ndim == 3:
            X = X[np.arange(len(X)), self.one_realisation]
        return X.astype(np.float64)

    @property
    def values(self):
        """Values that members learn from: (sample, imputation, feature)."""
        return self.rows[:, None] if self.imputed is None else self.imputed

    @property
    def held_out_values(self):
        """Values of the chosen samples that members without them are asked about: (chosen, view, feature)."""
        return self.rows[self.chosen()][:, None] if self.asked is None else self.asked

    @property
    def one_realisation(self):
        """Number of the realisation that stands for each sample, drawn at random: (sample,)."""
        n, R, _ = self.observation.X.shape
        return stream(self.seed, "one realisation each").integers(R, size=n)


def fit_kernels(training):
    """Fit kernels at the values of each sample, features by their relevance to the classes.

    The width has the highest held-out score.
    """
    chosen, owner = training.chosen(), training.chosen_groups()
    values = training.values[:, : min(STACKED, max(1, MOST_CENTRES // len(chosen)))]
    M, p = values.shape[1:]
    rows, of_rows = values.reshape(-1, p), np.repeat(training.targets, M, axis=0)
    scale = Scale.by_relevance(rows, of_rows)
    centres, targets = scale(values[chosen]).reshape(-1, p), training.targets[chosen]
    own, whole = targets * training.counts[chosen, None], training.counts @ training.targets
    share = np.repeat(own * (whole / own.sum(0)) / M, M, axis=0)
    asked, of_centre = scale(training.held_out_values), np.repeat(owner, M)
    most = MOST_TRIED if training.asked is None else MOST_TRIED // 2
    few = stream(training.seed, "few").permutation(len(chosen))[:most]
    some, weight = asked[few, :FOR_WIDTH], training.held_out_weight()[few]
    widths = 2.0 * np.sqrt(median_square(centres[::M][few]) * BANDWIDTHS)
    parts = held_out_squares(some.reshape(-1, p), np.repeat(owner[few], some.shape[1]), centres, of_centre)
    squares, shape = np.concatenate(list(parts)), (*some.shape[:2], -1)
    tried = [FastKernelMixture(centres, share, float(width)) for width in widths]
    joints = (one.log_joint_at(squares).reshape(shape) for one in tried)
    score = [best_score(joint, targets[few], weight, training.log_shares)[0] for joint in joints]
    mixture = tried[int(np.argmax(score))]
    joint = mixture.held_out(asked.reshape(-1, p), np.repeat(owner, asked.shape[1]), of_centre)
    joint = joint.reshape(*asked.shape[:2], -1)
    density = np.logaddexp.reduce(joint, axis=(1, 2)) - np.log(joint.shape[1])
    lowest = float(np.min(density, where=np.isfinite(density), initial=np.inf))
    return members.KernelMember(scale, mixture, lowest), joint


def fit_logistic(training):
    """Fit logistic regression; the precision of its prior has the highest held-out score."""
    targets, chosen = training.targets, training.chosen()
    values = training.values[:, :STACKED]
    M, p = values.shape[1:]
    scale = Scale.of(values.reshape(-1, p))
    x, model, tried, v = scale(values), None, [], training.counts
    groups = None if training.groups is None else training.groups[chosen]
    first, weight = x[chosen, 0], training.held_out_weight()
    for precision in PRECISIONS:
        start = None if model is None else model.coefficients
        model = Logistic.fit(first, targets[chosen], precision, v[chosen], start)
        if groups is None:
            odds = model.leave_one_out(first, targets[chosen], v[chosen])
        else:
            odds = model.leave_groups_out(first, targets[chosen], groups, v[chosen])
        tried.append((_score(odds, targets[chosen], weight), model, odds))
    _, best, odds = max(tried, key=lambda one: one[0])
    if training.asked is not None:
        odds = _odds_by_folds(training, x, scale(training.asked), best)
    if M > 1 or len(chosen) < len(x):
        best = _stacked(x, targets, v, best)
    return members.LogisticMember(scale, best), odds if odds.ndim == 3 else odds[:, None]


def _stacked(x, targets, v, like):
    """Logistic regression on all values of samples (sample, value, feature), which count as one together."""
    M = x.shape[1]
    rows, v = x.reshape(-1, x.shape[2]), np.repeat(v / M, M)
    return Logistic.fit(rows, np.repeat(targets, M, axis=0), like.precision, v, like.coefficients)


def _odds_by_folds(training, x, asked, like):
    """Log odds of points (chosen, draw, feature) by models of the values x without the sample's fold."""
    chosen, out = training.chosen(), np.empty((*asked.shape[:2], len(training.classes)))
    fold = _folds(training, chosen, 5)
    for part in np.unique(fold):
        held, kept = fold == part, chosen[fold != part]
        model = _stacked(x[kept], training.targets[kept], training.counts[kept], like)
        out[held] = model.log_odds(asked[held].reshape(-1, x.shape[2])).reshape(out[held].shape)
    return out


def _folds(training, rows, number=None):
    """Number of the fold of some samples: (row,)."""
    number = number or (10 if len(rows) < FEWEST_FOR_FIVE_FOLDS else 5)
    groups = None if training.groups is None else training.groups[rows]
    return divide(training.codes[rows], groups, number, stream(training.seed, "folds"))


class HeldOutGaussians(NamedTuple):
    """Gaussian classes, what they say of samples left out, and the models that say it."""

    model: GaussianClasses
    joint: np.ndarray  # (chosen sample, view, class)
    folds: list  # (positions among the chosen samples, model without them)

    def member(self, training, asked=None):
        """As a member; ``asked`` (chosen, draw, feature) are draws of true values to rank new ones among."""
        joint = self.joint if asked is None else self.at(asked)
        typical = np.sort(members.log_density(joint[training.representative()]).ravel())
        return members.GaussianMember(self.model, training.class_ranks(joint), typical)

    def at(self, asked):
        """Log joint of true values of the chosen samples by models without them: as ``asked``, (…, class)."""
        out = np.empty((*asked.shape[:2], self.joint.shape[-1]))
        for held, model in self.folds:
            points = asked[held]
            out[held] = model.log_joint(points.reshape(-1, points.shape[2])).reshape(out[held].shape)
        return out


def fit_gaussians(training, class_model: ClassModel, *, mixture=False):
    """Fit Gaussian classes; held out by folds, because the prior is made of the samples too.

    With ``mixture`` classes may have several components. Known noise takes time: there are five folds then,
    which learn from some of the chosen samples.
    """
    model = _learn(training, slice(None), class_model, mixture)
    mixture = mixture and not model.components.trivial
    noise, chosen = training.observation.noise, training.chosen()
    known_noise = None if noise is None else noise.matrices().mean(0)
    model = replace(model, known_noise=known_noise, systematic=training.observation.systematic)
    rows = np.arange(len(training.codes)) if noise is None else chosen
    slow = noise is not None or training.observation.lacks_features
    fold, joints, folds = _folds(training, rows, 5 if slow else None), [], []
    place = np.full(len(training.codes), -1)
    place[chosen] = np.arange(len(chosen))
    for part in np.unique(fold):
        held, kept = rows[fold == part], rows[fold != part]
        held = held[place[held] >= 0]
        if len(held) == 0:
            continue
        if noise is not None and len(kept) > MOST_THROUGH_NOISE:
            kept = stream(training.seed, "fold", part).permutation(kept)[:MOST_THROUGH_NOISE]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said once, of all samples
            learned = _learn(training, kept, class_model, mixture)
            joint = predict(learned, training.observation[held]).log_joint()
        joints.append(joint)
        folds.append((place[held], learned))
    out = np.empty((len(chosen), *joints[0].shape[1:]))
    for (held, _), joint in zip(folds, joints, strict=True):
        out[held] = joint
    return HeldOutGaussians(model, out, folds)


def _learn(training, rows, class_model, mixture):
    """Gaussian classes of some of the samples."""
    observation, kind = training.observation[rows], KINDS[training.realisations]
    labels, components = training.membership(rows), None
    if mixture:
        labels, components = components_of_classes(observation.X, labels)
    found = kind.measured(observation.X, observation.noise, labels.weight)
    return fit(
        kind.collect(observation.X, labels),
        class_model=class_model,
        classes=training.classes,
        prior="evidence",
        realisations=training.realisations,
        measured=None if found is None else NoisyPoints.of(*found, labels),
        components=components,
    )


def fit_trees(training):
    """Fit randomised trees, each grown without a part of the samples, which it predicts.

    Of several values of each sample the trees take them in turn. How much a node learns from its parent is
    chosen by the score of the predictions.
    """
    values, chosen = training.values, training.chosen()
    M, p = values.shape[1:]
    scale = Scale.of(values.reshape(-1, p))
    x, asked = (members.single_precision(scale(each)) for each in (values, training.held_out_values))
    trees, sums, unseen = [], [], []
    each = int(np.clip(SIGNS // len(x), FEWEST_SIGNS, MOST_SIGNS))
    signs = stream(training.seed, "signs").choice([-1.0, 1.0], size=(len(x), each))
    seeds = stream(training.seed, "growing").integers(1 << 31, size=TREES)
    for number, out in enumerate(_left_out(training)):
        grown = _some(~out, training.seed, number)
        weight = None if training.weight is None else training.weight[grown]
        rows, codes = x[grown, number % M], training.codes[grown]
        tree, path = _grow(rows, codes, len(training.classes), int(seeds[number]), weight)
        trees.append(tree)
        sums.append(path.T @ (signs[grown] * training.counts[grown, None]))
        unseen.append(out[chosen])
    forest, unseen = _joined(trees), np.stack(unseen, axis=1)
    leaves = forest.leaves(asked.reshape(-1, p)).reshape(*asked.shape[:2], -1)
    weight, tried = training.held_out_weight(), []
    for strength in STRENGTHS:
        one = forest.with_strength(strength)
        shares = one.shares()
        said = [_mean_where(unseen, shares[leaves[:, view]]) for view in range(leaves.shape[1])]
        log_share = np.log(np.stack(said, axis=1))
        score, _ = best_score(log_share, training.targets[chosen], weight, training.log_shares)
        tried.append((score, one, log_share))
    _, best, log_share = max(tried, key=lambda t: t[0])
    few = stream(training.seed, "asked").permutation(len(chosen))[:MOST_ASKED]
    samples = _samples_heard(best.averages(np.concatenate(sums)), leaves[few, 0], unseen[few])
    return members.TreeMember(scale, best, samples), log_share


def _samples_heard(averages, leaves, unseen):
    """Number of samples of equal weight that say as much as those a new point hears, 1/Σ w².

    An average of independent random signs with weights w has the mean square Σ w²: S of one tree, and of T
    trees B + (S − B)/T, where B is what trees have in common. A point is asked of trees without it: averages
    are (node, sign), leaves and unseen (point, tree).
    """
    said, trees = averages[leaves], unseen.sum(1)
    single = (said**2).mean(-1)[unseen].mean()
    common = ((_mean_where(unseen, said) ** 2).mean(-1) - single / trees) / np.maximum(1.0 - 1.0 / trees, 0.5)
    return 1.0 / max(np.mean(common) + (single - np.mean(common)) / leaves.shape[1], 1.0 / len(averages))


def _left_out(training):
    """Which samples each tree is grown without; each is left out by every fourth."""
    units = len(training.codes) if training.groups is None else int(training.groups.max()) + 1
    parts, rng = min(PARTS, units), stream(training.seed, "trees")
    for tree in range(TREES):
        if tree % parts == 0:
            part = divide(training.codes, training.groups, parts, rng)
        yield part == tree % parts


def _some(kept, seed, number):
    """At most so many of the samples that are kept."""
    rows = np.flatnonzero(kept)
    if len(rows) <= MOST_CENTRES:
        return rows
    return np.sort(stream(seed, "samples of a tree", number).permutation(rows)[:MOST_CENTRES])


def _grow(x, codes, K, seed, weight=None):
    """One tree (left, right, feature, threshold, class counts of its nodes), and the nodes of its samples."""
    from sklearn.tree import ExtraTreeClassifier  # only where trees grow: it takes a while to import

    present, own = np.unique(codes, return_inverse=True)
    grown = ExtraTreeClassifier(max_features="sqrt", random_state=seed)
    with config_context(skip_parameter_validation=True):  # checks of a small tree take longer than growing it
        tree = grown.fit(np.ascontiguousarray(x), own, weight, check_input=False).tree_
    leaf, node = tree.children_left < 0, np.arange(tree.node_count)
    count = np.zeros((tree.node_count, K))
    count[:, present] = tree.value[:, 0] * tree.weighted_n_node_samples[:, None]
    left, right = (np.where(leaf, node, child) for child in (tree.children_left, tree.children_right))
    feature, threshold = np.where(leaf, 0, tree.feature), np.where(leaf, 0.0, tree.threshold)
    return (left, right, feature, threshold, count), tree.decision_path(np.ascontiguousarray(x))


def _joined(trees):
    sizes = [len(left) for left, *_ in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(roots, sizes)
    left, right, feature, threshold, count = (np.concatenate(part) for part in zip(*trees, strict=True))
    return FastForest(left + shift, right + shift, feature, threshold, count, roots, STRENGTHS[0])


def _mean_where(used, values):
    """Mean of values (sample, tree, class) over the trees that are used, (sample, tree)."""
    return np.einsum("st,stk->sk", used, values) / used.sum(1, keepdims=True)


def _score(log_odds, targets, weight):
    """Sum of the log probabilities of the true classes, weighted; of classes that are unknown, none."""
    known = np.isfinite(np.where(targets > 0, log_odds, 0.0)).all(1)
    own = np.where(targets[known] > 0, log_softmax(log_odds[known], axis=1), 0.0) * targets[known]
    return float(weight[known] @ own.sum(1))


def best_score(log_joint, targets, weight, log_shares):
    """The score at the best temperature, and that, of log joints (sample, view, class)."""
    temperature = fit_temperature(log_joint, targets, weight, log_shares)
    joint = (log_joint - log_shares) / temperature + log_shares
    if joint.shape[1] > 1:
        joint = np.logaddexp.reduce(log_softmax(joint, axis=-1), axis=1)[:, None]
    return _score(joint[:, 0], targets, weight), temperature
