"""Class probabilities under errors that all pixels of a map share: worlds, and drawn class models."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from uncover.bayes.streams import stream
from uncover.measurement.class_prediction import Prediction
from uncover.measurement.class_shares import gaussians_of, log_changes, true_values
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import Planes
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool, of_draws

Array = NDArray[np.float64]

#: Drawn class models, and worlds at most.
MODELS, _WORLDS = 64, 50
#: Numbers (float64) that a block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 23, 32


class CommonErrors:
    """Probabilities of pixels in each world, and by each drawn model: the same draw for all pixels.

    Areas are sums of probabilities. Over pixels, what these errors do does not average out.

    Parameters
    ----------
    value : GaussianClasses or Pool
    realisations : int
        Of each pixel.
    paired : bool
        Whether the pixels are of the scene that trained the model.
    systematic : array of shape (feature, feature), optional
        Covariance of an error of the scene that is not drawn as worlds: it is drawn here.

    Examples
    --------
    >>> from uncover import BayesianQDA
    >>> y = np.arange(60) % 2
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + 2.0 * y[:, None]
    >>> errors = CommonErrors(BayesianQDA().fit(X, y).model_, 1, paired=True)
    >>> worlds, models = errors.read(Planes(X.T[None]))
    >>> worlds.shape, models.shape
    ((0, 60, 2), (64, 60, 2))
    """

    def __init__(
        self,
        value: GaussianClasses | Pool,
        realisations: int,
        *,
        paired: bool,
        systematic: Array | None = None,
    ) -> None:
        self.value, self.realisations, self.paired = value, realisations, paired
        self.systematic = None if paired else systematic

    @cached_property
    def n_worlds(self) -> int:
        """Worlds that pixels are read in; 0 where no shared error of the measurement is known."""
        if self.systematic is not None:
            return _WORLDS
        if self.realisations == 1 or self.value.realisations in ("draws", "repeats"):
            return 0
        return min(self.realisations, _WORLDS)

    def read(self, given: Planes) -> tuple[Array, Array]:
        """Probabilities in each world (world, pixel, class), and by each drawn model (draw, pixel, class)."""
        given = given.marked()
        n, p = given.numbers.shape[2], given.numbers.shape[1]
        size = max(_FEWEST, _BLOCK_NUMBERS // ((len(given) + self.n_worlds + MODELS) * (p + 8) * 8))
        parts = [self.of(given.pixels(slice(i, min(i + size, n))).observation) for i in range(0, n, size)]
        worlds, models = zip(*parts, strict=True)
        return np.concatenate(worlds, axis=1), np.concatenate(models, axis=1)

    def of(self, seen: Observation) -> tuple[Array, Array]:
        """The same of some samples, read at once."""
        if self.n_worlds and self.systematic is None and not self._by_pairs:
            views = np.moveaxis(self._predicted(seen).by_view(), 1, 0)
            several = len(views) > 1 and not isinstance(self.value, Pool)
            models = self._by_models(seen, views.mean(axis=0)[None] if several else None)
            return self._of_views(seen, views), models
        models = self._by_models(seen)
        if not self.n_worlds:
            return np.zeros((0, *models.shape[1:])), models
        if self.systematic is not None:
            each = [self._probability(self._moved(seen, error)) for error in self._errors]
        else:
            each = self._of_pairs(seen)
        return np.stack(each), models

    # ---- worlds ------------------------------------------------------------------------------------

    @cached_property
    def _errors(self) -> Array:
        """Draws of the error that is not in realisations: (world, feature)."""
        assert self.systematic is not None
        values, vectors = np.linalg.eigh(self.systematic)
        normal = stream(0, "systematic effects of areas").standard_normal((_WORLDS // 2, len(values)))
        normal = np.concatenate([normal, -normal])  # their mean is 0
        return np.asarray(normal * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)

    def _moved(self, seen: Observation, error: Array) -> Observation:
        return replace(seen, X=seen.X + error)

    def _probability(self, seen: Observation) -> Array:
        return np.asarray(self._predicted(seen).probability(), np.float64)

    def _predicted(self, seen: Observation) -> Prediction | PoolPrediction:
        if isinstance(self.value, Pool):
            return PoolPrediction(self.value, seen, paired=self.paired, quick=True)
        return Prediction(Predictor.of(self.value, paired=self.paired, method="fast"), seen)

    @property
    def _by_pairs(self) -> bool:
        """True where errors of two scenes make a world, and Gaussian classes read them pair by pair."""
        return (
            isinstance(self.value, GaussianClasses)
            and self.value.realisations == "shared"
            and not self.paired
        )

    def _of_pairs(self, seen: Observation) -> list[Array]:
        """By pairs of a realisation and a world of the model, through the noise that both scenes have."""
        assert isinstance(self.value, GaussianClasses)
        predictor = Predictor.of(self.value, paired=False, method="fast")
        pairs = predictor.kind.pairs(self.realisations, predictor.pairing)
        out = np.empty((self.n_worlds, len(seen), len(self.value.classes)))
        for rows, (mean,) in predictor.blocks(seen, extra=self.n_worlds):
            used = ~np.isnan(np.asarray(seen.X[rows[0]], np.float64)).any(0) & self.value.used_features
            for i, (realisation, world) in enumerate(pairs[: self.n_worlds]):
                models = predictor.class_models(
                    replace(predictor.readings(seen.structure)[0], world=world), used
                )
                points = seen.X[rows, realisation][:, used]
                moved = replace(mean, points=points, models=models, world=world, method="fast")
                out[i, rows] = self.value.among_all_classes(softmax(moved.log_odds(), axis=1), 0.0)
        return list(out)

    def _of_views(self, seen: Observation, views: Array) -> Array:
        """By the readings of the model, or where it reads all at once by each realisation alone."""
        if len(views) > 1:
            return np.asarray(views[: self.n_worlds])
        alone = (replace(seen, X=seen.X[:, r]) for r in range(self.n_worlds))
        return np.stack([self._probability(each) for each in alone])

    # ---- models ------------------------------------------------------------------------------------

    def _by_models(self, seen: Observation, answers: Array | None = None) -> Array:
        """By draws of the parameters of the Gaussian classes, and of the exponents of a pool.

        The log odds of the model, `answers` where they are known, are moved by what drawn parameters change
        in the log densities.
        """
        value, gaussians = self.value, gaussians_of(self.value)
        answers = self._answers(seen) if answers is None else answers  # (draw or 1, pixel, class)
        log_P = np.log(np.maximum(answers, np.finfo(float).tiny))
        changes = log_changes(gaussians, true_values(value, seen), MODELS)
        # A model of pooled realisations has counted each sample as many times as it has rows.
        many = np.sqrt(max(gaussians.rows_per_sample, 1.0)) if gaussians.kind.counts_rows else 1.0
        moved = gaussians.among_all_classes(many * changes, 0.0)
        return np.asarray(softmax(log_P + moved, axis=-1))

    def _answers(self, seen: Observation) -> Array:
        """Probabilities by each draw of the exponents, or those of one model: (draw or 1, pixel, class)."""
        predicted = self._predicted(seen)
        if not isinstance(predicted, PoolPrediction):
            return np.asarray(predicted.probability(), np.float64)[None]
        pool = predicted.pool
        rows = np.linspace(0, len(pool.exponents) - 1, MODELS).astype(np.intp)
        drawn = of_draws(predicted.probabilities, predicted.gates, pool.exponents[rows], pool.log_shares)
        return pool.shifted(drawn)
