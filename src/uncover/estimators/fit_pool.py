"""Fitting a pool: its members, and their weights by what they say of samples left out."""

from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr, log_softmax, ndtri_exp, softmax

from uncover.bayes.noise import sobol_places
from uncover.bayes.streams import stream
from uncover.estimators.calibration import warn_of_lonely_classes
from uncover.estimators.fit_members import (
    IMPUTATIONS,
    best_score,
    fit_gaussians,
    fit_kernels,
    fit_logistic,
    fit_trees,
)
from uncover.measurement.observation import Observation
from uncover.models.drawn_noise import DrawnNoise, scatter_of_draws
from uncover.models.fit import concentration
from uncover.models.members import log_density
from uncover.models.membership import Membership
from uncover.models.pool import LEAST_PROBABILITY, Pool, PoolMember, TrainingNoise
from uncover.models.realisations import KINDS
from uncover.models.registry import CLASS_MODELS, RoughLinear, RoughQuadratic
from uncover.progress import step

# Draws of the exponents of the members, those that they are chosen from, and how often each is exchanged.
EXPONENTS, EXPONENTS_TRIED, SWEEPS = 8, 512, 5
# A member of less weight than this costs time and says nothing.
LEAST_WEIGHT = 0.01
# Noise of less than this share of the variance within classes is none, as far as training goes.
LEAST_NOISE = 1e-3
# Draws of the true value of each sample left out, at most and of all samples; these are some of so many.
ASKED, ALL_ASKED, DRAWN = 16, 1 << 13, 64
# Spread of log uncertainties from which on they may say something of the class.
VARYING = 0.05
_LEAST_EXPONENT = 1e-6


class Candidate(NamedTuple):
    """A member with what it says of samples left out, and of their true values where these are drawn."""

    member: PoolMember
    joint: np.ndarray  # (chosen sample, view, class)
    at_truth: np.ndarray  # (chosen sample, draw, class)
    score: float


def fit_pool(training, class_prior=1.0):
    """Fit all members to training samples, and find temperatures and weights by samples left out: a Pool.

    ``class_prior`` are Dirichlet parameters of the class shares; members have 1 for each.
    """
    given, kind, spread = training.observation, training.realisations, _spread(training)
    seen = given.by_spread(kind, spread)
    inner = "shared" if kind == "shared" else "pooled"
    training = replace(training, observation=Observation(seen.X, seen.noise), realisations=inner)
    if not training.held_out_weight().any():
        warn_of_lonely_classes()
    alpha, moments = concentration(class_prior, len(training.classes)), _moments(training)
    shift = np.log((moments["class_count"] + alpha) / (moments["class_count"] + 1.0))
    pool = Pool(
        classes=training.classes,
        members=(),
        exponents=np.empty((1, 0)),
        **moments,
        realisations=kind,
        n_realisations=given.structure.realisations or 1,
        floor=_floor(seen.X),
        noise=_training_noise(training.observation, moments),
        spread=spread,
        systematic=given.systematic,
        log_odds_shift=shift if np.ptp(shift) > 0 else None,
    )
    return _with_members(pool, training)


def _with_members(pool, training):
    """The pool with its members, weights and what follows from them."""
    several = (training.observation.structure.realisations or 1) > 1
    if training.realisations == "shared" and several:
        found, truth = _members_of_worlds(training, pool.floor), 0
    elif training.observation.lacks_features or _counts(pool.noise, training.observation):
        pool = replace(pool, told=_told(training.observation))
        found, truth, training = _members_through_noise(training, pool)
        pool = replace(pool, noise=_beside_components(pool.noise, found[truth].member))
        if training.observation.lacks_features:
            classes = found[0].member.model.model
            pool = replace(pool, means=classes.means, covariances=classes.covariances)
    else:
        training = training.exact()
        found = _members_of_values(training, pool.floor)
        truth = next(i for i, one in enumerate(found) if one.member.gaussian)
    members, held_out = tuple(one.member for one in found), [one.joint for one in found]
    pool = replace(pool, members=members, exponents=np.full((1, len(found)), 1.0 / len(found)), truth=truth)
    if training.asked is None and not (training.realisations == "shared" and several):
        pool = replace(pool, ranks=training.class_ranks(pool.typical_scores(held_out)))
    return _weigh(pool, found, training)


def _spread(training):
    """Noise of one realisation of a sample, where it is known by their spread: a DrawnNoise, or None."""
    X = training.observation.X
    if training.realisations not in ("draws", "repeats") or X.ndim == 2 or X.shape[1] == 1:
        return None
    if training.realisations == "draws":
        return DrawnNoise.of(X, Membership(1, np.zeros(len(X), int), None, training.weight))
    share = training.counts / training.counts.sum()
    return DrawnNoise.alike(np.tensordot(share, scatter_of_draws(X), axes=1) / (X.shape[1] - 1))


def _training_noise(observation, moments):
    """Noise of the training samples beside the spread of the classes; None where it is not known."""
    if observation.noise is None or observation.X.ndim == 3:
        return None
    free, X = np.maximum(moments["class_count"] - 1.0, 0.0), observation.X.astype(np.float64)
    total = np.nanvar(X, axis=0)
    within = free @ np.diagonal(moments["covariances"], axis1=1, axis2=2) / max(free.sum(), 1.0)
    return TrainingNoise.of(observation.variances(), np.where(within > 1e-12 * total, within, total))


def _beside_components(noise, member):
    """Noise beside the variance within components, where these are of the features as they are."""
    if noise is None or member.transform:
        return noise
    model = member.model.model
    each = np.diagonal(model.component_covariances, axis1=1, axis2=2)
    within = model.count @ each / model.count.sum()
    return noise._replace(within=np.where(within > 0, np.minimum(within, noise.within), noise.within))


def _counts(noise, observation):
    """True where the noise of training samples is large enough to tell true values from measured ones."""
    if noise is None:
        return False
    mean, varies = observation.variances().mean(0), noise.within > 0
    return bool((mean > LEAST_NOISE * noise.within)[varies].any())


def _told(observation):
    """Features whose uncertainties vary between samples: (feature,), or None."""
    variances = observation.variances()
    if len(variances) == 1 or observation.lacks_features:
        return None
    low, high = np.quantile(variances, [0.025, 0.975], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        varying = (high > 0) & ~(0.5 * np.log(high / low) < VARYING)
    return varying if varying.any() else None


# ---- members ----------------------------------------------------------------------------------------------

_QDA, _LDA, _ROUGH_LDA = RoughQuadratic(), CLASS_MODELS["lda"], RoughLinear()
# Kinds of members that have no closed form with noise.
_OTHERS = (fit_kernels, fit_logistic, fit_trees)


def _others(transform):
    """Functions that fit them; not trees of logarithms, which do not change the order of values."""
    return [make for make in _OTHERS if not (transform and make is fit_trees)]


def _candidate(training, transform, reading, model, joint, at_truth=None):
    targets, weight = training.targets[training.chosen()], training.held_out_weight()
    score, temperature = best_score(joint, targets, weight, training.log_shares)
    member = PoolMember(model, transform, temperature, reading)
    return Candidate(member, joint, joint if at_truth is None else at_truth, score)


def _transforms(training, floor):
    """Training samples as they are, and their logarithms where all are positive."""
    return {"": training} if floor is None else {"": training, "log ": training.log(floor)}


def _members_of_values(training, floor):
    """Members that learn from exact values."""
    found, each = [], _transforms(training, floor)
    for transform, seen in each.items():
        for make in _others(transform):
            _tell(found, each)
            found.append(_candidate(seen, transform, "draws", *make(seen)))
        _tell(found, each)
        found.append(_gaussian_candidate(seen, transform))
    return found


def _tell(found, transforms, of_each=1, extra=1):
    """Say how many members are fitted: of each transform so many of each kind, and some Gaussians."""
    total = sum(of_each * len(_others(transform)) + extra for transform in transforms)
    step("fitting members", len(found), total)


def _gaussian_candidate(seen, transform, class_model=_QDA, reading="closed"):
    fitted = fit_gaussians(seen, class_model)
    return _candidate(seen, transform, reading, fitted.member(seen), fitted.joint)


def _members_of_worlds(training, floor):
    """Members of errors that all samples share: Gaussians world by world, others of the mean world."""
    mean = training.exact(training.observation.X.mean(axis=1, dtype=np.float64))
    mean = replace(mean, realisations="pooled")
    found, means = [], _transforms(mean, floor)
    for transform, seen in _transforms(training, floor).items():
        found += [_gaussian_candidate(seen, transform, model) for model in (_QDA, _LDA)]
        for make in _others(transform):
            _tell(found, means, extra=2)
            found.append(_candidate(seen, transform, "draws", *make(means[transform])))
    return found


def _members_through_noise(training, pool):
    """Members that learn through known noise or gaps, and in spite of noise: candidates, number of the truth.

    Also the training samples with draws of their true values. Gaussian classes have as many components as the
    evidence asks for. With gaps no member ignores them; kernels that ignore noise would make answers worse.
    """
    gaps, each = training.observation.lacks_features, _transforms(training, pool.floor)
    gaussians = [_describing(seen, transform, gaps) for transform, seen in each.items()]
    truth = max(range(len(gaussians)), key=lambda i: gaussians[i][0])
    training = _with_true_values(training, *gaussians[truth][1:], pool.floor)
    each = _transforms(training, pool.floor)
    found = [_through_noise(each[transform], transform, fitted) for _, transform, fitted in gaussians]
    for transform, seen in each.items():
        values = seen.exact()
        if not gaps:
            found += _better(found, transform, _gaussian_candidate(values, transform, reading="exact"))
        for make in _others(transform):
            _tell(found, each, of_each=2)
            found.append(_candidate(seen, transform, "draws", *make(seen)))
            if gaps or make is fit_kernels:
                continue
            if pool.told is None:
                found.append(_candidate(seen, transform, "exact", *make(values)))
            else:
                way = _with_uncertainties(training, seen, pool)
                found.append(_candidate(seen, transform, "uncertainties", *make(way)))
    return found, truth, training


def _describing(training, transform, gaps):
    """Gaussians that describe the samples, scored: with gaps, those that describe samples left out best.

    What is missing is drawn from them, so they have to know how features go together. Of few samples that
    often is what the classes have in common: one covariance, and how well it is known.
    """
    kinds = (_QDA, _ROUGH_LDA) if gaps else (_QDA,)
    fits = (fit_gaussians(training, kind, mixture=not gaps) for kind in kinds)
    return max((_scored(fitted, training, transform) for fitted in fits), key=lambda one: one[0])


def _scored(fitted, training, transform):
    return _density_score(training, fitted, transform), transform, fitted


def _better(found, transform, exact):
    """Gaussians that ignore the noise, if they predict better than those of this transform that do not."""
    return (
        [exact] if all(one.score < exact.score for one in found if one.member.transform == transform) else []
    )


def _through_noise(training, transform, fitted):
    member, at_truth = fitted.member(training, training.asked), fitted.at(training.asked)
    return _candidate(training, transform, "closed", member, fitted.joint, at_truth)


def _density_score(training, fitted, transform):
    """Mean held-out log density of the measured values, also where it is that of their logarithms."""
    density = log_density(fitted.joint)[:, 0]
    if transform:
        logs = training.observation.X[training.chosen()]
        density = density - np.nansum(logs, axis=1)  # the slope of the logarithm
    weight = training.held_out_weight() * np.isfinite(density)
    return float(weight @ np.where(np.isfinite(density), density, 0.0)) / max(float(weight.sum()), 1e-300)


def _with_true_values(training, transform, fitted, floor):
    """The training samples with drawn true values, by the Gaussians that describe them best.

    Those that members learn from know the class of the sample; those that they are asked about come from
    Gaussians without the sample, and do not know it. What samples lack is drawn without the class for both:
    else members would learn from it how the Gaussians tell classes apart, as if that had been measured.
    """
    seen, chosen = training.log(floor).observation if transform else training.observation, training.chosen()
    rng = stream(training.seed, "imputed true values")
    codes = None if seen.noise is None and seen.lacks_features else training.codes
    imputed = fitted.model.true_values(seen.X, seen.noise, IMPUTATIONS, rng, codes, apart=True)
    some = int(np.clip(ALL_ASKED // len(chosen), 2, ASKED))
    asked = np.empty((len(chosen), some, seen.X.shape[1]))
    start = stream(training.seed, "asked true values").integers(DRAWN, size=(len(chosen), 1))
    which = (start + np.arange(some) * (DRAWN // some)) % DRAWN
    for held, model in fitted.folds:
        rows, rng = chosen[held], stream(training.seed, "true values")
        own = None if seen.noise is None else seen.noise[rows]
        drawn = model.true_values(seen.X[rows], own, DRAWN, rng)
        asked[held] = np.take_along_axis(drawn, which[held][..., None], axis=1)
    if transform:
        imputed, asked = np.exp(imputed), np.exp(asked)
    return replace(training, imputed=imputed, asked=asked)


def _with_uncertainties(training, seen, pool):
    """Values with the logarithms of their standard uncertainties as further features."""
    told = pool.log_uncertainties(training.observation.variances(), len(training.codes))
    return seen.exact(np.concatenate([seen.observation.X, told], axis=1))


# ---- weights ----------------------------------------------------------------------------------------------


def _weigh(pool, found, training):
    """Draw exponents, and find whether strange inputs can be left to all; drop members of no weight."""
    chosen = training.chosen()
    targets, weight = training.targets[chosen], training.held_out_weight()
    kinds = len({(type(m.model), m.model.name, m.transform) for m in pool.members})
    variances = training.observation.variances_with_gaps()
    variances = variances[chosen] if len(variances) > 1 else variances
    P, at_truth, tried = pool.probabilities([one.joint for one in found]), [one.at_truth for one in found], []
    for trusts in (False, True) if training.groups is not None else (False,):
        gate = replace(pool, trusts=trusts).gates(at_truth, variances)
        tried.append((fit_exponents(P, gate, targets, pool.log_shares, weight, kinds), trusts))
    posterior, trusts = max(tried, key=lambda one: one[0].score)
    exponents = posterior.draw(EXPONENTS, stream(training.seed, "exponents"))
    heard = exponents.mean(0) >= LEAST_WEIGHT * exponents.mean(0).sum()
    heard[[pool.by_relevance, pool.truth]] = True  # these say how typical an input is, and what may be true
    for i, member in enumerate(pool.members):
        if member.gaussian:
            heard[i] |= any(heard[[member.transform == other.transform for other in pool.members]])
    kept, truth = tuple(compress(pool.members, heard)), int(np.count_nonzero(heard[: pool.truth]))
    exponents = np.ascontiguousarray(exponents[:, heard])
    return replace(pool, members=kept, exponents=exponents, trusts=trusts, truth=truth)


def _moments(training):
    """Number, mean and covariance of the training samples of each class."""
    X = training.observation.X
    points = X.mean(axis=1, dtype=np.float64) if X.ndim == 3 else X
    moments = KINDS["pooled"].collect(points, training.membership()).classes
    free = np.maximum(moments.count - 1.0, 1.0)
    covariances = moments.scatter / free[:, None, None]
    return {"class_count": moments.count, "means": moments.mean, "covariances": covariances}


def _floor(X):
    """Half of the smallest value of each feature; None where a value is not positive."""
    smallest = X.reshape(-1, X.shape[-1]).astype(np.float64)
    smallest = np.min(smallest, axis=0, where=~np.isnan(smallest), initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, 1.0)  # of what no sample has, any
    return 0.5 * smallest if np.all(smallest > 0) else None


class Exponents(NamedTuple):
    """Posterior of the exponents of the members, to second order about its mode, where none is negative.

    log p(b) = gᵀ(b − m) − ½(b − m)ᵀΛ(b − m) for b ≥ 0, with Λ Fisher's information + M²: a normal
    distribution of mean m + Λ⁻¹g, truncated at 0. Where the mode m lies on the border, g is not 0.
    """

    mode: np.ndarray  # (member,)
    slope: np.ndarray  # (member,)
    information: np.ndarray  # (member, member), of the answers
    score: float  # the maximum

    def sample(self, n, rng):
        """Exponents from Sobol's points, and their weights: (n, member), (n,).

        Members come one by one, each truncated given those before it; the weights are the products of what
        the truncations leave (Genz 1992). Those that lie nearest to the border come first.
        """
        M = len(self.mode)
        precision = self.information + M**2 * np.eye(M)
        centre, covariance = self.mode + np.linalg.solve(precision, self.slope), np.linalg.inv(precision)
        order = np.argsort(centre / np.sqrt(np.diag(covariance)))
        root = np.linalg.cholesky(covariance[np.ix_(order, order)])
        left, normal, log_weight = np.log(sobol_places(n, M, rng)), np.zeros((n, M)), np.zeros(n)
        for j, row in enumerate(root):
            log_tail = log_ndtr((centre[order[j]] + normal @ row) / row[j])
            normal[:, j] = -ndtri_exp(log_tail + left[:, j])
            log_weight += log_tail
        drawn = np.empty((n, M))
        drawn[:, order] = np.maximum(centre[order] + normal @ root.T, 0.0)
        return drawn, softmax(log_weight)

    def draw(self, n, rng):
        """n exponents that stand for the posterior together, each as much as the others: (n, member).

        They are support points (Mak and Joseph 2018) among many: those of the lowest energy distance to all,
        where a distance is that of answers.
        """
        drawn, weight = self.sample(EXPONENTS_TRIED, rng)
        along, size = np.linalg.eigh(self.information)[::-1]
        return drawn[support_points(drawn @ (along * np.sqrt(np.maximum(size, 0.0))), weight, n)]


def support_points(points, weight, n):
    """Numbers of n points that together stand for all (point, coordinate), which have weights: (n,).

    They have the least energy distance, 2Σ_i D̄(x_i)/n − Σ_ij |x_i − x_j|/n², with D̄ the mean distance to all;
    found one after the other, and then exchanged one by one until none is better.

    Examples
    --------
    >>> points = np.linspace(0.0, 1.0, 101)[:, None]
    >>> np.sort(support_points(points, np.full(101, 1 / 101), 2))
    array([25, 75])
    """
    apart = cdist(points, points)
    to_all, among, chosen = apart @ weight, np.zeros(len(points)), []
    for turn in range(SWEEPS * n):
        if turn >= n:
            among -= apart[chosen.pop(0)]
        cost = (len(chosen) + 1) * to_all - among
        cost[chosen] = np.inf
        chosen.append(int(np.argmin(cost)))
        among += apart[chosen[-1]]
    return np.array(chosen)


def fit_exponents(probability, gate, targets, log_shares, weight=None, kinds=None):
    """Exponents of the pool with the highest score of held-out probabilities, and how well they are known.

    With M members of K kinds, the exponents b maximise Σ_i v_i log P_i(y_i | b) − ½Σ_m K²(b_m − 1/M)²:
    a priori each is 1/M, the plain geometric mean, give or take 1/K. ``kinds`` is K, by default M: members
    that differ only in how they take noise are of one kind. ``probability`` (member, sample, class) is by
    models that have not seen the sample, ``gate`` (member, sample) how far each member is heard, ``targets``
    (sample, class) 1 for the true class, ``log_shares`` (class,) those of the classes, which are not raised
    to the exponents, ``weight`` (sample,) v.

    Examples
    --------
    >>> from scipy.special import softmax
    >>> right, useless = np.array([[0.9, 0.1]] * 50), np.array([[0.5, 0.5]] * 50)
    >>> targets = np.array([[1.0, 0.0]] * 45 + [[0.0, 1.0]] * 5)  # the first is right 9 times of 10
    >>> found = fit_exponents(np.stack([right, useless]), np.ones((2, 50)), targets, np.log([0.5, 0.5]))
    >>> softmax(found.mode[0] * np.log(right[0])).round(2)
    array([0.88, 0.12])
    """
    M = len(probability)
    K = kinds or M
    heard = gate[..., None] * np.log(np.maximum(probability, LEAST_PROBABILITY))
    weight = np.ones(len(targets)) if weight is None else weight

    def at(b):
        """Log probabilities, and how their odds depend on b: (sample, class), (member, sample, class)."""
        total, local = b.sum(), (b @ gate)[:, None]
        mean = np.tensordot(b, heard, 1) / local
        slopes = mean + total * (heard - gate[..., None] * mean) / local
        return log_softmax(total * mean + (1.0 - total) * log_shares, axis=1), slopes - log_shares

    def loss(b):
        log_P, slopes = at(b)
        apart = K * (b - 1.0 / M)
        rest = weight[:, None] * (targets - np.exp(log_P))
        value = (weight[:, None] * log_P * targets).sum() - 0.5 * (apart**2).sum()
        return -value, K * apart - np.einsum("msk,sk->m", slopes, rest)

    start, bounds = np.full(M, 1.0 / M), [(_LEAST_EXPONENT, None)] * M
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    log_P, slopes = at(found.x)
    P = np.exp(log_P)
    slopes = ((slopes - (slopes * P).sum(-1, keepdims=True)) * np.sqrt(weight[:, None] * P)).reshape(M, -1)
    return Exponents(found.x, -found.jac, slopes @ slopes.T, -float(found.fun))
