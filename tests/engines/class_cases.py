"""Random classes for the fast path, what the plain formulas say of points, and which path is taken."""

from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
from scipy.special import entr, softmax

from uncover.bayes.class_densities import Pairs, SummedScores
from uncover.bayes.second_order import LogDensityVariance
from uncover.bayes.student_t import StudentT
from uncover.engines import class_densities
from uncover.engines.class_densities import FastClassDensities


@contextmanager
def path(name):
    """Let everything go through machine code, however little it is, or nothing."""
    code = {} if name == "compiled" else {"machine_code": lambda: None}
    with mock.patch.multiple(class_densities, _FEW=0, **code):
        yield


@dataclass(frozen=True)
class Classes:
    """Class densities of several worlds, with what else they are arranged with."""

    worlds: list[StudentT]
    log_prior: np.ndarray
    variances: list[LogDensityVariance]

    @classmethod
    def random(cls, rng, p, K, n_worlds=1, *, correlation=None, dof=(5.0, 500.0), centre=0.0, spread=1.0):
        """Means about the centre; scale matrices of any shape, or with one correlation of all features."""
        worlds, variances = [], []
        for _ in range(n_worlds):
            mixing = rng.normal(size=(K, p, p)) + np.eye(p)
            scale = mixing @ mixing.swapaxes(1, 2) / p
            if correlation is not None:
                scale = np.broadcast_to(
                    np.full((p, p), correlation) + (1 - correlation) * np.eye(p), scale.shape
                )
            scale = scale * spread**2 * rng.uniform(0.8, 1.25, (K, 1, 1))
            # Means are as far apart as their classes are wide: these overlap, whatever their shape.
            mean = centre + 0.6 * np.einsum("kij,kj->ki", np.linalg.cholesky(scale), rng.normal(size=(K, p)))
            worlds.append(StudentT.from_scale(mean, scale, np.exp(rng.uniform(*np.log(dof), K))))
            parts = rng.uniform(0, [[0.02], [0.01], [0.001]], (3, K))
            variances.append(LogDensityVariance(*parts, dof=worlds[-1].dof))
        return cls(worlds, np.log(rng.dirichlet(np.ones(K) * 3)), variances)

    @property
    def densities(self):
        return FastClassDensities.of(self.worlds, self.log_prior, self.variances)

    def draw(self, rng, n, n_realisations=1):
        """Points (sample, realisation, feature) from all classes, some of them further out."""
        points = self.worlds[0].sample(n * n_realisations, rng)
        k = rng.integers(0, points.shape[1], len(points))
        return points[np.arange(len(points)), k].reshape(n, n_realisations, -1)

    def plainly(self, X, pairs):
        """Sums over pairs by the textbook, in double precision, of X (sample, realisation, feature)."""
        sums = None
        best = []
        for r, w in zip(*pairs, strict=True):
            t, x = self.worlds[w], np.asarray(X[:, r], np.float64)
            joint = self.log_prior + t.log_prob(x)
            P = softmax(joint, axis=1)
            H = entr(P).sum(axis=1)
            information = 0.5 * (self.variances[w].at(t.squared_distance(x)) * P * (1 - P)).sum(axis=1)
            with np.errstate(invalid="ignore", divide="ignore"):
                model = np.where(H > 0, H * (1 - np.exp(-information / H)), 0.0)
            parts = P.T, t.typicality(x).T, H, model
            sums = parts if sums is None else tuple(a + b for a, b in zip(sums, parts, strict=True))
            best.append(joint.argmax(axis=1))
        return SummedScores(*sums, np.array(best))

    def probability(self, X, pairs):
        """Averaged probabilities (sample, class) by the textbook."""
        return self.plainly(X, pairs).probability.T / len(pairs.worlds)


def every_world(densities, n_realisations):
    """Realisations in another order than the worlds, so that a mix-up shows."""
    numbers = np.arange(n_realisations)
    return Pairs(numbers[::-1].copy(), numbers % len(densities.location))
