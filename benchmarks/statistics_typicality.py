"""Statistical checks by simulation: typicality and the uncertainty budget, for benchmarks.statistics."""

import warnings
from collections.abc import Callable
from itertools import product

import numpy as np
from scipy.special import rel_entr
from scipy.stats import invwishart, multivariate_normal

from benchmarks.registry import Table
from uncover import NIW, BayesianClassifier, BayesianLDA, BayesianNB, BayesianQDA
from uncover.bayes.budget import entropy
from uncover.bayes.streams import stream
from uncover.measurement.summary import Summariser


def typicality_of_single_models(quick):
    """Share of new members of a class that is flagged, over training sets."""
    rows, p = [], 10
    sets, each = (40, 50) if quick else (160, 50)
    for n in (5, 10, 12, 30, 200):
        for prior in ("weak", "evidence"):
            rng = stream(19, "typicality", n, prior)
            below = [_p_values(prior, p, n, each, rng) for _ in range(sets)]
            shares = np.array([[np.mean(own < level) for level in (0.05, 0.01, 0.001)] for own in below])
            error = shares.std(0, ddof=1) / np.sqrt(sets)
            rows.append([f"{n}, {prior}", *np.stack([shares.mean(0), error], axis=1).ravel().tolist()])
    columns = {
        "samples a class, prior": "",
        **dict.fromkeys(("0.05", "±", "0.01", "± ", "0.001", "±  "), ".4f"),
    }
    caption = (
        f"Share of new members of a class below a p-value; {p} features, 3 classes of unlike covariances."
    )
    return Table("typicality", caption, columns, rows)


def _p_values(prior, p, n, each, rng):
    """p-values of new members of all classes for their own, by a model of one training set."""
    mixing = rng.normal(size=(3, p, p))
    root = np.linalg.cholesky(mixing @ mixing.swapaxes(1, 2) / p)
    centre = 3.0 * rng.normal(size=(3, p))

    def draw(size):
        return np.concatenate([centre[k] + rng.normal(size=(size, p)) @ root[k].T for k in range(3)])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = BayesianQDA(prior=prior).fit(draw(n), np.repeat(np.arange(3), n))
    found = clf.typicality(draw(each), per_class=True)
    return found[np.arange(3 * each), np.repeat(np.arange(3), each)]


def typicality_with_noise(quick):
    """Share of new members that is flagged where the noise of samples and of inputs is known."""
    rows, sets = [], 8 if quick else 40
    cases = [(BayesianQDA, p, n, even) for even in (True, False) for p in (1, 3, 10) for n in (8, 30, 200)]
    cases += [(cls, 3, n, True) for cls in (BayesianLDA, BayesianNB) for n in (8, 30)]
    for cls, p, n, even in cases:
        rng = stream(19, "typicality with noise", cls.__name__, p, n, str(even))
        found = np.array([_flagged_with_noise(cls, p, n, even, rng) for _ in range(sets)])
        error = found.std(0, ddof=1).max(0) / np.sqrt(sets)
        name = f"{cls.__name__}, {p}, {n}" + ("" if even else ", uneven")
        rows.append([name, *found.mean(0)[:, 0].tolist(), error[0], *found.mean(0)[:, 1].tolist(), error[1]])
    columns: dict[str, str] = {"model, features, samples": ""}
    for level, mark in (("0.05", ""), ("0.01", " ")):
        columns |= {f"{level}, noise {factor:g}": ".3f" for factor in _NOISE_OF_INPUTS} | {f"±{mark}": ".3f"}
    caption = (
        "Share of new members below a p-value, 2 classes of unit variance, samples with noise variance 1 "
        "(uneven: log-uniform in 0.3 … 3), inputs with 0 to 5 times as much; ± is the largest of the line."
    )
    return Table("typicality with noise", caption, columns, rows)


_NOISE_OF_INPUTS = (0.0, 0.5, 1.0, 2.0, 5.0)


def _flagged_with_noise(cls, p, n, even, rng, each=40):
    """Shares of new members of both classes below 0.05 and 0.01, for each noise of inputs."""
    y = np.repeat([0, 1], n)
    noise = np.ones((2 * n, 1)) if even else np.exp(rng.uniform(np.log(0.3), np.log(3.0), (2 * n, 1)))
    X = rng.normal(size=(2 * n, p)) * np.sqrt(1.0 + noise) + 3.0 * y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = cls().fit(X, y, X_cov=noise * np.ones(p))
        shares = []
        for factor in _NOISE_OF_INPUTS:
            new = np.repeat([0, 1], each)
            x = rng.normal(size=(2 * each, p)) * np.sqrt(1.0 + factor) + 3.0 * new[:, None]
            own = clf.typicality(x, X_cov=np.full(p, factor), per_class=True)[np.arange(2 * each), new]
            shares.append([np.mean(own < level) for level in (0.05, 0.01)])
    return shares


def typicality_of_few_samples(quick):
    """Share of new members that is flagged where few samples have less noise than the inputs."""
    rows, sets = [], 20 if quick else 200
    for p, n in ((1, 2), (1, 3), (1, 4), (1, 6), (1, 8), (3, 4), (3, 5), (3, 8)):
        rng = stream(19, "typicality of few samples", p, n)
        found = np.array([_flagged_of_few(rng, p, n) for _ in range(sets)])
        error = found.std(0, ddof=1).max(0) / np.sqrt(sets)
        rows.append([p, n, *found.mean(0)[:, 0].tolist(), error[0], *found.mean(0)[:, 1].tolist(), error[1]])
    columns: dict[str, str] = {"features": "d", "samples": "d"}
    for level, mark in (("0.05", ""), ("0.01", " ")):
        columns |= {f"{level}, noise {noise:g}": ".3f" for noise in _MORE_NOISE} | {f"±{mark}": ".3f"}
    caption = (
        "Share of new members below a p-value, a class of unit variance, samples with noise variance 0.1, "
        "inputs with that and more; BayesianQDA."
    )
    return Table("typicality of few samples", caption, columns, rows)


_MORE_NOISE = (0.1, 0.15, 0.5, 2.0)


def _flagged_of_few(rng, p, n, each=50):
    """Shares of new members of a class below 0.05 and 0.01, for each noise of inputs."""
    y = np.repeat([0, 1], [n, 20])
    X = rng.normal(size=(len(y), p)) * np.sqrt(1.1) + 3.0 * y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf, shares = BayesianQDA().fit(X, y, X_cov=np.full(p, 0.1)), []
    for noise in _MORE_NOISE:
        x = rng.normal(size=(each, p)) * np.sqrt(1.0 + noise)
        own = clf.typicality(x, X_cov=np.full(p, noise), per_class=True)[:, 0]
        shares.append([np.mean(own < level) for level in (0.05, 0.01)])
    return shares


def rare_classes(quick):
    """The recommended classifier and members of a rare class: flagged, and how probable they are."""
    rows = []
    for rare, common, apart in ((10, 300, 6.0), (20, 1000, 6.0), (20, 1000, 2.5)):
        rng = stream(19, "rare", rare, apart)
        found = np.array([_rare(rare, common, apart, rng) for _ in range(4 if quick else 12)])
        error = found.std(0, ddof=1) / np.sqrt(len(found))
        rows.append(
            [
                f"{rare} beside {common}, {apart:g} apart",
                *np.stack([found.mean(0), error], 1).ravel().tolist(),
            ]
        )
    names = ("below 0.05", "±", "probability", "± ", "QDA, evidence", "±  ")
    caption = "Members of a rare class by the recommended classifier: share below 0.05, probability."
    return Table("rare", caption, {"samples, distance": "", **dict.fromkeys(names, ".3f")}, rows)


def _rare(rare, common, apart, rng):
    y = np.repeat([0, 1], [rare, common])
    X = rng.normal(size=(len(y), 2)) + apart * (y == 0)[:, None]
    new = rng.normal(size=(200, 2)) + apart
    clf, model = BayesianClassifier().fit(X, y), BayesianQDA(prior="evidence").fit(X, y)
    return (clf.typicality(new) < 0.05).mean(), *(m.predict_proba(new)[:, 0].mean() for m in (clf, model))


def budget_of_the_pool(quick):
    """Model part of the recommended classifier, against what knowing the truth would gain, over truths."""
    rows = []
    for p, (components, noise), n in product((1, 2), ((1, 0.0), (1, 0.7), (2, 0.0)), (20, 100, 1000)):
        sets = 2 if quick else {20: (120, 24), 100: (60, 12), 1000: (24, 6)}[n][noise > 0]
        found = [_gained(p, n, components, noise, i) for i in range(sets)]
        error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        name = f"{p} feature(s), {n} samples, " + (
            f"noise {noise:g}" if noise else f"components {components}"
        )
        rows.append([name, *np.stack([np.mean(found, axis=0), error], 1).ravel().tolist()])
    names = ("model", "room", "gain", "QDA's model", "QDA's gain")
    columns = {key: ".4f" for i, name in enumerate(names) for key in (name, "±" + " " * i)}
    caption = (
        "Model part; the room that the total has for it, beside the entropy of the true class probabilities; "
        "and the gain in log loss from knowing these; over truths drawn at random, of the recommended "
        "classifier and of BayesianQDA with the evidence prior."
    )
    return Table("budget", caption, {"problem": "", **columns}, rows)


def _gained(p, n, components, noise, number):
    """Model part, room and gain of two classifiers for one truth: classes of one or two Gaussians."""
    rng = stream(23, "budget", p, n, components, str(noise), number)
    means = 1.5 * rng.normal(size=(2, components, p))
    roots = rng.normal(size=(2, components, p, p + 2)) / np.sqrt(p + 2)
    seen = roots @ roots.swapaxes(-1, -2) + noise**2 * np.eye(p)

    def draw(size):
        y, part = np.arange(size) % 2, rng.integers(components, size=size)
        root = np.linalg.cholesky(seen[y, part])
        return means[y, part] + (root @ rng.normal(size=(size, p, 1)))[..., 0], y

    known = {"X_cov": np.full(p, noise**2)} if noise else {}
    (X, y), (x, _) = draw(n), draw(60)
    density = [
        [multivariate_normal(*of).pdf(x) for of in zip(*k, strict=True)]
        for k in zip(means, seen, strict=True)
    ]
    truth = np.sum(density, axis=1).T / np.sum(density, axis=(0, 1))[:, None]
    found = []
    for model in (BayesianClassifier(), BayesianQDA(prior="evidence")):
        P = model.fit(X, y, **known).predict_proba(x, **known)
        budget = model.uncertainty(x, **known, n_draws=400, n_true_values=32)
        room = (budget.total - entropy(truth)).mean()
        found.append([budget.model.mean(), room, rel_entr(truth, P).sum(1).mean()])
    return [*found[0], found[1][0], found[1][2]]


def model_part_under_the_prior(quick):
    """Model part against the gain where truths are draws of the prior that BayesianQDA is given."""
    rows = []
    for p, n in product((1, 2), (20, 100, 1000)):
        sets = 20 if quick else {20: 800, 100: 400, 1000: 300}[n]
        prior = NIW(np.zeros(p), 0.25, 5.0 * np.eye(p), p + 6.0)
        found = np.array([_gained_under(prior, n, i) for i in range(sets)])
        ratio, mean = found[:, 0].sum() / found[:, 1].sum(), found.mean(0)
        errors = [*(found.std(0, ddof=1)), np.std(found[:, 0] - ratio * found[:, 1], ddof=1) / mean[1]]
        model, gain, gap = np.array(errors) / np.sqrt(sets)
        rows.append([f"{p} feature(s), {n} samples", mean[0], model, mean[1], gain, ratio, gap])
    rows = [[v if isinstance(v, str) else float(v) for v in row] for row in rows]
    columns = {"problem": "", "model": ".4f", "±": ".4f", "gain": ".4f", "± ": ".4f"}
    columns |= {"ratio": ".3f", "±  ": ".3f"}
    caption = (
        "Model part of BayesianQDA and the gain in log loss from knowing the true class probabilities, over "
        "truths drawn from its prior."
    )
    return Table("budget under the prior", caption, columns, rows)


def _gained_under(prior, n, number):
    """Model part and gain for one truth drawn from the prior, two classes, of which both are seen."""
    p = prior.n_features
    rng = stream(23, "budget under the prior", p, n, number)
    y = np.zeros(n, dtype=int)
    while np.ptp(y) == 0:
        share = rng.dirichlet([1.0, 1.0])
        y = rng.choice(2, n, p=share)
    covariance = invwishart(float(prior.dof), prior.scale).rvs(2, rng).reshape(2, p, p)
    root = np.linalg.cholesky(covariance)
    mean = prior.mean + (root @ rng.normal(size=(2, p, 1)))[..., 0] / np.sqrt(prior.strength)

    def draw(y):
        return mean[y] + (root[y] @ rng.normal(size=(len(y), p, 1)))[..., 0]

    X, x = draw(y), draw(rng.choice(2, 20, p=share))
    parts = zip(mean, covariance, share, strict=True)
    density = np.stack([part * multivariate_normal(m, c).pdf(x) for m, c, part in parts], axis=1)
    model = BayesianQDA(prior=prior).fit(X, y)
    gain = rel_entr(density / density.sum(1, keepdims=True), model.predict_proba(x)).sum(1).mean()
    return model.uncertainty(x, n_draws=400).model.mean(), gain


def model_part_of_maps(quick):
    """The closed model part of maps over that of drawn models."""
    rows = []
    for cls in (BayesianQDA, BayesianLDA):
        for p, n in ((1, 8), (1, 15), (4, 15), (4, 30), (10, 15), (10, 30)):
            rng = stream(19, "maps", p, n)
            found = np.array([_closed_and_drawn(cls, p, n, rng) for _ in range(3 if quick else 6)])
            ratio = found[:, 0].sum() / found[:, 1].sum()
            gap = np.std(found[:, 0] - ratio * found[:, 1], ddof=1) / np.sqrt(len(found))
            name = f"{cls.__name__}, {p} feature(s), {n} samples a class"
            rows.append([name, ratio, gap / found[:, 1].mean()])
    caption = "Model part of maps, in closed form, over that of 1,600 drawn models; 3 classes, weak prior."
    return Table("maps", caption, {"problem": "", "ratio": ".3f", "±": ".3f"}, rows)


def _closed_and_drawn(cls, p, n, rng):
    y = np.repeat(np.arange(3), n)
    centre = 1.8 / np.sqrt(p) * rng.normal(size=(3, p))
    clf = cls().fit(centre[y] + rng.normal(size=(3 * n, p)), y)
    x = centre[rng.integers(3, size=60)] + rng.normal(size=(60, p))
    return Summariser(clf).summarise(x.T[None]).model.mean(), clf.uncertainty(x).model.mean()


def monte_carlo_error(quick):
    """Standard deviation over seeds of the parts of the budget with known noise, and how far they are off."""
    rows = []
    for p in (1, 4, 10):
        rng = stream(19, "Monte Carlo error", p)
        y = np.arange(90) % 3
        centre = 1.8 / np.sqrt(p) * rng.normal(size=(3, p))
        X = centre[y] + np.sqrt(2.0) * rng.normal(size=(90, p))
        clf = BayesianQDA().fit(X, y, X_cov=np.ones(p))
        x = centre[np.arange(6) % 3] + np.sqrt(2.0) * rng.normal(size=(6, p))
        found = []
        for clf.random_state in range(4 if quick else 8):
            budget = clf.uncertainty(x, np.ones(p))
            found.append((budget.measurement, budget.model))
        clf.random_state = 99
        finer = clf.uncertainty(x, np.ones(p), n_draws=16_384, n_true_values=8192)
        finer, mean = np.array([finer.measurement, finer.model]), np.mean(found, axis=0)
        spread = np.std(found, axis=0, ddof=1) / mean
        off = mean.sum(1) / finer.sum(1) - 1.0
        rows.append([str(p), spread[0].mean(), off[0], spread[1].mean(), spread[1].max(), off[1]])
    names = ("measurement", "off", "model", "largest", "off ")
    caption = (
        "Standard deviation over seeds relative to the part, known noise as large as the classes, 6 inputs; "
        "off: from 16,384 drawn models and 8,192 true values."
    )
    return Table("Monte Carlo error", caption, {"p": "", **dict.fromkeys(names, ".3f")}, rows)


# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = [
    typicality_of_single_models,
    typicality_with_noise,
    typicality_of_few_samples,
    rare_classes,
    budget_of_the_pool,
    model_part_under_the_prior,
    model_part_of_maps,
    monte_carlo_error,
]
