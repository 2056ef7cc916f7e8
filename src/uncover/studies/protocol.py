"""One model on one split: fitted, asked, scored and timed. What cannot be trained is a result, too."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from uncover.bayes.streams import stream
from uncover.estimators.base import GenerativeClassifier
from uncover.metrics import (
    SCORE_NAMES,
    Bootstrap,
    ScoreSums,
    joined_groups,
    percentile_interval,
    score_replicates,
)
from uncover.studies.models import MODELS

Array = NDArray[Any]

#: Put under probabilities in the cross-entropy; how many lay below it is counted beside it as `zeros`.
FLOOR = float(np.finfo(np.float64).eps)

#: Work of fewer CPU seconds is timed again, so often, when it is warm.
BRIEF, REPEATS = 1.0, 3


@dataclass(frozen=True)
class Split:
    """Training and test data of a model; classes are codes 0 … K−1."""

    X: Array  # (sample, realisation, feature)
    y: Array  # (sample,)
    X_test: Array
    y_test: Array
    shares: Array  # (class,), prior shares q, which weight F and normalise the other scores
    groups: Array | None = None  # (test sample,), what the bootstrap draws together
    paired: bool = False  # training and test are of one scene: world r is world r in both


class CellOfModels:
    """A cell of some models, after which it is called; its result has one entry or more for each."""

    models: tuple[str, ...]

    @property
    def who(self) -> str:
        """The first model, and whether there are others."""
        return self.models[0].replace(" ", "-") + ("-and-others" if len(self.models) > 1 else "")

    def complete(self, result: Mapping[str, Any]) -> bool:
        """All models are in the result."""
        return {one["model"] for one in result["models"]} >= set(self.models)


@dataclass(frozen=True)
class BootstrapPlan:
    """Number of draws, and a switch to keep each draw's scores: two models' draws can then be paired."""

    draws: int = 200
    seed: int = 0
    keep: bool = False


def assess(name: str, split: Split, seed: int, plan: BootstrapPlan | None = None) -> dict[str, Any]:
    """Fit a model of `MODELS`, predict, score; a JSON object.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 3, 2)) + 3.0 * y[:, None, None]
    >>> split = Split(X[:40], y[:40], X[40:], y[40:], np.array([0.5, 0.5]))
    >>> found = assess("LDA", split, seed=0)
    >>> found["trained"], found["scores"]["f1"] > 0.9, found["confusion"]
    (True, True, [[10.0, 0.0], [0.0, 10.0]])
    """
    return assess_each(name, [split], seed, plan)[0]


def assess_each(
    name: str, splits: Sequence[Split], seed: int, plan: BootstrapPlan | None = None
) -> list[dict[str, Any]]:
    """Assess a model on splits with the same training samples, to which it is fitted once."""
    model = MODELS[name].make(model_seed(seed, name))
    first = splits[0]
    try:
        _, seconds, complaints = _timed(partial(model.fit, first.X, first.y))
    except (ValueError, np.linalg.LinAlgError) as error:
        return [_not_trained(name, error) for _ in splits]
    fitted = {"model": name, "trained": True, "fit_seconds": seconds}
    found = []
    for split in splits:
        try:
            probability, seconds, more = _timed(partial(_probabilities, model, split))
            log_p = _logarithms(model, split, probability)
        except (ValueError, np.linalg.LinAlgError) as error:
            found.append(_not_trained(name, error))
            continue
        asked = {"predict_seconds": seconds, "warnings": sorted(complaints | more)}
        found.append({**fitted, **asked, **scored(split, log_p, plan or BootstrapPlan())})
    return found


def _timed(work: Callable[[], Any]) -> tuple[Any, float, set[str]]:
    """Return the result of some work, its CPU seconds and its warnings.

    The first call loads libraries and kernels. Work that is not much longer than that is done again, and the
    median of the later times counts.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done, seconds = _once(work)
        if seconds < BRIEF:
            seconds = float(np.median([_once(work)[1] for _ in range(REPEATS)]))
    return done, seconds, {_first_sentence(w.message) for w in caught}


def _once(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.process_time()
    done = work()
    return done, time.process_time() - began


def cpu_seconds(names: Sequence[str], splits: Sequence[Split], seed: int) -> tuple[float, float]:
    """CPU seconds of training some models, and of asking them for all splits, each done once."""
    fit = ask = 0.0
    for name in names:
        model = MODELS[name].make(model_seed(seed, name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit += _once(partial(model.fit, splits[0].X, splits[0].y))[1]
                ask += sum(_once(partial(_probabilities, model, split))[1] for split in splits)
            except (ValueError, np.linalg.LinAlgError):
                continue  # what cannot be trained takes no time
    return fit, ask


def _not_trained(name: str, error: Exception) -> dict[str, Any]:
    return {"model": name, "trained": False, "why": " ".join(str(error).split())}


def scored(split: Split, log_p: Array, plan: BootstrapPlan) -> dict[str, Any]:
    """Scores with bootstrap intervals, and the confusion matrix (predicted class by true class)."""
    n = len(split.y_test)
    groups = joined_groups(np.arange(n) if split.groups is None else split.groups, seed=plan.seed)
    sums = ScoreSums.of(
        split.y_test, np.exp(log_p).clip(0, 1), groups=groups, floor=FLOOR, log_probabilities=log_p
    )
    total = sums.total()
    bootstrap = Bootstrap.of_groups(sums.weight.size, plan.draws, plan.seed)
    replicates, scores = score_replicates(sums, split.shares, bootstrap), total.scores(split.shares)
    found = {
        "scores": {name: float(getattr(scores, name)) for name in SCORE_NAMES},
        "intervals": {name: [float(e) for e in percentile_interval(v)] for name, v in replicates.items()},
        "zeros": int(total.zeros),
        "confusion": total.confusion.tolist(),
    }
    if plan.keep:
        found["replicates"] = {name: v.tolist() for name, v in replicates.items()}
    return found


def _probabilities(model: ClassifierMixin, split: Split) -> Array:
    """Class probabilities of the test samples for the classes of the model."""
    return model.predict_proba(split.X_test, **_pairing(model, split))


def _pairing(model: ClassifierMixin, split: Split) -> dict[str, bool]:
    """Worlds of a shared error are asked for as pairs, or not."""
    shared = isinstance(model, GenerativeClassifier) and model.realisations == "shared"
    return {"paired": split.paired} if shared else {}


def _logarithms(model: ClassifierMixin, split: Split, found: Array) -> Array:
    """Logarithms for all K classes; −∞ for classes that training did not have.

    Where a probability underflows to zero, BQDA still knows its logarithm.
    """
    if not np.isfinite(found).all():
        raise ValueError("the class probabilities are not numbers.")
    with np.errstate(divide="ignore"):
        logs = np.log(found)
    lost = (found == 0).any(axis=1)
    if lost.any() and isinstance(model, GenerativeClassifier):
        logs[lost] = model.predict_log_proba(split.X_test[lost], **_pairing(model, split))
    every = np.full((len(found), len(split.shares)), -np.inf)
    every[:, model.classes_] = logs
    return every


def model_seed(seed: int, name: str) -> int:
    """The seed of a model in a study with that seed."""
    return int(stream(seed, "model", name).integers(2**31))


def _first_sentence(message: object) -> str:
    return " ".join(str(message).split()).split(". ")[0][:120]
