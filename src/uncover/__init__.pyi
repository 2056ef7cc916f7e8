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
from uncover.viewer import view as view

__version__: str
