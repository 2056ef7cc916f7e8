"""Saving and loading models of every kind."""

from pathlib import Path

import numpy as np

from uncover.estimators.classifier import BayesianClassifier
from uncover.estimators.classifier_files import (
    pack_classifier,
    pack_mixture,
    pack_sets,
    unpack_classifier,
    unpack_mixture,
    unpack_sets,
)
from uncover.estimators.conformal import ConformalSets
from uncover.estimators.discriminant import estimator_of
from uncover.estimators.fitted import name_features, without_sets
from uncover.estimators.mixture import BayesianMDA
from uncover.estimators.model_files import (
    FORMAT,
    FORMAT_VERSION,
    consistent,
    read_model_file,
    remember,
    unpack_gaussian,
    unpack_parameters,
    write_model_file,
)
from uncover.models.fit import one_for_each
from uncover.models.registry import CLASS_MODELS, of_estimator

# Arrays of Gaussian classes that a file may have, by their names there.
_OPTIONAL = {
    "systematic_": "systematic",
    "known_noise_": "known_noise",
    "class_noise_": "class_noise",
    "noise_evenness_": "noise_evenness",
    "label_confusion_": "label_confusion",
    "class_scale_": "class_factor",
    "class_count_": "count",
}


def save_model(model, path, *, units=None, provenance=None, features=None) -> None:
    """Write a fitted model. The file appears under its name only when it is complete."""
    from uncover import __version__

    arrays: dict[str, np.ndarray] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "program_version": __version__,
        "units": units if units is not None else getattr(model, "units_", None),
        "provenance": provenance if provenance is not None else getattr(model, "provenance_", None),
        "features": features if features is not None else getattr(model, "features_", None),
        **_pack(model, arrays),
    }
    write_model_file(Path(path), document, arrays)


def _pack(model, arrays) -> dict:
    """What a model is, as JSON; its arrays beside it."""
    if isinstance(model, BayesianClassifier):
        return pack_classifier(model, arrays, _pack, _pack_classes)
    if isinstance(model, BayesianMDA):
        return pack_mixture(model, arrays, pack_gaussian, _pack_classes)
    if isinstance(model, ConformalSets):
        return pack_sets(model, arrays, _pack)
    class_model = of_estimator(type(model).__name__)
    if class_model is None or estimator_of(class_model) is not type(model):
        names = [each.estimator for each in CLASS_MODELS.values()]
        raise TypeError(
            f"model files are for {', '.join([*names, 'BayesianMDA', 'BayesianClassifier'])} and "
            f"ConformalSets; a {type(model).__name__} could not be loaded."
        )
    parameters = model.get_params(deep=False)
    if not isinstance(model.prior, str):  # kept as one NIW with an axis of classes; the constructor takes it
        parameters["prior"] = one_for_each(model.prior, model.classes_, model.n_features_in_)
    return pack_gaussian(model.model_, type(model).__name__, parameters, _names_or_none(model), arrays)


def pack_gaussian(model, estimator, parameters, feature_names, arrays, classes=None) -> dict:
    """What Gaussian classes are as JSON, and what the estimator was made with; arrays beside it."""
    moments = model.statistics.classes
    for name in ("count", "mean", "scatter", "residual"):
        arrays[f"moments/{name}"] = getattr(moments, name)
    arrays["within_scatter"] = model.statistics.within_scatter
    arrays["class_prior"] = model.alpha
    for name, field in _OPTIONAL.items():
        if getattr(model, field) is not None:
            arrays[name] = getattr(model, field)
    return {
        "estimator": estimator,
        "parameters": _pack_parameters(parameters, arrays),
        "classes": _pack_classes(model.classes if classes is None else classes),
        "n_features": model.n_features,
        "feature_names": feature_names,
        "ignored_features": model.ignored_features.tolist(),
        "realisations": model.statistics.realisations,
        "within_dof": model.statistics.within_dof,
        "noise_weight": model.statistics.noise_weight,
        "scale_weight": model.statistics.scale_weight,
        "temperature": model.temperature,
        "prior": _pack_distribution(model.prior, "prior", arrays),
        "posterior": _pack_distribution(model.posterior, "posterior", arrays),
    }


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
    path = Path(path)
    document, arrays = read_model_file(path)
    with consistent(path):
        model = _unpack(document, arrays)
    for each in {id(one): one for one in (model, without_sets(model)[0])}.values():
        remember(each, document)
    return model


def _unpack(document, arrays):
    if document["estimator"] == "BayesianClassifier":
        return unpack_classifier(document, arrays, _unpack)
    if document["estimator"] == "BayesianMDA":
        return unpack_mixture(document, arrays)
    if document["estimator"] == "ConformalSets":
        return unpack_sets(document, arrays, _unpack)
    class_model = of_estimator(document["estimator"])
    if class_model is None:
        raise ValueError(f"its estimator, {document['estimator']!r}, is none of this program")
    estimator = estimator_of(class_model)(**unpack_parameters(document, arrays))
    estimator.model_ = unpack_gaussian(document, arrays)
    name_features(estimator, estimator.model_.feature_names)
    return estimator


def _pack_parameters(given, arrays):
    """Constructor arguments as JSON; priors and arrays beside it."""
    parameters = dict(given)
    if not isinstance(parameters["prior"], str):
        parameters["prior"] = _pack_distribution(parameters["prior"], "given_prior", arrays)
    for name in ("class_prior", "label_noise"):
        if not isinstance(parameters[name], str | None):
            parameters[name] = np.asarray(parameters[name], float).tolist()
    if isinstance(parameters["random_state"], np.integer):
        parameters["random_state"] = int(parameters["random_state"])
    return parameters


def _pack_distribution(niw, name, arrays):
    for field in niw.parameters():
        arrays[f"{name}/{field}"] = getattr(niw, field)
    return {"distribution": type(niw).__name__}


def _pack_classes(classes):
    values = classes.tolist()
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise TypeError("class labels must be strings, numbers or booleans to be saved in a model file.")
    return {"dtype": "object" if classes.dtype == object else classes.dtype.str, "values": values}


def _names_or_none(model):
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]
