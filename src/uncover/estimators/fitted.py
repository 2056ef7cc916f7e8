"""Learned attributes of estimators, read from their fitted value, and model files of them."""

from dataclasses import replace

from sklearn.utils.validation import check_is_fitted

from uncover import __version__
from uncover.estimators.describe import page_of
from uncover.models.files import save_fitted
from uncover.models.record import ModelRecord
from uncover.models.registry import CLASS_MODELS


def learned(name, doc=None):
    """A learned attribute of an estimator, which its fitted value has under this name."""
    return property(lambda self: getattr(self.model_, name), doc=doc)


class LearnedAttributes:
    """Learned attributes of an estimator, read from its ``model_``."""

    def fitted_value(self):
        """Return the fitted value, with the names of features and the seed that the estimator has now."""
        names, seed = getattr(self, "feature_names_in_", None), self.random_state
        derived = self.model_.derived
        key = "named", seed, None if names is None else tuple(names)
        if key not in derived:
            derived[key] = replace(self.model_, feature_names=names, seed=seed)
        return derived[key]

    classes_ = learned("classes", "Labels of the classes.")
    class_count_ = learned("class_count", "N_k, the sum of weights of each class.")
    class_prior_ = learned("class_alpha", "Dirichlet parameters α_k of the class proportions before fitting.")
    means_ = learned("means", "Posterior mean μ_N of each class, the average over worlds.")
    covariances_ = learned("covariances", "Posterior mean of Σ of each class, the average over worlds.")
    prior_ = learned("prior", "Prior of the components of the classes.")
    posterior_ = learned("posterior", "Posterior of the components of the classes.")
    statistics_ = learned("statistics", "Statistics of the training samples of each component.")
    temperature_ = learned("temperature", "What the log joint is divided by.")
    ignored_features_ = learned("ignored_features", "Features not used: constant, or following from others.")
    known_noise_ = learned("known_noise", "Mean covariance of the noise given with the training samples.")
    systematic_ = learned("systematic", "Covariance of an error that all training samples share, or None.")

    @property
    def class_posterior_(self):
        """Dirichlet parameters N_k + α_k of the class proportions after fitting."""
        return self.class_count_ + self.class_prior_

    @property
    def class_scale_(self):
        """Factor of the joint density of each class that calibration found."""
        return self.model_.class_factor[self.model_.components.first[:-1]]

    @property
    def label_confusion_(self):
        """P(label j | class k), where labels may be wrong."""
        if self.model_.label_confusion is None:
            raise AttributeError("labels were taken as they are: there is no label_confusion_.")
        return self.model_.label_confusion


class SaveMixin:
    """Saving an estimator whose ``model_`` is a fitted value."""

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
        check_is_fitted(self)
        given = {"units_": units, "provenance_": provenance, "features_": features}
        given = {name: value for name, value in given.items() if value is not None}
        for model in (self, getattr(self, "estimator_", self)):
            _check_own(model)
        save_fitted(replace(self._record(), **given), path, __version__)

    def describe(self):
        """Return a page of text on the fitted model: its members, or its five sources of uncertainty."""
        check_is_fitted(self)
        return page_of(self._record())

    def fitted_value(self):
        """Return the fitted value."""
        return self.model_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "model_")

    def _record(self):
        """The fitted value with the name and the parameters of the estimator."""
        facts = {name: getattr(self, name, None) for name in ("units_", "provenance_", "features_")}
        return ModelRecord(
            type(self).__name__,
            self.get_params(deep=False),
            self.fitted_value(),
            getattr(self, "feature_names_in_", None),
            in_memory=not hasattr(self, "features_"),
            **facts,
        )


def _check_own(model):
    """Refuse an estimator that is not of this program: its file could not be loaded."""
    if not type(model).__module__.startswith("uncover.") or not hasattr(model, "save"):
        names = [*(each.estimator for each in CLASS_MODELS.values()), "BayesianMDA", "BayesianClassifier"]
        raise TypeError(
            f"model files are for {', '.join(names)} and ConformalSets; a {type(model).__name__} could not "
            "be loaded."
        )
