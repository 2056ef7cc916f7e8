"""Bayesian classification that takes the uncertainty of the measurement into account."""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

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
_names, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.estimators.classifier": "BayesianClassifier",
        "uncover.estimators.discriminant": "BayesianLDA BayesianNB BayesianQDA",
        "uncover.estimators.mixture": "BayesianMDA",
        "uncover.estimators.conformal": "ConformalSets",
        "uncover.measurement.measured": "Measured",
        "uncover.measurement.transforms": "MeasuredLog MeasuredRatios MeasuredScaler",
        "uncover.estimators.ensemble": "MeasurementAware RealisationEnsemble",
        "uncover.models.files": "ModelFileError",
        "uncover.bayes.niw": "NIW",
        "uncover.bayes.budget": "UncertaintyBudget",
        "uncover.estimators.comparison": "compare",
        "uncover.estimators.loading": "load_model",
        "uncover.viewer": "view",
    },
)
__all__ = ["__version__", *_names]
