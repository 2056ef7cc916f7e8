"""Models made of other models (BayesianClassifier, BayesianMDA, ConformalSets), for model files."""

import numpy as np

from uncover.bayes.components import Components
from uncover.bayes.logistic import Logistic
from uncover.engines.members import FastForest, FastKernelMixture
from uncover.estimators.classifier import BayesianClassifier
from uncover.estimators.conformal import ConformalSets
from uncover.estimators.fitted import PARAMETERS, name_features
from uncover.estimators.members import ClassRanks, GaussianMember, KernelMember, LogisticMember, Scale
from uncover.estimators.mixture import BayesianMDA
from uncover.estimators.model_files import unpack_classes, unpack_gaussian, unpack_parameters
from uncover.estimators.noise_share import NoiseShare
from uncover.estimators.trees import TreeMember
from uncover.measurement.transforms import MeasuredLog
from uncover.models.fit import one_for_each

_MOMENTS = ("class_count", "means", "covariances")
_EXACT = "without noise/"  # arrays of the classifier that takes X as exact
_NODES = ("left", "right", "feature", "roots")  # whole numbers


def pack_classifier(model, arrays, pack_model, pack_classes):
    """Return what the model is as JSON, and add its arrays; ``pack_model`` packs the Gaussian members."""
    names = getattr(model, "feature_names_in_", None)
    members = []
    for i, (transform, member, temperature) in enumerate(model._fitted):
        own: dict = {}
        entry = _pack_member(member, own, pack_model)
        members.append({**entry, "transform": transform, "temperature": temperature})
        arrays.update({f"member{i}/{name}": array for name, array in own.items()})
    for name in _MOMENTS:
        arrays[name] = getattr(model, f"{name}_")
    arrays["weights"] = model.weights_
    if model._ranks is not None:
        _pack_ranks(model._ranks, arrays)
    if model.logarithm_ is not None:
        arrays["floor"] = model.logarithm_.floor_
    without_noise = None
    if model.without_noise_ is not None:
        arrays["noise_share/within"] = model.noise_share_.within
        own = {}
        without_noise = pack_classifier(model.without_noise_, own, pack_model, pack_classes)
        arrays.update({f"{_EXACT}{name}": array for name, array in own.items()})
    parameters = model.get_params(deep=False)
    parameters["class_prior"] = np.asarray(parameters["class_prior"], float).tolist()
    return {
        "estimator": "BayesianClassifier",
        "without_noise": without_noise,
        "noise_ratio": None if without_noise is None else model.noise_share_.trained,
        "parameters": parameters,
        "classes": pack_classes(model.classes_),
        "n_features": model.n_features_in_,
        "realisations": model.realisations_,
        "feature_names": None if names is None else [str(name) for name in names],
        "members": members,
        "temperature": model.temperature_,
        "trusts": model.trusts_,
        "disagreement": model.disagreement_,
    }


def _pack_member(member, arrays, pack_model):
    if isinstance(member, GaussianMember):
        entry = {"kind": "gaussian", "model": pack_model(member.model, arrays)}
        _pack_ranks(member.ranks, arrays)
        arrays["typical"] = member.typical
        return entry
    arrays["scale/mean"], arrays["scale/deviation"] = member.scale.mean, member.scale.deviation
    if isinstance(member, TreeMember):
        forest = member.forest
        arrays.update({name: getattr(forest, name) for name in (*_NODES, "threshold", "count")})
        return {"kind": "trees", "strength": forest.strength, "samples": member.samples}
    if isinstance(member, LogisticMember):
        arrays["coefficients"], arrays["hessian"] = member.model.coefficients, member.model.hessian
        return {"kind": "logistic", "precision": member.model.precision}
    arrays["centres"], arrays["share"] = member.mixture.centres, member.mixture.share
    arrays["lowest"] = np.array([member.lowest])
    return {"kind": "kernels", "name": member.name, "bandwidth": member.mixture.bandwidth}


def unpack_classifier(document, arrays, unpack_model):
    """Return the model again."""
    model = BayesianClassifier(**document["parameters"])
    model.classes_ = unpack_classes(document["classes"])
    model.n_features_in_ = int(document["n_features"])
    model.realisations_ = int(document["realisations"])
    if document["feature_names"] is not None:
        model.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    model.weights_, model.temperature_ = arrays["weights"], float(document["temperature"])
    model.trusts_ = bool(document["trusts"])
    model.disagreement_ = float(document.get("disagreement", 0.0))
    for name in _MOMENTS:
        setattr(model, f"{name}_", arrays[name])
    model.logarithm_ = None
    if "floor" in arrays:
        model.logarithm_ = MeasuredLog()
        model.logarithm_.floor_ = arrays["floor"]
    model._fitted, model.members_ = [], []
    for i, entry in enumerate(document["members"]):
        member = _unpack_member(entry, _below(f"member{i}/", arrays), unpack_model)
        model._fitted.append((entry["transform"], member, float(entry["temperature"])))
        model.members_.append(entry["transform"] + member.name)
    model._ranks = None if model.takes_noise_ else _unpack_ranks(arrays)
    if len(model.weights_) != len(model._fitted):
        raise ValueError("it has another number of weights than of members")
    model.noise_share_ = model.without_noise_ = None
    if document.get("without_noise") is not None:
        model.noise_share_ = NoiseShare(arrays["noise_share/within"], float(document["noise_ratio"]))
        own = _below(_EXACT, arrays)
        model.without_noise_ = unpack_classifier(document["without_noise"], own, unpack_model)
    return model


def _below(start, arrays):
    """Arrays whose names begin so, without that beginning."""
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _unpack_member(entry, arrays, unpack_model):
    if entry["kind"] == "gaussian":
        ranks, typical = _unpack_ranks(arrays), arrays.pop("typical")
        return GaussianMember(unpack_model(entry["model"], arrays), ranks, typical)
    scale = Scale(arrays["scale/mean"], arrays["scale/deviation"])
    if entry["kind"] == "trees":
        nodes = {name: arrays[name].astype(np.intp) for name in _NODES}
        values = {name: arrays[name] for name in ("threshold", "count")}
        forest = FastForest(**nodes, **values, strength=float(entry["strength"]))
        return TreeMember(scale, forest, float(entry["samples"]))
    if entry["kind"] == "logistic":
        model = Logistic(arrays["coefficients"], float(entry["precision"]), arrays["hessian"])
        return LogisticMember(scale, model)
    mixture = FastKernelMixture(arrays["centres"], arrays["share"], float(entry["bandwidth"]))
    return KernelMember(entry["name"], scale, mixture, float(arrays["lowest"][0]))


def _pack_ranks(ranks, arrays):
    arrays["ranks/scores"], arrays["ranks/first"] = ranks.scores, ranks.first
    arrays["ranks/views"] = np.array([ranks.views])


def _unpack_ranks(arrays):
    if "ranks/scores" not in arrays:
        raise ValueError("it is of a version that ranked samples of all classes together; fit it again")
    scores, first, views = (arrays.pop(f"ranks/{name}") for name in ("scores", "first", "views"))
    return ClassRanks(scores, first.astype(np.intp), int(views[0]))


def pack_mixture(model, arrays, pack_gaussian, pack_classes):
    """Return what a BayesianMDA is as JSON, and add its arrays."""
    value, parameters = model.model_, model.get_params(deep=False)
    names, numbers = getattr(model, "feature_names_in_", None), np.arange(len(value.count))
    own = {**parameters, "class_prior": value.alpha, "calibration": None, "label_noise": None}
    own = {name: own[name] for name in PARAMETERS}
    if not isinstance(own["prior"], str):
        own["prior"] = one_for_each(own["prior"], numbers, value.n_features)
    names = None if names is None else [str(name) for name in names]
    inner = pack_gaussian(value, value.class_model.estimator, own, names, arrays, numbers)
    arrays["class_of_part"] = value.components.owner.astype(float)
    # A given prior is kept with the class models of the parts.
    given = not isinstance(parameters["prior"], str)
    parameters["prior"] = None if given else parameters["prior"]
    parameters["class_prior"] = np.asarray(parameters["class_prior"], float).tolist()
    return {
        "estimator": "BayesianMDA",
        "parameters": parameters,
        "classes": pack_classes(model.classes_),
        "model": inner,
    }


def unpack_mixture(document, arrays):
    """Return the model again."""
    model, inner = BayesianMDA(**document["parameters"]), document["model"]
    if model.prior is None:
        model.prior = unpack_parameters(inner, arrays)["prior"]
    owner = arrays["class_of_part"].astype(np.intp)
    components = Components(owner, float(inner.get("temperature", 1.0)))
    if len(owner) != len(inner["classes"]["values"]):
        raise ValueError("it has another number of parts than of class models")
    model.model_ = unpack_gaussian(inner, arrays, components, unpack_classes(document["classes"]))
    name_features(model, model.model_.feature_names)
    return model


def pack_sets(sets, arrays, pack_model):
    """Return what ConformalSets are as JSON, and add their arrays; the model is in them."""
    inner = pack_model(sets.estimator_, arrays)
    for k, (scores, counts) in enumerate(zip(sets.scores_, sets.counts_, strict=True)):
        arrays[f"sets/{k}"], arrays[f"sets/{k}/counts"] = scores, counts
    parameters = {name: getattr(sets, name) for name in ("coverage", "kept", "random_state")}
    return {"estimator": "ConformalSets", "parameters": parameters, "model": inner}


def unpack_sets(document, arrays, unpack_model):
    """Return the sets again, with their model."""
    scores = {name: array for name, array in arrays.items() if name.startswith("sets/")}
    model = unpack_model(document["model"], {k: v for k, v in arrays.items() if k not in scores})
    sets = ConformalSets(model, **document["parameters"])
    sets.estimator_, sets.classes_ = model, model.classes_
    sets.scores_ = [scores[f"sets/{k}"] for k in range(len(model.classes_))]
    sets.counts_ = [scores[f"sets/{k}/counts"] for k in range(len(model.classes_))]
    return sets
