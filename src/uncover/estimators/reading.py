"""Class models as they apply to one view of the input."""

from dataclasses import dataclass

import numpy as np

from uncover.bayes.niw import NIW
from uncover.bayes.noise import log_prob_with_noise
from uncover.bayes.student_t import IndependentT, StudentT


@dataclass(frozen=True)
class Reading:
    """Class models as they apply to one view of the input.

    ``noise`` is what the points carry on top of the predictive's own noise. ``truth`` describes true values
    and ``full_noise`` all of the noise of the points: None where the two cannot be told apart.
    """

    predictive: StudentT | IndependentT
    posterior: NIW
    noise: np.ndarray | None = None
    truth: NIW | None = None
    full_noise: np.ndarray | None = None

    def log_density(self, points):
        """Log density of points (sample, feature) for each class: (sample, class)."""
        if self.noise is None:
            return self.predictive.log_prob(points)
        n_classes = self.predictive.batch_shape[-1]
        each = [log_prob_with_noise(self.predictive[k], points, self.noise) for k in range(n_classes)]
        return np.stack(each, axis=-1)

    def typicality(self, points):
        """p-value of points for each class; with noise, that of the moment-matched Student t."""
        density = self.predictive if self.noise is None else self.predictive.plus_noise(self.noise)
        return density.typicality(points)
