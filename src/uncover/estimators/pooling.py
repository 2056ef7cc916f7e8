"""How the members of BayesianClassifier become one: a weighted geometric mean of their probabilities."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

# No member may rule a class out: its probabilities count as at least this.
LEAST_PROBABILITY = np.exp(-12.0)
_LEAST_EXPONENT = 1e-6


def local_weights(weights, gate):
    """Weights of the members at each sample, (member, sample): w_m g_m(x) / Σ_m w_m g_m(x)."""
    local = weights[:, None] * gate
    return local / local.sum(0)


def mix(probability, gate, weights):
    """Weighted average of probabilities (member, sample, class): (sample, class).

    Examples
    --------
    >>> mix(np.array([[[0.8, 0.2]], [[0.4, 0.6]]]), np.ones((2, 1)), np.array([0.5, 0.5]))
    array([[0.6, 0.4]])
    """
    return np.einsum("ms,msk->sk", local_weights(weights, gate), probability)


def pool(probability, gate, weights, temperature):
    """Weighted geometric mean of probabilities (member, sample, class), to the power 1/T: (sample, class).

    Examples
    --------
    >>> pool(np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.ones((2, 1)), np.array([0.5, 0.5]), 1.0)
    array([[0.5, 0.5]])
    >>> pool(np.array([[[0.8, 0.2]], [[0.8, 0.2]]]), np.ones((2, 1)), np.array([0.5, 0.5]), 0.5).round(2)
    array([[0.94, 0.06]])
    """
    log_P = np.log(np.maximum(probability, LEAST_PROBABILITY))
    return softmax(np.einsum("ms,msk->sk", local_weights(weights, gate), log_P) / temperature, axis=1)


def pooled_information(information, share):
    """What knowing the parameters of all members would tell of the class, by their geometric mean: (sample,).

    To second order, information is half the variance of log odds. Members learn from the same samples: of
    two, the one that knows more has nothing to learn from the other, and the covariance of their errors is
    the smaller variance (Hausman 1978). With weights u the errors of the mean come to
    I = Σ_mn u_m u_n min(I_m, I_n), and the members lie Σ_m u_m I_m − I apart though all are right.

    Parameters
    ----------
    information : array of shape (member, sample)
        I_m, of the parameters of each member.
    share : array of shape (member, sample)
        u, which add up to 1.

    Examples
    --------
    >>> pooled_information(np.array([[0.01], [0.03]]), np.full((2, 1), 0.5))
    array([0.015])
    """
    together = np.zeros(information.shape[1])
    for own, weight in zip(information, share, strict=True):
        together += weight * (share * np.minimum(own, information)).sum(0)
    return together


def fit_pool(probability, gate, targets, weight=None):
    """Weights and temperature of :func:`pool` with the highest score of held-out probabilities.

    With M members, the exponents b_m = w_m/T maximise Σ_i v_i log P_i(y_i) − ½Σ_m(M·b_m − 1)²: a priori each
    is 1/M, the plain geometric mean, give or take as much.

    Parameters
    ----------
    probability : array of shape (member, sample, class)
        By models that have not seen the sample.
    gate : array of shape (member, sample)
        How far each member is to be heard of each sample, in [0, 1].
    targets : array of shape (sample, class)
        1 for the true class.
    weight : array of shape (sample,), optional
        v, how much each sample says.

    Returns
    -------
    weights : array of shape (member,)
    temperature : float
    score : float
        The maximum.

    Examples
    --------
    >>> right, useless = np.array([[0.9, 0.1]] * 50), np.array([[0.5, 0.5]] * 50)
    >>> targets = np.array([[1.0, 0.0]] * 45 + [[0.0, 1.0]] * 5)  # the first is right 9 times of 10
    >>> weights, temperature, _ = fit_pool(np.stack([right, useless]), np.ones((2, 50)), targets)
    >>> softmax(weights[0] / temperature * np.log(right[0])).round(2)
    array([0.88, 0.12])
    """
    M = len(probability)
    log_P = np.log(np.maximum(probability, LEAST_PROBABILITY))
    heard = gate[..., None] * log_P
    weight = np.ones(len(targets)) if weight is None else weight
    targets = weight[:, None] * targets

    def loss(b):
        total, local = b.sum(), b @ gate
        mean = np.tensordot(b, heard, 1) / local[:, None]
        log_pooled = log_softmax(total * mean, axis=1)
        rest = targets - weight[:, None] * np.exp(log_pooled)
        along = (mean * rest).sum(1)
        own = np.einsum("msk,sk->ms", heard, rest)
        slope = (total * (own - gate * along) / local).sum(1) + along.sum()
        value = (log_pooled * targets).sum() - 0.5 * ((M * b - 1.0) ** 2).sum()
        return -value, -(slope - M * (M * b - 1.0))

    found = minimize(
        loss, np.full(M, 1.0 / M), jac=True, method="L-BFGS-B", bounds=[(_LEAST_EXPONENT, None)] * M
    )
    total = float(found.x.sum())
    return found.x / total, 1.0 / total, -float(found.fun)
