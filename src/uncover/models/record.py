"""A fitted model as files and maps have it, without scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool
from uncover.models.sets import WithSets


@dataclass(frozen=True, eq=False)
class ModelRecord:
    """A fitted value, the estimator that it is of, and what is known of its features."""

    estimator_name: str
    parameters: Mapping[str, Any]  # what the estimator was made with
    value: GaussianClasses | Pool | WithSets
    feature_names_in_: NDArray[Any] | None = None
    set_parameters: Mapping[str, Any] | None = None  # what the estimator of the sets was made with
    units_: Any = None
    provenance_: Any = None
    features_: Any = None
    in_memory: bool = False  # never saved: whoever fitted it knows what its features are

    classes_ = property(lambda self: self.model_.classes)
    n_features_in_ = property(lambda self: self.model_.n_features)
    class_count_ = property(lambda self: self.model_.class_count)
    means_ = property(lambda self: self.model_.means)
    covariances_ = property(lambda self: self.model_.covariances)
    realisations = property(lambda self: self.model_.realisations)

    @property
    def model_(self) -> GaussianClasses | Pool:
        """The value, without sets."""
        found: GaussianClasses | Pool = self.value.model if isinstance(self.value, WithSets) else self.value
        return found

    def fitted_value(self) -> GaussianClasses | Pool:
        """Return the value, without sets."""
        return self.model_

    @property
    def sets_(self) -> WithSets | None:
        """The value with its sets, where it has some."""
        return self.value if isinstance(self.value, WithSets) else None


class FittedEstimator(Protocol):
    """A fitted estimator of this program."""

    def _record(self) -> ModelRecord: ...


def record_of(model: ModelRecord | FittedEstimator) -> ModelRecord:
    """Any fitted estimator of this program as a ModelRecord; one that is stays as it is."""
    return model if isinstance(model, ModelRecord) else model._record()
