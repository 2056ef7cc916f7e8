"""Where the uncertainty of a prediction comes from: entropies, mutual information and the budget."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, softmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UncertaintyBudget:
    """Uncertainty of each prediction in nats, split by the chain rule; the parts add up to the total.

    H[y|x,D] = measurement I(y;χ|x) + model I(y;θ|χ) + overlap E H[y|χ,θ]

    Attributes
    ----------
    total : array
        Entropy of the class probabilities.
    model : array
        What knowing all parameters exactly (endless training data) would take away, and where several
        models are pooled, which of them is right.
    measurement : array
        What knowing the true value of the input (a perfect measurement) would take away; with ``"pooled"``
        and ``"shared"`` realisations only what averaging over them adds.
    overlap : array
        What nothing takes away: the classes overlap.

    Examples
    --------
    >>> budget = UncertaintyBudget(np.array([0.6]), np.array([0.1]), np.array([0.2]), np.array([0.3]))
    >>> budget[0].total
    np.float64(0.6)
    """

    total: Array
    model: Array
    measurement: Array
    overlap: Array

    def __getitem__(self, index: Any) -> Self:
        """Select samples."""
        return type(self)(self.total[index], self.model[index], self.measurement[index], self.overlap[index])

    @classmethod
    def join(cls, parts: "list[Self]") -> Self:
        """Put the budgets of successive samples together."""
        names = ("total", "model", "measurement", "overlap")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def entropy(probability: ArrayLike) -> Array:
    """−Σ p log p over the last axis, in nats.

    >>> float(entropy([0.5, 0.5])), float(entropy([1.0, 0.0]))
    (0.6931471805599453, 0.0)
    """
    # Probabilities that add up to 1 but for rounding may have an entropy of −1e-16.
    return np.asarray(np.maximum(entr(probability).sum(-1), 0.0))


def joint_table(log_weight: Array, probability: Array) -> Array:
    """Joint distribution of draw and class whose class margin is the given probability.

    W_sk = P_k J_sk / Σ_s J_sk. Plain averages over draws do not reproduce P, because the input informs
    the parameters too; a table whose columns are normalised to P does, and its parts add up. ``log_weight``
    is log J, (..., draw, class); ``probability`` is P, (..., class).

    >>> w = joint_table(np.log([[0.2, 0.1], [0.6, 0.1]]), np.array([0.7, 0.3]))
    >>> w.sum(0).round(12)
    array([0.7, 0.3])
    """
    finite = np.where(probability[..., None, :] > 0, log_weight, 0.0)
    return np.asarray(probability[..., None, :] * softmax(finite, axis=-2))


def split_by_draw(table: Array) -> tuple[Array, Array]:
    """Mutual information I(draw; class) and conditional entropy H(class | draw) of joint tables.

    Both are never negative, and add up to the entropy of the class margin.

    >>> information, rest = split_by_draw(np.array([[0.5, 0.0], [0.0, 0.5]]))
    >>> float(information), float(rest)  # the draw says the class
    (0.6931471805599453, 0.0)
    """
    total = entropy(table.sum(-2))
    rest = np.asarray(entr(table).sum((-2, -1)) - entr(table.sum(-1)).sum(-1))
    rest = np.clip(rest, 0.0, total)
    return total - rest, rest
