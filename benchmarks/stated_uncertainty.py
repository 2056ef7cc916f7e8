"""Stated uncertainty in training and in maps: counted once, twice or not at all; and the measurement part.

Classes are Gaussian and known, so that accuracy, calibration and information can be computed from outside:
accuracy by drawing, information by plain Monte Carlo with the true parameters.
"""

import tempfile
import warnings

import numpy as np
import rasterio
from scipy.special import entr, ndtri, softmax
from scipy.stats.qmc import Sobol

from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA, Measured, load_model
from uncover.bayes.covariances import Covariances
from uncover.bayes.streams import stream
from uncover.labels import Draw
from uncover.measurement.summary import Summariser
from uncover.pipeline import FitOptions, RealiseOptions, SourceOptions, fit_model
from uncover.pipeline.scene_sources import open_observed
from uncover.raster import classify
from uncover.raster.model_checks import scheme_of
from uncover.studies.landscape import LandscapeOptions, write_scene

P, K = 4, 3  # bands, classes


class Problem:
    """Gaussian classes with their own covariances, overlapping."""

    def __init__(self, seed, p=P):
        rng = stream(seed, "stated uncertainty", "classes")
        self.p = p
        self.means = 0.8 * rng.standard_normal((K, p))
        self.roots = np.eye(p) + 0.3 * rng.standard_normal((K, p, p))
        self.scales = self.roots @ self.roots.swapaxes(1, 2)

    def draw(self, n, noise, shared, *names):
        """Measured values (pixel, band) and classes: with noise of its own, and one error in common."""
        rng = stream(*names)
        y = rng.integers(0, K, n)
        truth = self.means[y] + np.einsum("nij,nj->ni", self.roots[y], rng.standard_normal((n, self.p)))
        return truth + noise * rng.standard_normal((n, self.p)) + shared, y

    def log_density(self, points, extra=0.0):
        """Log density of each class, (…, class), with extra variance in each band."""
        out = []
        for mean, scale in zip(self.means, self.scales, strict=True):
            root = np.linalg.cholesky(scale + extra * np.eye(self.p))
            z = np.linalg.solve(root, np.moveaxis(points - mean, -1, 0).reshape(self.p, -1))
            value = -0.5 * (z**2).sum(axis=0) - np.log(np.diagonal(root)).sum()
            out.append(value.reshape(points.shape[:-1]))
        return np.stack(out, axis=-1)

    def information(self, points, noise, n, rng):
        """I(class; true value | measured value) of each point, from n plain draws of each class."""
        probability = softmax(self.log_density(points, noise**2), axis=-1)
        left = np.zeros(len(points))
        for k, (mean, scale) in enumerate(zip(self.means, self.scales, strict=True)):
            gain = scale @ np.linalg.inv(scale + noise**2 * np.eye(self.p))
            root = np.linalg.cholesky(scale - gain @ scale)
            for i, x in enumerate(points):
                chi = mean + gain @ (x - mean) + rng.standard_normal((n, self.p)) @ root.T
                left[i] += probability[i, k] * entr(softmax(self.log_density(chi), -1)).sum(-1).mean()
        return entr(probability).sum(-1) - left

    def evenly(self, points, covariances, n, seed):
        """The same with a covariance for each point, from n scrambled Sobol points of each class."""
        z, out = ndtri(Sobol(self.p, seed=seed).random(n)), []
        for x, C in zip(points, covariances, strict=True):
            root = np.linalg.cholesky(self.scales + C)
            away = np.linalg.solve(root, (x - self.means)[..., None])[..., 0]
            log_det = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(-1)
            probability = softmax(-0.5 * (away**2).sum(-1) - log_det)
            left = 0.0
            for k, (mean, scale) in enumerate(zip(self.means, self.scales, strict=True)):
                gain = scale @ np.linalg.inv(scale + C)
                size, axes = np.linalg.eigh(scale - gain @ scale)
                chi = mean + gain @ (x - mean) + z @ (axes * np.sqrt(np.maximum(size, 0.0))).T
                left += probability[k] * entr(softmax(self.log_density(chi), -1)).sum(-1).mean()
            out.append(entr(probability).sum() - left)
        return np.array(out)


def top_label(probability, y):
    """Mean stated probability of the chosen class less its accuracy, and the calibration error of 15 bins."""
    best, right = probability.max(axis=1), probability.argmax(axis=1) == y
    bins = np.minimum((best * 15).astype(int), 14)
    count, stated, true = (np.bincount(bins, w, 15) for w in (np.ones(len(y)), best, right))
    return best.mean() - right.mean(), np.abs(stated - true).sum() / count.sum()


def read(model, X, noise, systematic, paired):
    """Probabilities and mean measurement part, as a map has them."""
    given = None if noise is None else Covariances.read(np.full(X.shape[1], noise**2), *X.shape)
    summary = Summariser(model, paired=paired, method="fast").summarise(
        np.ascontiguousarray(X.T)[None], noise=given, systematic=systematic
    )
    return summary.probability.T, summary.measurement.mean()


def random_effects(seeds, n_train=3000, n_test=20_000, noise=0.7, pixels=200):
    """Noise stated nowhere, in the map only, and in both; and what is right, from the true classes."""
    rows = {"neither": [], "map only": [], "model and map": [], "true classes": []}
    for seed in range(seeds):
        problem = Problem(seed)
        X, y = problem.draw(n_train, noise, 0.0, seed, "train")
        new, truth = problem.draw(n_test, noise, 0.0, seed, "test")
        plain, stated = BayesianQDA().fit(X, y), BayesianQDA().fit(X, y, X_cov=np.full(P, noise**2))
        for name, model, told in (
            ("neither", plain, None), ("map only", plain, noise), ("model and map", stated, noise),
        ):  # fmt: skip
            probability, _ = read(model, new, told, None, True)
            part = read(model, new[:pixels], told, None, True)[1]
            rows[name].append((*top_label(probability, truth), part))
        exact = softmax(problem.log_density(new, noise**2), axis=1)
        part = problem.information(new[:pixels], noise, 1500, stream(seed, "information")).mean()
        rows["true classes"].append((*top_label(exact, truth), part))
    return [[name, *_means(values)] for name, values in rows.items()]


def systematic_effects(seeds, n_train=3000, n_test=1000, u=0.35):
    """An error that a scene shares: stated for the new scene only, for both, or common to both."""
    rows = {}
    S = np.diag(np.full(P, u**2))
    for seed in range(seeds):
        problem = Problem(seed % 10)
        errors = u * stream(seed, "shared errors").standard_normal((2, P))
        X, y = problem.draw(n_train, 0.0, errors[0], seed, "train")
        plain, stated = BayesianQDA().fit(X, y), BayesianQDA().fit(Measured(X, None, S), y)
        other, truth = problem.draw(n_test, 0.0, errors[1], seed, "test")
        same, truth_same = problem.draw(n_test, 0.0, errors[0], seed, "test")
        for name, model, pixels, labels, told in (
            ("own errors: stated nowhere", plain, other, truth, None),
            ("own errors: new scene only", plain, other, truth, S),
            ("own errors: both scenes", stated, other, truth, S),
            ("common error: as if each had its own", stated, same, truth_same, S),
            ("common error: cancelled", plain, same, truth_same, None),
        ):
            rows.setdefault(name, []).append(top_label(read(model, pixels, None, told, False)[0], labels))
    return [[name, *_means(values)] for name, values in rows.items()]


def measurement_layer(seeds, pixels=40, draws=4096):
    """The measurement part of maps by its number of points, against evenly spread draws of the true classes.

    Noise is one covariance for all pixels, or one of its own for each, unequal in size and in all directions.
    """
    found = {}
    for seed in range(seeds):
        p, noise = ((4, 0.4), (6, 0.8), (10, 0.5))[seed % 3]
        problem = Problem(seed, p)
        model = BayesianQDA().fit(*problem.draw(60_000, 0.0, 0.0, seed, "train"))
        for own in (False, True):
            C = _covariances(pixels, p, noise, own, stream(seed, "covariances"))
            points = problem.draw(pixels, 0.0, 0.0, seed, "pixels")[0]
            error = stream(seed, "noise").standard_normal((pixels, p, 1))
            points = points + (np.linalg.cholesky(C) @ error)[..., 0]
            right = problem.evenly(points, C, draws, seed)
            for method, n in (("fast", 48), ("fast", 96), ("fast", 192), ("fast", 384), ("exact", 192)):
                reader = Summariser(model, method=method, n_true_values=n)
                planes = np.ascontiguousarray(points.T)[None]
                part = reader.summarise(planes, noise=Covariances(None, None, C)).measurement
                gap = (part - right) / right.mean()
                name = f"{method}, {n}, {'each its own' if own else 'one for all'}"
                found.setdefault(name, []).append((gap.mean(), np.sqrt((gap**2).mean())))
            again = (problem.evenly(points, C, draws, seed + 1000) - right) / right.mean() / np.sqrt(2.0)
            name = f"reference, {draws} a class, {'each its own' if own else 'one for all'}"
            found.setdefault(name, []).append((again.mean(), np.sqrt((again**2).mean())))
    return [[name, *_means(values)] for name, values in found.items()]


def _covariances(n, p, noise, own, rng):
    """Noise of each pixel: equal in all bands, or of any shape and of sizes that differ e-fold."""
    if not own:
        return np.tile(noise**2 * np.eye(p), (n, 1, 1))
    root = noise * np.exp(0.5 * rng.standard_normal((n, 1, 1))) * rng.standard_normal((n, p, p)) / np.sqrt(p)
    return root @ root.swapaxes(1, 2) + 1e-6 * np.eye(p)


def across_dates(seeds, size):
    """Sets of 90 % and calibration, on the scene that trained the model and a year later."""
    found = {}
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            files = write_scene(folder, LandscapeOptions(size=size, seed=seed))
            truth = {year: str(files.folder / f"truth-{year}.tif") for year in (2020, 2021)}
            for calibration in (None, "loo"):
                how = RealiseOptions(aod=0.12, draws=9, seed=seed)
                options = FitOptions(
                    labels=truth[2020], draw=Draw(count=4000), model="published", realisations="shared",
                    block=0, coverage=0.9, calibration=calibration, realise=how, seed=seed,
                )  # fmt: skip
                fit_model([files.product(2020)], options).save(files.folder / "model.uncover")
                model = load_model(files.folder / "model.uncover")
                for year in (2020, 2021):
                    observed = open_observed(
                        files.product(year), model.estimator_, SourceOptions(realise=how)
                    )
                    layers = classify(observed, model, paired=year == 2020, dtype="float32")
                    name = f"{year}, {'--calibrate' if calibration else 'as fitted'}"
                    found.setdefault(name, []).append(_across(layers, truth[year], model))
    return [[name, *_means(values)] for name, values in found.items()]


def _across(layers, truth, model):
    """Share of pixels whose class is in their set, the lowest of a class, and the calibration error."""
    with rasterio.open(truth) as file:
        codes = file.read(1).ravel()
    places = {int(code): k for k, code in enumerate(sorted(scheme_of(model.estimator_).codes))}
    known = np.isin(codes, list(places))
    probability = layers["probability"].reshape(len(model.classes_), -1).T[known]
    y = np.array([places[int(code)] for code in codes[known]])
    inside = layers["sets"][1:].reshape(len(model.classes_), -1).T[known][np.arange(len(y)), y] == 1
    lowest = min(inside[y == k].mean() for k in np.unique(y))
    return inside.mean(), lowest, top_label(probability, y)[1]


def _means(values):
    """Mean of each column and its standard error over seeds, one after the other."""
    array = np.array(values)
    error = array.std(axis=0, ddof=1) / np.sqrt(len(array))
    return [number for pair in zip(array.mean(axis=0), error, strict=True) for number in pair]


@benchmark("stated-uncertainty")
def run(quick=False):
    """Calibration with stated uncertainty, and the error of the measurement part."""
    seeds, many, problems = (4, 40, 3) if quick else (12, 400, 12)
    scenes, size = (2, 120) if quick else (4, 240)
    first = {"over-stated": "+.4f", "±": ".4f", "calibration error": ".4f", "± ": ".4f"}
    return [
        Table(
            "random",
            f"Noise of 0.7 class spreads, {P} bands, {K} classes, 3,000 training pixels; {seeds} seeds",
            {"noise stated in": "", **first, "measurement, nat": ".4f", "±  ": ".4f"},
            random_effects(seeds),
        ),
        Table(
            "systematic",
            f"An error of 0.35 class spreads that a scene shares; {many} pairs of scenes",
            {"errors": "", **first},
            systematic_effects(many),
        ),
        Table(
            "measurement",
            f"Error of the measurement part, relative to its mean over pixels; {problems} problems",
            {"method, points, noise": "", "mean": "+.4f", "±": ".4f", "rms": ".4f", "± ": ".4f"},
            measurement_layer(problems),
        ),
        Table(
            "dates",
            f"Sets of 90 % and calibration, embedded scene of {size} x {size} pixels, {scenes} scenes",
            {
                "map of": "",
                "true class in set": ".3f",
                "±": ".3f",
                "lowest class": ".3f",
                "± ": ".3f",
                "calibration error": ".3f",
                "±  ": ".3f",
            },
            across_dates(scenes, size),
        ),
    ]
