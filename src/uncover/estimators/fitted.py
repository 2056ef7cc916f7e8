"""What fitted Gaussian classes say of themselves, by the names of scikit-learn. Needs no scikit-learn."""

from dataclasses import replace

import numpy as np

# What the estimators of one kind of class model are made with.
PARAMETERS = ("prior", "class_prior", "realisations", "calibration", "label_noise", "missing", "random_state")


class LearnedAttributes:
    """Learned attributes of an estimator, read from its ``model_``."""

    def fitted_value(self):
        """Return the fitted value, with the names of features and the seed that the estimator has now."""
        names = getattr(self, "feature_names_in_", None)
        return replace(self.model_, feature_names=names, seed=self.random_state)

    @property
    def classes_(self):
        """Labels of the classes."""
        return self.model_.classes

    @property
    def class_count_(self):
        """N_k, the sum of weights of each class."""
        return self.model_.class_count

    @property
    def class_prior_(self):
        """Dirichlet parameters α_k of the class proportions before fitting."""
        return self.model_.class_alpha

    @property
    def class_posterior_(self):
        """Dirichlet parameters N_k + α_k of the class proportions after fitting."""
        return self.class_count_ + self.class_prior_

    @property
    def means_(self):
        """Posterior mean μ_N of each class, the average over worlds if there are several."""
        return self.model_.means

    @property
    def covariances_(self):
        """Posterior expectation of Σ of each class, Ψ_N/(ν_N−p−1), the average over worlds."""
        return self.model_.covariances

    @property
    def prior_(self):
        """Prior of the components of the classes."""
        return self.model_.prior

    @property
    def posterior_(self):
        """Posterior of the components of the classes."""
        return self.model_.posterior

    @property
    def statistics_(self):
        """Statistics of the training samples of each component."""
        return self.model_.statistics

    @property
    def temperature_(self):
        """What the log joint is divided by."""
        return self.model_.temperature

    @property
    def class_scale_(self):
        """Factor of the joint density of each class that calibration found."""
        return self.model_.class_factor[self.model_.components.first[:-1]]

    @property
    def ignored_features_(self):
        """Which features are not used: constant, or following from others."""
        return self.model_.ignored_features

    @property
    def known_noise_(self):
        """Mean covariance of the noise given with the training samples, or None."""
        return self.model_.known_noise

    @property
    def systematic_(self):
        """Covariance of an error that all training samples share, or None."""
        return self.model_.systematic

    @property
    def label_confusion_(self):
        """P(label j | class k), where labels may be wrong."""
        if self.model_.label_confusion is None:
            raise AttributeError("labels were taken as they are: there is no label_confusion_.")
        return self.model_.label_confusion


class LoadedModel(LearnedAttributes):
    """Class models of one kind as a model file has them, for whoever only reads pixels.

    Importing scikit-learn takes longer than reading the file: a map does without. The estimator of the same
    file is what :func:`uncover.load_model` returns.
    """

    def __init__(self, estimator_name, parameters, model):
        self.estimator_name, self.model_ = estimator_name, model
        vars(self).update(parameters)
        name_features(self, model.feature_names)

    def get_params(self, deep=False):
        """Return what the estimator was made with."""
        return {name: getattr(self, name) for name in PARAMETERS}


def name_features(estimator, names):
    """Give an estimator that has a model the number of its features, and their names where it has them."""
    estimator.n_features_in_ = estimator.model_.n_features
    if names is not None:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def without_sets(model):
    """Return the model that makes the probabilities, and the sets, or None where there are none.

    >>> without_sets("any other model")
    ('any other model', None)
    """
    return (model.estimator_, model) if hasattr(model, "scores_") else (model, None)


def is_average(model):
    """Whether a model averages several kinds of class models, as a BayesianClassifier does."""
    return hasattr(model, "members_")
