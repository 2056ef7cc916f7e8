"""Every formula of the paper computed by other code than the product's, and what its slips would change."""

from functools import partial

import numpy as np
from scipy import integrate, stats

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.bayes.priors import weak_prior
from uncover.bayes.streams import stream
from uncover.measurement.quantity import cams_uncertainty
from uncover.metrics import score

_K, _P = 3, 4


@benchmark("paper")
def paper(quick):
    """Differences from independent computations, and the size of the paper's slips."""
    cases = 5 if quick else 50
    checks = {
        "2.7": ("numerical ∫ p(x|χ) p(χ|θ) dχ against N(x|μ, Σχ+Σx)", _noise_integral),
        "2.9": ("the same with Σχ and Σx exchanged, as printed", partial(_noise_integral, swapped=True)),
        "2.8": ("pooled realisations, probabilities averaged: own loops over rows", _pooled),
        "2.11": ("class probabilities, by scipy.stats.multivariate_t", _class_probabilities),
        "2.12": ("against Gaussian classes with 100,000 samples each", _gaussian_limit),
        "3.1": ("u of the optical depth, by hand", _aod),
        "4.1": ("F₁ and F₂ from counts, by loops", partial(_scores, names=("f1", "f2"))),
        "4.2": ("cross-entropy, by loops", partial(_scores, names=("cross_entropy",))),
        "4.3": ("Brier score, by loops", partial(_scores, names=("brier",))),
        "4.4": ("normalised cross-entropy, by loops", partial(_scores, names=("cross_entropy_norm",))),
        "4.5": ("normalised Brier score, by loops", partial(_scores, names=("brier_norm",))),
        "A.12": ("class weights (N_k+α_k)/Σ, from a feature that tells nothing", _class_weights),
        "B.4": ("E[Σ], by scipy.stats.invwishart", _expected_covariance),
        "B.5": ("posterior parameters, by sums over samples", _update),
        "B.6": ("log density of the predictive, by scipy.stats.multivariate_t", _predictive),
        "B.8": ("prior parameters with N−1 (equation 2.11)", _prior),
    }
    rows = []
    for number, (what, check) in checks.items():
        worst = max(check(stream(0, "paper", number, i)) for i in range(cases))
        rows.append([number, what, worst])
    columns = {"equation": "", "compared": "", "largest difference": ".1e"}
    caption = f"Largest difference over {cases} random cases of {_K} classes and {_P} features"
    return [Table("formulas", caption, columns, rows), _slips(quick)]


def _gaussian_problem(rng, n=12, k=_K, p=_P):
    mean = rng.normal(size=(k, p))
    root = rng.normal(size=(k, p, p))
    y = np.repeat(np.arange(k), n)
    X = mean[y] + np.einsum("nij,nj->ni", root[y], rng.normal(size=(len(y), p))) / np.sqrt(p)
    return X, y


def _noise_integral(rng, swapped=False):
    """One feature: adaptive quadrature over the true value."""
    mu, x = rng.normal(size=2)
    a, b = rng.uniform(0.3, 2.0, 2)
    inner, outer = (a, b) if swapped else (b, a)
    found, _ = integrate.quad(
        lambda chi: stats.norm.pdf(x, chi, inner) * stats.norm.pdf(chi, mu, outer),
        -30,
        30,
        epsabs=1e-13,
        limit=400,
    )
    return abs(found - stats.norm.pdf(x, mu, np.hypot(a, b)))


def _by_hand(X, y, new, divisor=1, times=1):
    """Equation 2.11, each class by SciPy; divisor 0: N in the prior; the prior counts so many times."""
    k, p = len(np.unique(y)), X.shape[1]
    density = np.empty((len(new), k))
    for c in range(k):
        mine = X[y == c]
        n = len(mine)
        scatter = (mine - mine.mean(0)).T @ (mine - mine.mean(0))
        prior = np.diag(np.diag(scatter)) / (n - divisor) / k ** (2 / p)
        dof = n + p + 2 if times == 1 else times * (2 * p + 5) - p - 2
        psi = times * prior + scatter
        shape = psi * (n + 1) / (n * (dof - p + 1))
        density[:, c] = np.log(n + 1) + stats.multivariate_t(mine.mean(0), shape, dof - p + 1).logpdf(new)
    odds = np.exp(density - density.max(1, keepdims=True))
    return odds / odds.sum(1, keepdims=True)


def _class_probabilities(rng):
    X, y = _gaussian_problem(rng)
    new = 2 * rng.normal(size=(40, _P))
    return np.abs(BayesianQDA().fit(X, y).predict_proba(new) - _by_hand(X, y, new)).max()


def _pooled(rng):
    X, y = _gaussian_problem(rng)
    R = 4
    worlds = X[:, None] + 0.3 * rng.normal(size=(len(X), R, _P))
    new = rng.normal(size=(20, R, _P))
    rows, labels = np.concatenate([worlds[:, r] for r in range(R)]), np.tile(y, R)
    expected = np.mean([_by_hand(rows, labels, new[:, r]) for r in range(R)], axis=0)
    return np.abs(BayesianQDA(realisations="pooled").fit(worlds, y).predict_proba(new) - expected).max()


def _gaussian_limit(rng):
    X, y = _gaussian_problem(rng, n=100_000, p=2)
    new = rng.normal(size=(40, 2))
    logs = np.stack(
        [stats.multivariate_normal(X[y == c].mean(0), np.cov(X[y == c].T)).logpdf(new) for c in range(_K)], 1
    )
    odds = np.exp(logs - logs.max(1, keepdims=True))
    return np.abs(BayesianQDA().fit(X, y).predict_proba(new) - odds / odds.sum(1, keepdims=True)).max()


def _aod(rng):
    tau = rng.uniform(0, 1)
    return abs(float(cams_uncertainty(tau)) - ((0.1 * tau + 0.03) + abs(-0.46 * tau + 0.09)))


def _scores(rng, names):
    n, k = 60, _K
    y, p = rng.integers(k, size=n), rng.dirichlet(np.ones(k), size=n)
    q = rng.dirichlet(np.full(k, 5.0))
    found, said = score(y, p, q), p.argmax(1)
    expected = dict.fromkeys(("f1", "f2", "cross_entropy", "brier", "cross_entropy_norm", "brier_norm"), 0.0)
    for name, beta in (("f1", 1), ("f2", 2)):
        for c in range(k):
            tp = sum(a == c == b for a, b in zip(y, said, strict=True))
            fn, fp = sum(y == c) - tp, sum(said == c) - tp
            expected[name] += q[c] * (beta**2 + 1) * tp / ((beta**2 + 1) * tp + beta**2 * fn + fp)
    for i in range(n):
        truth = [float(y[i] == c) for c in range(k)]
        square = sum((t - e) ** 2 for t, e in zip(truth, p[i], strict=True))
        expected["cross_entropy"] -= np.log(p[i, y[i]]) / n
        expected["brier"] += square / k / n
        expected["cross_entropy_norm"] += np.log(p[i, y[i]]) / sum(a * np.log(a) for a in q) / n
        expected["brier_norm"] += square / sum(a * (1 - a) for a in q) / n
    return max(abs(getattr(found, name) - expected[name]) for name in names)


def _class_weights(rng):
    """Classes with the same values of a feature differ in their weights only, and in N_k + 3 elsewhere."""
    counts = rng.integers(2, 40, size=_K)
    alpha = rng.uniform(0.5, 3.0, _K)
    y = np.repeat(np.arange(_K), counts)
    X = rng.normal(size=(len(y), 1))
    clf = BayesianQDA(class_prior=alpha).fit(X, y)
    plain = BayesianQDA(class_prior=np.ones(_K)).fit(X, y)
    new = rng.normal(size=(5, 1))
    ratio = clf.predict_proba(new) / plain.predict_proba(new)
    expected = (counts + alpha) / (counts + 1)
    return np.abs(ratio / ratio[:, :1] - expected / expected[0]).max()


def _niw(rng):
    root = rng.normal(size=(_P, _P))
    return NIW(rng.normal(size=_P), rng.uniform(0.1, 3.0), root @ root.T + np.eye(_P), _P + rng.uniform(2, 6))


def _expected_covariance(rng):
    niw = _niw(rng)
    return np.abs(niw.expected_covariance - stats.invwishart(float(niw.dof), niw.scale).mean()).max()


def _posterior(rng):
    niw, X = _niw(rng), rng.normal(size=(9, _P)) + 1
    n, mean = len(X), X.mean(0)
    scatter = sum(np.outer(x - mean, x - mean) for x in X)
    strength = niw.strength + n
    gap = mean - niw.mean
    expected = (
        (niw.strength * niw.mean + n * mean) / strength,
        strength,
        niw.scale + scatter + niw.strength * n / strength * np.outer(gap, gap),
        niw.dof + n,
    )
    return niw.update(Moments.of(X)), expected


def _update(rng):
    found, (mean, strength, scale, dof) = _posterior(rng)
    pairs = ((found.mean, mean), (found.strength, strength), (found.scale, scale), (found.dof, dof))
    return max(np.abs(a - b).max() for a, b in pairs)


def _predictive(rng):
    found, (mean, strength, scale, dof) = _posterior(rng)
    nu = dof - _P + 1
    new = 3 * rng.normal(size=(20, _P))
    shape = scale * (strength + 1) / (strength * nu)
    return np.abs(
        found.predictive().log_prob(new) - stats.multivariate_t(mean, shape, float(nu)).logpdf(new)
    ).max()


def _prior(rng):
    X, y = _gaussian_problem(rng)
    prior = weak_prior(Moments.by_group(X, y, _K))
    expected = np.stack([np.diag(X[y == c].var(axis=0, ddof=1)) / _K ** (2 / _P) for c in range(_K)])
    return max(np.abs(prior.scale - expected).max(), np.abs(prior.dof - (_P + 2)).max())


def _slips(quick):
    """What the paper's other readings change."""
    cases = 40 if quick else 1000
    rows = []
    for n in (6, 20, 100):
        worst = {"N": 0.0, "prior": 0.0}
        for i in range(cases):
            rng = stream(0, "slips", n, i)
            X, y = _gaussian_problem(rng, n=n, k=4, p=10)
            new = X[rng.permutation(len(X))[:20]] + rng.normal(size=(20, 10)) * 0.5
            ours = _by_hand(X, y, new)
            worst["N"] = max(worst["N"], np.abs(ours - _by_hand(X, y, new, divisor=0)).max())
            worst["prior"] = max(worst["prior"], np.abs(ours - _by_hand(X, y, new, times=n)).max())
        rows += [
            [f"N in place of N−1 in the prior, {n} samples a class", worst["N"]],
            [f"the prior counted once for each sample, {n} samples a class", worst["prior"]],
        ]
    tau = 0.1
    rows.append(
        [f"share of draws of τ = {tau} below zero", stats.norm.cdf(-tau / float(cams_uncertainty(tau)))]
    )
    a = stream(0, "slips", "covariance").normal(size=(20_000, 5, 5))
    mean = (a @ np.swapaxes(a, 1, 2) / 5).mean(axis=0)
    rows.append(["mean of Σ_ii over 20,000 drawn matrices", np.diag(mean).mean()])
    rows.append(["mean of Σ_ij, i ≠ j", mean[~np.eye(5, dtype=bool)].mean()])
    return Table(
        "slips",
        f"Largest difference of a class probability, 10 features, 4 classes, {cases} random problems; "
        "and what else can be computed",
        {"reading": "", "number": ".4f"},
        rows,
    )
