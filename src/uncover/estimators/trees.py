"""The member of BayesianClassifier that is made of randomised trees."""

import numpy as np
from scipy.special import digamma, softmax

from uncover.bayes.budget import entropy
from uncover.bayes.forest import Forest
from uncover.bayes.streams import stream
from uncover.estimators.groups import divide
from uncover.estimators.members import MOST_CENTRES, Scale, best_score, rows_of_samples, views_of

TREES = 100
# Each tree is grown without one of so many parts of the samples, or of the groups.
PARTS = 4
# Numbers of samples that the parent of a node is worth, which are tried.
STRENGTHS = (0.25, 1.0, 4.0)
_LARGEST = np.finfo(np.float32).max


class TreeMember:
    """Trees whose features and thresholds are drawn at random (Geurts, Ernst and Wehenkel 2006).

    Each is grown without a part of the samples, which it predicts; how much a node learns from its parent is
    chosen by the score of those predictions.
    """

    name = "trees"

    def __init__(self, scale, forest):
        self.scale, self.forest = scale, forest
        self._shares = forest.shares()

    @classmethod
    def fit(cls, training):
        """Fit, and return the member and its held-out log shares of chosen samples: (sample, 1, class)."""
        rows = rows_of_samples(training.inputs.X, training.seed)
        scale = Scale.of(rows)
        x = _single(scale(rows))
        K, chosen = len(training.classes), training.chosen()
        trees, unseen = [], []
        seeds = stream(training.seed, "growing").integers(1 << 31, size=TREES)
        for number, out in enumerate(_left_out(training)):
            grown = _some(~out, training.seed, number)
            trees.append(_grow(x, training.codes, grown, K, int(seeds[number])))
            unseen.append(out[chosen])
        forest = _joined(trees)
        leaves, targets = forest.leaves(x[chosen]), training.targets[chosen]
        weight, tried = training.held_out_weight(), []
        for strength in STRENGTHS:
            one = forest.with_strength(strength)
            log_share = np.log(_mean_where(np.stack(unseen, axis=1), one.shares()[leaves]))
            tried.append((best_score(log_share, targets, weight), one, log_share))
        _, best, log_share = max(tried, key=lambda t: t[0])
        return cls(scale, best), log_share[:, None]

    def log_joint(self, inputs):
        """Log shares of new inputs: (sample, view, class)."""
        each = [self.forest.probabilities(_single(self.scale(x)), self._shares) for x in views_of(inputs.X)]
        return np.log(np.stack(each, axis=1))

    @staticmethod
    def information(log_joint, samples, temperature):
        """What knowing the shares would tell of the class, if they are those of so many samples: (sample,).

        Shares drawn from a Dirichlet distribution of mean P and concentration n have the mean entropy
        ψ(n + 1) − Σ P ψ(nP + 1).
        """
        P = softmax(log_joint / temperature, axis=-1)
        n = samples[:, None]
        mean = digamma(n + 1) - (P * digamma(n[..., None] * P + 1)).sum(-1)
        return np.maximum(entropy(P) - mean, 0.0).mean(axis=1)


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
    """One tree: left, right, feature, threshold and class counts of its nodes."""
    from sklearn.tree import ExtraTreeClassifier  # only where trees grow: it takes a while to import

    present, own = np.unique(codes[rows], return_inverse=True)
    tree = ExtraTreeClassifier(max_features="sqrt", random_state=seed).fit(x[rows], own).tree_
    leaf, node = tree.children_left < 0, np.arange(tree.node_count)
    count = np.zeros((tree.node_count, K))
    count[:, present] = tree.value[:, 0] * tree.weighted_n_node_samples[:, None]
    left, right = (np.where(leaf, node, child) for child in (tree.children_left, tree.children_right))
    return left, right, np.where(leaf, 0, tree.feature), np.where(leaf, 0.0, tree.threshold), count


def _joined(trees):
    sizes = [len(left) for left, *_ in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    shift = np.repeat(roots, sizes)
    left, right, feature, threshold, count = (np.concatenate(part) for part in zip(*trees, strict=True))
    return Forest(left + shift, right + shift, feature, threshold, count, roots, STRENGTHS[0])


def _mean_where(used, values):
    """Mean of values (sample, tree, class) over the trees that are used, (sample, tree)."""
    return np.einsum("st,stk->sk", used, values) / used.sum(1, keepdims=True)
