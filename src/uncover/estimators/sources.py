"""What a fitted model says about itself: its five sources of uncertainty, a page of text, a file."""

from sklearn.utils.validation import check_is_fitted

from uncover.estimators.describe import describe, measurement_of


class SourcesMixin:
    """The sources of uncertainty of a fitted model, by name."""

    @property
    def measurement_(self):
        """What is known of the measurement uncertainty of the training data."""
        return measurement_of(self.model_)

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
        summary = (type(self).__doc__ or type(self).__name__).strip().splitlines()[0]
        return describe(self.fitted_value(), type(self).__name__, summary, self.classes_)

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
