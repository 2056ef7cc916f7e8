"""The demonstration: simulated measurements, from simulation to predictions, a saved model and a summary."""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from uncover.bayes.budget import UncertaintyBudget
from uncover.bayes.streams import stream
from uncover.estimators.discriminant import BayesianQDA
from uncover.estimators.persistence import load_model

Array = NDArray[np.float64]
Labels = NDArray[np.str_]

BANDS = ("blue", "green", "red", "red edge", "near infrared", "shortwave infrared")
# Mean reflectance in each band. Invented for this demonstration: plausible, but measured by nobody.
KNOWN = {
    "bare soil": (0.10, 0.13, 0.17, 0.20, 0.25, 0.31),
    "built-up": (0.11, 0.13, 0.15, 0.17, 0.21, 0.24),
    "crop": (0.05, 0.09, 0.06, 0.17, 0.33, 0.22),
    "forest": (0.03, 0.05, 0.03, 0.11, 0.27, 0.13),
    "grass": (0.04, 0.08, 0.06, 0.15, 0.30, 0.19),
    "water": (0.05, 0.05, 0.04, 0.03, 0.03, 0.02),
}
UNKNOWN = {"burnt ground": (0.04, 0.05, 0.06, 0.08, 0.10, 0.14)}
NOISE = (0.012, 0.010, 0.010, 0.010, 0.014, 0.014)

N_TRAIN, N_TEST, N_REPEATS = 40, 200, 10  # of each class; repeats of each training sample
UNUSUAL = 0.01  # a sample less typical than this looks like no class of the training data


@dataclass(frozen=True)
class Scores:
    """How good class probabilities are; lower is better but for the accuracy."""

    log_loss: float
    brier: float
    accuracy: float

    @classmethod
    def of(cls, y: Labels, probability: Array, classes: Labels) -> "Scores":
        """Score probabilities against the true classes."""
        truth = (y[:, None] == classes).astype(float)
        return cls(
            float(log_loss(y, probability, labels=classes)),
            float(((probability - truth) ** 2).sum(1).mean()),
            float(accuracy_score(y, classes[probability.argmax(1)])),
        )


@dataclass(frozen=True)
class Demo:
    """What the demonstration found out."""

    scores: dict[str, Scores]
    budget: dict[str, float]  # mean over the test samples, in nats
    flagged: dict[str, float]  # share of unusual samples, of known classes and of each unknown one
    files: tuple[Path, ...]
    description: str

    def summary(self) -> str:
        """Return the page of numbers that the command prints."""
        return (
            "\n\n".join([_WHAT, _score_table(self.scores), _budget_text(self.budget), self._flags()]) + "\n"
        )

    def _flags(self) -> str:
        lines = [f"Samples that look like no class of the training data (typicality below {UNUSUAL:g})"]
        return "\n".join(
            [*lines, *(f"  {100 * share:5.1f} %  of {of}" for of, share in self.flagged.items())]
        )


_WHAT = f"""\
SIMULATED DATA: the spectra are invented, not measured by any instrument.

{len(KNOWN)} classes, {len(BANDS)} bands.
Training: {N_TRAIN} samples of each class, each measured {N_REPEATS} times.
New samples: {N_TEST} of each class, measured once, so noisier than the means of the training samples.
BayesianQDA estimates the noise from the repeats and allows for it; QDA is scikit-learn's, on scaled bands."""


def simulate(
    spectra: Mapping[str, tuple[float, ...]], n: int, n_repeats: int, seed: int
) -> tuple[Array, Labels]:
    """Simulate measurements of samples of each class: shapes (sample, repeat, band) and (sample,).

    A sample's true spectrum is its class's, brighter or darker as a whole by 10 % and in each band by 7 %
    (standard deviations); a measurement adds noise that is independent between bands and repeats.

    Examples
    --------
    >>> X, y = simulate(KNOWN, 5, 3, seed=0)
    >>> X.shape, y[:2]
    ((30, 3, 6), array(['bare soil', 'bare soil'], dtype='<U9'))
    """
    parts = []
    for name, spectrum in spectra.items():
        rng = stream(seed, "demo", name)
        mean = np.array(spectrum)
        brightness = 1.0 + 0.10 * rng.standard_normal((n, 1)) + 0.07 * rng.standard_normal((n, len(mean)))
        truth = mean * brightness
        noise = np.array(NOISE) * rng.standard_normal((n, n_repeats, len(mean)))
        parts.append(truth[:, None, :] + noise)
    return np.concatenate(parts), np.repeat(list(spectra), n)


def run_demo(out: Path, seed: int = 0, progress: Callable[[str], None] = lambda step: None) -> Demo:
    """Run the demonstration and write its files into a folder, which is made where there is none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     demo = run_demo(Path(folder))
    ...     sorted(file.name for file in demo.files)
    ['describe.txt', 'model.uncover', 'predictions.csv', 'summary.txt']
    """
    out.mkdir(parents=True, exist_ok=True)
    progress("simulating measurements")
    X, y = simulate(KNOWN, N_TRAIN + N_TEST, N_REPEATS, seed)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=N_TRAIN * len(KNOWN), stratify=y, random_state=seed
    )
    X_test = X_test[:, 0]
    X_strange, y_strange = simulate(UNKNOWN, N_TEST, 1, seed)
    X_new, y_new = np.concatenate([X_test, X_strange[:, 0]]), np.concatenate([y_test, y_strange])

    progress("fitting")
    clf = BayesianQDA(realisations="repeats", random_state=seed).fit(X_train, y_train)
    progress("predicting")
    probability, typicality = clf.predict_proba(X_new), clf.typicality(X_new)
    budget = clf.uncertainty(X_new, n_draws=50)
    scores = {
        "BayesianQDA, noise allowed for": Scores.of(y_test, probability[: len(y_test)], clf.classes_),
        **_peers(X_train, y_train, X_test, y_test),
    }
    progress("saving, loading again, checking")
    model = out / "model.uncover"
    clf.save(model, units="reflectance", provenance={"data": "simulated by uncover demo", "seed": seed})
    _check_loaded(model, X_new, probability)

    table = _write_predictions(out / "predictions.csv", clf.classes_, y_new, probability, budget, typicality)
    files = (model, table, out / "summary.txt", out / "describe.txt")
    known = budget[: len(y_test)]
    parts = {
        name: float(getattr(known, name).mean()) for name in ("total", "measurement", "model", "overlap")
    }
    demo = Demo(scores, parts, _flagged(typicality, y_new, clf.classes_), files, clf.describe())
    files[2].write_text(demo.summary(), encoding="utf-8")
    files[3].write_text(demo.description, encoding="utf-8")
    return demo


def _peers(X: Array, y: Labels, X_test: Array, y_test: Labels) -> dict[str, Scores]:
    """Score scikit-learn's QDA, which has no place for noise, on the two inputs that one can give it."""
    inputs = {
        "QDA on the means of the repeats": X.mean(1),
        "QDA on the first measurement only": X[:, 0],
    }
    scores = {}
    for name, values in inputs.items():
        # Scaled, because scikit-learn calls the covariance of unscaled reflectances singular.
        qda = make_pipeline(StandardScaler(), QuadraticDiscriminantAnalysis()).fit(values, y)
        scores[name] = Scores.of(y_test, qda.predict_proba(X_test), qda.classes_)
    return scores


def _check_loaded(file: Path, X: Array, probability: Array) -> None:
    if not np.array_equal(load_model(file).predict_proba(X), probability):
        raise RuntimeError(f"{file}: the model predicts otherwise after loading.")


def _flagged(typicality: Array, y: Labels, classes: Labels) -> dict[str, float]:
    unusual, known = typicality < UNUSUAL, np.isin(y, classes)
    shares = {"the new samples of the classes trained": float(unusual[known].mean())}
    for name in np.unique(y[~known]):
        shares[f"{name}, of which the model has never seen a sample"] = float(unusual[y == name].mean())
    return shares


def _write_predictions(
    file: Path, classes: Labels, y: Labels, probability: Array, budget: UncertaintyBudget, typicality: Array
) -> Path:
    parts = ("total", "measurement", "model", "overlap")
    columns = np.column_stack([probability, *(getattr(budget, part) for part in parts), typicality])
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target, lineterminator="\n")
        names = [f"P({name})" for name in classes]
        writer.writerow(["true_class", "class", *names, *(f"{part}_nats" for part in parts), "typicality"])
        for truth, k, row in zip(y, probability.argmax(1), columns, strict=True):
            writer.writerow([truth, classes[k], *(f"{value:.6g}" for value in row)])
    return file


def _score_table(scores: dict[str, Scores]) -> str:
    lines = [f"{'On the new samples':<36} log loss   Brier   accuracy"]
    for name, score in scores.items():
        lines.append(f"  {name:<34} {score.log_loss:8.3f} {score.brier:7.3f} {100 * score.accuracy:8.1f} %")
    return "\n".join(lines)


def _budget_text(budget: dict[str, float]) -> str:
    why = {
        "measurement": "a perfect measurement would take this away",
        "model": "more training data would take this away",
        "overlap": "nothing would: the classes overlap",
    }
    lines = [f"Uncertainty of a prediction of BayesianQDA, on average: {budget['total']:.3f} nat, of which"]
    lines += [f"  {100 * budget[part] / budget['total']:5.1f} %  {part:<12} {why[part]}" for part in why]
    return "\n".join(lines)
