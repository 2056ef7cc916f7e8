"""A fitted model as a page of text that can go into a report."""

import textwrap
from typing import NamedTuple

import numpy as np

from uncover.models.fit import feature_list
from uncover.models.pool import Pool

_REALISATIONS = {
    "pooled": "each realisation counts as an observation; probabilities are averaged over realisations",
    "repeats": "independent measurements of one true value; their mean is the observation",
    "draws": "Monte Carlo draws around one measurement; their mean is the measurement",
    "shared": "an error common to all samples; realisation r of every sample is one world",
}

# Samples a feature below which the page names a better prior.
_FEW = 10.0


#: Class models in words, by the names of their estimators.
_SUMMARIES = {
    "BayesianQDA": "Bayesian quadratic discriminant analysis: a Gaussian with its own covariance for each "
    "class.",
    "BayesianLDA": "Bayesian linear discriminant analysis: all classes share one covariance.",
    "BayesianNB": "Bayesian naive Bayes: Gaussian features that are independent within each class.",
}


def page_of(record):
    """Return the page of a fitted model, a record as model files have it: it needs no scikit-learn."""
    value = record.model_
    if isinstance(value, Pool):
        return _page_of_pool(record, value)
    if record.estimator_name != "BayesianMDA":
        return _page_of_gaussians(value, record.estimator_name, value.classes)
    share = value.count / value.class_count[value.components.owner]
    labels = enumerate(zip(value.labels, share, strict=True))
    parts = [f"   {i}: {label}, {100 * part:.0f} %" for i, (label, part) in labels]
    page = _page_of_gaussians(value, "BayesianQDA", range(len(parts)))
    return "\n".join([f"BayesianMDA: {len(parts)} parts", *parts, "", page])


def _page_of_pool(record, pool):
    counts = zip(pool.classes, pool.class_count, strict=True)
    each = ", ".join(f"{member.name} {member.temperature:.3g}" for member in pool.members)
    lines = [
        fitted_in_words(record),
        f"{len(pool.classes)} classes, {pool.n_features} features",
        "Samples: " + ", ".join(f"{name} {count:g}" for name, count in counts),
        f"Temperatures: of the mean {pool.temperature:.3g}; of members {each}",
    ]
    return "\n".join(lines) + "\n"


def _page_of_gaussians(model, name, components):
    """The data, the five sources of uncertainty, what was assumed; ``components`` are names of those."""
    title = _title(model, name, _SUMMARIES.get(name, f"{name}."))
    names = [_printable(each) for each in components]
    parts = [title, *(f"{i}. {text}" for i, text in enumerate(_sources(model, names), start=1))]
    lines = "\n\n".join(parts).splitlines()
    return "\n".join(_wrapped(line) for line in lines) + "\n"


#: Members of a pool by their names.
_MEMBERS = {
    "BayesianQDA": "Gaussian classes, each with a covariance of its own",
    "BayesianLDA": "Gaussian classes with one covariance",
    "BayesianMDA": "classes of several Gaussian components",
    "kernels": "kernel densities of the training samples",
    "kernels by relevance": "kernel densities, features weighed by their relevance",
    "logistic": "logistic regression",
    "trees": "randomised trees",
}


def fitted_in_words(record):
    """Return what was fitted: the name of an estimator, or the members of a pool and their weights."""
    pool = record.model_
    if not isinstance(pool, Pool):
        return record.estimator_name
    order = np.argsort(-pool.weights, kind="stable")
    lines = [f"   {pool.weights[i]:>4.0%}  {member_in_words(pool.members[i].name)}" for i in order]
    head = f"{record.estimator_name}, a mean of {len(lines)} models, weighed by how well they predict "
    return "\n".join([head + "samples left out", *lines])


def member_in_words(name):
    """Return the name of a member of a pool in words.

    >>> member_in_words("log logistic, noise ignored")
    'logistic regression, of logarithms, noise ignored'
    """
    model, comma, rest = name.removeprefix("log ").partition(",")
    model, told, _ = model.partition(" with uncertainties")
    words = _MEMBERS.get(model, model) + (" that sees the uncertainties" if told else "")
    return words + (", of logarithms" if name.startswith("log ") else "") + comma + rest


def _wrapped(line, width=100):
    """A line of the page, broken where it would be too long for one."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 3)
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _title(model, name, summary):
    features = f"{model.n_features} features"
    if model.feature_names is not None:
        features += ": " + _listed([_printable(name) for name in model.feature_names])
    lines = [
        f"{name}: {len(model.count)} classes, {features}",
        f"Probability model: {summary} Parameters integrated out.",
    ]
    if model.ignored_features.any():
        ignored = feature_list(model, model.ignored_features)
        lines.append(f"Ignored, because constant or dependent on others: {ignored}")
    return "\n".join(lines)


def _sources(model, names):
    yield "Class prior. Dirichlet with α = " + _listed([f"{a:g}" for a in model.alpha])
    yield "Model prior. " + _model_prior(model)
    yield "Measurement. " + _measurement(model)
    yield "Model posterior. " + _model_posterior(model, names)
    yield "Class posterior. " + _class_posterior(model, names)


_PRIORS = {
    "weak": "The means are free; the scale is that of the data, Ψ = diag(C)/K^(2/p).",
    "evidence": "The means are free; ν, the weight of what classes have in common, by evidence.",
    "jeffreys": "Improper: nothing is preferred, |Σ|^(−(p+1)/2).",
}


def _model_prior(model):
    prior, name = model.prior, model.prior_name
    kind = "given by the user" if name is None else f'"{name}"'
    strength, dof = _range(prior.strength), _range(prior.dof)
    text = f"Normal-inverse-Wishart, {kind}: strength λ = {strength}, degrees of freedom ν = {dof}."
    text += "" if name is None else "\n   " + _PRIORS[name]
    advice = advice_on_prior(model, samples=_FEW)
    return text + (f"\n   Note: {advice}" if advice else "")


def advice_on_prior(model, samples):
    """Return what to use in place of the weak prior, if classes have fewer samples a feature; or None.

    With few samples the weak prior is too sure: docs/checks.md has the numbers.
    """
    if model.prior_name != "weak":
        return None
    p = int(model.used_features.sum())
    count = model.class_model.fewest_samples(model.count / model.rows_per_sample)
    if p < 2 or count < 2 or count >= samples * p:
        return None
    return (
        f'prior="weak" is too sure with few samples, and the smallest class has {count:g} for {p} features; '
        'BayesianClassifier is more honest, prior="evidence" a little.'
    )


def _measurement(model):
    measurement = measurement_of(model)
    lines = [_kind_of_measurement(measurement)]
    if measurement.covariance is not None:
        what = {"shared": "of the common error", "known": "given with X_cov, root mean square"}
        name = what.get(measurement.realisations, "of one realisation")
        lines.append(f"Standard uncertainty {name}, by feature: {_deviations(measurement.covariance)}")
        if np.isfinite(measurement.dof):
            lines.append(f"(estimated with {measurement.dof:g} degrees of freedom)")
    if measurement.systematic is not None:
        lines.append(f"Systematic, common to all samples: {_deviations(measurement.systematic)}")
    if model.label_confusion is not None:
        right = ", ".join(f"{share:.3g}" for share in np.diagonal(model.label_confusion))
        lines.append(f"Labels are taken to be right with probability (by class): {right}")
    return "\n   ".join(lines)


class Measurement(NamedTuple):
    """Knowledge of a fitted model about the measurement uncertainty of its training data."""

    realisations: str  # what several realisations of one sample were taken to mean; "known" for X_cov
    number: int  # R, of each sample; 0 where it varied
    covariance: np.ndarray | None  # (feature, feature) of one realisation; of the common error if "shared"
    dof: float  # degrees of freedom of that estimate; infinite where it was given
    systematic: np.ndarray | None  # (feature, feature), given for an error that all samples share


def measurement_of(model):
    """Return what Gaussian classes know of the measurement uncertainty of their training data."""
    worlds, statistics = model.n_worlds, model.statistics
    if model.known_noise is not None:
        return Measurement("known", 1, model.known_noise, np.inf, model.systematic)
    if worlds is None:
        noise, dof = statistics.noise, statistics.within_dof
        return Measurement(model.realisations, statistics.realisations, noise, dof, model.systematic)
    centre = statistics.classes.sum(-1).mean
    covariance = np.atleast_2d(np.cov(centre.T)) if worlds > 1 else None
    return Measurement(model.realisations, worlds, covariance, worlds - 1.0, model.systematic)


def _kind_of_measurement(measurement):
    if measurement.realisations == "known":
        return "Known noise of each sample: taken out of the spread of the classes."
    if measurement.number == 1:
        return "One value for each sample: its noise is part of the spread of the classes."
    number = measurement.number or "A varying number of"
    text = f"{number} realisations of each sample: {_REALISATIONS[measurement.realisations]}."
    if measurement.realisations == "pooled":
        text += (
            "\n   The classes hold the noise too: the measurement part of the budget is what averaging over"
            "\n   realisations adds, not all that a perfect measurement would take away."
        )
    return text


def _deviations(covariance):
    return _listed([f"{d:.4g}" for d in np.sqrt(np.diagonal(covariance))])


def _model_posterior(model, names):
    worlds, means, C = model.n_worlds, model.component_means, len(model.count)
    text = "Normal-inverse-Wishart for each class"
    text += "." if worlds is None else f", in each of {worlds} worlds (the first is shown)."
    spread = np.sqrt(np.diagonal(model.component_covariances, axis1=1, axis2=2))
    posterior = model.posterior
    dof = np.broadcast_to(posterior.dof, posterior.batch_shape).reshape(-1, C)[0]
    freedom = dof - posterior.n_features + 1
    width = max(len(name) for name in [*names, "class"])
    rows = [
        f"   {'class':<{width}}  {'count N':>12}  {'dof of t':>12}  mean ± standard deviation of features"
    ]
    for k, name in enumerate(names):
        features = [f"{m:.4g}\u00a0±\u00a0{s:.2g}" for m, s in zip(means[k], spread[k], strict=True)]
        rows.append(f"   {name:<{width}}  {model.count[k]:>12g}  {freedom[k]:>12g}  {_listed(features, 6)}")
    return "\n".join([text, *rows])


def _class_posterior(model, names):
    share = model.concentration / model.concentration.sum()
    shares = [f"{name} {100 * s:.4g}\u00a0%" for name, s in zip(names, share, strict=True)]
    return (
        "Proportions after fitting, Dirichlet with N_k + α_k: "
        + _listed(shares)
        + "\n   For an input x they are weighed with the class densities: predict_proba(x). uncertainty(x)"
        + "\n   says how much of the remaining doubt comes from the measurement, the model and the overlap."
    )


def _listed(items, most=12):
    items = [str(item) for item in items]
    return ", ".join(items[:most]) + (f", … ({len(items)} in all)" if len(items) > most else "")


def _printable(name):
    """Return a name as it is, or in quotes where it is blank or would break the line."""
    text = str(name)
    return text if text.isprintable() and text.strip() else repr(text)


def _range(values):
    low, high = float(np.min(values)), float(np.max(values))
    return f"{low:g}" if low == high else f"{low:g} … {high:g}"
