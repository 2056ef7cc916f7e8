"""Description of a fitted model: its five sources of uncertainty, a page of text."""

from sklearn.utils.validation import check_is_fitted

from uncover.estimators.describe import describe, measurement_of
from uncover.estimators.fitted import SaveMixin


class SourcesMixin(SaveMixin):
    """The sources of uncertainty of a fitted model, by name."""

    @property
    def measurement_(self):
        """Measurement uncertainty of the training data, as far as it is known."""
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
