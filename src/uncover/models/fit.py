"""From statistics of samples to Gaussian classes: the prior, and its update."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.components import Components, find_components
from uncover.bayes.covariances import Covariances
from uncover.bayes.gaps import Gaps, fill_in, posterior_of_gaps
from uncover.bayes.jeffreys import JeffreysPrior
from uncover.bayes.linalg import independent_features
from uncover.bayes.moments import Moments
from uncover.bayes.niw import NIW, DiagonalNIW
from uncover.bayes.priors import Spread
from uncover.models.class_model import ClassModel
from uncover.models.deconvolution import (
    noise_of_classes,
    points_of_repeats,
    variances_without_noise,
    without_noise,
)
from uncover.models.gaussian import ENDLESS, GaussianClasses
from uncover.models.membership import Membership
from uncover.models.realisations import Statistics
from uncover.warn import warn

Array = NDArray[np.float64]

PRIORS = ("weak", "evidence", "jeffreys")
_PRIOR_NAMES = ", ".join(f'"{name}"' for name in PRIORS)


class NoisyPoints(NamedTuple):
    """Training samples whose noise is known."""

    points: Any  # (sample, feature)
    noise: Covariances
    membership: Membership
    typical: Covariances | None = None  # noise with that of others where a feature is missing, if any is

    @classmethod
    def of(cls, points: Any, noise: Covariances, membership: Membership) -> NoisyPoints:
        """Of samples that may lack features (NaN): these have endless noise, about the feature's mean."""
        lacking = np.isnan(points)
        if not lacking.any():
            return cls(points, noise, membership)
        there, unit = ~lacking, np.eye(points.shape[1])
        known = np.maximum(there.sum(0), 1)
        mean = np.where(there, points, 0.0).sum(0) / known
        variance = (np.where(there, points - mean, 0.0) ** 2).sum(0) / known
        each = np.where(there[:, :, None] & there[:, None, :], noise.of_each(len(points)), 0.0)
        average = np.diagonal(each, axis1=1, axis2=2).sum(0) / known
        endless = ENDLESS * np.where(variance > 0, variance, 1.0)
        filled = (each + np.where(lacking, one, 0.0)[:, :, None] * unit for one in (endless, average))
        noise, typical = (Covariances(None, None, one) for one in filled)
        return cls(np.where(lacking, mean, points), noise, membership, typical)

    def select_features(self, keep: NDArray[np.bool_]) -> NoisyPoints:
        """The same with some of the features."""
        typical = None if self.typical is None else self.typical.select_features(keep)
        noise = self.noise.select_features(keep)
        return NoisyPoints(self.points[:, keep], noise, self.membership, typical)

    @property
    def without_gaps(self) -> tuple[Any, Covariances, Membership]:
        """Points, noise of samples as they would be with all features, and membership."""
        return self.points, self.typical or self.noise, self.membership


def fit(
    statistics: Statistics,
    *,
    class_model: ClassModel,
    classes: NDArray[Any],
    prior: Any = "weak",
    class_prior: Any = 1.0,
    realisations: str = "pooled",
    measured: NoisyPoints | None = None,
    components: Components | None = None,
    feature_names: NDArray[Any] | None = None,
    seed: int | None = 0,
) -> GaussianClasses:
    """Fit class models to statistics of samples.

    Parameters
    ----------
    statistics : Statistics
        As the kind of realisations collects them, one class for each component.
    class_model : ClassModel
    classes : array of shape (class,)
    prior : "weak", "evidence", "jeffreys", NIW, or one NIW for each class
    class_prior : float or array of shape (class,)
    realisations : str
    measured : NoisyPoints, optional
        The samples themselves, where their noise is known.
    components : Components, optional
        Class of each component of the statistics; by default one for each class.
    feature_names : array of str, optional
    seed : int or None

    Examples
    --------
    >>> from uncover.models.realisations import KINDS
    >>> from uncover.models.registry import CLASS_MODELS
    >>> labels = Membership(2, np.array([0, 0, 1, 1]), None, None)
    >>> statistics = KINDS["pooled"].collect(np.array([[0.0], [0.2], [2.0], [2.3]]), labels)
    >>> model = fit(statistics, class_model=CLASS_MODELS["qda"], classes=np.array(["low", "high"]))
    >>> model.means.round(2).ravel()
    array([0.1 , 2.15])
    """
    components = components or Components.single(len(classes))
    moments, C = statistics.classes, len(components.owner)
    check_range(moments)
    number = np.bincount(components.owner, minlength=len(classes))
    alpha = (concentration(class_prior, len(classes)) / number)[components.owner]
    start = GaussianClasses(
        class_model=class_model,
        classes=classes,
        components=components,
        ignored_features=np.zeros(moments.n_features, dtype=bool),
        statistics=statistics,
        prior=_UNKNOWN,
        posterior=_UNKNOWN,
        prior_name=prior if isinstance(prior, str) else None,
        alpha=alpha,
        count=moments.count.reshape(-1, C)[0],
        class_factor=np.ones(C),
        realisations=realisations,
        feature_names=feature_names,
        seed=seed,
    )
    if start.prior_name is not None:
        start = replace(start, ignored_features=_ignored_features(start))
    return _concluded(start, prior, _points_to_learn_from(start, measured))


def refit(
    model: GaussianClasses, statistics: Statistics, measured: NoisyPoints | None, *, keep_prior: bool = True
) -> GaussianClasses:
    """Fit a model again to other samples: its prior stays, or is made anew by the same name."""
    check_range(statistics.classes)
    C = len(model.count)
    again = replace(
        model,
        statistics=statistics,
        count=statistics.classes.count.reshape(-1, C)[0],
        components=Components(model.components.owner),
        class_factor=np.ones(C),
    )
    if not keep_prior:
        again = replace(again, ignored_features=_ignored_features(again))
    prior = _KEPT if keep_prior else again.prior_name
    return _concluded(again, prior, _points_to_learn_from(again, measured))


def components_of_classes(X: Any, labels: Membership) -> tuple[Membership, Components]:
    """Components of the classes of labelled samples: their membership, and the class of each."""
    points = X.mean(axis=1, dtype=np.float64) if X.ndim == 3 else X.astype(np.float64)
    codes = np.empty(len(points), dtype=np.intp)
    owner: list[int] = []
    for k in range(labels.n_classes):
        rows, weight = labels.of_class(k)
        found = find_components(points[rows], weight) if len(rows) else np.zeros(1, dtype=np.intp)
        if len(rows):
            codes[rows] = len(owner) + found
        owner += [k] * (int(found.max()) + 1)
    return Membership(len(owner), codes, None, labels.weight), Components(np.array(owner))


_KEPT = object()  # in place of a prior: that of the model
_UNKNOWN = NIW(np.zeros(1), np.zeros(()), np.eye(1), np.array(2.0))  # stands in until there is a prior


def _concluded(model: GaussianClasses, prior: Any, measured: NoisyPoints | None) -> GaussianClasses:
    """With prior and posterior; the prior may be the one that the model has."""
    moments = model.used_moments
    if model.statistics.gaps is not None and measured is None:
        return _filled_in(model, prior)
    if prior is not _KEPT:
        model = replace(model, prior=_make_prior(model, prior, moments, measured))
    return _updated(model, moments, measured)


def _filled_in(model: GaussianClasses, prior: Any) -> GaussianClasses:
    """Learned from samples that lack features: the statistics are then those expected of whole samples."""
    whole, used = model.statistics.gaps, model.used_features
    assert whole is not None
    gaps = whole.select_features(used)
    variance = np.where(gaps.counts > 1, gaps.available[1], 0.0)
    fixed: NIW | None = model.prior if prior is _KEPT else None
    if prior is not _KEPT and model.prior_name != "evidence":
        shown = replace(gaps.start(), count=gaps.counts.mean(1))
        independent = DiagonalNIW in model.class_model.distributions
        fewest = gaps.counts.min(1) if independent else gaps.pair_counts.min((1, 2))
        fixed = _make_prior(model, prior, shown, None, variance, fewest)
    expected = 1.0 if fixed is None else fixed.scale.diagonal(axis1=-2, axis2=-1).mean(0)  # of what none has

    def conclude(moments: Moments, covariance: Array | None) -> tuple[NIW, NIW]:
        found = fixed
        if found is None:
            found = model.class_model.evidence_prior_of_gaps(moments, gaps.seen(moments, covariance))
        return found, model.class_model.update(found, moments)

    moments, found, posterior, converged = fill_in(
        gaps, gaps.start(expected), conclude, model.class_model.tolerance
    )
    if not converged:
        warn(
            "filling in what samples lack did not come to rest; few samples may have some features together.",
        )
    if type(posterior) in (NIW, DiagonalNIW):
        posterior = posterior_of_gaps(gaps, found, posterior)
    else:
        posterior = model.class_model.update(found, gaps.seen(moments, None).moments)
    statistics = replace(model.statistics, classes=_among(whole.start(), moments, used))
    return replace(
        model, statistics=statistics, prior=found, posterior=posterior, class_noise=None, noise_evenness=None
    )


def _among(whole: Moments, some: Moments, used: NDArray[np.bool_]) -> Moments:
    """Moments of all features, those of the features in use exchanged."""
    mean, scatter, places = whole.mean.copy(), whole.scatter.copy(), np.flatnonzero(used)
    mean[:, places] = some.mean
    scatter[:, places[:, None], places] = some.scatter
    return Moments(whole.count, mean, scatter, np.zeros_like(mean))


def _updated(model: GaussianClasses, moments: Moments, measured: NoisyPoints | None) -> GaussianClasses:
    """With the posterior."""
    if measured is None:
        posterior = model.class_model.update(model.prior, moments)
        return replace(model, posterior=posterior, class_noise=None, noise_evenness=None)
    posterior = model.class_model.update_through_noise(model.prior, *measured[:3])
    if not np.all(getattr(posterior, "converged", True)):
        warn(
            "taking the noise out of the spread of the classes did not come to rest; the noise may be "
            "too large for the number of samples.",
        )
    noise, evenness = noise_of_classes(*measured.without_gaps)
    gaps = model.statistics.gaps
    if gaps is not None:
        evenness = evenness * gaps.pair_counts.mean((1, 2)) / np.maximum(gaps.class_count, 1e-300)
    return replace(model, posterior=posterior, class_noise=noise, noise_evenness=evenness)


def _points_to_learn_from(model: GaussianClasses, measured: NoisyPoints | None) -> NoisyPoints | None:
    """Points whose noise is known, of the features in use.

    Means of repeats have noise; a prior that a user gave is for true values, and there it has to be known.
    """
    if measured is not None:
        return measured.select_features(model.used_features)
    repeated = model.realisations == "repeats" and model.statistics.noise is not None
    if model.prior_name is None and repeated:
        return NoisyPoints(*points_of_repeats(model.statistics))
    return None


def _make_prior(
    model: GaussianClasses,
    prior: Any,
    moments: Moments,
    measured: NoisyPoints | None,
    variance: Array | None = None,
    fewest: Array | None = None,
) -> NIW:
    """The prior by its name. ``variance`` (class, feature) stands in for that of the moments; ``fewest``
    (class,) are the samples that show any two features together, where some lack features.
    """
    if model.prior_name is None:
        given = one_for_each(prior, model.labels, model.n_features)
        return model.class_model.given_prior(given)
    if model.prior_name == "evidence":
        if measured is not None and measured.typical is not None:
            found = _filled_in(model, prior).prior
        else:
            found = model.class_model.evidence_prior(moments, model.rows_per_sample)
        return found if measured is None else without_noise(found, *measured.without_gaps)
    if model.prior_name == "jeffreys":
        return _jeffreys_prior(model, moments, measured, fewest)
    if measured is not None:
        variance = variances_without_noise(*measured[:3])
    return model.class_model.weak_prior(moments, variance)


def _jeffreys_prior(
    model: GaussianClasses, moments: Moments, measured: NoisyPoints | None, fewest: Array | None
) -> NIW:
    """The improper prior, where there are samples enough to make a posterior of it."""
    if measured is not None:
        raise ValueError(
            'prior="jeffreys" has no spread to expect, and known noise leaves none for certain; use '
            'prior="weak" or "evidence" with X_cov and draws.'
        )
    count = moments.count.reshape(-1, len(model.count))
    if fewest is not None:
        count = np.maximum(fewest - 2.0, 0.0)[None]  # the mean of Σ has to exist, for gaps to be filled in
    lacking = model.class_model.lacking_for_jeffreys(model.labels, count, moments.n_features)
    if lacking and fewest is not None:
        k = int(np.argmin(fewest))
        raise ValueError(
            f"class {str(model.labels[k])!r} has {fewest[k]:g} samples that show any two features together, "
            'too few for prior="jeffreys". Use prior="weak" or "evidence".'
        )
    if lacking:
        raise ValueError(f'{lacking} Use prior="weak" or "evidence".')
    return JeffreysPrior.of(moments)


def one_for_each(prior: Any, classes: NDArray[Any], n_features: int) -> NIW:
    """A prior given by the user, as one NIW with a batch axis of classes."""
    if isinstance(prior, NIW) and prior.batch_shape in ((), (len(classes),)):
        each = [prior if prior.batch_shape == () else prior[k] for k in range(len(classes))]
    elif isinstance(prior, dict):
        each = _in_order_of_classes(prior, classes)
    elif isinstance(prior, (list, tuple)):
        each = list(prior)
    else:
        raise ValueError(
            f"prior must be {_PRIOR_NAMES}, a NIW, or one NIW for each class (a list in the order of "
            f"classes_, or a dictionary); got {prior!r}."
        )
    strange = [type(one).__name__ for one in each if not isinstance(one, NIW)]
    if len(each) != len(classes) or strange:
        what = f"{len(each)} entries" + (f", among them {strange[0]}" if strange else "")
        raise ValueError(f"prior needs one NIW for each of the {len(classes)} classes, got {what}.")
    if any(one.n_features != n_features for one in each):
        sizes = sorted({one.n_features for one in each})
        raise ValueError(f"prior is for {sizes} features, X has {n_features}.")
    return NIW(*(np.stack([getattr(one, name) for one in each]) for name in NIW.parameters()))


def _in_order_of_classes(prior: dict[Any, Any], classes: NDArray[Any]) -> list[Any]:
    missing = [name for name in classes.tolist() if name not in prior]
    if missing:
        raise ValueError(f"prior has no NIW for the class(es) {missing}.")
    return [prior[name] for name in classes.tolist()]


def concentration(class_prior: Any, n_classes: int) -> Array:
    """Dirichlet parameters α of the class proportions."""
    try:
        alpha = np.asarray(class_prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"class_prior must be a number or one number for each class, got {class_prior!r}."
        ) from None
    if alpha.shape not in ((), (n_classes,)):
        raise ValueError(
            f"class_prior must be a number or one number for each of the {n_classes} classes, "
            f"got shape {alpha.shape}."
        )
    if not np.all(np.isfinite(alpha) & (alpha > 0)):
        raise ValueError(f"class_prior must be positive and finite, got {class_prior!r}.")
    return np.broadcast_to(alpha, (n_classes,)).copy()


def check_range(moments: Moments) -> None:
    """Refuse moments whose squares have overflowed."""
    if not np.isfinite(moments.scatter).all():
        raise ValueError("squares of X leave the range of floating point numbers; rescale the features.")


# ---- features that cannot be used -------------------------------------------------------------------


def constant_features(moments: Moments) -> NDArray[np.bool_]:
    """Which features are constant, in any world."""
    constant = Spread.of(moments).constant
    return np.asarray(np.any(constant.reshape(-1, constant.shape[-1]), axis=0))


def _ignored_features(model: GaussianClasses) -> NDArray[np.bool_]:
    """The features that a default prior cannot use; warns of them, and of what it borrows."""
    moments = model.statistics.classes
    total = moments.count.reshape(-1, len(model.count))[0].sum()
    if total <= 1:
        raise ValueError(
            f"the samples (with weights, the sum of these) number {total:g} in all; a spread needs more "
            "than 1. Give more samples, or scale the weights up."
        )
    constant, gaps = constant_features(moments), model.statistics.gaps
    if (constant if gaps is None else constant | gaps.unseen).all():
        raise ValueError(
            "every feature of X is constant, varies by rounding only, or has no value: there is nothing to "
            "tell classes apart by."
        )
    if gaps is not None:
        _warn_of_unseen(model, gaps)
        _warn_of_constant(model, constant)
        return np.asarray(constant | gaps.unseen)
    ignored = constant | _following_features(model, constant)
    _warn_of_constant(model, constant)
    if model.prior_name == "weak":
        _warn_of_borrowing(model, constant)
    return np.asarray(ignored)


def _following_features(model: GaussianClasses, constant: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Features that follow from others: a covariance that all classes share would be singular.

    The weak prior, which has none, uses them. With fewer samples than features nothing is known of it.
    """
    following = np.zeros_like(constant)
    used = np.flatnonzero(~constant)
    samples = model.count.sum() / model.rows_per_sample
    if model.prior_name == "weak" or samples - len(model.count) <= len(used):
        return following
    moments = model.statistics.classes.select_features(used)
    total = moments.sum(-1).scatter.reshape(-1, len(used), len(used))
    following[used] = ~np.any([independent_features(scatter) for scatter in total], axis=0)
    if following.any():
        warn(
            f"feature(s) {feature_list(model, following)} follow from the others, as a sum or a scaled "
            "copy does, and are ignored.",
        )
    return following


def _warn_of_unseen(model: GaussianClasses, gaps: Gaps) -> None:
    """Say which features no sample has, and which a class never shows."""
    if gaps.unseen.any():
        warn(
            f"feature(s) {feature_list(model, gaps.unseen)} have no value in any sample and are ignored.",
        )
    never = (gaps.counts == 0) & ~gaps.unseen & (gaps.class_count > 0)[:, None]
    if never.any():
        names = ", ".join(repr(name) for name in dict.fromkeys(model.labels[never.any(1)].tolist()))
        warn(
            f"class(es) {names} have no value in feature(s) {feature_list(model, never.any(0))}; their means "
            "there are taken as those of all samples, as uncertain as one of these.",
        )


def _warn_of_constant(model: GaussianClasses, constant: NDArray[np.bool_]) -> None:
    if constant.any():
        warn(
            f"feature(s) {feature_list(model, constant)} are constant and are ignored.",
        )


def _warn_of_borrowing(model: GaussianClasses, constant: NDArray[np.bool_]) -> None:
    """Say of which classes the weak prior takes the variance from all."""
    moments = model.statistics.classes
    borrowed = Spread.of(moments).borrowed & (moments.count > 0)[..., None] & ~constant
    each = np.asarray(borrowed.reshape(-1, len(model.count), model.n_features).any(0))
    if each.any():
        names = [repr(name) for name in dict.fromkeys(model.labels[each.any(1)].tolist())]
        features = np.asarray(each.any(0))
        warn(
            f"class(es) {', '.join(names)} have no variance of their own in feature(s) "
            f"{feature_list(model, features)} (one sample, or equal values); the weak prior takes the "
            "variance within all classes instead.",
        )


def feature_list(model: GaussianClasses, mask: NDArray[np.bool_]) -> str:
    """Names of some features, for messages."""
    chosen = [str(name) for name in model.features[mask]]
    return ", ".join(chosen[:8]) + (f", … ({len(chosen)} in all)" if len(chosen) > 8 else "")
