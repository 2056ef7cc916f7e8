"""Model files: a zip of one JSON document and plain arrays, sealed. Reading one executes nothing."""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
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
from uncover.estimators.conformal import ConformalSets, without_sets
from uncover.estimators.discriminant import BayesianLDA, BayesianNB, BayesianQDA
from uncover.estimators.mixture import BayesianMDA
from uncover.estimators.realisations import Statistics

FORMAT = "uncover-model"
FORMAT_VERSION = 1
_ESTIMATORS = {cls.__name__: cls for cls in (BayesianQDA, BayesianLDA, BayesianNB)}
_DISTRIBUTIONS = {
    cls.__name__: cls for cls in (NIW, DiagonalNIW, JeffreysPrior, DeconvolvedNIW, DeconvolvedDiagonal)
}
_OPTIONAL = ("systematic_", "known_noise_", "label_confusion_", "class_scale_")
_SEAL = 64  # characters of the checksum at the end
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed one: the same model gives the same bytes


class ModelFileError(ValueError):
    """A file that is not a model of this program, or not whole, or not as it was written."""


def save_model(model, path, *, units=None, provenance=None) -> None:
    """Write a fitted model. The file appears under its name only when it is complete."""
    from uncover import __version__

    arrays: dict[str, np.ndarray] = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "program_version": __version__,
        "units": units if units is not None else getattr(model, "units_", None),
        "provenance": provenance if provenance is not None else getattr(model, "provenance_", None),
        **_pack(model, arrays),
    }
    _write(Path(path), _to_json(document), arrays)


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
            f"model files are for {', '.join(_ESTIMATORS)}; a {type(model).__name__} could not be loaded."
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
    document, arrays = _read(path)
    try:
        model = _unpack(document, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise ModelFileError(f"{path}: the model file is inconsistent ({_one_line(problem)}).") from None
    for each in {id(one): one for one in (model, without_sets(model)[0])}.values():
        each.units_, each.provenance_ = document["units"], document["provenance"]
    return model


def _unpack(document, arrays):
    if document["estimator"] == "BayesianClassifier":
        return unpack_classifier(document, arrays, _unpack, _unpack_classes)
    if document["estimator"] == "BayesianMDA":
        return unpack_mixture(document, arrays, _unpack, _unpack_classes)
    if document["estimator"] == "ConformalSets":
        return unpack_sets(document, arrays, _unpack)
    model = _ESTIMATORS[document["estimator"]](**_unpack_parameters(document["parameters"], arrays))
    model.classes_ = _unpack_classes(document["classes"])
    model.n_features_in_ = int(document["n_features"])
    if document["feature_names"] is not None:
        model.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    model.ignored_features_ = np.array(document["ignored_features"], dtype=bool)
    moments = Moments(*(arrays[f"moments/{name}"] for name in ("count", "mean", "scatter", "residual")))
    model.statistics_ = Statistics(
        moments, arrays["within_scatter"], float(document["within_dof"]), int(document["realisations"])
    )
    model.class_prior_ = arrays["class_prior"]
    model.temperature_ = float(document.get("temperature", 1.0))
    model.class_scale_ = arrays.get("class_scale_", np.ones(len(model.classes_)))
    model.systematic_, model.known_noise_ = arrays.get("systematic_"), arrays.get("known_noise_")
    if "label_confusion_" in arrays:
        model.label_confusion_ = arrays["label_confusion_"]
    model.class_count_ = moments.count.reshape(-1, len(model.classes_))[0]
    model.prior_ = _unpack_distribution(document["prior"], "prior", arrays)
    model.posterior_ = _unpack_distribution(document["posterior"], "posterior", arrays)
    _check_shapes(model)
    return model


def _check_shapes(model):
    K, p, used = len(model.classes_), model.n_features_in_, int((~model.ignored_features_).sum())
    moments = model.statistics_.classes
    fits = (
        model.ignored_features_.shape == (p,)
        and model.class_prior_.shape == model.class_scale_.shape == (K,)
        and moments.count.shape[-1:] == (K,)
        and moments.mean.shape == moments.residual.shape == (*moments.count.shape, p)
        and moments.scatter.shape == (*moments.count.shape, p, p)
        and model.statistics_.within_scatter.shape == (p, p)
        and all(d.n_features == used and d.batch_shape[-1:] == (K,) for d in (model.prior_, model.posterior_))
        and len(getattr(model, "feature_names_in_", range(p))) == p
    )
    if not fits:
        raise ValueError("the sizes of its arrays do not fit together")


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


def _unpack_parameters(parameters, arrays):
    parameters = dict(parameters)
    if isinstance(parameters["prior"], dict):
        parameters["prior"] = _unpack_distribution(parameters["prior"], "given_prior", arrays)
    return parameters


def _pack_distribution(niw, name, arrays):
    for field in niw.parameters():
        arrays[f"{name}/{field}"] = getattr(niw, field)
    return {"distribution": type(niw).__name__}


def _unpack_distribution(entry, name, arrays):
    cls = _DISTRIBUTIONS[entry["distribution"]]
    return cls(*(arrays[f"{name}/{field}"] for field in cls.parameters()))


def _pack_classes(classes):
    values = classes.tolist()
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise TypeError("class labels must be strings, numbers or booleans to be saved in a model file.")
    return {"dtype": "object" if classes.dtype == object else classes.dtype.str, "values": values}


def _unpack_classes(entry):
    if entry["dtype"] == "object":
        return np.array(entry["values"], dtype=object)
    return np.array(entry["values"], dtype=np.dtype(entry["dtype"]))


def _names_or_none(model):
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _to_json(document):
    try:
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise TypeError(
            "a model file holds text and numbers; labels, names, random_state, units or provenance have "
            f"something else: {problem}"
        ) from None


def _write(path: Path, document: bytes, arrays) -> None:
    members = {"model.json": document}
    for name, array in sorted(arrays.items()):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array, "<f8").reshape(array.shape))
        members[f"arrays/{name}.npy"] = buffer.getvalue()
    sealed = _seal(members)
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_bytes(sealed)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _seal(members) -> bytes:
    """Return a zip whose comment, its last 64 bytes, is the SHA-256 of all bytes before it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name, _DATE), content)
        file.comment = b"0" * _SEAL
    content = buffer.getvalue()[:-_SEAL]
    return content + hashlib.sha256(content).hexdigest().encode()


def _read(path: Path):
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such model file.") from None
    except OSError as problem:
        raise ModelFileError(f"{path}: cannot be read ({problem.strerror}).") from None
    if not (content.startswith(b"PK\x03\x04") and b"model.json" in content[:64]):
        raise ModelFileError(f"{path}: not a model file of uncover.")
    if hashlib.sha256(content[:-_SEAL]).hexdigest().encode() != content[-_SEAL:]:
        raise ModelFileError(
            f"{path}: the checksum does not fit; the file is cut off, or was changed after it was written."
        )
    try:
        return _parse(path, _members(content))
    except (ValueError, MemoryError, RecursionError, zipfile.BadZipFile, NotImplementedError) as problem:
        if isinstance(problem, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the model file is damaged ({_one_line(problem)}).") from None


def _members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in file.infolist()):
            raise ValueError("it is compressed, which a model file never is")
        return {name: file.read(name) for name in file.namelist()}


def _parse(path, members):
    document = json.loads(members["model.json"])
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not a model file of uncover.")
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written in format version {version}; this program reads version {FORMAT_VERSION}. "
            "Use the version of uncover that wrote it, or fit the model again."
        )
    arrays = {
        name.removeprefix("arrays/").removesuffix(".npy"): np.lib.format.read_array(
            io.BytesIO(content), allow_pickle=False
        )
        for name, content in members.items()
        if name.startswith("arrays/")
    }
    return document, arrays


def _one_line(problem) -> str:
    text = str(problem).splitlines()
    return text[0] if text else type(problem).__name__
