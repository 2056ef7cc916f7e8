"""What a fitted model says about itself: its parameters and its five sources of uncertainty."""

from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uncover.estimators.describe import describe


class Measurement(NamedTuple):
    """What a fitted model knows of the measurement uncertainty of its training data."""

    realisations: str  # what several realisations of one sample were taken to mean; "known" for X_cov
    number: int  # R, of each sample; 0 where it varied
    covariance: np.ndarray | None  # (feature, feature) of one realisation; of the common error if "shared"
    dof: float  # degrees of freedom of that estimate; infinite where it was given
    systematic: np.ndarray | None  # (feature, feature), given for an error that all samples share


class SourcesMixin:
    """The sources of uncertainty of a fitted model, by name."""

    @property
    def measurement_(self):
        """What is known of the measurement uncertainty of the training data."""
        worlds, statistics = self._n_worlds(), self.statistics_
        if self.known_noise_ is not None:
            return Measurement("known", 1, self.known_noise_, np.inf, self.systematic_)
        if worlds is None:
            noise, dof = statistics.noise, statistics.within_dof
            return Measurement(self.realisations, statistics.realisations, noise, dof, self.systematic_)
        centre = statistics.classes.sum(-1).mean
        covariance = np.atleast_2d(np.cov(centre.T)) if worlds > 1 else None
        return Measurement(self.realisations, worlds, covariance, worlds - 1.0, self.systematic_)

    @property
    def sources_(self):
        """The five sources of uncertainty of the method, by name."""
        return {
            "class prior": self.class_prior_,
            "model prior": self.prior_,
            "measurement": self.measurement_,
            "model posterior": self.posterior_,
            "class posterior": self.class_posterior_,
        }

    def describe(self):
        """Return a page of text on the fitted model and its five sources of uncertainty."""
        check_is_fitted(self)
        return describe(self)

    def save(self, path, *, units=None, provenance=None, features=None):
        """Write the fitted model to a file of arrays and JSON; :func:`uncover.load_model` reads it.

        Parameters
        ----------
        path : str or path
        units : str, optional
            Units of the features, such as "reflectance".
        provenance : dict, optional
            Where the model comes from: anything that JSON can hold.
        features : dict, optional
            What the features are, as `uncover.measurement.Features.as_dict` gives it: `uncover map` refuses
            scenes of another quantity.
        """
        from uncover.estimators.persistence import save_model

        check_is_fitted(self)
        save_model(self, path, units=units, provenance=provenance, features=features)
