"""The uncertainty budget of predictions, from drawn models and drawn true values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from uncover.bayes.budget import UncertaintyBudget, entropy, joint_table, split_by_draw
from uncover.bayes.niw import NIW, Gaussians
from uncover.bayes.second_order import LogDensityVariance, below_entropy, squared_distances
from uncover.measurement.predictor import MeasuredPoints

Array = NDArray[np.float64]

# Drawn models that are asked together, at least.
_FEWEST = 64
# True values at which drawn models are asked, at least and at most; of many one in so many.
_ASKED, _ONE_IN = (8, 128), 64


class Parts(NamedTuple):
    """Class probabilities of one reading, and the parts of their entropy."""

    probability: Array
    measurement: Array
    model: Array
    overlap: Array


@dataclass(frozen=True)
class ModelDraws:
    """Drawn class models, to ask how much the answer depends on the draw."""

    log_phi: Array  # (draw, component)
    gaussians: Gaussians
    variance: LogDensityVariance  # of the log densities over all models, in closed form

    @classmethod
    def of(
        cls,
        posterior: NIW,
        concentration: Array,
        known: NDArray[np.intp],
        n: int,
        rng: np.random.Generator,
    ) -> ModelDraws:
        """Draw n models of the known components, and proportions of all components."""
        log_phi = np.log(np.maximum(rng.dirichlet(concentration, n), np.finfo(float).tiny))
        variance = LogDensityVariance.of(posterior, concentration[known])
        return cls(log_phi[:, known], posterior.draw(n, rng), variance)

    def share(self, number: int, of: int) -> ModelDraws:
        """One of several equal shares of the draws; where these are too many, draws are in several shares."""
        n = len(self.log_phi)
        size = max(n // of, min(n, _FEWEST))
        rows = np.arange(number * size, (number + 1) * size) % n
        gaussians = Gaussians(*(part[rows] for part in self.gaussians))
        return ModelDraws(self.log_phi[rows], gaussians, self.variance)

    def split(self, points: Array, probability: Array, measured: MeasuredPoints) -> tuple[Array, Array]:
        """Model and overlap part at points whose class probabilities are given.

        The information that n draws have of the class is (n − 1)/n of what all models have, to second order.
        """
        log_odds = measured.components.log_odds(self.log_phi + self.gaussians.log_prob(points))
        information, rest = split_by_draw(joint_table(log_odds, probability))
        n = len(self.log_phi)
        model = np.asarray(np.minimum(information * n / max(n - 1, 1), information + rest))
        return model, information + rest - model

    def closed(self, points: Array, probability: Array, log_joint: Array, measured: MeasuredPoints) -> Array:
        """Model part at points to second order, by the form of maps."""
        far = squared_distances(measured.truth.predictive(), points)
        found = self.variance.of_classes(measured.components, probability, far, log_joint)
        return below_entropy(found, entropy(probability))


def split_entropy(
    measured: MeasuredPoints, models: ModelDraws | None, n_true_values: int, rng: np.random.Generator
) -> Parts:
    """Parts of the budget of the points of one reading: true values are drawn where the noise is known.

    ``models`` may be None where no feature is left.
    """
    joint = measured.log_joint()
    P = softmax(measured.components.log_odds(joint), axis=1)
    if measured.points.shape[1] == 0:
        return Parts(P, np.zeros(len(P)), np.zeros(len(P)), entropy(P))
    assert models is not None
    if not measured.noisy:
        return Parts(P, np.zeros(len(P)), *models.split(measured.points, P, measured))
    chi = measured.true_values(measured.components.probability(P, joint), n_true_values, rng)
    return _split_at_true_values(measured, P, chi, models)


def _split_at_true_values(measured: MeasuredPoints, P: Array, chi: Array, models: ModelDraws) -> Parts:
    """Measurement: what knowing χ would tell; the rest is split into model and overlap at each χ.

    The model part is in closed form at all χ, times the ratio of drawn models to it at some of them.
    """
    n_samples, n, _ = chi.shape
    flat = chi.reshape(n_samples * n, -1)
    joint = measured.log_prior + measured.truth.predictive().log_prob(flat)
    at_truth = measured.components.log_odds(joint)
    at_truth = at_truth - logsumexp(at_truth, axis=1, keepdims=True)
    table = joint_table(at_truth.reshape(n_samples, n, -1), P)
    measurement, rest = split_by_draw(table)
    weight = table.sum(-1)
    rows = table / np.where(weight > 0, weight, 1.0)[..., None]
    each = models.closed(flat, rows.reshape(n_samples * n, -1), joint, measured)
    closed = weight * each.reshape(n_samples, n)
    # The first of Sobol's points lie evenly; every 64th would lie in one corner. Each true value asked
    # has models of its own: errors of the draws average out.
    asked = min(n, int(np.clip(n // _ONE_IN, *_ASKED)))
    split = [models.share(i, asked).split(chi[:, i], rows[:, i], measured)[0] for i in range(asked)]
    drawn, same = (weight[:, :asked] * np.stack(split, axis=1)).sum(1), closed[:, :asked].sum(1)
    ratio = np.divide(drawn, same, out=np.ones_like(drawn), where=same > 0)
    model = np.minimum(ratio * closed.sum(1), rest)
    return Parts(P, measurement, model, rest - model)


def average_budgets(readings: list[Parts]) -> UncertaintyBudget:
    """Budget of class probabilities averaged over readings: what averaging adds is measurement."""
    mean_P, model, overlap, inner, each = (
        np.asarray(sum(parts) / len(readings))
        for parts in (
            [r.probability for r in readings],
            [r.model for r in readings],
            [r.overlap for r in readings],
            [r.measurement for r in readings],
            [entropy(r.probability) for r in readings],
        )
    )
    total = entropy(mean_P)
    between = np.maximum(total - each, 0.0)
    return UncertaintyBudget(total, model, between + inner, overlap)
