"""Estimators from model files."""

from pathlib import Path

from uncover.estimators.classifier import BayesianClassifier
from uncover.estimators.conformal import ConformalSets
from uncover.estimators.discriminant import estimator_of
from uncover.estimators.mixture import BayesianMDA
from uncover.models.files import consistent, load_fitted
from uncover.models.registry import of_estimator

_OTHERS = {"BayesianMDA": BayesianMDA, "BayesianClassifier": BayesianClassifier}


def load_model(path):
    """Read a model written by ``save``.

    Refuses, with a :class:`ModelFileError` of one line, a file that is not a model, is cut off or was
    changed. The file holds numbers and names only; nothing in it is executed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from uncover import BayesianQDA
    >>> X, y = [[0.0], [0.2], [2.0], [2.3]], ["a", "a", "b", "b"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "m.uncover"
    ...     BayesianQDA().fit(X, y).save(file)
    ...     load_model(file).predict([[0.1]])
    array(['a'], dtype='<U1')
    """
    fitted = load_fitted(path)
    name = fitted.estimator_name
    with consistent(Path(path)):
        model = (_OTHERS.get(name) or estimator_of(of_estimator(name)))(**fitted.parameters)
        model.model_, model.n_features_in_ = fitted.model_, fitted.n_features_in_
        if fitted.feature_names_in_ is not None:
            model.feature_names_in_ = fitted.feature_names_in_
        found = [model]
        if fitted.sets_ is not None:
            sets = ConformalSets(model, **fitted.set_parameters)
            sets.estimator_, sets.model_ = model, fitted.sets_
            found.append(sets)
    for each in found:
        each.units_, each.provenance_, each.features_ = fitted.units_, fitted.provenance_, fitted.features_
    return found[-1]
