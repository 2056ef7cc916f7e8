"""What the four meanings of realisations do to probabilities and credible regions, by simulation."""

import numpy as np
from scipy.special import softmax
from sklearn.metrics import log_loss

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA
from uncover.bayes.covariances import Covariances
from uncover.bayes.noise import log_prob_with_noise
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
    loss["same scene, ignored"] = log_loss(y, ignoring.predict_proba(same + common))
    loss["other scene, ignored"] = log_loss(y, ignoring.predict_proba(other + common_other))
    seen = scene(other, common_other, drawn_other)
    for kind in ("draws", "pooled"):
        clf = BayesianQDA(realisations=kind).fit(scene(train, common, drawn), y)
        loss[f"same scene, {kind}"] = log_loss(y, clf.predict_proba(scene(same, common, drawn)))
        loss[f"other scene, {kind}"] = log_loss(y, clf.predict_proba(seen))
    loss["other scene, shared"] = log_loss(y, shared.predict_proba(seen, paired=False))
    averaged = _averaged_densities(ignoring, other + common_other, 2 * error**2 * np.eye(p))
    loss["other scene, exact"] = log_loss(y, averaged)
    loss["other scene, world by world"] = log_loss(y, _averaged_probabilities(shared, seen, rng))
    return loss


def _averaged_probabilities(shared, seen, rng):
    """Class probabilities where realisations predict in worlds taken at random, and are averaged."""
    worlds = rng.permutation(seen.shape[1])
    each = [
        shared.model_.known_posterior(world).predictive().log_prob(seen[:, r])
        for r, world in enumerate(worlds)
    ]
    return softmax(np.log(shared.class_posterior_) + np.stack(each), axis=-1).mean(0)


def _averaged_densities(clf, x, covariance):
    """Class probabilities where the densities, not the probabilities, are averaged over an offset of x.

    For one sample alone this is Bayes' rule: a class that makes x likely also makes likely the offsets that
    go with it. The offset of one scene against another has twice the covariance of a scene's error.
    """
    density = clf.posterior_.predictive()
    noise = Covariances.read(covariance, *x.shape)
    each = [log_prob_with_noise(density[k], x, noise) for k in range(len(clf.classes_))]
    return softmax(np.log(clf.class_posterior_) + np.stack(each, axis=-1), axis=1)


@benchmark("realisations")
def run(quick=False):
    """Run all simulations of this module and return their tables."""
    tables = (_brier_table, _coverage_table, _weak_prior_table, _common_error_table, _size_of_error_table)
    return [table(quick) for table in tables]


def _brier_table(quick):
    n = 2 if quick else 24
    score = brier_of_repeats(n, n_repeats=10 if quick else 100)
    caption = (
        f"Mean Brier score on {n} synthetic problems: p = 10, 4 classes, 3200 training samples, "
        f"noise 1.0, {10 if quick else 100} repeats"
    )
    rows = [["pooled", score["pooled"], 1.0], ["repeats", score["repeats"], score["ratio"]]]
    return Table("brier", caption, {"realisations": "", "Brier score": ".5f", "times lower": ".0f"}, rows)


def _coverage_table(quick):
    n = 40 if quick else 4000
    rows = []
    for noise, R in ((0.3, 10), (1.0, 10), (1.0, 100)):
        n_here = n if R == 10 else n // 4
        share = coverage_of_means(n_here, n_repeats=R, noise=noise, kinds=("pooled", "repeats"))
        rows.append([f"{noise:g}", R, n_here, share["pooled"], share["repeats"]])
    caption = "Share of nominal 90 % credible regions of a class mean that hold it: p = 10, n_k = 800"
    columns = {"noise": "", "R": "d", "regions": "d", '"pooled"': ".3f", '"repeats"': ".3f"}
    return Table("coverage", caption, columns, rows)


def _weak_prior_table(quick):
    n = 40 if quick else 2000
    sizes = (5, 20) if quick else (5, 20, 100, 800)
    dimensions = (2, 10, 50)
    rows = [
        [str(size), *(coverage_of_means(n, p=p, n=size)["repeats"] for p in dimensions)] for size in sizes
    ]
    caption = (
        f'The same coverage for realisations="repeats" with the weak prior, {n} regions for each number: '
        "noise 1.0, 10 repeats"
    )
    return Table("weak prior", caption, {"n_k": "", **{f"p = {p}": ".3f" for p in dimensions}}, rows)


def _common_error_table(quick):
    n = 4 if quick else 200
    losses = common_error(n)
    kinds = ("no error", "ignored", "draws", "pooled", "world by world", "shared", "exact")
    rows = []
    for kind in kinds:
        cells = [losses.get(f"{where}, {kind}") for where in ("same scene", "other scene")]
        rows.append([kind, *("" if cell is None else f"{cell[0]:.4f} ± {cell[1]:.4f}" for cell in cells)])
    caption = (
        f"Log loss (mean ± its standard error over {n} pairs of scenes) where all samples of a scene have "
        "one error in common: p = 4, 3 classes of 300, standard deviation of the error 0.7, 50 worlds"
    )
    return Table("common error", caption, {"error": "", "same scene": "", "other scene": ""}, rows)


def _size_of_error_table(quick):
    n = 4 if quick else 50
    kinds = ("no error", "ignored", "draws", "pooled", "world by world", "shared", "exact")
    rows = []
    for error in (0.03, 0.1, 0.3):
        losses = common_error(n, error=error)
        rows.append([f"{error:g}", *(losses[f"other scene, {kind}"][0] for kind in kinds)])
    caption = f"Log loss in the other scene for smaller errors, mean over {n} pairs of scenes, else as above"
    return Table("size of error", caption, {"error": "", **dict.fromkeys(kinds, ".4f")}, rows)
