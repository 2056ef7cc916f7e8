"""The prior that prefers nothing: it is no distribution, and needs more samples of a class than features."""

from dataclasses import dataclass

import numpy as np

from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW


@dataclass(frozen=True)
class JeffreysPrior(NIW):
    """The limit p(μ, Σ) ∝ |Σ|^(−(p+1)/2), written as λ = 0, Ψ = 0, ν = −1 (Gelman et al. 2013, section 3.6).

    ``update`` gives proper distributions: μ | Σ ~ N(x̄, Σ/N), Σ ~ IW(S, N−1).

    >>> posterior = JeffreysPrior.of(Moments.stack([Moments.of([[0.0], [1.0], [2.0]])])).update(
    ...     Moments.stack([Moments.of([[0.0], [1.0], [2.0]])])
    ... )
    >>> posterior.dof, posterior.scale.ravel()  # N − 1 and S
    (array([2.]), array([2.]))
    """

    @classmethod
    def of(cls, moments: Moments) -> "JeffreysPrior":
        """One for each member of the batch of moments."""
        batch, p = moments.count.shape, moments.n_features
        return cls(moments.mean, np.zeros(batch), np.zeros((*batch, p, p)), np.full(batch, -1.0))

    def _check(self) -> None:
        """Nothing to check: it is improper by intention."""

    def update(self, moments: Moments) -> NIW:  # type: ignore[override]
        """Posterior of classes that have a covariance each."""
        mean, strength, scatter = self._absorb(moments)
        return NIW(mean, strength, scatter, self.dof + moments.count)

    def update_tied(self, moments: Moments) -> NIW:  # type: ignore[override]
        """Posterior of classes along the last batch axis that share one covariance: Σ ~ IW(ΣS_k, N−K)."""
        mean, strength, scatter = self._absorb(moments)
        dof = (moments.count - (moments.count > 0)).sum(-1, keepdims=True)
        return NIW(mean, strength, scatter.sum(-3, keepdims=True), dof)

    def update_independent(self, moments: Moments) -> DiagonalNIW:
        """Posterior of independent features, each with p(μ_j, σ_j²) ∝ 1/σ_j²: N−1 degrees of freedom."""
        mean, strength, scatter = self._absorb(moments)
        return DiagonalNIW(mean, strength, scatter, moments.count + self.n_features - 2.0)
