"""Bayesian classification that takes the uncertainty of the measurement into account."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uncover.bayes.budget import UncertaintyBudget as UncertaintyBudget
    from uncover.bayes.niw import NIW as NIW
    from uncover.estimators.classifier import BayesianClassifier as BayesianClassifier
    from uncover.estimators.comparison import compare as compare
    from uncover.estimators.conformal import ConformalSets as ConformalSets
    from uncover.estimators.discriminant import BayesianLDA as BayesianLDA
    from uncover.estimators.discriminant import BayesianNB as BayesianNB
    from uncover.estimators.discriminant import BayesianQDA as BayesianQDA
    from uncover.estimators.ensemble import MeasurementAware as MeasurementAware
    from uncover.estimators.ensemble import RealisationEnsemble as RealisationEnsemble
    from uncover.estimators.loading import load_model as load_model
    from uncover.estimators.mixture import BayesianMDA as BayesianMDA
    from uncover.measurement.measured import Measured as Measured
    from uncover.measurement.transforms import MeasuredLog as MeasuredLog
    from uncover.measurement.transforms import MeasuredRatios as MeasuredRatios
    from uncover.measurement.transforms import MeasuredScaler as MeasuredScaler
    from uncover.models.files import ModelFileError as ModelFileError

__version__ = "0.1.0.dev0"

# Imported when first used: scikit-learn alone takes longer to import than everything else here.
_HOME = {
    "BayesianClassifier": "uncover.estimators.classifier",
    "BayesianLDA": "uncover.estimators.discriminant",
    "BayesianMDA": "uncover.estimators.mixture",
    "BayesianNB": "uncover.estimators.discriminant",
    "BayesianQDA": "uncover.estimators.discriminant",
    "ConformalSets": "uncover.estimators.conformal",
    "Measured": "uncover.measurement.measured",
    "MeasuredLog": "uncover.measurement.transforms",
    "MeasuredRatios": "uncover.measurement.transforms",
    "MeasuredScaler": "uncover.measurement.transforms",
    "MeasurementAware": "uncover.estimators.ensemble",
    "ModelFileError": "uncover.models.files",
    "NIW": "uncover.bayes.niw",
    "RealisationEnsemble": "uncover.estimators.ensemble",
    "UncertaintyBudget": "uncover.bayes.budget",
    "compare": "uncover.estimators.comparison",
    "load_model": "uncover.estimators.loading",
    "view": "uncover.viewer",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'uncover' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
