"""What the four meanings of realisations do to probabilities and credible regions, by simulation."""

import numpy as np
from sklearn.metrics import log_loss

from uncover import BayesianQDA
from uncover.bayes.streams import stream
from uncover.studies.synthetic import draw_problem, measure


def brier_of_repeats(n_problems=24, *, noise=1.0, n_repeats=100, seed=0):
    """Mean Brier score of "pooled" and "repeats" on the synthetic problem, p = 10."""
    scores = []
    for i in range(n_problems):
        rng = stream(seed, "brier", i)
        problem = draw_problem(10, rng)
        X = measure(problem.X, noise, n_repeats, rng)
        train, test = problem.train, ~problem.train
        truth = np.eye(4)[problem.y[test]]
        row = []
        for kind in ("pooled", "repeats"):
            clf = BayesianQDA(realisations=kind).fit(X[train], problem.y[train])
            row.append(((clf.predict_proba(X[test]) - truth) ** 2).sum(1).mean())
        scores.append(row)
    pooled, repeats = np.mean(scores, axis=0)
    return {"pooled": float(pooled), "repeats": float(repeats), "ratio": float(pooled / repeats)}


def coverage_of_means(n_regions=4000, *, p=10, n=800, n_repeats=10, noise=1.0, kinds=("repeats",), seed=0):
    """Share of nominal 90 % credible regions of a class mean that hold the true mean."""
    n_classes = 4
    held = {kind: [] for kind in kinds}
    for i in range(-(-n_regions // n_classes)):
        rng = stream(seed, "coverage", p, n, i)
        mean = rng.standard_normal((n_classes, p))
        root = rng.standard_normal((n_classes, p, p)) / np.sqrt(p)
        truth = mean[:, None, :] + rng.standard_normal((n_classes, n, p)) @ np.swapaxes(root, -1, -2)
        X = measure(truth.reshape(-1, p), noise, n_repeats, rng)
        y = np.repeat(np.arange(n_classes), n)
        for kind in kinds:
            posterior = BayesianQDA(realisations=kind).fit(X, y).posterior_
            typicality = posterior.mean_marginal().typicality(mean)
            held[kind].extend(np.diagonal(typicality) > 0.1)
    return {kind: float(np.mean(values)) for kind, values in held.items()}


def common_error(n_pairs=200, *, error=0.7, n_worlds=50, p=4, n=300, seed=0):
    """Log loss within a scene and in another scene, where each scene has one error for all samples.

    A scene's samples are the true values plus the scene's error; its realisations take away draws of that
    error. Returns the mean over pairs of scenes and its standard error.
    """
    rows = [_one_pair(stream(seed, "common", i), error, n_worlds, p, n) for i in range(n_pairs)]
    table = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        table[name] = (float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_pairs)))
    return table


def _one_pair(rng, error, n_worlds, p, n):
    n_classes = 3
    mean = rng.standard_normal((n_classes, p)) * 1.2
    root = rng.standard_normal((n_classes, p, p)) / np.sqrt(p)
    y = np.repeat(np.arange(n_classes), n)

    def true_values():
        return (
            mean[:, None, :] + rng.standard_normal((n_classes, n, p)) @ np.swapaxes(root, -1, -2)
        ).reshape(-1, p)

    def scene(values, common, drawn):
        return (values + common)[:, None, :] - drawn

    train, same, other = true_values(), true_values(), true_values()
    common, common_other = error * rng.standard_normal((2, p))
    drawn, drawn_other = error * rng.standard_normal((2, n_worlds, p))
    loss = {}
    plain = BayesianQDA().fit(train, y)
    loss["same scene, no error"] = log_loss(y, plain.predict_proba(same))
    shared = BayesianQDA(realisations="shared").fit(scene(train, common, drawn), y)
    loss["same scene, shared"] = log_loss(y, shared.predict_proba(scene(same, common, drawn)))
    loss["other scene, no error"] = log_loss(y, plain.predict_proba(other))
    ignoring = BayesianQDA().fit(train + common, y)
    loss["other scene, ignored"] = log_loss(y, ignoring.predict_proba(other + common_other))
    seen = scene(other, common_other, drawn_other)
    for kind in ("draws", "pooled"):
        clf = BayesianQDA(realisations=kind).fit(scene(train, common, drawn), y)
        loss[f"other scene, {kind}"] = log_loss(y, clf.predict_proba(seen))
    loss["other scene, shared"] = log_loss(y, shared.predict_proba(seen, paired=False))
    return loss
