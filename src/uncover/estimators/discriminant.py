"""The three Gaussian class models: a covariance for each class, one for all, or a diagonal one."""

import numpy as np

from uncover.bayes.evidence import (
    ScatterEvidence,
    echo_of_samples,
    evidence_independent_prior,
    evidence_prior,
    evidence_tied_prior,
    log_evidence_tied,
    per_sample,
    prior_weight,
)
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import weak_prior, weak_tied_prior
from uncover.estimators.base import GenerativeClassifier
from uncover.estimators.deconvolution import deconvolve_each, deconvolve_features, deconvolve_tied
from uncover.estimators.evidence import too_small_for_jeffreys


class BayesianQDA(GenerativeClassifier):
    """Bayesian quadratic discriminant analysis: a Gaussian with its own covariance for each class.

    The class models' means and covariances have a normal-inverse-Wishart prior; they are integrated
    out, so that the class densities are Student t and a class of few samples is known to be uncertain:

        P(y=k | x, D) ∝ (N_k+α_k) · T(x | μ_k, (λ_k+1)/(λ_k(ν_k−p+1)) Ψ_k, ν_k−p+1)

    Parameters
    ----------
    prior : "weak", "evidence", "jeffreys", NIW, or one NIW for each class
        Prior of the class models. All names leave the means free. "weak" takes the scale of the covariances
        from the data (Fraley and Raftery 2007); "evidence" draws them towards what the classes have in
        common, as far as the marginal likelihood of the data asks for it; "jeffreys" prefers
        nothing, and needs more samples of each class than features. One NIW for each class: a list in the
        order of ``classes_``, or a dictionary.
    class_prior : float or array of shape (class,)
        Dirichlet parameters α of the class proportions: P(class) ∝ N_k + α_k.
    realisations : "pooled", "repeats", "draws" or "shared"
        What several realisations of a sample, X of shape (sample, realisation, feature), mean:
        observations of their own as in the published method; repeated measurements of one true value;
        Monte Carlo draws around one measurement; or worlds, where realisation r of every sample has
        the same error.
    calibration : None or "loo"
        "loo" divides the log joint by a temperature, and scales classes where the evidence says so: fitted to
        predictions of the training samples by the model without them (without their group, where ``fit``
        is given ``groups``).
    label_noise : None, "learn", or array of shape (class, class)
        Labels that are wrong: P(label j | class k), given (row k) or learned.
    missing : "error" or "marginalise"
        What a NaN among the features of a new sample does: the sample is refused, or classified on the
        features that it has, exactly.
    random_state : int or None
        Seed of the draws behind ``uncertainty`` and ``sample_posterior`` and of the pairing of scenes.

    Attributes
    ----------
    classes_ : array of shape (class,)
    class_count_ : array of shape (class,)
        N_k, the sum of weights; R·n_k for ``realisations="pooled"``.
    class_prior_, prior_, measurement_, posterior_, class_posterior_
        The five sources of uncertainty; ``sources_`` has them by name.
    means_ : array of shape (class, feature)
    covariances_ : array of shape (class, feature, feature)
    temperature_ : float
        What the log joint is divided by: above 1, the model alone was too sure.
    class_scale_ : array of shape (class,)
        Factor of the joint density of each class that calibration found; 1 where none is needed.
    log_evidence_ : float
        Log marginal likelihood of the training samples, where it exists.
    label_confusion_ : array of shape (class, class)
        P(label j | class k), with ``label_noise``.
    ignored_features_ : array of bool of shape (feature,)
        Features that are not used: constant ones, and but for ``prior="weak"`` such as follow from others.
    n_features_in_ : int
    feature_names_in_ : array of str
        Where X has names.

    References
    ----------
    Bilson, McCrory and Pustogvar (2025), An uncertainty-aware Bayesian framework for machine learning
    classification models: a case study in land cover classification.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 0.1], [0.2, 0.0], [0.1, 0.3], [2.0, 2.1], [2.3, 2.0], [1.9, 2.4]])
    >>> clf = BayesianQDA().fit(X, ["low", "low", "low", "high", "high", "high"])
    >>> clf.predict([[0.1, 0.1], [2.1, 2.1]])
    array(['low', 'high'], dtype='<U4')
    >>> clf.predict_proba([[0.9, 1.1]]).round(2)  # far from both: not sure
    array([[0.15, 0.85]])
    """

    def _weak_prior(self, moments, variance=None):
        return weak_prior(moments, variance)

    def _evidence_prior(self, moments, rows_per_sample):
        return evidence_prior(moments, rows_per_sample)

    def _echo_in_prior(self):
        if not isinstance(self.prior, str) or self.prior != "evidence":
            return 0.0
        moments = self.statistics_.classes.select_features(~self.ignored_features_)
        return echo_of_samples(self.prior_, moments, self.statistics_.rows_per_sample(self._kind()))

    def _restricted_evidence(self, prior, moments, rows_per_sample):
        evidence = ScatterEvidence.of(per_sample(moments, rows_per_sample), prior.expected_covariance)
        return evidence.at(prior_weight(prior, rows_per_sample))

    def _update(self, prior, moments):
        return prior.update(moments)

    def _update_through_noise(self, prior, points, noise, membership):
        return deconvolve_each(prior, points, noise, membership)


class BayesianLDA(GenerativeClassifier):
    """Bayesian linear discriminant analysis: all classes share one covariance.

    Parameters and attributes are those of :class:`BayesianQDA`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [0.1], [2.0], [2.3], [1.9]])
    >>> clf = BayesianLDA().fit(X, [0, 0, 0, 1, 1, 1])
    >>> clf.predict([[0.3], [1.8]])
    array([0, 1])
    """

    def _weak_prior(self, moments, variance=None):
        return weak_tied_prior(moments, variance)

    def _evidence_prior(self, moments, rows_per_sample):
        return evidence_tied_prior(moments, rows_per_sample)

    def _restricted_evidence(self, prior, moments, rows_per_sample):
        target = prior.expected_covariance[..., 0, :, :]
        evidence = ScatterEvidence.of_tied(per_sample(moments, rows_per_sample), target)
        return evidence.at(prior_weight(prior, rows_per_sample))

    def _log_evidence(self, prior, moments):
        return log_evidence_tied(prior, moments)

    def _lacking_for_jeffreys(self, count, p):
        empty, free = too_small_for_jeffreys(self.classes_, count, 0), (count - 1).sum(-1).min()
        if empty or free >= p:
            return empty
        return (
            f"{count[0].sum():g} samples of {count.shape[1]} classes leave {free:g} for their common "
            f'covariance; prior="jeffreys" needs at least {p} for {p} features.'
        )

    def _given_prior(self, prior, classes):
        each = super()._given_prior(prior, classes)
        if (each.scale != each.scale[:1]).any() or (each.dof != each.dof[:1]).any():
            raise ValueError(
                "BayesianLDA has one covariance for all classes, so scale and dof of the priors must be "
                "equal; use BayesianQDA for different ones."
            )
        return NIW(each.mean, each.strength, each.scale[:1], each.dof[:1])

    def _update(self, prior, moments):
        return prior.update_tied(moments)

    def _update_through_noise(self, prior, points, noise, membership):
        return deconvolve_tied(prior, points, noise, membership)


class BayesianNB(GenerativeClassifier):
    """Bayesian naive Bayes: Gaussian features that are independent within each class.

    A prior that has correlations counts by its diagonal, and so does the noise of realisations. X_cov takes
    variances only.

    Parameters and attributes are those of :class:`BayesianQDA`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.2], [0.1], [2.0], [2.3], [1.9]])
    >>> clf = BayesianNB().fit(X, [0, 0, 0, 1, 1, 1])
    >>> clf.predict([[0.3], [1.8]])
    array([0, 1])
    """

    def _check_noise(self, noise):
        if not noise.is_diagonal:
            raise ValueError(
                "BayesianNB treats features as independent and takes variances as X_cov; for covariances "
                "between features use BayesianQDA or BayesianLDA."
            )

    def _weak_prior(self, moments, variance=None):
        return _diagonal(weak_prior(moments, variance))

    def _evidence_prior(self, moments, rows_per_sample):
        return evidence_independent_prior(moments, rows_per_sample)

    def _restricted_evidence(self, prior, moments, rows_per_sample):
        variance = np.diagonal(prior.expected_covariance, axis1=-2, axis2=-1)
        evidence = ScatterEvidence.of_features(per_sample(moments, rows_per_sample), variance)
        return evidence.at(prior_weight(prior, rows_per_sample))

    def _lacking_for_jeffreys(self, count, p):
        return too_small_for_jeffreys(self.classes_, count, 1)

    def _given_prior(self, prior, classes):
        return _diagonal(super()._given_prior(prior, classes))

    def _update(self, prior, moments):
        if isinstance(prior, JeffreysPrior):
            return prior.update_independent(moments)
        return prior.update(moments)

    def _update_through_noise(self, prior, points, noise, membership):
        return deconvolve_features(prior, points, noise, membership)


def _diagonal(niw):
    return DiagonalNIW(niw.mean, niw.strength, niw.scale, niw.dof)
