"""Saving and loading models of every kind."""

from pathlib import Path

import numpy as np

from uncover.estimators.base import GenerativeClassifier
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
from uncover.estimators.discriminant import BayesianLDA, BayesianNB, BayesianQDA
from uncover.estimators.fitted import without_sets
from uncover.estimators.mixture import BayesianMDA
from uncover.estimators.model_files import (
    FORMAT,
    FORMAT_VERSION,
    consistent,
    fill,
    read_model_file,
    remember,
    unpack_classes,
    unpack_parameters,
    write_model_file,
)

_ESTIMATORS = {cls.__name__: cls for cls in (BayesianQDA, BayesianLDA, BayesianNB)}
_OPTIONAL = (
    "systematic_",
    "known_noise_",
    "class_noise_",
    "noise_evenness_",
    "label_confusion_",
    "class_scale_",
    "class_count_",
)


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
        return pack_mixture(model, arrays, _pack, _pack_classes)
    if isinstance(model, ConformalSets):
        return pack_sets(model, arrays, _pack)
    if _ESTIMATORS.get(type(model).__name__) is not type(model):
        raise TypeError(
            f"model files are for {', '.join([*_ESTIMATORS, 'BayesianMDA', 'BayesianClassifier'])} and "
            f"ConformalSets; a {type(model).__name__} could not be loaded."
        )
    moments = model.statistics_.classes
    for name in ("count", "mean", "scatter", "residual"):
        arrays[f"moments/{name}"] = getattr(moments, name)
    arrays["within_scatter"] = model.statistics_.within_scatter
    arrays["class_prior"] = model.class_prior_
    for name in _OPTIONAL:
        if getattr(model, name, None) is not None:
            arrays[name] = getattr(model, name)
    return {
        "estimator": type(model).__name__,
        "parameters": _pack_parameters(model, arrays),
        "classes": _pack_classes(model.classes_),
        "n_features": model.n_features_in_,
        "feature_names": _names_or_none(model),
        "ignored_features": model.ignored_features_.tolist(),
        "realisations": model.statistics_.realisations,
        "within_dof": model.statistics_.within_dof,
        "noise_weight": model.statistics_.noise_weight,
        "scale_weight": model.statistics_.scale_weight,
        "temperature": model.temperature_,
        "prior": _pack_distribution(model.prior_, "prior", arrays),
        "posterior": _pack_distribution(model.posterior_, "posterior", arrays),
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
        return unpack_classifier(document, arrays, _unpack, unpack_classes)
    if document["estimator"] == "BayesianMDA":
        return unpack_mixture(document, arrays, _unpack, unpack_classes)
    if document["estimator"] == "ConformalSets":
        return unpack_sets(document, arrays, _unpack)
    estimator = _ESTIMATORS[document["estimator"]](**unpack_parameters(document, arrays))
    return fill(estimator, document, arrays)


def _pack_parameters(model, arrays):
    """Constructor arguments as JSON; priors and arrays beside it."""
    parameters = model.get_params(deep=False)
    prior = parameters["prior"]
    if not isinstance(prior, str):
        # Given priors are kept as one NIW with an axis of classes, which the constructor takes as well.
        parameters["prior"] = _pack_distribution(_as_given(model), "given_prior", arrays)
    for name in ("class_prior", "label_noise"):
        if not isinstance(parameters[name], str | None):
            parameters[name] = np.asarray(parameters[name], float).tolist()
    if isinstance(parameters["random_state"], np.integer):
        parameters["random_state"] = int(parameters["random_state"])
    return parameters


def _as_given(model):
    return GenerativeClassifier._given_prior(model, model.prior, model.classes_)


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
