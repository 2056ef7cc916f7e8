"""Gates of the recommended classifier's pool: three rules compared on the same splits of real data.

A gate says how far Gaussians and logistic regression count for an input, from the share of training samples
that are stranger (`GaussianMember.resemblance`). The rules differ in whose share it is.
"""

import warnings
from contextlib import contextmanager

import numpy as np
from scipy.special import logsumexp, softmax

from benchmarks.probability_problems import draw_split
from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier
from uncover.models.members import GaussianMember

PROBLEMS = {
    "statlog": "Statlog",
    "amazon": "Amazon, other polygons",
    "other year": "embedded scene, another year",
    "other date": "another date",
}
SIZES, SPLITS = (40, 80, 200), range(2000, 2012)  # no rule was chosen by these splits


def of_all_samples(member, log_joint, enough=None):
    """Share of all samples of lower density: the rule of the first version."""
    density = logsumexp(log_joint, axis=-1)
    return (np.searchsorted(member.typical, density, side="left") / len(member.typical)).mean(axis=1)


def of_the_class_and_20_more(member, log_joint, enough=None):
    """Share of the class's samples, as if it had 20 more: the rule that was given up."""
    share = member.ranks.below(log_joint, "left") / (member.ranks._sizes + 20.0)
    return (softmax(log_joint, axis=-1) * share).sum(axis=-1).mean(axis=1)


RULES = {"before": of_all_samples, "now": GaussianMember.resemblance, "constant": of_the_class_and_20_more}


@contextmanager
def rule_of_gates(rule):
    """Gate by another rule."""
    kept = GaussianMember.resemblance
    GaussianMember.resemblance = rule
    try:
        yield
    finally:
        GaussianMember.resemblance = kept


def losses(problem, size, split):
    """Cross-entropy of the test samples of one split, by rule."""
    data, found = draw_split(problem, size, split), []
    for rule in RULES.values():
        with rule_of_gates(rule), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = BayesianClassifier().fit(data.X, data.y, groups=data.groups)
            P = model.predict_proba(data.X_test)
        own = P[np.arange(len(P)), np.searchsorted(model.classes_, data.y_test)]
        found.append(-np.log(np.maximum(own, 1e-300)).mean())
    return found


@benchmark("gates")
def gates(quick):
    """Return the table of cross-entropies by rule."""
    sizes, splits = ((40,), SPLITS[:2]) if quick else (SIZES, SPLITS)
    rows = []
    for problem, name in PROBLEMS.items():
        for size in sizes:
            before, now, constant = np.array([losses(problem, size, split) for split in splits]).T
            row = [name, size, before.mean(), now.mean()]
            for change in (now - before, constant - before):
                row += [change.mean(), change.std(ddof=1) / np.sqrt(len(splits))]
            rows.append([v if isinstance(v, str | int) else float(v) for v in row])
    columns = {"problem": "", "samples": "d", "before": ".4f", "now": ".4f"}
    columns |= {"now − before": "+.4f", "±": ".4f", "constant − before": "+.4f", "± ": ".4f"}
    caption = f"Cross-entropy, mean of splits {splits[0]} to {splits[-1]}, and differences on the same split."
    return [Table("gates", caption, columns, rows)]
