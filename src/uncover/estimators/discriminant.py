"""Estimators of the class models in the registry: a covariance for each class, one for all, or a diagonal."""

from uncover.estimators.base import GenerativeClassifier
from uncover.models.class_model import ClassModel
from uncover.models.registry import CLASS_MODELS, of_estimator


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
    missing : "marginalise" or "error"
        What NaN does: a missing feature, left out of the formula in training and prediction, or refused.
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

    class_model = CLASS_MODELS["qda"]


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

    class_model = CLASS_MODELS["lda"]


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

    class_model = CLASS_MODELS["nb"]


def estimator_of(class_model: ClassModel):
    """The estimator of a class model: one of those above, or made of it.

    >>> estimator_of(CLASS_MODELS["lda"]).__name__
    'BayesianLDA'
    """
    if class_model.estimator not in globals():
        globals()[class_model.estimator] = type(
            class_model.estimator,
            (GenerativeClassifier,),
            {"class_model": class_model, "__doc__": type(class_model).__doc__, "__module__": __name__},
        )
    return globals()[class_model.estimator]


def __getattr__(name):
    """Estimators of further class models of the registry."""
    class_model = of_estimator(name)
    if class_model is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return estimator_of(class_model)
