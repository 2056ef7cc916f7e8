"""Fitting a pool: its members, and their weights by what they say of samples left out.

Functions that fit a member return it with its held-out log joint: that of the chosen training samples by
models that have not seen them, of shape (sample, view, class).
"""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from uncover.bayes.kernel_mixture import held_out_squares, median_square
from uncover.bayes.logistic import Logistic
from uncover.bayes.streams import stream
from uncover.engines.members import FastForest, FastKernelMixture
from uncover.estimators.calibration import fit_temperature, warn_of_lonely_classes
from uncover.estimators.groups import divide
from uncover.measurement.observation import Observation
from uncover.measurement.pooled import MAP_DRAWS, PoolPrediction, error_variances, logarithm
from uncover.measurement.prediction import predict
from uncover.models import members
from uncover.models.fit import NoisyPoints, fit
from uncover.models.members import ClassRanks, Scale
from uncover.models.membership import Membership
from uncover.models.pool import COUNTS_IN_FULL, LEAST_PROBABILITY, Pool, PoolMember, largest_ratio
from uncover.models.realisations import KINDS
from uncover.models.registry import CLASS_MODELS

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
# A member of less weight than this costs time and says nothing.
LEAST_WEIGHT = 0.01
# Samples by which it is seen how far members lie apart.
MOST_COMPARED = 256
_LEAST_EXPONENT = 1e-6


@dataclass(frozen=True)
class Training:
    """Training samples as members see them."""

    observation: Observation
    codes: np.ndarray  # (sample,), number of the class
    classes: np.ndarray
    groups: np.ndarray | None  # (sample,), number of the group
    seed: int
    scored: np.ndarray | None = None  # (sample,), whether it counts when it is left out; None: all do
    class_prior: float | np.ndarray = 1.0  # Dirichlet parameters, of the Gaussian members
    realisations: str = "pooled"  # what several realisations of a sample mean

    @property
    def targets(self):
        """1 for the class of each sample: (sample, class)."""
        return np.eye(len(self.classes))[self.codes]

    def held_out_weight(self):
        """Weight of the prediction of each chosen sample by a model without it.

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

    @cached_property
    def rows(self):
        """One row a sample, (sample, feature): of several realisations, one at random."""
        X = self.observation.X
        if X.ndim == 3:
            X = X[np.arange(len(X)), self.one_realisation]
        return X.astype(np.float64)

    @property
    def one_realisation(self):
        """Number of the realisation that stands for each sample, drawn at random: (sample,)."""
        n, R, _ = self.observation.X.shape
        return stream(self.seed, "one realisation each").integers(R, size=n)


def fit_pool(training):
    """Fit all members to training samples, and find temperatures and weights by samples left out: a Pool."""
    observation, chosen = training.observation, training.chosen()
    targets, weight = training.targets[chosen], training.held_out_weight()
    if not weight.any():
        warn_of_lonely_classes(4)
    floor = None if observation.systematic is not None else _floor(observation.X)
    found, held_out = _fit_members(training, floor, targets, weight)
    pool = Pool(
        classes=training.classes,
        members=found,
        weights=np.full(len(found), 1.0 / len(found)),
        temperature=1.0,
        **_moments(training),
        realisations=training.realisations,
        n_realisations=observation.structure.realisations or 1,
        floor=floor,
    )
    scores = pool.typical_scores(held_out)
    if scores is not None:
        pool = replace(pool, ranks=ClassRanks.of(scores, training.codes[chosen]))
    pool, held_out = _weigh(pool, held_out, targets, weight, training.groups is not None)
    return _with_exact(replace(pool, disagreement=_unexplained(pool, held_out, training)), training)


def _fit_members(training, floor, targets, weight):
    """The members with their temperatures, and their held-out log joints."""
    observation = training.observation
    several = (observation.structure.realisations or 1) > 1
    known = observation.noise is not None or observation.systematic is not None
    qda, lda = (partial(fit_gaussians, class_model=CLASS_MODELS[name]) for name in ("qda", "lda"))
    makers = [fit_kernels, partial(fit_kernels, by_relevance=True), fit_logistic, qda, fit_trees]
    if known or (several and training.realisations != "pooled"):
        makers = [qda, lda]
    found, held_out = [], []
    for transform in ("", "log ") if floor is not None else ("",):
        seen = replace(training, observation=logarithm(observation, floor)) if transform else training
        for make in makers:
            if make is fit_trees and transform:
                continue  # a logarithm does not change the order of values
            member, joint = make(seen)
            found.append(PoolMember(member, transform, fit_temperature(joint, targets, weight)))
            held_out.append(joint)
    return tuple(found), held_out


def _weigh(pool, held_out, targets, weight, grouped):
    """Find weights and temperature, and whether strange inputs can be left to all; drop the rest."""
    tried, P = [], pool.probabilities(held_out)
    for trusts in (False, True) if grouped else (False,):
        gate = replace(pool, trusts=trusts).gates(held_out)
        tried.append((*fit_weights(P, gate, targets, weight), trusts))
    weights, temperature, _, trusts = max(tried, key=lambda one: one[2])
    heard = weights >= LEAST_WEIGHT
    if pool.by_relevance is not None:
        heard[pool.by_relevance] = True  # these say how typical an input is
    for i, member in enumerate(pool.members):
        if member.gaussian:
            heard[i] |= any(heard[[member.transform == other.transform for other in pool.members]])
    w, kept = weights[heard], tuple(compress(pool.members, heard))
    temperature = temperature / float(w.sum())
    pool = replace(pool, members=kept, weights=w / w.sum(), temperature=temperature, trusts=trusts)
    return pool, list(compress(held_out, heard))


def _unexplained(pool, held_out, training):
    """Share of the members' disagreement on samples left out that their parameters do not explain."""
    rows = stream(training.seed, "disagreement").permutation(len(held_out[0]))[:MOST_COMPARED]
    rows = rows[[all(np.isfinite(joint[i]).any(-1).all() for joint in held_out) for i in rows]]
    if len(rows) == 0:
        return 0.0
    samples, joints = training.chosen()[rows], [joint[rows] for joint in held_out]
    observation = training.observation[samples]
    if observation.X.ndim == 3 and not pool.takes_noise:  # others than Gaussians have seen one realisation
        seen = training.one_realisation[samples][:, None, None]
        observation = Observation(np.take_along_axis(observation.X, seen, 1)[:, 0])
        joints = [j if j.shape[1] == 1 else np.take_along_axis(j, seen, 1) for j in joints]
    prediction = PoolPrediction(pool, observation, joints=joints)
    _, model = prediction.own_parts(*MAP_DRAWS)
    return pool.unexplained(prediction.probabilities, prediction.gates, model)


def _with_exact(pool, training):
    """With a pool that takes X as exact, if noise that is known is small beside the classes."""
    observation = training.observation
    if (observation.noise is None and observation.systematic is None) or observation.X.ndim == 3:
        return pool
    free, total = np.maximum(pool.class_count - 1.0, 0.0), observation.X.astype(np.float64).var(axis=0)
    within = free @ np.diagonal(pool.covariances, axis1=1, axis2=2) / max(free.sum(), 1.0)
    within = np.where(within > 1e-12 * total, within, total)
    ratio = float(largest_ratio(error_variances(observation).mean(0), within))
    if ratio >= COUNTS_IN_FULL:
        return pool
    exact = fit_pool(replace(training, observation=Observation(observation.X), scored=None))
    return replace(pool, without_noise=exact, within=within, noise_ratio=ratio)


def _moments(training):
    """Number, mean and covariance of the training samples of each class."""
    X, K = training.observation.X, len(training.classes)
    points = X.mean(axis=1, dtype=np.float64) if X.ndim == 3 else X
    moments = Membership(K, training.codes, None, None).moments(points)
    free = np.maximum(moments.count - 1.0, 1.0)
    count = np.bincount(training.codes, minlength=K).astype(float)
    covariances = moments.scatter / free[:, None, None]
    return {"class_count": count, "means": moments.mean, "covariances": covariances}


def _floor(X):
    """Half of the smallest value of each feature; None where a value is not positive."""
    smallest = X.reshape(-1, X.shape[-1]).astype(np.float64).min(0)
    return 0.5 * smallest if np.all(smallest > 0) else None


def fit_weights(probability, gate, targets, weight=None):
    """Weights and temperature of the pool with the highest score of held-out probabilities.

    With M members, the exponents b_m = w_m/T maximise Σ_i v_i log P_i(y_i) − ½Σ_m(M·b_m − 1)²: a priori each
    is 1/M, the plain geometric mean, give or take as much. ``probability`` (member, sample, class) is by
    models that have not seen the sample, ``gate`` (member, sample) how far each member is heard, ``targets``
    (sample, class) 1 for the true class, ``weight`` (sample,) v. Returns weights, temperature, the maximum.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> right, useless = np.array([[0.9, 0.1]] * 50), np.array([[0.5, 0.5]] * 50)
    >>> targets = np.array([[1.0, 0.0]] * 45 + [[0.0, 1.0]] * 5)  # the first is right 9 times of 10
    >>> weights, temperature, _ = fit_weights(np.stack([right, useless]), np.ones((2, 50)), targets)
    >>> softmax(weights[0] / temperature * np.log(right[0])).round(2)
    array([0.88, 0.12])
    """
    M = len(probability)
    log_P = np.log(np.maximum(probability, LEAST_PROBABILITY))
    heard = gate[..., None] * log_P
    weight = np.ones(len(targets)) if weight is None else weight
    targets = weight[:, None] * targets

    def loss(b):
        total, local = b.sum(), b @ gate
        mean = np.tensordot(b, heard, 1) / local[:, None]
        log_pooled = log_softmax(total * mean, axis=1)
        rest = targets - weight[:, None] * np.exp(log_pooled)
        along = (mean * rest).sum(1)
        own = np.einsum("msk,sk->ms", heard, rest)
        slope = (total * (own - gate * along) / local).sum(1) + along.sum()
        value = (log_pooled * targets).sum() - 0.5 * ((M * b - 1.0) ** 2).sum()
        return -value, -(slope - M * (M * b - 1.0))

    found = minimize(
        loss, np.full(M, 1.0 / M), jac=True, method="L-BFGS-B", bounds=[(_LEAST_EXPONENT, None)] * M
    )
    total = float(found.x.sum())
    return found.x / total, 1.0 / total, -float(found.fun)


def fit_kernels(training, *, by_relevance=False):
    """Fit one kernel a sample, of all features alike or by their relevance to the classes.

    The width has the highest held-out score.
    """
    rows, chosen = training.rows, training.chosen()
    scale = Scale.by_relevance(rows, training.targets) if by_relevance else Scale.of(rows)
    centres, targets = scale(rows[chosen]), training.targets[chosen]
    share = targets * (training.targets.sum(0) / targets.sum(0))
    groups = None if training.groups is None else training.groups[chosen]
    few = stream(training.seed, "few").permutation(len(chosen))[:MOST_TRIED]
    weight = training.held_out_weight()[few]
    widths = 2.0 * np.sqrt(median_square(centres[few]) * BANDWIDTHS)
    squares = np.concatenate(list(held_out_squares(centres, few, groups)))
    tried = [FastKernelMixture(centres, share, float(width)) for width in widths]
    score = [_best_score(mixture.log_joint_at(squares), targets[few], weight) for mixture in tried]
    mixture = tried[int(np.argmax(score))]
    joint = mixture.leave_one_out(np.arange(len(chosen)), groups)
    density = np.logaddexp.reduce(joint, axis=1)
    lowest = float(np.min(density, where=np.isfinite(density), initial=np.inf))
    name = members.BY_RELEVANCE if by_relevance else "kernels"
    return members.KernelMember(name, scale, mixture, lowest), joint[:, None]


def fit_logistic(training):
    """Fit logistic regression; the precision of its prior has the highest held-out score."""
    targets, chosen = training.targets, training.chosen()
    scale = Scale.of(training.rows)
    x, model, tried = scale(training.rows), None, []
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
    return members.LogisticMember(scale, best), odds[:, None]


def fit_gaussians(training, class_model):
    """Fit Gaussian classes; held out by folds, because the prior is made of the samples too."""

    def learn(rows):
        observation, kind = training.observation[rows], KINDS[training.realisations]
        labels = Membership(len(training.classes), training.codes[rows], None, None)
        found = kind.measured(observation.X, observation.noise)
        return fit(
            kind.collect(observation.X, labels),
            class_model=class_model,
            classes=training.classes,
            prior="evidence",
            class_prior=training.class_prior,
            realisations=training.realisations,
            measured=None if found is None else NoisyPoints(*found, labels),
        )

    noise = training.observation.noise
    known_noise = None if noise is None else noise.matrices().mean(0)
    model = learn(slice(None))
    model = replace(model, known_noise=known_noise, systematic=training.observation.systematic)
    folds = 10 if len(training.codes) < FEWEST_FOR_FIVE_FOLDS else 5
    fold, out = divide(training.codes, training.groups, folds, stream(training.seed, "folds")), None
    for part in np.unique(fold):
        held, kept = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said once, of all samples
            joint = predict(learn(kept), training.observation[held]).log_joint()
        if out is None:
            out = np.empty((len(fold), *joint.shape[1:]))
        out[held] = joint
    chosen = training.chosen()
    out = out[chosen]
    typical = np.sort(members.log_density(out[training.representative()]).ravel())
    return members.GaussianMember(model, ClassRanks.of(out, training.codes[chosen]), typical), out


def fit_trees(training):
    """Fit randomised trees, each grown without a part of the samples, which it predicts.

    How much a node learns from its parent is chosen by the score of those predictions.
    """
    scale, chosen = Scale.of(training.rows), training.chosen()
    x = members.single_precision(scale(training.rows))
    trees, sums, unseen = [], [], []
    each = int(np.clip(SIGNS // len(x), FEWEST_SIGNS, MOST_SIGNS))
    signs = stream(training.seed, "signs").choice([-1.0, 1.0], size=(len(x), each))
    seeds = stream(training.seed, "growing").integers(1 << 31, size=TREES)
    for number, out in enumerate(_left_out(training)):
        grown = _some(~out, training.seed, number)
        tree, path = _grow(x, training.codes, grown, len(training.classes), int(seeds[number]))
        trees.append(tree)
        sums.append(path.T @ signs[grown])
        unseen.append(out[chosen])
    forest, unseen = _joined(trees), np.stack(unseen, axis=1)
    leaves = forest.leaves(x[chosen])
    weight, tried = training.held_out_weight(), []
    for strength in STRENGTHS:
        one = forest.with_strength(strength)
        log_share = np.log(_mean_where(unseen, one.shares()[leaves]))
        tried.append((_best_score(log_share, training.targets[chosen], weight), one, log_share))
    _, best, log_share = max(tried, key=lambda t: t[0])
    few = stream(training.seed, "asked").permutation(len(chosen))[:MOST_ASKED]
    samples = _samples_heard(best.averages(np.concatenate(sums)), leaves[few], unseen[few])
    return members.TreeMember(scale, best, samples), log_share[:, None]


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


def _grow(x, codes, rows, K, seed):
    """One tree (left, right, feature, threshold, class counts of its nodes), and the nodes of its samples."""
    from sklearn.tree import ExtraTreeClassifier  # only where trees grow: it takes a while to import

    present, own = np.unique(codes[rows], return_inverse=True)
    grown = ExtraTreeClassifier(max_features="sqrt", random_state=seed).fit(x[rows], own)
    tree = grown.tree_
    leaf, node = tree.children_left < 0, np.arange(tree.node_count)
    count = np.zeros((tree.node_count, K))
    count[:, present] = tree.value[:, 0] * tree.weighted_n_node_samples[:, None]
    left, right = (np.where(leaf, node, child) for child in (tree.children_left, tree.children_right))
    feature, threshold = np.where(leaf, 0, tree.feature), np.where(leaf, 0.0, tree.threshold)
    return (left, right, feature, threshold, count), grown.decision_path(x[rows])


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
    own = (log_softmax(log_odds[known], axis=1) * targets[known]).sum(1, where=targets[known] > 0)
    return float(weight[known] @ own)


def _best_score(log_joint, targets, weight):
    """The score at the best temperature."""
    return _score(log_joint / fit_temperature(log_joint[:, None], targets, weight), targets, weight)
