"""Layers of a map by the recommended classifier, which averages class models of several kinds."""

from typing import Any, Protocol

import numpy as np

from uncover.bayes.covariances import Covariances
from uncover.estimators.fitted import is_average
from uncover.estimators.summary import PixelSummary, Summariser, corrected
from uncover.estimators.values import Inputs

# Numbers (float64) that one block of pixels may need, and pixels of a block at least.
_BLOCK_NUMBERS, _FEWEST = 1 << 20, 64


class ReadsPixels(Protocol):
    """Whatever makes the layers of a map of pixels."""

    def summarise(
        self,
        planes: np.ndarray,
        *,
        coefficients: np.ndarray | None = None,
        noise: Covariances | None = None,
        systematic: np.ndarray | None = None,
        features: np.ndarray | None = None,
    ) -> PixelSummary:
        """Summarise pixels, as :meth:`Summariser.summarise`."""

    def world_pairs(self, n_realisations: int) -> np.ndarray:
        """Draws that make each world, as :meth:`Summariser.world_pairs`."""


def make_summariser(
    model: Any, *, paired: bool = True, method: str = "exact", n_true_values: int = 192
) -> ReadsPixels:
    """What reads pixels with a fitted model of any kind."""
    if is_average(model):
        return AveragedSummariser(model, paired=paired)
    return Summariser(model, paired=paired, method=method, n_true_values=n_true_values)


class AveragedSummariser:
    """Reads pixels with a :class:`BayesianClassifier`, block by block.

    Parameters
    ----------
    model : fitted BayesianClassifier
    paired : bool
        Whether the pixels are of the scene that trained the model.

    Examples
    --------
    >>> from uncover import BayesianClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 2)) + 3.0 * y[:, None]
    >>> clf = BayesianClassifier().fit(X, y)
    >>> summary = AveragedSummariser(clf).summarise(X.T[None])
    >>> bool(np.allclose(summary.probability.T, clf.predict_proba(X)))
    True
    """

    def __init__(self, model: Any, *, paired: bool = True) -> None:
        self.model, self.paired = model, paired

    def summarise(
        self,
        planes: np.ndarray,
        *,
        coefficients: np.ndarray | None = None,
        noise: Covariances | None = None,
        systematic: np.ndarray | None = None,
        features: np.ndarray | None = None,
    ) -> PixelSummary:
        """Summarise pixels, as :meth:`Summariser.summarise`; all features are needed, nothing is drawn."""
        if features is not None and not features.all():
            raise ValueError("a BayesianClassifier needs all features of a pixel.")
        p, n = planes.shape[1:]
        R = len(planes) if coefficients is None else len(coefficients)
        size = max(_FEWEST, _BLOCK_NUMBERS // (R * (p + len(self.model.weights_) * len(self.model.classes_))))
        parts = []
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            block = planes[:, :, rows]
            values = block if coefficients is None else corrected(block[0], coefficients)
            parts.append(self._block(values, None if noise is None else noise[rows], systematic))
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts], axis=-1)
            for name in PixelSummary.__dataclass_fields__
        }
        return PixelSummary(**joined)

    def world_pairs(self, n_realisations: int) -> np.ndarray:
        """Draws that make each world: the realisations."""
        return np.arange(n_realisations)[:, None]

    def _block(self, values: np.ndarray, noise: Covariances | None, systematic: Any) -> PixelSummary:
        points = np.moveaxis(values, 2, 0)  # (pixel, realisation, feature)
        inputs = Inputs(points[:, 0] if len(values) == 1 else points, noise, systematic)
        found = self.model._answers(inputs, paired=self.paired)
        order = np.sort(found.probability, axis=1)
        best = found.probability.argmax(axis=1).astype(np.uint8)
        worlds = found.best_of_views.astype(np.uint8)
        budget, margin = found.budget, order[:, -1] - order[:, -2]
        parts = (budget.total, budget.measurement, budget.model, budget.overlap, margin, found.typicality)
        return PixelSummary(
            probability=found.probability.T,
            parts=np.stack(parts),
            disagreement=(worlds != best).mean(axis=0),
            world_classes=worlds,
            best=best,
        )
