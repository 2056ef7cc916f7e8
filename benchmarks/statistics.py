"""Statistical checks by simulation: intervals, realisations, labels; and the benchmark that runs them all."""

import warnings
from collections.abc import Callable
from itertools import chain, product

import numpy as np

from benchmarks import statistics_typicality
from benchmarks.registry import Table, benchmark
from uncover import NIW, BayesianClassifier, BayesianQDA
from uncover.bayes.streams import stream
from uncover.metrics import estimation, stratified_by_map, wilson_interval

NEARLY_RIGHT = 0.99 * np.eye(3) + 0.005 * (1 - np.eye(3))
RARE = np.array([[0.8, 0.1, 0.1], [0.002, 0.968, 0.03], [0.002, 0.03, 0.968]])
# Name, shares of the map's classes, P(reference | map class), samples of each stratum.
MAPS = [
    *((f"99 % right, {n} a stratum", [0.1, 0.3, 0.6], NEARLY_RIGHT, n) for n in (10, 25, 100)),
    *((f"class of 1 % with omissions, {n} a stratum", [0.01, 0.39, 0.6], RARE, n) for n in (50, 200)),
    ("strata of 90 % and 10 %, 10 and 90 samples", [0.9, 0.1], [[0.95, 0.05], [0.05, 0.95]], (10, 90)),
    ("8 classes, 99 % right, 10 a stratum", [0.125] * 8, 0.99 * np.eye(8) + 0.01 / 7 * (1 - np.eye(8)), 10),
]


def interval_coverage(quick):
    """Coverage of nominal 95 % intervals where the strata are the map's classes: lowest over the classes."""
    repeats, before, estimation.DRAWS = 20 if quick else 200, estimation.DRAWS, 1000
    rows = [[name, *_covered(W, P, n, repeats)] for name, W, P, n in MAPS]
    estimation.DRAWS = before
    columns = {
        "map": "",
        "areas": ".2f",
        "usual": ".2f",
        "producer's accuracy": ".2f",
        "usual ": ".2f",
        "overall accuracy": ".2f",
    }
    caption = (
        f"Share of nominal 95 % intervals that hold the truth, the lowest over the classes, of {repeats} "
        f"samples; usual: value ± z·error, and Wilson's interval by the standard error. At 0.95 "
        f"the standard error is {np.sqrt(0.95 * 0.05 / repeats):.3f}."
    )
    return Table("coverage of intervals", caption, columns | {"usual  ": ".2f"}, rows)


def _covered(shares, reference, n, repeats):
    W, P = np.asarray(shares), np.asarray(reference)
    area, right = W @ P, W * np.diag(P)
    truths = area, right / area, right.sum()
    hits = []
    for i in range(repeats):
        rng = stream(i, "coverage of intervals", str(n), len(W))
        counts = [rng.multinomial(m, p) for m, p in zip(np.broadcast_to(n, len(W)), P, strict=True)]
        sample = stratified_by_map(counts, W)
        estimates = sample.shares(), sample.producers_accuracy(), sample.overall_accuracy()
        usual = estimates[0].normal_interval(), *(_wilson(e) for e in estimates[1:])
        ends = [pair for e, u in zip(estimates, usual, strict=True) for pair in (e.interval(), u)]
        doubled = [truth for truth in truths for _ in range(2)]
        hits.append([_holds(pair, truth) for pair, truth in zip(ends, doubled, strict=True)])
    return [float(np.min(np.nanmean(column, axis=0))) for column in zip(*hits, strict=True)]


def _wilson(estimate):
    """Wilson's interval with the number of samples that would give the standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        n = np.where(
            estimate.error == 0, estimate.count, estimate.value * (1 - estimate.value) / estimate.error**2
        )
    return wilson_interval(estimate.value, n)


def _holds(ends, truth):
    low, high = ends
    inside = (low - 1e-9 <= truth) & (truth <= high + 1e-9)
    return np.where(np.isnan(low), np.nan, inside)


def variances_from_draws(quick):
    """Class variance found by ``"draws"``, the truth and the noise being 1, and the measurement part."""
    rows, repeats = [], 2 if quick else 6
    for p, R in ((1, 5), (4, 5), (4, 25), (10, 5), (10, 10), (10, 25), (10, 100)):
        found = np.array([_drawn(stream(i, "variances from draws", p, R), p, R) for i in range(repeats)])
        error = found.std(0, ddof=1) / np.sqrt(repeats)
        rows.append([p, R, *np.stack([found.mean(0), error], axis=1).ravel().tolist()])
    caption = (
        "Fitted class variance (truth 1), noise of standard deviation 1, 3,000 samples; measurement part of "
        "inputs, and by the covariance of the mean of the draws, if it is known."
    )
    names = ("variance", "±", "measurement", "± ", "noise known", "±  ")
    return Table("draws", caption, {"p": "d", "R": "d", **dict.fromkeys(names, ".3f")}, rows)


def _drawn(rng, p, R):
    """Class variance and measurement part by draws, and the latter by known noise."""
    y = np.arange(3000) % 2
    x = rng.standard_normal((3000, p)) + rng.standard_normal((3000, p)) + 2.0 * y[:, None] / np.sqrt(p)
    X = x[:, None] + rng.standard_normal((3000, R, p))
    clf = BayesianQDA(realisations="draws").fit(X, y)
    known, noise = BayesianQDA(), np.full(p, 1.0 + 1.0 / R)
    known.fit(X.mean(1), y, X_cov=noise)
    draws = {"n_draws": 64, "n_true_values": 64}
    parts = clf.uncertainty(X[:50], **draws), known.uncertainty(X[:50].mean(1), noise, **draws)
    variance = np.diagonal(clf.covariances_, axis1=1, axis2=2).mean()
    return variance, *(part.measurement.mean() for part in parts)


def variances_from_uneven_draws(quick):
    """Class variance found by ``"draws"`` where the noise variance of samples differs tenfold; truth 1."""
    rows, repeats = [], 2 if quick else 6
    for p, R in product((1, 4, 10), (3, 5, 10, 25)):
        found = np.array([_unevenly_drawn(stream(i, "uneven draws", p, R), p, R) for i in range(repeats)])
        error = found.std(0, ddof=1) / np.sqrt(repeats)
        rows.append([p, R, *np.stack([found.mean(0), error], axis=1).ravel().tolist()])
    caption = (
        "Fitted class variance (truth 1), 1,500 samples, noise variances log-uniform in 0.3 … 3; and where "
        "these are known."
    )
    columns = {"p": "d", "R": "d", **dict.fromkeys(("variance", "±", "noise known", "± "), ".3f")}
    return Table("uneven draws", caption, columns, rows)


def _unevenly_drawn(rng, p, R, n=1500):
    """Class variance by draws, and by the same measurements with known noise."""
    y = np.arange(n) % 2
    noise = np.exp(rng.uniform(np.log(0.3), np.log(3.0), n))[:, None]
    x = rng.standard_normal((n, p)) + np.sqrt(noise) * rng.standard_normal((n, p))
    x += 2.0 * y[:, None] / np.sqrt(p)
    X = x[:, None] + np.sqrt(noise)[..., None] * rng.standard_normal((n, R, p))
    known = BayesianQDA().fit(X.mean(1), y, X_cov=noise * np.full(p, 1.0 + 1.0 / R))
    models = BayesianQDA(realisations="draws").fit(X, y), known
    return [np.diagonal(model.covariances_, axis1=1, axis2=2).mean() for model in models]


def variances_from_draws_of_classes(quick):
    """Class variances found by ``"draws"`` where the noise differs between classes, or has two sizes."""
    rows = []
    for kind, p, R, n in (*product(("classes",), (1, 4), (3, 5, 25), (300, 3000)), *_TWO_SIZES):
        found = []
        for i in range(2 if quick else 4 if n > 1000 else 16):
            rng = stream(i, "draws of classes", kind, p, R, n)
            second = np.arange(2 * n) % 2 if kind == "classes" else rng.random(2 * n) < 0.5
            found.append(np.ravel(_unequally_drawn(rng, np.where(second, 1.0, 0.25), p, R)))
        mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        rows.append([kind, p, R, n, mean[0], error[0], mean[1], error[1], mean[2], mean[3]])
    caption = (
        "Fitted variances of two classes (truth 1), n samples each; the noise has the standard deviations "
        "0.25 and 1, in one class each or at random in both; and where it is known."
    )
    names = ("first", "±", "second", "± ", "first, known", "second, known")
    columns = {"noise of": "", "p": "d", "R": "d", "n": "d", **dict.fromkeys(names, ".3f")}
    return Table("draws of classes", caption, columns, rows)


_TWO_SIZES = [("samples", 1, R, 400) for R in (3, 5, 25)]


def _unequally_drawn(rng, deviation, p, R):
    """Variances (model, class) by draws, and by the same measurements with known noise."""
    y, size = np.arange(len(deviation)) % 2, deviation[:, None]
    x = rng.standard_normal((len(y), p)) + size * rng.standard_normal((len(y), p)) + 2.0 * y[:, None]
    X = x[:, None] + size[..., None] * rng.standard_normal((len(y), R, p))
    known = BayesianQDA().fit(X.mean(1), y, X_cov=size**2 * np.full(p, 1.0 + 1.0 / R))
    models = BayesianQDA(realisations="draws").fit(X, y), known
    return [np.diagonal(model.covariances_, axis1=1, axis2=2).mean(1) for model in models]


def overstatement_of_draws(quick):
    """Log loss less entropy of ``"draws"`` at R = 3, and of ``"repeats"`` with a prior of one's own."""
    prior, rows = NIW([0.0], 0.25, [[4.0]], 6.0), []
    for name, n, R in (("draws", 600, 3), ("draws, noise known", 600, 3), ("repeats", 12, 2)):
        found = []
        for i in range((10 if quick else 60) if name != "repeats" else (30 if quick else 300)):
            rng = stream(i, "over-statement", name.split(",")[0])
            X, y = _measured(rng, n + 200, R, name != "repeats")
            model, noise = BayesianQDA(realisations=name, prior="weak" if name == "draws" else prior), None
            if "known" in name:  # of the mean of the draws
                model, X, noise = BayesianQDA(), X.mean(1), [1.0 + 1.0 / R]
            P = model.fit(X[:n], y[:n], X_cov=noise).predict_proba(X[n:], X_cov=noise)
            found.append(_overstatement(P, y[n:]))
        rows.append([name, n, R, float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))])
    caption = "Log loss less entropy of the probabilities, nats; repeats with the prior of the classes drawn."
    columns = {"kind": "", "n": "d", "R": "d", "over-statement": ".4f", "±": ".4f"}
    return Table("over-statement", caption, columns, rows)


def _measured(rng, n, R, drawn):
    """Realisations of true values of two classes drawn from a normal-inverse-Wishart distribution."""
    variance = 4.0 / rng.chisquare(6.0, 2)
    mean, y = rng.standard_normal(2) * np.sqrt(variance / 0.25), np.arange(n) % 2
    x = mean[y] + np.sqrt(variance[y]) * rng.standard_normal(n)
    if drawn:
        x = x + rng.standard_normal(n)
    return x[:, None, None] + rng.standard_normal((n, R, 1)), y


def _overstatement(P, y):
    P = np.clip(P, 1e-12, 1.0)
    return float(-np.log(P[np.arange(len(y)), y]).mean() + (P * np.log(P)).sum(1).mean())


def certainties(quick):
    """Class means, variance and log loss from an annotator who is right as often as he says."""
    rows = []
    for n, prior in ((2000, "weak"), (40, "weak"), (40, "evidence")):
        for meaning in ("certainty", "posterior"):
            found = []
            for i in range((2 if quick else 8) if n > 100 else (10 if quick else 60)):
                rng = stream(i, "certainties", n)
                X, y, rho = _annotated(rng, n + 2000)
                clf = BayesianQDA(prior=prior).fit(X[:n], label_proba=rho[:n], label_meaning=meaning)
                P = clf.predict_proba(X[n:])
                loss = -np.log(P[np.arange(2000), y[n:]]).mean()
                found.append([*clf.means_[:, 0], clf.covariances_[:, 0, 0].mean(), loss])
            error = np.std(found, axis=0, ddof=1)[3] / np.sqrt(len(found))
            rows.append([n, prior, meaning, *map(float, np.mean(found, axis=0)), float(error)])
    columns = {"n": "d", "prior": "", "label_meaning": ""}
    columns |= {"first mean": ".3f", "second mean": ".3f", "variance": ".2f", "log loss": ".3f", "±": ".3f"}
    caption = "Soft labels given with certainty c, right with probability c; means 0 and 2, variance 1."
    return Table("certainties", caption, columns, rows)


def _annotated(rng, n):
    y = rng.integers(0, 2, n)
    c = rng.uniform(0.5, 1.0, n)
    said = np.where(rng.random(n) < c, y, 1 - y)
    rho = np.where(said[:, None] == [0, 1], c[:, None], 1.0 - c[:, None])
    return rng.standard_normal((n, 1)) + 2.0 * y[:, None], y, rho


def wrong_labels(quick):
    """Log loss with a fifth of the labels flipped: learned by ``label_noise``, and ignored."""
    rows = []
    for n, prior in ((40, "weak"), (40, "evidence"), (400, "weak")):
        found = []
        for i in range((5 if quick else 40) if n == 40 else (2 if quick else 10)):
            rng = stream(i, "wrong labels", n)
            y = rng.integers(0, 2, n + 2000)
            X = rng.standard_normal((n + 2000, 2)) + 2.0 * y[:, None] * [1.0, 0.0]
            seen = np.where(rng.random(n) < 0.2, 1 - y[:n], y[:n])
            models = (BayesianQDA(prior=prior, label_noise=noise) for noise in ("learn", None))
            P = [model.fit(X[:n], seen).predict_proba(X[n:]) for model in models]
            found.append([-np.log(p[np.arange(2000), y[n:]]).mean() for p in P])
        error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        mean = np.mean(found, axis=0)
        rows.append([n, prior, float(mean[0]), float(error[0]), float(mean[1]), float(error[1])])
    columns = {"n": "d", "prior": "", "learned": ".3f", "±": ".3f", "ignored": ".3f", "± ": ".3f"}
    return Table(
        "wrong labels", "Log loss on clean labels, p = 2, a fifth of the labels flipped.", columns, rows
    )


def dependent_features(quick):
    """Fits that stop because a feature is the sum of others, and the change of probabilities by it."""
    rows = []
    models = {"BayesianQDA(prior=evidence)": lambda: BayesianQDA(prior="evidence")}
    models["BayesianClassifier"] = BayesianClassifier
    for name, model in models.items():
        stopped, change = 0, 0.0
        repeats = (2 if quick else 20) if name != "BayesianClassifier" else (1 if quick else 5)
        for i in range(repeats):
            rng = stream(i, "dependent features")
            y = np.arange(150) % 3
            x = rng.standard_normal((150, 5)) + 2.0 * rng.standard_normal((3, 5))[y]
            X = np.c_[x, x[:, :3].sum(1), 3.7 * x[:, 3]]
            try:
                P = model().fit(X[:120], y[:120]).predict_proba(X[120:])
            except ValueError:
                stopped += 1
                continue
            without = model().fit(x[:120], y[:120]).predict_proba(x[120:])
            change = max(change, float(np.abs(P - without).max()))
        rows.append([name, stopped, repeats, change])
    columns = {"model": "", "stopped": "d", "of": "d", "largest change": ".1e"}
    return Table(
        "dependent features", "A sum and a scaled copy among seven features, n = 120.", columns, rows
    )


# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = [
    interval_coverage,
    variances_from_draws,
    variances_from_uneven_draws,
    variances_from_draws_of_classes,
    overstatement_of_draws,
    certainties,
    wrong_labels,
    dependent_features,
]


@benchmark("statistics")
def statistics(quick):
    """Return the tables of all checks, those of this module first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [check(quick) for check in chain(CHECKS, statistics_typicality.CHECKS)]
