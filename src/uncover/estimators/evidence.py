"""The evidence of a fitted model, for comparing models of the same data, and the prior that has none."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.deconvolved import DeconvolvedNIW
from uncover.bayes.jeffreys import JeffreysPrior


class NoEvidenceError(ValueError, AttributeError):
    """Raised where a model has no evidence: its prior is no distribution, or no closed form is known."""


class EvidenceMixin:
    """What GenerativeClassifier says about its evidence."""

    @property
    def log_evidence_(self):
        """Log marginal likelihood of the training samples given their classes, log p(X | y).

        With a prior of strength > 0 it is that of the samples. With ``prior="evidence"``, whose means are
        free, it is that of the deviations from the class means (as many as samples less classes): comparable
        between models of the same samples and features with that prior. Where a sample counts for several
        rows (``"pooled"``), they count as one; over worlds (``"shared"``) it is the mean.
        """
        check_is_fitted(self)
        if isinstance(self.posterior_, DeconvolvedNIW):
            raise NoEvidenceError(
                "a model that was learned through known noise has no evidence in closed form; compare models "
                "by held-out samples."
            )
        rows = self.statistics_.rows_per_sample(self._kind())
        moments = self.statistics_.classes.select_features(~self.ignored_features_)
        if isinstance(self.prior, str) and self.prior == "evidence":
            total = self._restricted_evidence(self.prior_, moments, rows)
        elif np.all(self.prior_.strength > 0):
            total = np.sum(self._log_evidence(self.prior_, moments))
        else:
            raise NoEvidenceError(
                "the evidence does not exist for a prior of strength 0 (a flat prior of the mean is not a "
                'distribution). Use prior="evidence" or a NIW with strength > 0.'
            )
        return float(total) / (self._n_worlds() or 1)

    def _log_evidence(self, prior, moments):
        """Return the log evidence under a proper prior; one number, or one for each class."""
        return prior.log_evidence(moments)

    def _restricted_evidence(self, prior, moments, rows_per_sample):
        """Return the log evidence of the deviations from the class means, under ``prior="evidence"``."""
        raise NoEvidenceError(f"{type(self).__name__} has no closed-form evidence.")


def jeffreys_prior(model, moments, measured):
    """Return the improper prior, where there are samples enough to make a posterior of it."""
    if measured is not None:
        raise ValueError(
            'prior="jeffreys" has no spread to expect, and known noise leaves none for certain; use '
            'prior="weak" or "evidence" with X_cov and draws.'
        )
    lacking = model._lacking_for_jeffreys(moments.count.reshape(-1, len(model.classes_)), moments.n_features)
    if lacking:
        raise ValueError(f'{lacking} Use prior="weak" or "evidence".')
    return JeffreysPrior.of(moments)


def too_small_for_jeffreys(classes, count, least):
    """Say which class has ``least`` samples or fewer, by the counts (world, class); None if none has."""
    short = (count <= least).any(0)
    if not short.any():
        return None
    k = int(np.argmax(short))
    return (
        f'class {str(classes[k])!r} has {count[0, k]:g} samples; prior="jeffreys" needs more than {least:g} '
        "of each class."
    )
