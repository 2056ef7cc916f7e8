"""The uncertainty budget of predictions, from drawn models and drawn true values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from uncover.bayes.budget import UncertaintyBudget, entropy, joint_table, split_by_draw
from uncover.bayes.niw import Gaussians
from uncover.bayes.noise import sample_true_value


class Parts(NamedTuple):
    """Class probabilities of one view, and the parts of their entropy."""

    probability: np.ndarray
    measurement: np.ndarray
    model: np.ndarray
    overlap: np.ndarray


@dataclass(frozen=True)
class ModelDraws:
    """Drawn class models, to ask how much the answer depends on the draw."""

    log_phi: np.ndarray  # (draw, class)
    gaussians: Gaussians

    @classmethod
    def of(cls, posterior, concentration, known, n, rng):
        """Draw n models of the known classes, and proportions of all classes."""
        log_phi = np.log(np.maximum(rng.dirichlet(concentration, n), np.finfo(float).tiny))
        return cls(log_phi[:, known], posterior.draw(n, rng))

    def split(self, points, probability):
        """Model and overlap part at points whose class probabilities are given."""
        log_weight = self.log_phi + self.gaussians.log_prob(points)
        return split_by_draw(joint_table(log_weight, probability))


def split_with_true_values(points, P, log_prior, reading, models, n, rng):
    """Budget of measured points of which the noise is known: true values drawn, then split."""
    truth = reading.truth.predictive()
    drawn = np.stack(
        [sample_true_value(truth[k], points, reading.full_noise, n, rng) for k in range(P.shape[1])]
    )
    cumulated = P.cumsum(axis=1)
    level = rng.random((len(P), n)) * cumulated[:, -1:]
    k = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(-1), P.shape[1] - 1)
    chi = drawn[k, np.arange(len(P))[:, None], np.arange(n)]  # (sample, draw, feature)
    flat = chi.reshape(-1, chi.shape[-1])
    at_truth = log_prior + truth.log_prob(flat)
    at_truth -= logsumexp(at_truth, axis=1, keepdims=True)
    table = joint_table(at_truth.reshape(len(P), n, -1), P)
    measurement, _ = split_by_draw(table)
    weight = table.sum(-1)
    rows = table / np.where(weight > 0, weight, 1.0)[..., None]
    model, _ = models.split(flat, rows.reshape(len(flat), -1))
    model = (weight * model.reshape(len(P), n)).sum(1)
    model = np.minimum(model, entropy(P) - measurement)
    return Parts(P, measurement, model, entropy(P) - measurement - model)


def average_budgets(views):
    """Budget of class probabilities averaged over views: what averaging adds is measurement."""
    mean_P = sum(view.probability for view in views) / len(views)
    total = entropy(mean_P)
    model = sum(view.model for view in views) / len(views)
    overlap = sum(view.overlap for view in views) / len(views)
    inner = sum(view.measurement for view in views) / len(views)
    between = total - sum(entropy(view.probability) for view in views) / len(views)
    return UncertaintyBudget(total, model, np.maximum(between, 0.0) + inner, overlap)
