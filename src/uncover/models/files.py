"""Model files: a zip of one JSON document and plain arrays, sealed. Reading one executes nothing.

A document names its estimator; ``_READERS`` has what reads each. Nothing here needs scikit-learn.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Required, TypedDict, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.components import Components
from uncover.bayes.deconvolved import DeconvolvedDiagonal, DeconvolvedNIW, GappyDiagonal, GappyNIW
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.linalg import cholesky
from uncover.bayes.logistic import Logistic
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW
from uncover.engines.members import FastForest, FastKernelMixture
from uncover.files import check_file, parse_json, shortened, typed, whole_or_nothing
from uncover.models import members
from uncover.models.drawn_noise import DrawnNoise
from uncover.models.fit import one_for_each
from uncover.models.gaussian import GaussianClasses
from uncover.models.pool import Pool, PoolMember, Reading, TrainingNoise
from uncover.models.realisations import KINDS, Statistics
from uncover.models.record import ModelRecord
from uncover.models.registry import CLASS_MODELS, of_estimator
from uncover.models.sets import WithSets

Array = NDArray[Any]
Arrays = dict[str, Array]
T = TypeVar("T")
Document = dict[str, Any]
Names = list[str] | None

FORMAT = "uncover-model"
FORMAT_VERSION = 2
# What the estimators of one kind of class model are made with.
PARAMETERS = ("prior", "class_prior", "realisations", "calibration", "label_noise", "missing", "random_state")
# Distributions that class models have in common.
_COMMON = (NIW, JeffreysPrior, DeconvolvedNIW, DeconvolvedDiagonal, GappyNIW, GappyDiagonal)
_MOMENTS = ("count", "mean", "scatter", "residual")
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
_OF_POOL = ("class_count", "means", "covariances", "exponents")
_NODES = ("left", "right", "feature", "roots")  # whole numbers
_MAY_BE = ("floor", "systematic", "told", "log_odds_shift")
_LONGEST_LABEL = 4096  # bytes
_SEAL = 64  # characters of the checksum at the end
_ROUNDING = 1e-4  # that correlations may have
_DATE = (1980, 1, 1, 0, 0, 0)  # a fixed one: the same model gives the same bytes


class _Labels(TypedDict):
    dtype: str
    values: list[str | float | bool]


class _Header(TypedDict, total=False):
    """Types of what all documents have."""

    estimator: Required[str]
    parameters: dict[str, Any]
    classes: _Labels
    n_features: int
    feature_names: list[str] | None
    ignored_features: list[bool]
    model: dict[str, Any]
    members: list[dict[str, Any]]


class ModelFileError(ValueError):
    """A file that is not a model of this program, or not whole, or not as it was written."""


def save_fitted(fitted: ModelRecord, path: str | Path, version: str) -> None:
    """Write a fitted model, by a program of this version. The file appears only when it is complete."""
    arrays: Arrays = {}
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "program_version": version,
        "units": fitted.units_,
        "provenance": fitted.provenance_,
        "features": fitted.features_,
        **_pack(fitted, arrays),
    }
    write_model_file(Path(path), document, arrays)


def load_fitted(path: str | Path, content: bytes | None = None) -> ModelRecord:
    """Read a fitted model, without scikit-learn; :func:`uncover.load_model` makes an estimator of it.

    ``content`` is that of the file, where it has been read.
    """
    path = Path(path)
    document, arrays = read_model_file(path, content)
    with consistent(path):
        facts = {f"{name}_": document[name] for name in ("units", "provenance", "features")}
        return replace(_unpack(document, arrays), **facts)


@contextmanager
def consistent(path: Path) -> Iterator[None]:
    """Say of a file whose parts do not fit together that it is the file."""
    try:
        yield
    except Exception as problem:  # whatever a forged file makes the models stumble over
        raise ModelFileError(f"{path}: the model file is inconsistent ({_one_line(problem)}).") from problem


def _pack(fitted: ModelRecord, arrays: Arrays) -> Document:
    """A fitted model as JSON; its arrays beside it."""
    value = fitted.value
    if isinstance(value, WithSets):
        inner = _pack(replace(fitted, value=value.model), arrays)
        for k, (scores, counts) in enumerate(zip(value.scores, value.counts, strict=True)):
            arrays[f"sets/{k}"], arrays[f"sets/{k}/counts"] = scores, counts
        return {"estimator": "ConformalSets", "parameters": fitted.set_parameters, "model": inner}
    given = fitted.feature_names_in_
    names = None if given is None else [str(name) for name in given]
    parameters = dict(fitted.parameters)
    if isinstance(value, Pool):
        return _pack_pool(value, parameters, names, arrays)
    if fitted.estimator_name == "BayesianMDA":
        return _pack_mixture(value, parameters, names, arrays)
    return _pack_gaussian(value, parameters, value.classes, names, arrays)


def _unpack(document: Document, arrays: Arrays) -> ModelRecord:
    name = document["estimator"]
    if name in _READERS:
        return _READERS[name](document, arrays)
    if of_estimator(name) is None:
        raise ValueError(f"its estimator, {name!r}, is none of this program")
    value, parameters = _unpack_gaussian(document, arrays), _unpack_parameters(document, arrays)
    return ModelRecord(name, parameters, value, value.feature_names)


def _unpack_sets(document: Document, arrays: Arrays) -> ModelRecord:
    mine = {name: array for name, array in arrays.items() if name.startswith("sets/")}
    inner = _unpack(document["model"], {k: v for k, v in arrays.items() if k not in mine})
    K, parameters = len(inner.classes_), document["parameters"]
    scores = tuple(mine[f"sets/{k}"] for k in range(K))
    counts = tuple(mine[f"sets/{k}/counts"] for k in range(K))
    value = WithSets(inner.model_, scores, counts, float(parameters["coverage"]))
    return replace(inner, value=value, set_parameters=parameters)


def _pack_gaussian(
    value: GaussianClasses, parameters: Document, labels: Array, names: Names, arrays: Arrays
) -> Document:
    statistics, drawn = value.statistics, value.statistics.drawn
    if drawn is not None:
        arrays["drawn/covariance"], arrays["drawn/sizes"] = drawn.covariance, drawn.sizes
    for name in _MOMENTS:
        arrays[f"moments/{name}"] = getattr(statistics.classes, name)
    arrays["within_scatter"], arrays["class_prior"] = statistics.within_scatter, value.alpha
    for name, field in _OPTIONAL.items():
        if getattr(value, field) is not None:
            arrays[name] = getattr(value, field)
    return {
        "estimator": value.class_model.estimator,
        "parameters": _pack_parameters(value, parameters, labels, arrays),
        "classes": _pack_labels(labels),
        "n_features": value.n_features,
        "feature_names": names,
        "ignored_features": value.ignored_features.tolist(),
        "realisations": statistics.realisations,
        "within_dof": statistics.within_dof,
        "noise_weight": 0.0 if drawn is None else drawn.weight,
        "temperature": value.temperature,
        "prior": _pack_distribution(value.prior, "prior", arrays),
        "posterior": _pack_distribution(value.posterior, "posterior", arrays),
    }


def _drawn_noise(arrays: Arrays) -> DrawnNoise:
    return DrawnNoise(arrays["covariance"], arrays["sizes"], float(arrays["weight"]))


def _unpack_gaussian(
    document: Document, arrays: Arrays, components: Components | None = None, classes: Array | None = None
) -> GaussianClasses:
    """Gaussian classes; ``components`` says which ``classes`` those of the document are components of."""
    labels, temperature = _unpack_labels(document["classes"]), float(document.get("temperature", 1.0))
    C, parameters, class_model = len(labels), document["parameters"], of_estimator(document["estimator"])
    assert class_model is not None
    moments = Moments(*(arrays[f"moments/{name}"] for name in _MOMENTS))
    defaults = {"class_scale_": np.ones(C), "class_count_": moments.count.reshape(-1, C)[0]}
    optional = {field: arrays.get(name, defaults.get(name)) for name, field in _OPTIONAL.items()}
    numbers = float(document["within_dof"]), int(document["realisations"])
    drawn = None
    if "drawn/covariance" in arrays:
        noise = arrays["drawn/covariance"], arrays["drawn/sizes"], float(document["noise_weight"])
        drawn = DrawnNoise(*noise)
    statistics = Statistics(moments, arrays["within_scatter"], *numbers, drawn)
    if parameters["realisations"] == "draws" and drawn is None and statistics.noise is not None:
        raise ValueError("the noise of its draws is absent; fit the model again")
    value = GaussianClasses(
        class_model=class_model,
        classes=labels if classes is None else classes,
        components=Components.single(C, temperature) if components is None else components,
        ignored_features=np.array(document["ignored_features"], dtype=bool),
        statistics=statistics,
        prior=_unpack_distribution(document["prior"], "prior", arrays),
        posterior=_unpack_distribution(document["posterior"], "posterior", arrays),
        prior_name=parameters["prior"] if isinstance(parameters["prior"], str) else None,
        alpha=arrays["class_prior"],
        realisations=_kind(parameters),
        feature_names=_unpack_names(document),
        seed=parameters["random_state"],
        **optional,  # type: ignore[arg-type]
    )
    _check_shapes(value, C, int(document["n_features"]))
    _check_numbers(value)
    return value


def _check_shapes(value: GaussianClasses, C: int, p: int) -> None:
    moments, used = value.statistics.classes, int(value.used_features.sum())
    drawn = value.statistics.drawn
    fits = (
        value.ignored_features.shape == (p,)
        and value.alpha.shape == value.class_factor.shape == value.count.shape == (C,)
        and moments.count.shape[-1:] == (C,)
        and moments.mean.shape == moments.residual.shape == (*moments.count.shape, p)
        and moments.scatter.shape == (*moments.count.shape, p, p)
        and bool(np.all(np.diagonal(moments.scatter, axis1=-2, axis2=-1) >= 0))
        and value.statistics.within_scatter.shape == (p, p)
        and (drawn is None or drawn.fits(C, p))
        and all(d.n_features == used for d in (value.prior, value.posterior))
        and all(d.batch_shape in ((C,), moments.count.shape) for d in (value.prior, value.posterior))
        and len(value.features) == p
    )
    _check(fits)


def _check_numbers(value: GaussianClasses) -> None:
    """Refuse statistics that no samples have: later they would be a singular matrix somewhere."""
    moments, statistics = value.statistics.classes, value.statistics
    _check(all(bool(np.all(one >= 0)) for one in (moments.count, value.alpha, value.count)))
    _check(bool(np.all(value.class_factor > 0) and np.all(moments.count.sum(-1) > 0)))
    rows = float(moments.count.sum()) if value.kind.counts_rows else math.inf
    if not 0 <= statistics.within_dof <= rows * (1 - 1e-9):
        raise ValueError("its realisations have more degrees of freedom than there are rows")
    each: dict[str, Array | None] = {"scatter": moments.scatter, "within_scatter": statistics.within_scatter}
    each |= {"systematic_": value.systematic, "class_noise_": value.class_noise}
    each["drawn/covariance"] = None if statistics.drawn is None else statistics.drawn.covariance
    for name, matrix in each.items():
        if matrix is not None:
            _check_covariances(matrix, name)


def _check_covariances(matrix: Array, name: str) -> None:
    """Refuse what is no batch of covariances: symmetric, no direction below zero but for rounding."""
    spread = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 0.0))
    scale = np.where(spread > 0, spread, 1.0)
    unit = matrix / scale[..., :, None] / scale[..., None, :]
    if not np.allclose(unit, np.swapaxes(unit, -1, -2), rtol=0.0, atol=_ROUNDING):
        raise ValueError(f"its {name} is not symmetric")
    cholesky(unit + _ROUNDING * np.eye(unit.shape[-1]), f"its {name}")


def _owners(array: Array, n_classes: int) -> Components:
    """Components that stand in the order of their classes, of which each has one."""
    owner = _numbers(array, n_classes)
    steps = np.diff(np.concatenate([[-1], owner, [n_classes]]))
    _check(bool(np.all((steps == 0) | (steps == 1))))
    return Components(owner)


def _pack_mixture(value: GaussianClasses, parameters: Document, names: Names, arrays: Arrays) -> Document:
    """A BayesianMDA; a given prior is kept with the class models of the components."""
    own = {**parameters, "class_prior": value.alpha, "calibration": None, "label_noise": None}
    inner = _pack_gaussian(value, own, np.arange(len(value.count)), names, arrays)
    arrays["class_of_part"] = value.components.owner.astype(float)
    if not isinstance(parameters["prior"], str):
        parameters["prior"] = None
    parameters["class_prior"] = np.asarray(parameters["class_prior"], float).tolist()
    classes = _pack_labels(value.classes)
    return {"estimator": "BayesianMDA", "parameters": parameters, "classes": classes, "model": inner}


def _unpack_mixture(document: Document, arrays: Arrays) -> ModelRecord:
    parameters, inner = dict(document["parameters"]), document["model"]
    if parameters["prior"] is None:
        parameters["prior"] = _unpack_parameters(inner, arrays)["prior"]
    parts = _owners(arrays["class_of_part"], len(document["classes"]["values"]))
    if len(parts.owner) != len(inner["classes"]["values"]):
        raise ValueError("it has another number of parts than of class models")
    components = replace(parts, temperature=float(inner.get("temperature", 1.0)))
    value = _unpack_gaussian(inner, arrays, components, _unpack_labels(document["classes"]))
    return ModelRecord("BayesianMDA", parameters, value, value.feature_names)


def _pack_parameters(value: GaussianClasses, given: Document, labels: Array, arrays: Arrays) -> Document:
    """Pack the estimator's parameters as JSON; priors and arrays beside it."""
    parameters = {name: given[name] for name in sorted(PARAMETERS)}
    if not isinstance(given["prior"], str):  # kept as one NIW with an axis of classes
        prior = one_for_each(given["prior"], labels, value.n_features)
        parameters["prior"] = _pack_distribution(prior, "given_prior", arrays)
    parameters |= _lists(parameters)
    if isinstance(parameters["random_state"], np.integer):
        parameters["random_state"] = int(parameters["random_state"])
    return parameters


def _lists(parameters: Document) -> Document:
    """Parameters that may be arrays, as lists."""
    given = {name: parameters[name] for name in ("class_prior", "label_noise")}
    return {k: v if isinstance(v, str | None) else np.asarray(v, float).tolist() for k, v in given.items()}


def _unpack_parameters(document: Document, arrays: Arrays) -> Document:
    parameters = dict(document["parameters"])
    if set(parameters) != set(PARAMETERS):
        raise ValueError(f"its parameters are {', '.join(parameters)}; there must be {', '.join(PARAMETERS)}")
    if isinstance(parameters["prior"], dict):
        parameters["prior"] = _unpack_distribution(parameters["prior"], "given_prior", arrays)
    return parameters


def _pack_distribution(niw: NIW, name: str, arrays: Arrays) -> Document:
    for field in niw.parameters():
        arrays[f"{name}/{field}"] = getattr(niw, field)
    return {"distribution": type(niw).__name__}


def _unpack_distribution(entry: Document, name: str, arrays: Arrays) -> NIW:
    of_models = [cls for model in CLASS_MODELS.values() for cls in model.distributions]
    cls: type[NIW] = {each.__name__: each for each in (*_COMMON, *of_models)}[entry["distribution"]]
    return cls(*(arrays[f"{name}/{field}"] for field in cls.parameters()))


def _pack_labels(classes: Array) -> Document:
    values = classes.tolist()
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise TypeError("class labels must be strings, numbers or booleans to be saved in a model file.")
    return {"dtype": "object" if classes.dtype == object else classes.dtype.str, "values": values}


def _unpack_labels(entry: Document) -> Array:
    dtype = object if entry["dtype"] == "object" else np.dtype(entry["dtype"])
    if dtype is not object:
        _check(dtype.kind in "biufU" and dtype.itemsize <= _LONGEST_LABEL)  # type: ignore[union-attr]
    labels = np.array(entry["values"], dtype=dtype)
    if len(set(labels.tolist())) < len(labels):
        raise ValueError("a class comes twice")
    return labels


def _unpack_names(document: Document) -> Array | None:
    names = document["feature_names"]
    return None if names is None else np.array(names, dtype=object)


def _pack_pool(pool: Pool, parameters: Document, names: Names, arrays: Arrays) -> Document:
    parameters |= _lists(parameters)
    entries = []
    for i, member in enumerate(pool.members):
        own: Arrays = {}
        entry = _pack_member(member.model, parameters, own)
        read = {"transform": member.transform, "reading": member.reading}
        entries.append({**entry, **read, "temperature": member.temperature})
        arrays.update({f"member{i}/{name}": array for name, array in own.items()})
    arrays.update({name: getattr(pool, name) for name in _OF_POOL})
    if pool.ranks is not None:
        _pack_ranks(pool.ranks, arrays)
    arrays.update({name: found for name in _MAY_BE if (found := getattr(pool, name)) is not None})
    if pool.noise is not None:
        arrays.update({f"noise/{name}": part for name, part in pool.noise._asdict().items()})
    if pool.spread is not None:
        arrays |= {f"spread/{name}": np.asarray(part) for name, part in vars(pool.spread).items()}
    return {
        "estimator": "BayesianClassifier",
        "parameters": parameters,
        "classes": _pack_labels(pool.classes),
        "n_features": pool.n_features,
        "realisations": pool.n_realisations,
        "feature_names": names,
        "members": entries,
        "trusts": pool.trusts,
        "truth": pool.truth,
        "tempered": "without class shares",
    }


def _unpack_pool(document: Document, arrays: Arrays) -> ModelRecord:
    found, classes = [], _unpack_labels(document["classes"])
    if document.get("tempered") != "without class shares":
        raise ValueError("it is of a version whose pools raised class shares to powers; fit it again")
    told, p = arrays.get("told"), document["n_features"]
    _check(told is None or told.shape == (p,))
    n_told = 0 if told is None else np.count_nonzero(told)
    for i, entry in enumerate(document["members"]):
        sees = p + n_told if entry["reading"] == "uncertainties" else p
        model = _unpack_member(entry, _below(f"member{i}/", arrays), classes, sees)
        temperature = float(entry["temperature"])
        _check(1e-100 < temperature < 1e100)
        found.append(PoolMember(model, entry["transform"], temperature, entry["reading"]))
    if arrays["exponents"].shape[1:] != (len(found),):
        raise ValueError("it has another number of exponents than of members")
    noise, spread = _below("noise/", arrays), _below("spread/", arrays)
    pool = Pool(
        classes=classes,
        members=tuple(found),
        realisations=_kind(document["parameters"]),
        n_realisations=int(document["realisations"]),
        floor=arrays.get("floor"),
        ranks=_unpack_ranks(arrays, len(classes)) if "ranks/scores" in arrays else None,
        trusts=bool(document["trusts"]),
        truth=int(document["truth"]),
        noise=TrainingNoise(**noise) if noise else None,
        spread=_drawn_noise(spread) if spread else None,
        systematic=arrays.get("systematic"),
        told=None if told is None else told > 0,
        log_odds_shift=arrays.get("log_odds_shift"),
        **{name: arrays[name] for name in _OF_POOL},
    )
    _check_pool(pool, p)
    return ModelRecord("BayesianClassifier", document["parameters"], pool, _unpack_names(document))


def _check_pool(pool: Pool, p: int) -> None:
    K, M = len(pool.classes), len(pool.members)
    kinds = {"": True, "log ": pool.floor is not None}
    readings = dict.fromkeys(get_args(Reading), True) | {"uncertainties": pool.told is not None}
    fits = (
        pool.exponents.shape == (len(pool.exponents), M)
        and pool.class_count.shape == (K,)
        and (pool.means.shape, pool.covariances.shape) == ((K, p), (K, p, p))
        and (pool.floor is None or pool.floor.shape == (p,))
        and (pool.systematic is None or pool.systematic.shape == (p, p))
        and (pool.log_odds_shift is None or pool.log_odds_shift.shape == (K,))
        and (pool.noise is None or all(part.shape == (p,) for part in pool.noise))
        and (pool.spread is None or pool.spread.fits(K, p))
        and all(kinds.get(m.transform) and readings.get(m.reading) for m in pool.members)
        and 0 <= pool.truth < M
    )
    _check(fits)
    _check_covariances(pool.covariances, "covariances")


def _below(start: str, arrays: dict[str, T]) -> dict[str, T]:
    """Those whose names begin so, without that beginning."""
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _pack_member(member: members.AnyMember, of_pool: Document, arrays: Arrays) -> Document:
    """A member as JSON; ``of_pool`` are the parameters of the pool."""
    if isinstance(member, members.GaussianMember):
        model = member.model
        own = {"missing": "error", "prior": "evidence", "random_state": model.seed}
        made = {**dict.fromkeys(PARAMETERS), **of_pool, **own, "realisations": model.realisations}
        _pack_ranks(member.ranks, arrays)
        arrays["typical"], arrays["class_of_part"] = member.typical, model.components.owner.astype(float)
        of_parts = np.arange(len(model.count))
        return {"kind": "gaussian", "model": _pack_gaussian(model, made, of_parts, None, arrays)}
    arrays["scale/mean"], arrays["scale/deviation"] = member.scale.mean, member.scale.deviation
    if isinstance(member, members.TreeMember):
        forest = member.forest
        arrays.update({name: getattr(forest, name) for name in (*_NODES, "threshold", "count")})
        return {"kind": "trees", "strength": forest.strength, "samples": member.samples}
    if isinstance(member, members.LogisticMember):
        arrays["coefficients"], arrays["hessian"] = member.model.coefficients, member.model.hessian
        return {"kind": "logistic", "precision": member.model.precision}
    arrays["centres"], arrays["share"] = member.mixture.centres, member.mixture.share
    arrays["lowest"] = np.array([member.lowest])
    return {"kind": "kernels", "bandwidth": member.mixture.bandwidth}


def _unpack_member(entry: Document, arrays: Arrays, classes: Array, p: int) -> members.AnyMember:
    """A member that sees so many features."""
    K = len(classes)
    if entry["kind"] == "gaussian":
        components = _owners(arrays["class_of_part"], K)
        model = _unpack_gaussian(entry["model"], arrays, components, classes)
        return members.GaussianMember(model, _unpack_ranks(arrays, K), arrays["typical"])
    scale = members.Scale(arrays["scale/mean"], arrays["scale/deviation"])
    _check(scale.mean.shape == scale.deviation.shape == (p,) and bool((scale.deviation > 0).all()))
    if entry["kind"] == "trees":
        forest = _forest(arrays, float(entry["strength"]), p, K)
        return members.TreeMember(scale, forest, float(entry["samples"]))
    if entry["kind"] == "logistic":
        precision, shapes = float(entry["precision"]), ((K * (p + 1),) * 2, (K, p + 1, p + 1))
        _check(arrays["coefficients"].shape == (K, p + 1) and arrays["hessian"].shape in shapes)
        _check_covariances(arrays["hessian"], "hessian")
        cholesky(arrays["hessian"], "its hessian")
        return members.LogisticMember(scale, Logistic(arrays["coefficients"], precision, arrays["hessian"]))
    _check(arrays["centres"].shape[1:] == (p,) and arrays["share"].shape == (len(arrays["centres"]), K))
    mixture = FastKernelMixture(arrays["centres"], arrays["share"], float(entry["bandwidth"]))
    _check(1e-100 < mixture.bandwidth < 1e100)
    return members.KernelMember(scale, mixture, float(arrays["lowest"][0]))


def _pack_ranks(ranks: members.ClassRanks, arrays: Arrays) -> None:
    arrays["ranks/scores"], arrays["ranks/first"] = ranks.scores, ranks.first
    arrays["ranks/views"] = np.array([ranks.views])


def _unpack_ranks(arrays: Arrays, K: int) -> members.ClassRanks:
    if "ranks/scores" not in arrays:
        raise ValueError("it is of a version that ranked samples of all classes together; fit it again")
    scores, first, views = (arrays[f"ranks/{name}"] for name in ("scores", "first", "views"))
    first = _numbers(first, len(scores) + 1)
    _check(
        len(first) == K + 1
        and first[0] == 0
        and first[-1] == len(scores)
        and bool(np.all(np.diff(first) >= 0))
    )
    return members.ClassRanks(scores, first, int(views[0]))


def _forest(arrays: Arrays, strength: float, p: int, K: int) -> FastForest:
    """Trees, if they are trees: compiled code follows their numbers without looking."""
    n = len(arrays["left"])
    left, right, roots = (_numbers(arrays[name], n) for name in ("left", "right", "roots"))
    leaf, threshold, count = left == np.arange(n), arrays["threshold"], arrays["count"]
    feature = arrays["feature"].astype(np.intp)
    children = np.concatenate([left[~leaf], right[~leaf]])
    _check(right.shape == feature.shape == threshold.shape == (n,) and count.shape == (n, K))
    _check(bool(np.all((feature[~leaf] >= 0) & (feature[~leaf] < p))) and len(roots) > 0)
    _check(np.unique(np.concatenate([children, roots])).size == children.size + roots.size)  # one parent each
    return FastForest(left, right, feature, threshold, count, roots, strength)


def _numbers(array: Array, below: int) -> NDArray[np.intp]:
    """Whole numbers from 0 to below a number."""
    _check(array.ndim == 1 and bool(np.all((array >= 0) & (array < below) & (array == np.rint(array)))))
    return array.astype(np.intp)


def _kind(parameters: Mapping[str, Any]) -> str:
    """Kind of realisations, which must be one that there is."""
    name = parameters["realisations"]
    if name not in tuple(KINDS):
        raise ValueError(f"{shortened(repr(name))} is no kind of realisations")
    return str(name)


def _check(fits: bool) -> None:
    if not fits:
        raise ValueError("the sizes or numbers of its arrays do not fit together")


_READERS: dict[str, Callable[[Document, Arrays], ModelRecord]] = {
    "BayesianClassifier": _unpack_pool,
    "BayesianMDA": _unpack_mixture,
    "ConformalSets": _unpack_sets,
}


# ---- the seal --------------------------------------------------------------------------------------------


def _to_json(document: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as problem:
        raise TypeError(
            "a model file holds text and numbers; labels, names, random_state, units or provenance have "
            f"something else: {problem}"
        ) from None


def write_model_file(path: Path, document: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a document and its arrays. The file appears under its name only when it is complete."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {path.parent}; make it first.")
    members = {"model.json": _to_json(document)}
    for name, array in sorted(arrays.items()):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array, "<f8").reshape(array.shape))
        members[f"arrays/{name}.npy"] = buffer.getvalue()
    with whole_or_nothing(path) as partial:
        partial.write_bytes(_seal(members))


def _seal(members: Mapping[str, bytes]) -> bytes:
    """Return a zip whose comment, its last 64 bytes, is the SHA-256 of all bytes before it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name, _DATE), content)
        file.comment = b"0" * _SEAL
    content = buffer.getvalue()[:-_SEAL]
    return content + hashlib.sha256(content).hexdigest().encode()


def read_content(path: str | Path) -> bytes:
    """Bytes of a model file."""
    check_file(path)
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise ModelFileError(f"{path}: there is no such model file.") from None
    except OSError as problem:
        raise ModelFileError(f"{path}: cannot be read ({problem.strerror}).") from None


def read_model_file(path: Path, content: bytes | None = None) -> tuple[Document, Arrays]:
    """Return the document and the arrays of a model file."""
    content = read_content(path) if content is None else content
    if not (content.startswith(b"PK\x03\x04") and b"model.json" in content[:64]):
        raise ModelFileError(f"{path}: not a model file of uncover.")
    if hashlib.sha256(content[:-_SEAL]).hexdigest().encode() != content[-_SEAL:]:
        raise ModelFileError(
            f"{path}: the checksum does not fit; the file is cut off, or was changed after it was written."
        )
    try:
        return _parse(path, _members(content))
    except ModelFileError:
        raise
    except Exception as problem:  # whatever a forged archive makes its readers stumble over
        raise ModelFileError(f"{path}: the model file is damaged ({_one_line(problem)}).") from problem


def _members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        entries = file.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise ValueError("it is compressed or encrypted, which a model file never is")
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("a member comes twice")
        if sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("its members are larger than the file")
        return {name: file.read(name) for name in file.namelist()}


def _parse(path: Path, members: Mapping[str, bytes]) -> tuple[Document, Arrays]:
    document = parse_json(members["model.json"], dict[str, Any], "its document")
    if document.get("format") != FORMAT:
        raise ModelFileError(f"{path}: not a model file of uncover.")
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written in format version {version}; this program reads version {FORMAT_VERSION}. "
            "Use the version of uncover that wrote it, or fit the model again."
        )
    found = {name.removesuffix(".npy"): io.BytesIO(content) for name, content in members.items()}
    arrays = _below("arrays/", found)
    typed(document, _Header, "its document")
    return document, {k: _array(k, v) for k, v in arrays.items()}


def _array(name: str, stream: io.BytesIO) -> Array:
    """An array, if it is of numbers and as long as it says: nothing is allocated for what it claims."""
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"the array {shortened(name)} is in another version of NumPy's format")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    content = stream.read()
    if dtype != np.dtype("<f8") or by_columns or len(content) != 8 * math.prod(shape):
        raise ValueError(f"the array {shortened(name)} is not of the numbers that its header claims")
    array = np.frombuffer(content, "<f8").reshape(shape).copy()
    if not np.isfinite(array).all():
        raise ValueError(f"the array {shortened(name)} has NaN or infinity")
    return array


def _one_line(problem: BaseException) -> str:
    text = str(problem).splitlines()
    return shortened(text[0]) if text else type(problem).__name__
