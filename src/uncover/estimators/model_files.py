"""The format of model files: a zip of one JSON document and plain arrays, sealed.

Reading one executes nothing. Models of one kind of class model are read here without scikit-learn.
"""

import hashlib
import io
import json
import os
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.estimators.fitted import PARAMETERS, FittedModel
from uncover.estimators.realisations import Statistics

FORMAT = "uncover-model"
FORMAT_VERSION = 2
# Estimators of one kind of class model.
OF_ONE_KIND = ("BayesianQDA", "BayesianLDA", "BayesianNB")
_DISTRIBUTIONS = {
    cls.__name__: cls for cls in (NIW, DiagonalNIW, JeffreysPrior, DeconvolvedNIW, DeconvolvedDiagonal)
}
_SEAL = 64  # characters of the checksum at the end
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed one: the same model gives the same bytes


class ModelFileError(ValueError):
    """A file that is not a model of this program, or not whole, or not as it was written."""


def load_fitted(path):
    """Read a model to read pixels with: without scikit-learn, if it has one kind of class model.

    Others, and sets, come as :func:`uncover.load_model` returns them.
    """
    document, arrays = read_model_file(Path(path))
    if document.get("estimator") in OF_ONE_KIND:
        with consistent(path):
            model = FittedModel(document["estimator"], unpack_parameters(document, arrays))
            remember(model, document)
            return fill(model, document, arrays)
    from uncover.estimators.persistence import load_model

    return load_model(path)


@contextmanager
def consistent(path):
    """Say of a file whose parts do not fit together that it is the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        raise ModelFileError(f"{path}: the model file is inconsistent ({_one_line(problem)}).") from None


def remember(model, document):
    """Give a model what is known of its features and of where it comes from."""
    model.units_, model.provenance_ = document["units"], document["provenance"]
    model.features_ = document["features"]


def fill(model, document, arrays):
    """Give a model what it was fitted to, and return it."""
    model.classes_ = unpack_classes(document["classes"])
    model.n_features_in_ = int(document["n_features"])
    if document["feature_names"] is not None:
        model.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    model.ignored_features_ = np.array(document["ignored_features"], dtype=bool)
    moments = Moments(*(arrays[f"moments/{name}"] for name in ("count", "mean", "scatter", "residual")))
    model.statistics_ = Statistics(
        moments,
        arrays["within_scatter"],
        float(document["within_dof"]),
        int(document["realisations"]),
        float(document.get("noise_weight", 0.0)),
        float(document.get("scale_weight", 1e6)),  # of a file without it: the size was that of all
    )
    model.class_prior_ = arrays["class_prior"]
    model.temperature_ = float(document.get("temperature", 1.0))
    model.class_scale_ = arrays.get("class_scale_", np.ones(len(model.classes_)))
    model.systematic_, model.known_noise_ = arrays.get("systematic_"), arrays.get("known_noise_")
    model.class_noise_, model.noise_evenness_ = arrays.get("class_noise_"), arrays.get("noise_evenness_")
    if "label_confusion_" in arrays:
        model.label_confusion_ = arrays["label_confusion_"]
    counts = moments.count.reshape(-1, len(model.classes_))[0]
    model.class_count_ = arrays.get("class_count_", counts)
    model.prior_ = _unpack_distribution(document["prior"], "prior", arrays)
    model.posterior_ = _unpack_distribution(document["posterior"], "posterior", arrays)
    _check_shapes(model)
    return model


def _check_shapes(model):
    K, p, used = len(model.classes_), model.n_features_in_, int((~model.ignored_features_).sum())
    moments = model.statistics_.classes
    fits = (
        model.ignored_features_.shape == (p,)
        and model.class_prior_.shape == model.class_scale_.shape == model.class_count_.shape == (K,)
        and moments.count.shape[-1:] == (K,)
        and moments.mean.shape == moments.residual.shape == (*moments.count.shape, p)
        and moments.scatter.shape == (*moments.count.shape, p, p)
        and model.statistics_.within_scatter.shape == (p, p)
        and all(d.n_features == used and d.batch_shape[-1:] == (K,) for d in (model.prior_, model.posterior_))
        and len(getattr(model, "feature_names_in_", range(p))) == p
    )
    if not fits:
        raise ValueError("the sizes of its arrays do not fit together")


def unpack_parameters(document, arrays):
    """Constructor arguments."""
    parameters = dict(document["parameters"])
    if set(parameters) != set(PARAMETERS):
        raise ValueError(f"its parameters are {', '.join(parameters)}; there must be {', '.join(PARAMETERS)}")
    if isinstance(parameters["prior"], dict):
        parameters["prior"] = _unpack_distribution(parameters["prior"], "given_prior", arrays)
    return parameters


def _unpack_distribution(entry, name, arrays):
    cls = _DISTRIBUTIONS[entry["distribution"]]
    return cls(*(arrays[f"{name}/{field}"] for field in cls.parameters()))


def unpack_classes(entry):
    """Class labels, in their type."""
    if entry["dtype"] == "object":
        return np.array(entry["values"], dtype=object)
    return np.array(entry["values"], dtype=np.dtype(entry["dtype"]))


def _to_json(document):
    try:
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise TypeError(
            "a model file holds text and numbers; labels, names, random_state, units or provenance have "
            f"something else: {problem}"
        ) from None


def write_model_file(path: Path, document, arrays) -> None:
    """Write a document and its arrays. The file appears under its name only when it is complete."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}; make it first.")
    members = {"model.json": _to_json(document)}
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


def read_model_file(path: Path):
    """Return the document and the arrays of a model file."""
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
    if version == 1:
        raise ModelFileError(
            f"{path}: written before model files recorded what their features are (top-of-atmosphere or "
            "surface reflectance); fit the model again."
        )
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
