"""Learning and predicting through known noise: coverage, log loss, speed and memory."""

import json
import subprocess
import sys
import time

import numpy as np
from scipy.special import logsumexp
from scipy.stats import chi2, wishart
from scipy.stats import t as student_t

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA
from uncover.bayes.covariances import Covariances
from uncover.bayes.deconvolution import NoisySamples, expectation_maximisation
from uncover.bayes.niw import NIW
from uncover.bayes.noise import log_prob_with_noise
from uncover.bayes.streams import stream
from uncover.bayes.student_t import StudentT
from uncover.measurement.summary import Summariser
from uncover.studies.synthetic import draw_problem

NOMINAL = 0.9


def unequal_noise(rng, covariance, n, most):
    """Covariances (sample, feature, feature): each sample another, unequal over bands.

    Standard deviations lie between a tenth and one time ``most``·spread in the noisiest band, and are ten
    times smaller in the cleanest; the errors of the bands are correlated, in each sample differently.
    """
    p = len(covariance)
    band = np.geomspace(0.1, 1.0, p)[rng.permutation(p)] if p > 1 else np.ones(1)
    deviation = most * band * np.sqrt(np.diagonal(covariance)) * rng.uniform(0.1, 1.0, (n, 1))
    a = rng.standard_normal((n, p, p + 2))
    matrices = a @ np.swapaxes(a, 1, 2)
    unit = np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))
    factor = deviation / unit
    return factor[:, :, None] * matrices * factor[:, None, :]


def draw_class(rng, p):
    """Mean and covariance of a class whose features have different units."""
    units = np.exp(0.5 * rng.standard_normal(p))
    covariance = wishart.rvs(p + 4, np.eye(p), random_state=rng).reshape(p, p) / (p + 4)
    return 3.0 * units * rng.standard_normal(p), units[:, None] * covariance * units


def measure_class(rng, mean, covariance, n, most):
    """Measured values of a class's members, and the covariances of their errors."""
    p = len(mean)
    noise = unequal_noise(rng, covariance, n, most)
    truth = mean + rng.standard_normal((n, p)) @ np.linalg.cholesky(covariance).T
    error = np.einsum("nij,nj->ni", np.linalg.cholesky(noise), rng.standard_normal((n, p)))
    return truth + error, noise


def coverage(n_fits=250, *, p=4, n=500, n_classes=2, most=3.0, ignore=False, seed=0):
    """Share of nominal 90 % intervals and regions that hold the truth, over fits of BayesianQDA.

    Returns
    -------
    dict
        ``mean``: marginal intervals of μ_j; ``region``: joint region of μ; ``variance``: intervals of Σ_jj;
        ``checks``: how many variances were checked; ``not_converged``: share of fits.
    """
    held = {"mean": [], "region": [], "variance": [], "above": []}
    not_converged = 0
    for i in range(n_fits):
        rng = stream(seed, "known noise coverage", p, n, int(10 * most), i)
        truth = [draw_class(rng, p) for _ in range(n_classes)]
        seen = [measure_class(rng, mean, covariance, n, most) for mean, covariance in truth]
        X = np.concatenate([x for x, _ in seen])
        noise = None if ignore else np.concatenate([s for _, s in seen])
        clf = BayesianQDA().fit(X, np.repeat(np.arange(n_classes), n), X_cov=noise)
        mean = np.array([m for m, _ in truth])
        variance = np.array([np.diagonal(s) for _, s in truth])
        for name, values in _checks(clf.posterior_, mean, variance).items():
            held[name].append(values)
        not_converged += 0 if ignore else int(not np.all(clf.posterior_.converged))
    result = {name: float(np.mean(values)) for name, values in held.items()}
    each = np.mean(held["variance"], axis=(0, 1))
    result |= {"variance, worst band": float(each[np.argmax(np.abs(each - NOMINAL))])}
    return result | {"checks": int(np.size(held["variance"])), "not_converged": not_converged / n_fits}


def _checks(posterior, mean, variance):
    """Whether the 90 % intervals of each class hold the truth."""
    marginal = posterior.mean_marginal()
    covariance = marginal.root @ np.swapaxes(marginal.root, -1, -2)
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1))
    z = (mean - posterior.mean) / deviation
    low = student_t.ppf(0.5 - NOMINAL / 2, marginal.dof)[:, None]
    dof, scale = posterior.variance_marginal()
    level = chi2.sf(scale / variance, dof)
    return {
        "mean": np.abs(z) < -low,
        "region": np.diagonal(marginal.typicality(mean)) > 1 - NOMINAL,
        "variance": np.abs(level - 0.5) < NOMINAL / 2,
        "above": level > 0.5,  # the truth above the median
    }


def excess_log_loss(n_problems=4, *, p=4, n_train=5000, n_test=50_000, n_classes=3, seed=0):
    """Log loss above that of the classifier that knows the class distributions, in nats.

    Training samples have one kind of noise, new ones another: other bands are noisy, other sizes. The loss of
    the known classes is taken on the same samples, and the difference is averaged.
    """
    rows = []
    for i in range(n_problems):
        rng = stream(seed, "excess log loss", p, i)
        truth = [draw_class(rng, p) for _ in range(n_classes)]
        truth = [(mean / 3.0, covariance) for mean, covariance in truth]
        y = np.repeat(np.arange(n_classes), n_train)
        y_new = np.repeat(np.arange(n_classes), n_test // n_classes)
        train = [measure_class(rng, *truth[k], n_train, 3.0) for k in range(n_classes)]
        test = [measure_class(rng, *truth[k], n_test // n_classes, 1.5) for k in range(n_classes)]
        X, noise = (np.concatenate(parts) for parts in zip(*train, strict=True))
        X_new, noise_new = (np.concatenate(parts) for parts in zip(*test, strict=True))
        best = _loss(y_new, _known_truth(truth, X_new, noise_new))
        known = BayesianQDA().fit(X, y, X_cov=noise)
        ignoring = BayesianQDA().fit(X, y)
        losses = {
            "noise known": _loss(y_new, known.predict_log_proba(X_new, X_cov=noise_new)),
            "noise known, fast": _loss(y_new, known.predict_log_proba(X_new, X_cov=noise_new, method="fast")),
            "noise ignored": _loss(y_new, ignoring.predict_log_proba(X_new)),
        }
        rows.append({"best possible": best, **{name: loss - best for name, loss in losses.items()}})
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _known_truth(truth, X, noise):
    """Log probabilities of the classes by their true means and covariances."""
    log_density = []
    for mean, covariance in truth:
        root = np.linalg.cholesky(covariance + noise)
        z = np.linalg.solve(root, (X - mean)[..., None])[..., 0]
        log_density.append(-0.5 * (z**2).sum(1) - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1))
    joint = np.stack(log_density, axis=1)
    return joint - logsumexp(joint, axis=1, keepdims=True)


def _loss(y, log_probability):
    return float(-log_probability[np.arange(len(y)), y].mean())


def flipped_labels(n_problems=24, *, flips=0.2, p=10, n_classes=4, n=2000, n_test=20_000, seed=0):
    """Log loss on clean labels after training on labels of which a fifth are flipped at random.

    On the synthetic problem of the published study. Flips go to the other classes with equal probability; the
    recovered matrix is compared with the probabilities they were drawn with.
    """
    rows = []
    true = np.where(np.eye(n_classes) > 0, 1 - flips, flips / (n_classes - 1))
    for i in range(n_problems):
        rng = stream(seed, "flipped labels", i)
        problem = draw_problem(p, rng, n_classes=n_classes, n_per_class=n // n_classes)
        X, y = problem.X, problem.y
        y_new = np.arange(n_test) % n_classes
        normal = rng.standard_normal((n_test, p, 1))
        X_new = problem.mean[y_new] + (np.linalg.cholesky(problem.covariance)[y_new] @ normal)[..., 0]
        flip = rng.random(n) < flips
        seen = np.where(flip, (y + rng.integers(1, n_classes, n)) % n_classes, y)
        models = {
            "clean": BayesianQDA().fit(X, y),
            "learned": BayesianQDA(label_noise="learn").fit(X, seen),
            "given": BayesianQDA(label_noise=true).fit(X, seen),
            "ignored": BayesianQDA().fit(X, seen),
        }
        row = {name: _loss(y_new, clf.predict_log_proba(X_new)) for name, clf in models.items()}
        error = models["learned"].label_confusion_ - true
        count = np.bincount(y, minlength=n_classes)[:, None]
        row["mse"] = float((error**2).mean())
        z = error / np.sqrt(true * (1 - true) / count)
        row["z"], row["z2"] = float(np.abs(z).max()), float((z**2).mean())
        drawn = np.stack([np.bincount(seen[y == k], minlength=n_classes) for k in range(n_classes)]) / count
        row["drawn"] = float(np.abs((drawn - true) / np.sqrt(true * (1 - true) / count)).max())
        row["gap"] = float(np.abs(models["learned"].label_confusion_ - drawn).max())
        rows.append(row)
    mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    result = {f"log loss, {name}": mean[name] for name in ("clean", "learned", "given", "ignored")}
    result |= {f"ratio, {name}": mean[name] / mean["clean"] for name in ("learned", "given", "ignored")}
    return result | {
        "median ratio, learned": float(np.median([row["learned"] / row["clean"] for row in rows])),
        "largest ratio, learned": max(row["learned"] / row["clean"] for row in rows),
        "rmse of the confusion": float(np.sqrt(mean["mse"])),
        "largest rmse": float(np.sqrt(max(row["mse"] for row in rows))),
        "standard deviation of z": float(np.sqrt(mean["z2"])),
        "largest z": max(row["z"] for row in rows),
        "largest z of the flips drawn": max(row["drawn"] for row in rows),
        "largest difference from the flips drawn": max(row["gap"] for row in rows),
        "problems beyond three standard errors": sum(row["z"] > 3 for row in rows),
        "entries": n_problems * n_classes**2,
    }


def speed_against_xdgmm(n=5000, *, p=10, n_iterations=10, repeats=5, seed=0):
    """Seconds for one iteration of extreme deconvolution, here and in astroML; both start from the data.

    XDGMM evaluates the likelihood in every iteration, to know when to stop; the ratio without that is
    given too.
    """
    from astroML.density_estimation import XDGMM

    rng = stream(seed, "speed", n, p)
    X, noise = measure_class(rng, *draw_class(rng, p), n, 3.0)
    covariances = Covariances(None, None, noise)
    samples = NoisySamples(X, covariances, np.ones(n), np.zeros(n, dtype=np.intp), 1)
    prior = NIW(np.zeros((1, p)), np.zeros(1), 1e-3 * np.eye(p)[None], np.array([p + 2.0]))
    ours = min(
        _seconds(lambda: expectation_maximisation(samples, prior, n_iterations)) for _ in range(repeats)
    )
    peer = XDGMM(1, max_iter=n_iterations, tol=-np.inf)
    theirs = _seconds(lambda: peer.fit(X, noise))
    steps = _seconds(lambda: [peer._EMstep(X, noise) for _ in range(n_iterations)])
    return {
        "uncover, seconds an iteration": ours / n_iterations,
        "astroML, seconds an iteration": theirs / n_iterations,
        "ratio": theirs / ours,
        "ratio without the likelihood": steps / ours,
    }


def _seconds(call):
    """Processor time, so that other programs on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def error_of_fast(n=4000, *, p=4, seed=0):
    """Error of the log density with method="fast", in nats: mean and 99th percentile."""
    table = {}
    for dof in (10.0, 100.0, 1000.0):
        for size in (0.3, 1.0, 3.0):
            rng = stream(seed, "fast", int(dof), int(10 * size))
            _, covariance = draw_class(rng, p)
            t = StudentT.from_scale(np.zeros(p), covariance * (dof - 2) / dof, dof)
            noise = unequal_noise(rng, covariance, n, size)
            error = np.einsum("nij,nj->ni", np.linalg.cholesky(noise), rng.standard_normal((n, p)))
            x, known = t.sample(n, rng) + error, Covariances(None, None, noise)
            gap = np.abs(log_prob_with_noise(t, x, known, "fast") - log_prob_with_noise(t, x, known))
            table[f"dof {dof:g}, noise {size:g}"] = (float(gap.mean()), float(np.quantile(gap, 0.99)))
    return table


def fast_pixels(n=3000, n_draws=96, *, p=10, n_classes=4, worlds=25, own_noise=False, seed=0):
    """Pixels of another scene read by method="fast" and by "exact": how far apart, and how long each takes.

    Each world has errors in common, as an atmosphere makes them; with ``own_noise`` every pixel has one value
    and a covariance of its own instead.
    """
    rng = stream(seed, "fast pixels", int(own_noise))
    classes = [draw_class(rng, p) for _ in range(n_classes)]
    model = BayesianQDA(realisations="shared").fit(*_scene(rng, classes, 1000 * n_classes, worlds))
    planes, noise = np.moveaxis(_scene(rng, classes, n, worlds)[0], 0, 2), None
    if own_noise:
        planes = planes[:1]
        noise = Covariances(None, None, unequal_noise(rng, classes[0][1], n, 0.5))
    found, seconds = {}, {}
    for method in ("fast", "exact"):
        reader = Summariser(model, paired=False, method=method, n_true_values=n_draws)
        reader.summarise(planes[:, :, :10], noise=None if noise is None else noise[np.arange(10)])
        start = time.process_time()
        found[method] = reader.summarise(planes, noise=noise)
        seconds[method] = 1e6 * (time.process_time() - start) / n
    fast, exact = found["fast"], found["exact"]
    gaps = [np.abs(getattr(fast, name) - getattr(exact, name)) for name in ("probability", "total")]
    return [
        "own" if own_noise else "common",
        n_draws,
        float(np.mean(fast.best == exact.best)),
        *(float(f(gap)) for gap in gaps for f in (np.mean, np.max)),
        float(fast.measurement.mean()),
        float(exact.measurement.mean()),
        *seconds.values(),
    ]


def _scene(rng, classes, n, worlds):
    """Samples (sample, world, feature) and classes of a scene: each world has an error in common."""
    y, p = np.arange(n) % len(classes), len(classes[0][0])
    spread = np.stack([np.linalg.cholesky(covariance) for _, covariance in classes])[y]
    x = np.stack([mean for mean, _ in classes])[y] / 6.0 + (spread @ rng.standard_normal((n, p, 1)))[..., 0]
    error = 0.3 * rng.standard_normal((1, worlds, p)) * np.sqrt(np.diagonal(classes[0][1]))
    return x[:, None] + error * (1.0 + 0.3 * rng.standard_normal((n, 1, p))), y


_MANY = """
import json, resource, sys, time
import numpy as np
from uncover import BayesianQDA
n, p, kind, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rng = np.random.default_rng(0)
y = np.arange(600) % 3
clf = BayesianQDA().fit(rng.standard_normal((600, p)) + y[:, None], y, X_cov=np.full(p, 0.1))
X = np.empty((n, p), np.float32)
for start in range(0, n, 1 << 18):
    X[start : start + (1 << 18)] = rng.standard_normal((min(1 << 18, n - start), p)) + 1
noise = {"one": np.full(p, 0.1), "each": None}[kind]
if noise is None:
    noise = np.empty((n, p))
    noise[:] = rng.uniform(0.05, 0.2, (1, p))
    noise[0] *= 1.1
    noise[0, 0] *= 1.1
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
P = clf.predict_proba(X, X_cov=noise, method=method)
seconds = time.process_time() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
extra = (after - before) / 1024 - P.nbytes / 2**20
print(json.dumps({"seconds": seconds, "MiB beyond X, X_cov and the result": extra}))
"""


def many_samples(n=1_000_000, *, p=10, kind="one", method="fast"):
    """Processor time and peak memory of predict_proba with known noise, measured in a process of its own."""
    command = [sys.executable, "-c", _MANY, str(n), str(p), kind, method]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@benchmark("known-noise")
def run(quick=False):
    """All measurements of this module, as tables."""
    return [
        _coverage_table(quick),
        _as_table("log loss", "Log loss above the best, in nats", excess_log_loss(1 if quick else 4)),
        _as_table("flipped labels", "A fifth of the labels flipped", flipped_labels(2 if quick else 24)),
        _as_table("speed", "Extreme deconvolution against astroML's XDGMM", speed_against_xdgmm()),
        _fast_table(quick),
        _fast_pixels_table(quick),
        _many_table(quick),
    ]


def _fast_table(quick):
    errors = error_of_fast(400 if quick else 4000)
    return Table(
        "fast",
        'Error of the log density with method="fast", in nats',
        {"class and noise": "", "mean": ".2g", "99th percentile": ".2g"},
        [[name, *both] for name, both in errors.items()],
    )


def _fast_pixels_table(quick):
    n, few = (200, 30) if quick else (3000, 300)
    cases = [(n, 96, False), (n, 96, True), (few, 1024, False), (few, 1024, True)]
    formats = {
        "noise": "", "draws": "d", "same class": ".4f", "ΔP, mean": ".1e", "ΔP, most": ".1e",
        "Δtotal, mean": ".1e", "Δtotal, most": ".1e", "measurement, fast": ".4f", "exact": ".4f",
        "µs a pixel, fast": ".0f", "µs, exact": ".0f",
    }  # fmt: skip
    rows = [fast_pixels(size, draws, own_noise=own) for size, draws, own in cases]
    return Table("fast pixels", 'Pixels of a map by method="fast" against "exact"', formats, rows)


def _many_table(quick):
    cases = [
        (10**7, "one", "fast"),
        (10**6, "one", "fast"),
        (10**6, "each", "fast"),
        (3 * 10**5, "one", "exact"),
    ]
    rows = []
    for n, kind, method in cases:
        size = n // 100 if quick else n
        rows.append([size, kind, method, *many_samples(size, kind=kind, method=method).values()])
    formats = {"samples": ",d", "covariance": "", "method": "", "seconds": ".1f", "MiB beyond": ".0f"}
    return Table("many samples", "predict_proba with known noise, 10 features, one process", formats, rows)


def _coverage_table(quick):
    rows = []
    for p, n, most, n_fits in ((4, 500, 3.0, 1000), (10, 500, 3.0, 300), (4, 60, 3.0, 600)):
        share = coverage(4 if quick else n_fits, p=p, n=n, most=most)
        rows.append([f"p = {p}, n = {n}", *(share[key] for key in ("mean", "region", "variance", "checks"))])
    formats = {"problem": "", "μ_j": ".3f", "region of μ": ".3f", "Σ_jj": ".3f", "checks": "d"}
    return Table(
        "coverage", "Share of nominal 90 % intervals that hold the truth, noise up to 3 times", formats, rows
    )


def _as_table(name, caption, numbers):
    return Table(
        name, caption, {"what": "", "value": ".4g"}, [[key, value] for key, value in numbers.items()]
    )
