"""A fitted model as a page of text that can go into a report."""

import textwrap

import numpy as np

_REALISATIONS = {
    "pooled": "each realisation counts as an observation; probabilities are averaged over realisations",
    "repeats": "independent measurements of one true value; their mean is the observation",
    "draws": "Monte Carlo draws around one measurement; their mean is the measurement",
    "shared": "an error common to all samples; realisation r of every sample is one world",
}

# Samples a feature below which the page names a better prior.
_FEW = 10.0


def describe(model):
    """Return the page: the data, the five sources of uncertainty, and what was assumed."""
    parts = [_title(model), *(f"{i}. {text}" for i, text in enumerate(_sources(model), start=1))]
    lines = "\n\n".join(parts).splitlines()
    return "\n".join(_wrapped(line) for line in lines) + "\n"


def _wrapped(line, width=100):
    """A line of the page, broken where it would be too long for one."""
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 3)
    return textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False)


def _title(model):
    features = f"{model.n_features_in_} features"
    if hasattr(model, "feature_names_in_"):
        features += ": " + _listed([_printable(name) for name in model.feature_names_in_])
    lines = [
        f"{type(model).__name__}: {len(model.classes_)} classes, {features}",
        f"Probability model: {_class_model(model)}",
    ]
    if model.ignored_features_.any():
        ignored = model._feature_list(model.ignored_features_)
        lines.append(f"Ignored, because constant or dependent on others: {ignored}")
    return "\n".join(lines)


def _class_model(model):
    summary = (type(model).__doc__ or type(model).__name__).strip().splitlines()[0]
    return summary + " Parameters integrated out."


def _sources(model):
    yield "Class prior. Dirichlet with α = " + _listed([f"{a:g}" for a in model.class_prior_])
    yield "Model prior. " + _model_prior(model)
    yield "Measurement. " + _measurement(model)
    yield "Model posterior. " + _model_posterior(model)
    yield "Class posterior. " + _class_posterior(model)


_PRIORS = {
    "weak": "The means are free; the scale is that of the data, Ψ = diag(C)/K^(2/p).",
    "evidence": "The means are free; ν, the weight of what classes have in common, by evidence.",
    "jeffreys": "Improper: nothing is preferred, |Σ|^(−(p+1)/2).",
}


def _model_prior(model):
    prior = model.prior_
    named = isinstance(model.prior, str)
    kind = f'"{model.prior}"' if named else "given by the user"
    strength, dof = _range(prior.strength), _range(prior.dof)
    text = f"Normal-inverse-Wishart, {kind}: strength λ = {strength}, degrees of freedom ν = {dof}."
    text += "\n   " + _PRIORS[model.prior] if named else ""
    advice = advice_on_prior(model, samples=_FEW)
    return text + (f"\n   Note: {advice}" if advice else "")


def advice_on_prior(model, samples):
    """Return what to use in place of the weak prior, if classes have fewer samples a feature; or None.

    With few samples the weak prior is too sure: of 3 features it overstates probabilities by 0.12 with 8
    samples a class, and by 0.05 with 20.
    """
    if not isinstance(model.prior, str) or model.prior != "weak" or type(model).__name__ == "BayesianNB":
        return None
    p = int((~model.ignored_features_).sum())
    count = model.class_count_ / model.statistics_.rows_per_sample(model._kind())
    count = count.sum() if type(model).__name__ == "BayesianLDA" else count[count > 0].min(initial=np.inf)
    if p < 2 or count < 2 or count >= samples * p:
        return None
    return (
        f'prior="weak" is too sure with few samples, and the smallest class has {count:g} for {p} features; '
        'prior="evidence" or BayesianClassifier is more honest.'
    )


def _measurement(model):
    measurement = model.measurement_
    lines = [_kind_of_measurement(measurement)]
    if measurement.covariance is not None:
        what = {"shared": "of the common error", "known": "given with X_cov, root mean square"}
        name = what.get(measurement.realisations, "of one realisation")
        lines.append(f"Standard uncertainty {name}, by feature: {_deviations(measurement.covariance)}")
        if np.isfinite(measurement.dof):
            lines.append(f"(estimated with {measurement.dof:g} degrees of freedom)")
    if measurement.systematic is not None:
        lines.append(f"Systematic, common to all samples: {_deviations(measurement.systematic)}")
    if hasattr(model, "label_confusion_"):
        right = ", ".join(f"{share:.3g}" for share in np.diagonal(model.label_confusion_))
        lines.append(f"Labels are taken to be right with probability (by class): {right}")
    return "\n   ".join(lines)


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


def _model_posterior(model):
    worlds = model._n_worlds()
    text = "Normal-inverse-Wishart for each class"
    text += "." if worlds is None else f", in each of {worlds} worlds (the first is shown)."
    spread = np.sqrt(np.diagonal(model.covariances_, axis1=1, axis2=2))
    posterior = model.posterior_
    dof = np.broadcast_to(posterior.dof, posterior.batch_shape).reshape(-1, len(model.classes_))[0]
    freedom = dof - posterior.n_features + 1
    names = [_printable(name) for name in model.classes_]
    width = max(len(name) for name in [*names, "class"])
    rows = [
        f"   {'class':<{width}}  {'count N':>12}  {'dof of t':>12}  mean ± standard deviation of features"
    ]
    for k, name in enumerate(names):
        features = [f"{m:.4g}\u00a0±\u00a0{s:.2g}" for m, s in zip(model.means_[k], spread[k], strict=True)]
        rows.append(
            f"   {name:<{width}}  {model.class_count_[k]:>12g}  {freedom[k]:>12g}  {_listed(features, 6)}"
        )
    return "\n".join([text, *rows])


def _class_posterior(model):
    share = model.class_posterior_ / model.class_posterior_.sum()
    names = [_printable(name) for name in model.classes_]
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
