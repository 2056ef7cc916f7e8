"""A fitted model and an observation together: the one function that combines them."""

from __future__ import annotations

from typing import overload

from uncover.measurement.class_prediction import Prediction
from uncover.measurement.observation import Observation
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool


@overload
def predict(
    model: GaussianClasses, observation: Observation, *, paired: bool = ..., method: str = ...
) -> Prediction: ...
@overload
def predict(
    model: Pool, observation: Observation, *, paired: bool = ..., method: str = ...
) -> PoolPrediction: ...
def predict(
    model: GaussianClasses | Pool, observation: Observation, *, paired: bool = True, method: str = "exact"
) -> Prediction | PoolPrediction:
    """Combine a fitted model with an observation.

    Realisations, known noise, missing features (NaN), temperature and averaging are handled here, and
    nowhere else; maps, whose pixels come as planes, go through
    :class:`~uncover.measurement.summary.Summariser`.

    Parameters
    ----------
    model : GaussianClasses or Pool
    observation : Observation
    paired : bool
        Whether the samples come from the scene that trained the model: a common error then cancels.
    method : "exact" or "fast"
        With known noise: the integral over the class models, or the Student t of the same covariance.

    Returns
    -------
    Prediction or PoolPrediction
        What is asked of it is computed then.

    Examples
    --------
    >>> import numpy as np
    >>> from uncover import BayesianQDA
    >>> model = BayesianQDA().fit([[0.0], [0.2], [2.0], [2.3]], ["a", "a", "b", "b"]).model_
    >>> predict(model, Observation(np.array([[1.0]]))).probability().round(2)
    array([[0.38, 0.62]])
    """
    if isinstance(model, Pool):
        return PoolPrediction(model, observation, paired=paired)
    return Prediction.of(model, observation, paired=paired, method=method)
