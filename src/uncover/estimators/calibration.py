"""Calibration: a temperature, and a scale of each class, fitted to held-out training samples."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp

from uncover.bayes.leave_out import leave_one_out, leave_units_out
from uncover.bayes.moments import Moments
from uncover.bayes.streams import stream
from uncover.estimators.choices import check_choice
from uncover.estimators.groups import divide, read_groups, read_scored
from uncover.measurement.prediction import predict
from uncover.models.fit import NoisyPoints, refit
from uncover.warn import warn

# log β = −log T is N(0, this²) a priori: where no sample is ever wrong, nothing else would bound it.
PRIOR_DEVIATION = 1.0
_FURTHEST = 6.0
# log s_k/T is N(0, this²) a priori, s_k being the scale of class k.
SCALE_DEVIATION = 1.0
_LOWEST = -1e6  # stands in for −∞, the log joint of a class that is impossible
_NEWTON_STEPS = 30
_CONVERGED = 1e-6  # nat
# Where no closed form exists, models are refitted without each of this many parts of the samples.
FOLDS = 5
_BLOCK_NUMBERS = 1 << 20


def fit_temperature(log_joint, target, weight=None, log_shares=0.0):
    """Return the temperature T with the highest score on held-out samples.

    Probabilities are softmax(log_joint / T), or π_k (p_k/π_k)^(1/T) where ``log_shares``, the logarithms of
    the class shares π, (class,), are not to be tempered. Maximises Σ_i w_i Σ_k t_ik log P_ik − ½(log T)²,
    with P averaged over views. Samples whose class is unknown without them say nothing about T and are left
    out.

    Parameters
    ----------
    log_joint : array of shape (sample, view, class)
        Each by a model that has not seen the sample.
    target : array of shape (sample, class)
        Probabilities of the true class: 0 and 1 for hard labels.
    weight : array of shape (sample,), optional

    Examples
    --------
    >>> log_joint = np.array([[[9.0, 0.0]]] * 9 + [[[0.0, 9.0]]])  # very sure, and right 9 times of 10
    >>> target = np.array([[1.0, 0.0]] * 10)
    >>> 1.0 < fit_temperature(log_joint, target) < 9.0
    True
    """
    known = np.isfinite(np.where(target[:, None] > 0, log_joint, 0.0)).all((1, 2))
    joint, target = log_joint[known] - log_shares, target[known]
    weight = np.ones(len(joint)) if weight is None else weight[known]
    if not len(joint):
        return 1.0
    hard = joint.shape[1] == 1 and np.all((target == 0) | (target == 1))
    score_of = _score_of_labels if hard else _score_of_views
    score = score_of(joint, target, weight, np.broadcast_to(log_shares, target.shape[1:]))

    def loss(u):
        return 0.5 * (u / PRIOR_DEVIATION) ** 2 - score(np.exp(-u))

    found = minimize_scalar(loss, bounds=(-_FURTHEST, _FURTHEST), method="bounded", options={"xatol": 1e-5})
    return float(np.exp(found.x))


def _score_of_views(joint, target, weight, log_shares):
    """Score as a function of β = 1/T: several views, or soft labels."""

    def score(beta):
        each = log_softmax(beta * joint + log_shares, axis=-1)
        log_P = each[:, 0] if each.shape[1] == 1 else logsumexp(each, axis=1) - np.log(each.shape[1])
        return float(weight @ np.where(target > 0, target * np.where(target > 0, log_P, 0.0), 0.0).sum(1))

    return score


def _score_of_labels(joint, target, weight, log_shares):
    """The same for one view and hard labels: log P = −log Σ_k (π_k/π_y) exp(β(ℓ_k − ℓ_y))."""
    code = target.argmax(1)
    excess = np.ascontiguousarray((joint[:, 0] - joint[np.arange(len(joint)), 0, code][:, None]).T)
    largest = excess.max(0)
    excess -= largest
    change, ratio = float(weight @ largest), np.exp(log_shares[:, None] - log_shares[code])

    def score(beta):
        return -float(weight @ np.log((ratio * np.exp(beta * excess)).sum(0))) - beta * change

    return score


def calibrate(log_joint, target, weight=None):
    """Return the temperature T and the scale s of each class in P_k ∝ (s_k p(x, k))^(1/T): float, (class,).

    The scales are 1 unless their evidence, by Laplace's method, is higher than without them. Parameters are
    those of :func:`fit_temperature`.

    Examples
    --------
    >>> log_joint = np.array([[[2.0, 0.0]], [[0.0, 2.0]]] * 300)
    >>> often_wrong = np.array([[1.0, 0.0]] * 2 + [[0.0, 1.0]]) @ np.eye(2)
    >>> T, scale = calibrate(log_joint, np.tile(often_wrong, (200, 1)))
    >>> bool(scale[0] > 1.5 * scale[1])  # the first class is the more frequent one, whatever is said
    True
    """
    if not np.isfinite(np.where(target > 0, log_joint.min(1), 0.0)).all(1).any():
        warn_of_lonely_classes()
    T, log_scale = _fit_scale(log_joint, target, weight)
    if log_joint.shape[1] > 1:  # probabilities of the views are averaged, which one temperature can allow for
        T = fit_temperature(log_joint + log_scale, target, weight)
    return T, np.exp(log_scale)


def warn_of_lonely_classes():
    """Say that no sample could be predicted by a model that has not seen it."""
    warn(
        "no class has two samples, or two groups: left out, each is unknown, and nothing tells how sure to "
        "be. The temperature stays 1.",
    )


def _fit_scale(log_joint, target, weight):
    """Temperature and log scales of the classes, each view a sample of its own; 0 if not worth it."""
    V, K = log_joint.shape[1:]
    known = np.isfinite(np.where(target[:, None] > 0, log_joint, 0.0)).all((1, 2))
    joint = log_joint[known].reshape(-1, K).T
    if not joint.size:
        return 1.0, np.zeros(K)
    each = np.repeat(np.ones(int(known.sum())) if weight is None else weight[known], V) / V
    aim = np.repeat(target[known], V, axis=0).T * each
    below = np.maximum(joint - joint.max(0), _LOWEST)
    fit = ScaleFit(np.ascontiguousarray(below), np.ascontiguousarray(aim), each)
    alone, evidence_alone = fit.maximise(np.zeros(K + 1), 1)
    both, evidence = fit.maximise(alone, K + 1)
    best = both if evidence > evidence_alone else alone
    T = float(np.exp(best[0]))
    return T, T * best[1:]


@dataclass(frozen=True)
class ScaleFit:
    """Log posterior of θ = (log T, c), for P = softmax(ℓ/T + c) of held-out samples, and its maximum."""

    joint: np.ndarray  # (class, sample), at most 0
    aim: np.ndarray  # (class, sample), the target times the weight
    weight: np.ndarray  # (sample,)

    def maximise(self, theta, free):
        """Newton's method on the first ``free`` parameters: the maximum, and its log evidence by Laplace."""
        value, slope, curvature = self._at(theta, free)
        for _ in range(_NEWTON_STEPS):
            step, length = np.zeros_like(theta), 1.0
            step[:free] = np.linalg.solve(_made_positive(curvature), slope)
            gain = float(slope @ step[:free])
            if gain < _CONVERGED:
                break
            while length > _CONVERGED:
                new = theta + length * step
                new[0] = np.clip(new[0], -_FURTHEST, _FURTHEST)
                found = self._at(new, free)
                if found[0] > value:
                    break
                length *= 0.5
            else:
                break
            theta, (value, slope, curvature) = new, found
        spread = (free - 1) * np.log(SCALE_DEVIATION) + np.log(PRIOR_DEVIATION)
        return theta, value - spread - 0.5 * np.linalg.slogdet(_made_positive(curvature))[1]

    def _at(self, theta, free):
        """Log posterior, its gradient and negative Hessian in the first parameters."""
        c = theta[1:]
        scaled = np.exp(-theta[0]) * self.joint
        log_P = scaled + c[:, None]
        P = np.exp(log_P)
        total = P.sum(0)
        P /= total
        prior = np.concatenate([[PRIOR_DEVIATION**-2], np.full(len(c), SCALE_DEVIATION**-2)])
        value = np.vdot(self.aim, log_P) - self.weight @ np.log(total) - 0.5 * prior @ theta**2
        weighed = P * self.weight
        rest, product = self.aim - weighed, weighed * scaled
        along, mean = np.vdot(rest, scaled), (P * scaled).sum(0)
        H = np.diag(prior[:free])
        H[0, 0] += np.vdot(product, scaled) - self.weight @ mean**2 - along
        if free > 1:
            H[0, 1:] = H[1:, 0] = weighed @ mean - product.sum(1)
            H[1:, 1:] += np.diag(weighed.sum(1)) - weighed @ P.T
        slope = np.concatenate([[-along], rest.sum(1)])[:free] - (prior * theta)[:free]
        return float(value), slope, H


def _made_positive(matrix):
    """The matrix, its eigenvalues at least a little above 0: Newton's steps then go uphill."""
    values, axes = np.linalg.eigh(matrix)
    if values[0] > 0:
        return matrix
    return (axes * np.maximum(np.abs(values), 1e-3)) @ axes.T


def held_out_log_joint(model, observation, membership, groups=None):
    """Log joint of each training sample and component by Gaussian classes without it.

    (sample, reading, component); ``membership`` is that of the components.
    ``groups`` numbers the group of each sample: whole groups are then left out together. In closed form; the
    weight of the prior is held fixed, and what the samples have brought to it is left out with them. Where
    noise is known or samples lack features, which have none, models are refitted with the same prior without
    a fifth of the units.
    """
    if model.kind.knows_noise(observation.structure) or model.describes_true_values or model.has_gaps:
        return _by_folds(model, observation, membership, groups)
    worlds = _worlds(model, observation.X)
    views = [_of_world(model, rows, posterior, membership, groups) for rows, posterior in worlds]
    return np.concatenate(views, axis=1)


def _worlds(model, X):
    """Rows (sample, row, feature) with the posterior that they were brought to."""
    X = X[..., model.used_features]
    X = X[:, None] if X.ndim == 2 else X
    posterior = model.posterior
    if model.n_worlds is not None:
        return [(X[:, r : r + 1].astype(float), posterior.member(r)) for r in range(X.shape[1])]
    if not model.kind.counts_rows:
        X = X.mean(axis=1, keepdims=True, dtype=np.float64)
    return [(X.astype(float), posterior)]


def _of_world(model, rows, posterior, membership, groups):
    n, R, _ = rows.shape
    echo = model.echo
    if groups is None and R == 1 and membership.codes is not None:
        density = leave_one_out(posterior, rows[:, 0], membership.codes, membership.weight, echo)
        removed = membership.shares(np.arange(n))
        return (density + _log_prior(model, removed))[:, None]
    out = np.empty((n, R, membership.n_classes))
    for index, unit in _units(rows, membership, groups, posterior.n_features):
        removed, unit_rows = unit
        density = leave_units_out(posterior, removed, unit_rows, echo)
        joint = density + _log_prior(model, removed.count)[:, None]
        out[index] = joint.reshape(-1, R, membership.n_classes)
    return out


def _units(rows, membership, groups, p):
    """Samples with the moments that they brought, in blocks of units to be left out together."""
    n, R, _ = rows.shape
    if groups is not None:
        for g in range(int(groups.max()) + 1):
            index = np.flatnonzero(groups == g)
            flat = rows[index].reshape(-1, p)
            moments = membership[np.repeat(index, R)].moments(flat)
            yield index, (Moments.stack([moments]), flat[None])
        return
    size = max(1, _BLOCK_NUMBERS // (membership.n_classes * (p * p + R * p)))
    for start in range(0, n, size):
        index = np.arange(start, min(start + size, n))
        yield index, (_of_samples(rows[index], membership.shares(index)), rows[index])


def _of_samples(rows, share):
    """Moments of the rows of each sample, in the share of each class: batch (sample, class)."""
    own = Moments.of(rows)
    K = share.shape[1]
    return Moments(
        rows.shape[1] * share,
        np.repeat(own.mean[:, None], K, axis=1),
        share[..., None, None] * own.scatter[:, None],
        np.repeat(own.residual[:, None], K, axis=1),
    )


def _log_prior(model, removed):
    """log P(class) without what was removed: (unit, class)."""
    left = np.maximum(model.concentration - removed, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(left) - np.log(left.sum(-1, keepdims=True))


def _by_folds(model, observation, membership, groups):
    """Held-out log joint by refitting without parts of the samples, the prior held fixed."""
    codes = membership.targets().argmax(1)
    fold = divide(codes, groups, FOLDS, stream(0, "folds of calibration"))
    kind, out = model.kind, np.empty((len(observation), 1, len(model.count)))
    for part in np.unique(fold):
        held, kept = np.flatnonzero(fold == part), np.flatnonzero(fold != part)
        train, labels = observation[kept], membership[kept]
        statistics = kind.collect(train.X, labels)
        measured = kind.measured(train.X, train.noise, labels, statistics.drawn)
        points = None if measured is None else NoisyPoints.of(*measured, labels)
        without = refit(model, statistics, points)
        out[held] = predict(without, observation[held]).component_log_joint()
    return out


def scored_weight(scored, weight, n_samples):
    """Weights of samples that are left out: 0 for those that do not count."""
    scored = read_scored(scored, n_samples)
    if scored is None:
        return weight
    return scored.astype(float) if weight is None else weight * scored


def check_calibration(model, groups, n_samples, uncertain=False):
    """Refuse what cannot be calibrated, and return the numbers of the groups."""
    check_choice("calibration", model.calibration, (None, "loo"))
    if model.calibration is None:
        if groups is not None:
            raise ValueError('groups are left out together by calibration="loo"; without it, drop them.')
        return None
    if model.label_noise is not None:
        raise ValueError(
            'calibration="loo" compares predictions with labels, and label_noise says that these are '
            "wrong; use one of the two."
        )
    if uncertain:
        raise ValueError(
            'calibration="loo" compares predictions with labels, and label_proba says that these may be '
            'wrong; use one of the two, or label_meaning="posterior" if label_proba is P(class | X).'
        )
    return read_groups(groups, n_samples)
