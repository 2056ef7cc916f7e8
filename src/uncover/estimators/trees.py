"""The member of BayesianClassifier that is made of randomised trees."""

import numpy as np
from scipy.special import digamma, softmax

from uncover.bayes.budget import entropy
from uncover.bayes.streams import stream
from uncover.engines.members import FastForest
from uncover.estimators.groups import divide
from uncover.estimators.members import MOST_CENTRES, Scale, best_score, rows_of_samples, views_of

TREES = 100
# Each tree is grown without one of so many parts of the samples, or of the groups.
PARTS = 4
# Numbers of samples that the parent of a node is worth, which are tried.
STRENGTHS = (0.25, 1.0, 4.0)
# Random signs of a sample, at least and at most, and of all samples, and points that are asked: from these
# the number of samples behind an answer is found.
FEWEST_SIGNS, MOST_SIGNS, SIGNS, MOST_ASKED = 32, 256, 1 << 15, 512
_LARGEST = np.finfo(np.float32).max


class TreeMember:
    """Trees whose features and thresholds are drawn at random (Geurts, Ernst and Wehenkel 2006).

    Each is grown without a part of the samples, which it predicts; how much a node learns from its parent is
    chosen by the score of those predictions.
    """

    name = "trees"

    def __init__(self, scale, forest, samples):
        self.scale, self.forest, self.samples = scale, forest, samples
        self._shares = forest.shares()

    @classmethod
    def fit(cls, training):
        """Fit, and return the member and its held-out log shares of chosen samples: (sample, 1, class)."""
        rows = rows_of_samples(training.inputs.X, training.seed)
        scale = Scale.of(rows)
        x = _single(scale(rows))
        K, chosen = len(training.classes), training.chosen()
        trees, sums, unseen = [], [], []
        each = int(np.clip(SIGNS // len(x), FEWEST_SIGNS, MOST_SIGNS))
        signs = stream(training.seed, "signs").choice([-1.0, 1.0], size=(len(x), each))
        seeds = stream(training.seed, "growing").integers(1 << 31, size=TREES)
        for number, out in enumerate(_left_out(training)):
            grown = _some(~out, training.seed, number)
            tree, path = _grow(x, training.codes, grown, K, int(seeds[number]))
            trees.append(tree)
            sums.append(path.T @ signs[grown])
            unseen.append(out[chosen])
        forest = _joined(trees)
        leaves, targets, unseen = forest.leaves(x[chosen]), training.targets[chosen], np.stack(unseen, axis=1)
        weight, tried = training.held_out_weight(), []
        for strength in STRENGTHS:
            one = forest.with_strength(strength)
            log_share = np.log(_mean_where(unseen, one.shares()[leaves]))
            tried.append((best_score(log_share, targets, weight), one, log_share))
        _, best, log_share = max(tried, key=lambda t: t[0])
        few = stream(training.seed, "asked").permutation(len(chosen))[:MOST_ASKED]
        samples = _samples_heard(best.averages(np.concatenate(sums)), leaves[few], unseen[few])
        return cls(scale, best, samples), log_share[:, None]

    def log_joint(self, inputs):
        """Log shares of new inputs: (sample, view, class)."""
        each = [self.forest.probabilities(_single(self.scale(x)), self._shares) for x in views_of(inputs.X)]
        return np.log(np.stack(each, axis=1))

    def information(self, log_joint, temperature):
        """What knowing the shares would tell of the class: (sample,).

        Shares drawn from a Dirichlet distribution of mean P and concentration n have the mean entropy
        ψ(n + 1) − Σ P ψ(nP + 1). A temperature below 1 makes more of their deviations; one above 1 shows
        that they are as large, and takes nothing away.
        """
        P = softmax(log_joint / temperature, axis=-1)
        n = self.samples * min(temperature, 1.0) ** 2
        mean = digamma(n + 1) - (P * digamma(n * P + 1)).sum(-1)
        return np.maximum(entropy(P) - mean, 0.0).mean(axis=1)


def _samples_heard(averages, leaves, unseen):
    """Number of samples of equal weight that say as much as those a new point hears, 1/Σ w².

    An average of independent random signs with weights w has the mean square Σ w²: S of one tree, and of T
    trees B + (S − B)/T, where B is what trees have in common. A point is asked of trees without it.

    Parameters
    ----------
    averages : array of shape (node, sign)
    leaves, unseen : arrays of shape (point, tree)
    """
    said, trees = averages[leaves], unseen.sum(1)
    single = (said**2).mean(-1)[unseen].mean()
    common = ((_mean_where(unseen, said) ** 2).mean(-1) - single / trees) / np.maximum(1.0 - 1.0 / trees, 0.5)
    return 1.0 / max(np.mean(common) + (single - np.mean(common)) / leaves.shape[1], 1.0 / len(averages))


def _single(points):
    """As the trees were grown: in single precision, so that a point at a threshold stays on its side."""
    return np.clip(points, -_LARGEST, _LARGEST).astype(np.float32)


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
