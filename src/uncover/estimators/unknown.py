"""The probability that an input is of none of the trained classes, for every estimator that has densities."""

from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from uncover.engines.arrays import like, on_device, to_host


class UnknownMixin:
    """P(none of the classes | x), from the density ratios that the estimator has."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = getattr(self, "missing", None) == "marginalise"
        return tags

    def unknown_proba(self, X, X_cov=None, *, share=0.05, paired=True):
        """Return the probability that each sample is of none of the classes: shape (sample,).

        A class that was never trained has a density too: the means and covariances of the trained classes are
        taken as draws of one population. p₀ is the geometric mean of the predictive density of a further
        draw, a Student t with heavy tails where classes are few, and of that of the trained classes, twice as
        wide: a further class may be a relative of one of them. ``share`` being s₀, the share of such samples,

            P(none | x) = s₀ p₀(x)^a / (s₀ p₀(x)^a + (1 − s₀) p(x)^a),   p(x) = Σ_k P(k) p(x | k)

        The power a = p^(−1/2) stands for samples that depart from a Gaussian in all p features together.
        ``predict_proba`` stays over the trained classes: times 1 − P(none | x), all add up to 1. A sample
        without any feature, or with noise that drowns the classes, has the share itself.

        Parameters
        ----------
        X, X_cov, paired
            As in ``predict_proba``.
        share : float in [0, 1], or "estimate"
            0 gives 0 for all samples, 1 gives 1. "estimate": the share in X of the highest likelihood, see
            ``unknown_share``; one above 0.5 is refused, as the training samples do not represent X.

        Examples
        --------
        >>> from uncover import BayesianQDA
        >>> rng = np.random.default_rng(0)
        >>> y = np.arange(150) % 3
        >>> X = rng.normal(size=(150, 2)) + 4.0 * np.array([[0, 0], [1, 0], [0, 1]])[y]
        >>> clf = BayesianQDA(prior="evidence").fit(X, y)
        >>> clf.unknown_proba([[0.0, 0.0], [4.0, 4.0]]).round(2)
        array([0.02, 0.76])
        """
        check_is_fitted(self)
        _check_share(share)
        if on_device(X):
            host = self.unknown_proba(to_host(X), X_cov, share=share, paired=paired)
            return like(host.astype(np.float32 if "float32" in str(X.dtype) else np.float64), X)
        odds = self._unknown_odds(X, X_cov, paired)
        return odds.probability(odds.share().checked() if isinstance(share, str) else float(share))

    def unknown_share(self, X, X_cov=None, *, paired=True):
        """Return the share of samples of none of the classes, by maximum likelihood, and its uncertainty.

        Returns
        -------
        UnknownShare
            (share, standard_uncertainty). The uncertainty is that of a finite number of independent samples,
            not that of the densities.
        """
        check_is_fitted(self)
        return self._unknown_odds(to_host(X) if on_device(X) else X, X_cov, paired).share()


def _check_share(share):
    if isinstance(share, str):
        if share != "estimate":
            raise ValueError(f'share must be a number in [0, 1] or "estimate", got {share!r}.')
    elif not isinstance(share, Real) or not 0 <= share <= 1:
        raise ValueError(f'share must be a number in [0, 1] or "estimate", got {share!r}.')


def unknown_odds_of(estimator, X, X_cov, paired):
    """Density ratios of an estimator inside another; refuses one that has none."""
    if not hasattr(estimator, "_unknown_odds"):
        raise ValueError(
            f"a {type(estimator).__name__} has no densities, so it cannot tell what is of none of its "
            "classes. Use BayesianQDA, BayesianLDA, BayesianNB, BayesianMDA or BayesianClassifier."
        )
    return estimator._unknown_odds(X, X_cov, paired)
