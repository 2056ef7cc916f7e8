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

from uncover.bayes.components import Components
from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.estimators.fitted import PARAMETERS, LoadedModel
from uncover.models.gaussian import GaussianClasses
from uncover.models.realisations import Statistics
from uncover.models.registry import CLASS_MODELS, of_estimator

FORMAT = "uncover-model"
FORMAT_VERSION = 2
# Distributions that class models have in common.
_COMMON = (NIW, JeffreysPrior, DeconvolvedNIW, DeconvolvedDiagonal)
_SEAL = 64  # characters of the checksum at the end
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed one: the same model gives the same bytes


class ModelFileError(ValueError):
    """A file that is not a model of this program, or not whole, or not as it was written."""


def load_fitted(path):
    """Read a model to read pixels with: without scikit-learn, if it has one kind of class model.

    Others, and sets, come as :func:`uncover.load_model` returns them.
    """
    document, arrays = read_model_file(Path(path))
    if of_estimator(document.get("estimator")) is not None:
        with consistent(path):
            parameters, model = unpack_parameters(document, arrays), unpack_gaussian(document, arrays)
        fitted = LoadedModel(document["estimator"], parameters, model)
        remember(fitted, document)
        return fitted
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


def unpack_gaussian(document, arrays, components=None, classes=None):
    """Gaussian classes of a document; ``components`` says which classes these are the components of."""
    if components is None:
        classes = unpack_classes(document["classes"])
        components = Components.single(len(classes), float(document.get("temperature", 1.0)))
    C, parameters = len(components.owner), document["parameters"]
    moments = Moments(*(arrays[f"moments/{name}"] for name in ("count", "mean", "scatter", "residual")))
    names = document["feature_names"]
    model = GaussianClasses(
        class_model=of_estimator(document["estimator"]),
        classes=classes,
        components=components,
        ignored_features=np.array(document["ignored_features"], dtype=bool),
        statistics=Statistics(
            moments,
            arrays["within_scatter"],
            float(document["within_dof"]),
            int(document["realisations"]),
            float(document.get("noise_weight", 0.0)),
            float(document.get("scale_weight", 1e6)),  # of a file without it: the size was that of all
        ),
        prior=_unpack_distribution(document["prior"], "prior", arrays),
        posterior=_unpack_distribution(document["posterior"], "posterior", arrays),
        prior_name=parameters["prior"] if isinstance(parameters["prior"], str) else None,
        alpha=arrays["class_prior"],
        count=arrays.get("class_count_", moments.count.reshape(-1, C)[0]),
        class_factor=arrays.get("class_scale_", np.ones(C)),
        realisations=parameters["realisations"],
        known_noise=arrays.get("known_noise_"),
        systematic=arrays.get("systematic_"),
        class_noise=arrays.get("class_noise_"),
        noise_evenness=arrays.get("noise_evenness_"),
        label_confusion=arrays.get("label_confusion_"),
        feature_names=None if names is None else np.array(names, dtype=object),
        seed=parameters["random_state"],
    )
    _check_shapes(model, int(document["n_features"]))
    return model


def _check_shapes(model, p):
    C, used = len(model.components.owner), int(model.used_features.sum())
    moments = model.statistics.classes
    fits = (
        model.class_model is not None
        and model.ignored_features.shape == (p,)
        and model.alpha.shape == model.class_factor.shape == model.count.shape == (C,)
        and moments.count.shape[-1:] == (C,)
        and moments.mean.shape == moments.residual.shape == (*moments.count.shape, p)
        and moments.scatter.shape == (*moments.count.shape, p, p)
        and model.statistics.within_scatter.shape == (p, p)
        and all(d.n_features == used and d.batch_shape[-1:] == (C,) for d in (model.prior, model.posterior))
        and len(model.features) == p
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
    known = [*_COMMON, *(cls for model in CLASS_MODELS.values() for cls in model.distributions)]
    cls = {each.__name__: each for each in known}[entry["distribution"]]
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
