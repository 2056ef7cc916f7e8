"""The uncertainty budget of predictions, from drawn models and drawn true values."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from uncover.bayes.budget import UncertaintyBudget, entropy, joint_table, split_by_draw
from uncover.bayes.niw import Gaussians
from uncover.bayes.noise import sample_true_value
from uncover.bayes.second_order import LogDensityVariance, below_entropy, second_order, squared_distances

# Drawn models that are asked together, at least.
_FEWEST = 64
# True values at which drawn models are asked, at least and at most; of many one in so many.
_ASKED, _ONE_IN = (8, 128), 64


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
    variance: LogDensityVariance  # of the log densities over all models, in closed form

    @classmethod
    def of(cls, posterior, concentration, known, n, rng):
        """Draw n models of the known classes, and proportions of all classes."""
        log_phi = np.log(np.maximum(rng.dirichlet(concentration, n), np.finfo(float).tiny))
        variance = LogDensityVariance.of(posterior, concentration[known])
        return cls(log_phi[:, known], posterior.draw(n, rng), variance)

    def share(self, number, of):
        """One of several equal shares of the draws; where these are too many, draws are in several shares."""
        n = len(self.log_phi)
        size = max(n // of, min(n, _FEWEST))
        rows = np.arange(number * size, (number + 1) * size) % n
        gaussians = Gaussians(*(part[rows] for part in self.gaussians))
        return ModelDraws(self.log_phi[rows], gaussians, self.variance)

    def split(self, points, probability, sight):
        """Model and overlap part at points whose class probabilities are given.

        The information that n draws have of the class is (n − 1)/n of what all models have, to second order.
        """
        log_odds = sight.odds_of(self.log_phi + self.gaussians.log_prob(points))
        information, rest = split_by_draw(joint_table(log_odds, probability))
        n = len(self.log_phi)
        model = np.minimum(information * n / max(n - 1, 1), information + rest)
        return model, information + rest - model

    def closed(self, points, probability, log_joint, sight):
        """Model part at points to second order, by the form of maps."""
        far = squared_distances(sight.truth.predictive(), points)
        if sight.folding is None:
            found = self.variance.tempered(sight.temperature).information(probability, far)
        else:
            found = second_order(probability, sight.folding.variance(log_joint, self.variance.at(far)))
        return below_entropy(found, entropy(probability))


def split_sight(sight, models, n_true_values, rng):
    """Parts of the budget of one sight: true values are drawn where the noise is known."""
    joint = sight.log_joint()
    P = softmax(sight.odds_of(joint), axis=1)
    if sight.points.shape[1] == 0:
        return Parts(P, np.zeros(len(P)), np.zeros(len(P)), entropy(P))
    if not sight.noisy:
        return Parts(P, np.zeros(len(P)), *models.split(sight.points, P, sight))
    chi = _draw_true_values(sight, sight.of_parts(P, joint), n_true_values, rng)
    return _split_at_true_values(sight, P, chi, models)


def _draw_true_values(sight, P, n, rng):
    """Draw true values given the measured points: (sample, draw, feature), from Σ_k P_k p(χ | x, k)."""
    truth = sight.truth.predictive()
    drawn = np.stack(
        [sample_true_value(truth[k], sight.points, sight.full_noise(k), n, rng) for k in range(P.shape[1])]
    )
    cumulated = P.cumsum(axis=1)
    level = (np.arange(n) + 0.5) / n * cumulated[:, -1:]
    k = np.minimum((cumulated[:, None, :] < level[:, :, None]).sum(-1), P.shape[1] - 1)
    return drawn[k, np.arange(len(P))[:, None], np.arange(n)]


def _split_at_true_values(sight, P, chi, models):
    """Measurement: what knowing χ would tell; the rest is split into model and overlap at each χ.

    The model part is in closed form at all χ, times the ratio of drawn models to it at some of them.
    """
    n_samples, n, _ = chi.shape
    flat = chi.reshape(n_samples * n, -1)
    joint = sight.log_prior + sight.truth.predictive().log_prob(flat)
    at_truth = sight.odds_of(joint)
    at_truth = at_truth - logsumexp(at_truth, axis=1, keepdims=True)
    table = joint_table(at_truth.reshape(n_samples, n, -1), P)
    measurement, rest = split_by_draw(table)
    weight = table.sum(-1)
    rows = table / np.where(weight > 0, weight, 1.0)[..., None]
    closed = weight * models.closed(flat, rows.reshape(n_samples * n, -1), joint, sight).reshape(n_samples, n)
    # Each true value that is asked has models of its own: errors of the draws average out.
    count = min(n, int(np.clip(n // _ONE_IN, *_ASKED)))
    asked = (2 * np.arange(count) + 1) * n // (2 * count)
    each = [models.share(i, count).split(chi[:, s], rows[:, s], sight)[0] for i, s in enumerate(asked)]
    drawn, same = (weight[:, asked] * np.stack(each, axis=1)).sum(1), closed[:, asked].sum(1)
    ratio = np.divide(drawn, same, out=np.ones_like(drawn), where=same > 0)
    model = np.minimum(ratio * closed.sum(1), rest)
    return Parts(P, measurement, model, rest - model)


def average_budgets(views):
    """Budget of class probabilities averaged over views: what averaging adds is measurement."""
    mean_P = sum(view.probability for view in views) / len(views)
    total = entropy(mean_P)
    model = sum(view.model for view in views) / len(views)
    overlap = sum(view.overlap for view in views) / len(views)
    inner = sum(view.measurement for view in views) / len(views)
    between = total - sum(entropy(view.probability) for view in views) / len(views)
    return UncertaintyBudget(total, model, np.maximum(between, 0.0) + inner, overlap)
