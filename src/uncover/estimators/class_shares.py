"""Class shares of the population that new samples are from, for estimators that have fitted classes."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uncover.bayes.class_shares import ClassShares
from uncover.engines.arrays import on_device, to_host
from uncover.measurement.class_shares import asked_of, class_shares
from uncover.measurement.common_errors import CommonErrors
from uncover.models.fit import concentration
from uncover.models.gaussian import KNOWN_SHARES


class ClassSharesMixin:
    """Estimated class shares of new samples."""

    def class_shares(self, X, X_cov=None, *, groups=None, population=None, paired=True):
        """Estimate the class shares of the population that X is from; it need not be that of training.

        The shares of the largest likelihood of X, given what the model says of the classes (Saerens, Latinne
        and Decaestecker 2002). Their covariance counts what the overlap of the classes hides, an error of the
        measurement that the samples share, the doubt in the model's parameters, and what is not in X. It does
        not count samples of classes that were never trained: :meth:`typicality` and :meth:`unknown_share`
        tell of these.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict_proba``.
        groups : array of shape (sample,), optional
            Samples of one group are alike, such as pixels of a place: groups, not samples, are independent.
        population : int, optional
            Number of samples in the population, which X is drawn from; those of a whole scene are
            ``len(X)``. Default: endless.

        Returns
        -------
        ClassShares
            (shares, covariance), with ``standard_uncertainty``; ``predict_proba`` takes it as
            ``class_prior``.

        Examples
        --------
        >>> from uncover import BayesianQDA
        >>> rng = np.random.default_rng(0)
        >>> def draw(n, share):
        ...     y = (rng.random(n) < share).astype(int)
        ...     return rng.normal(size=(n, 2)) + 2.0 * y[:, None], y
        >>> clf = BayesianQDA().fit(*draw(500, 0.5))
        >>> X, _ = draw(4000, 0.1)
        >>> found = clf.class_shares(X)
        >>> found.shares.round(2), found.standard_uncertainty.round(2)
        (array([0.89, 0.11]), array([0.01, 0.01]))
        """
        check_is_fitted(self)
        found = self._predict(to_host(X) if on_device(X) else X, X_cov, paired)
        P = found.probability()
        number = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        read = 0.0 if population is None else len(P) / population
        if not 0.0 <= read <= 1.0:
            raise ValueError(
                f"population is {population}, and X has {len(P)} samples of it; give {len(P)} or more."
            )
        seen = found.observation[asked_of(len(P))]
        realisations = seen.X.shape[1] if seen.X.ndim == 3 else 1
        errors = CommonErrors(self.model_, realisations, paired=paired, systematic=seen.systematic)
        return class_shares(self.model_, P, errors.of(seen), number, read)


def in_population(model, class_prior):
    """Return a fitted model for a population with other class shares: stated numbers, or ``ClassShares``."""
    if class_prior is None:
        return model
    if isinstance(class_prior, ClassShares):
        return model.with_class_shares(class_prior.concentration)
    return model.with_class_shares(KNOWN_SHARES * shares_of(class_prior, len(model.classes)))


def shares_of(class_prior, n_classes):
    """Return class shares that were stated in any sum, or estimated: (class,)."""
    stated = (
        class_prior.shares if isinstance(class_prior, ClassShares) else concentration(class_prior, n_classes)
    )
    return stated / stated.sum()
