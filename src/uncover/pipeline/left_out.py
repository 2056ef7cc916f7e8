"""A model beside samples that it has not seen: does it claim more than comes true?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.base import ClassifierMixin, clone

from uncover.bayes.streams import stream
from uncover.estimators.groups import divide
from uncover.pipeline.training_sources import Batch, FitOptions, TrainingSource
from uncover.progress import part_of
from uncover.warn import warn

#: Samples that are looked at: enough for an interval of one or two per cent, few enough to fit again.
MOST_CHECKED = 9000
#: Parts that are left out, one after the other, until so many groups have been left out.
PARTS, ENOUGH = 3, 100
#: Fewest samples that say anything.
FEWEST = 30
#: Excess of the mean claimed probability over the share right from which on there is a warning.
EXCESS = 0.02
_LEVEL = 0.95
_LEAST_PROBABILITY = 1e-12


class TooSureWarning(UserWarning):
    """A model claims more than comes true of samples that it has not seen."""


@dataclass(frozen=True)
class Checked:
    """Keeps a share of the samples that pass, at random, for a check after the fit."""

    share: float
    rng: np.random.Generator
    batches: list[Batch] = field(default_factory=list)

    @classmethod
    def of(cls, sources: Sequence[TrainingSource], options: FitOptions) -> Checked:
        """About `MOST_CHECKED` of all drawn samples."""
        drawn = sum(sum(source.drawn.values()) for source in sources)
        return cls(MOST_CHECKED / max(drawn, 1), stream(options.seed, "left-out check"))

    def seen(self, batch: Batch) -> Batch:
        """Return a batch as it is, and keep some of it."""
        some = self.rng.random(len(batch.classes)) < self.share
        if some.any():
            self.batches.append(batch if some.all() else batch.take(some))
        return batch


def left_out_check(
    model: ClassifierMixin, samples: Batch, measured: Callable[[Batch], Any], *, calibrates: bool
) -> dict[str, Any]:
    """Compare what clones of a model claim of the parts that they were fitted without with what is true.

    ``measured`` makes the input of ``fit`` and ``predict_proba`` of samples; ``calibrates`` says whether
    ``fit`` takes groups. Groups are left out whole, and samples next to others do not count.
    """
    codes = np.unique(samples.classes, return_inverse=True)[1].ravel()
    if len(codes) < FEWEST:
        raise ValueError(f"{len(codes)} samples are too few")
    group = np.arange(len(codes))
    if samples.groups is not None:
        group = np.unique(samples.groups, return_inverse=True)[1].ravel()
        if group.max() < PARTS:
            raise ValueError(f"{group.max() + 1} groups are too few")
    claimed, right, of_true = np.full((3, len(codes)), np.nan)
    part = divide(codes, None if samples.groups is None else group, PARTS, stream(0, "parts left out"))
    inner = np.ones(len(codes), bool) if samples.inner is None else samples.inner
    for number in range(PARTS):
        if len(np.unique(group[np.isfinite(claimed) & inner])) >= ENOUGH:
            break
        out, rest = part == number, samples.take(part != number)
        how: dict[str, Any] = {}
        if calibrates and rest.groups is not None:
            how = {"groups": rest.groups, "scored": rest.inner}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said of all samples, where it holds for them
            with part_of("checking with samples left out", number, PARTS):
                fitted = clone(model).fit(measured(rest), rest.classes, **how)
            P = fitted.predict_proba(measured(samples.take(out)))
        known = np.isin(samples.classes[out], fitted.classes_)
        place = np.searchsorted(fitted.classes_, samples.classes[out][known])
        at = np.flatnonzero(out)[known]
        claimed[at], right[at] = P[known].max(1), P[known].argmax(1) == place
        of_true[at] = P[known, place]
    counts = np.isfinite(claimed) & inner
    if counts.sum() < FEWEST:
        raise ValueError(f"{counts.sum()} samples that count are too few")
    loss = -np.log(np.maximum(of_true[counts], _LEAST_PROBABILITY))
    value, low, high = mean_with_interval((claimed - right)[counts], group[counts])
    return {
        "samples": int(counts.sum()),
        "groups": None if samples.groups is None else len(np.unique(group[counts])),
        "right": float(right[counts].mean()),
        "claimed": float(claimed[counts].mean()),
        "excess": {"value": value, "lower": low, "upper": high},
        "log loss": float(loss.mean()),
    }


def mean_with_interval(values: Any, groups: Any) -> tuple[float, float, float]:
    """Mean of values, of which those of a group belong together, with its 95 % interval.

    The mean is a ratio of sums over G groups; its linearised variance is G/(G − 1) Σ_g (S_g − n_g m)²/n².

    >>> mean_with_interval(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]))[0]
    0.5
    """
    mean, names = float(np.mean(values)), np.unique(groups, return_inverse=True)[1].ravel()
    apart = np.bincount(names, values - mean)
    G = len(apart)
    if G < 2:
        return mean, -np.inf, np.inf
    error = float(np.sqrt(G / (G - 1) * (apart**2).sum())) / len(values)
    margin = float(stdtrit(G - 1, 0.5 + _LEVEL / 2)) * error
    return mean, mean - margin, mean + margin


def warn_of_excess(found: Mapping[str, Any], model: str) -> None:
    """Warn where such a model claims more than comes true: by more than `EXCESS`, and beyond its interval."""
    excess = found["excess"]
    if excess["value"] > EXCESS and excess["lower"] > 0:
        warn(
            f"the model is too sure where it was not trained: it claims {found['claimed']:.1%} and is right "
            f"in {found['right']:.1%} of what was left out, {100 * excess['value']:.1f} points too much "
            f"({100 * excess['lower']:.1f} to {100 * excess['upper']:.1f}); label more places"
            + ("" if model == "recommended" else ", or use --model recommended"),
            TooSureWarning,
        )


def left_out_in_words(found: Mapping[str, Any]) -> str:
    """Result of a check, in a sentence.

    >>> left_out_in_words({"not checked": "4 samples are too few"})
    'not checked with samples left out: 4 samples are too few'
    """
    if "not checked" in found:
        return f"not checked with samples left out: {found['not checked']}"
    ends = found["excess"]
    of = f"{found['samples']:,} samples" + (f" in {found['groups']:,} groups" if found["groups"] else "")
    return (
        f"of {of} left out, {found['right']:.1%} are right and {found['claimed']:.1%} claimed: "
        f"{100 * ends['value']:+.1f} points ({100 * ends['lower']:+.1f} to {100 * ends['upper']:+.1f}); log "
        f"loss {found['log loss']:.3f}"
    )
