"""Prediction with arrays on a device: torch and CuPy by the array API, computed where they lie."""

from copy import copy
from itertools import pairwise

import numpy as np

from uncover.bayes.budget import UncertaintyBudget
from uncover.engines.arrays import namespace
from uncover.estimators.inputs import read_device_samples
from uncover.measurement.prediction import draws_of_readings
from uncover.measurement.predictor import Predictor
from uncover.models.realisations import Structure

# As in the compiled kernels: probabilities that may be further off are computed again in double precision.
_TOLERANCE = 2e-5
# Numbers of one block of distances.
_BLOCK_NUMBERS = 1 << 26


class DeviceReader:
    """A fitted model that reads samples where they lie: (sample, feature) or (sample, realisation, feature).

    Only the sums that predictions consist of are kept; of the samples, one block at a time.
    """

    def __init__(self, estimator, X, paired):
        self.model, self.xp = estimator.fitted_value(), namespace(X)
        X = read_device_samples(estimator, X, reset=False)
        used, self.structure = self.model.used_features, _structure(X)
        self.predictor = Predictor(self.model, paired=paired)
        found = self.predictor.lens(self.structure.realisations, used)
        if found is None:
            raise ValueError(
                "on a device the class models must be Student t without known noise, one view for each "
                "realisation; copy X to the host for this model."
            )
        self.lens, self.pairs = found
        # The divisor of the log joints of the lens: those of components have none.
        self.temperature = self.model.temperature if self.lens.components.trivial else 1.0
        X = X if X.ndim == 3 else X[:, None, :]
        self.X = X if used.all() else X[..., self.xp.asarray(np.flatnonzero(used), device=X.device)]

    @staticmethod
    def reaches(estimator, X, paired):
        """Whether predictions of a fitted estimator for X can be made on the device."""
        predictor = Predictor(estimator.model_, paired=paired)
        return predictor.lens(_structure(X).realisations, estimator.model_.used_features) is not None

    def average(self, of_view, columns):
        """Average of ``of_view(log joint, depth, world)`` over the views: (sample, column)."""
        xp, X = self.xp, self.X
        out = xp.zeros((X.shape[0], columns), dtype=X.dtype, device=X.device)
        size = max(1, _BLOCK_NUMBERS // (self.lens.n_parts * self.lens.n_features))
        for start in range(0, X.shape[0], size):
            rows = slice(start, start + size)
            for r, w in zip(*self.pairs, strict=True):
                out[rows] += of_view(*self._look(X[rows, int(r)], int(w)), int(w))
        return out / len(self.pairs.worlds)

    def probability(self):
        """P(class | x, D)."""
        return self._spread(
            self.average(lambda joint, depth, w: self._softmax(self._odds(joint)), self.lens.n_classes)
        )

    def log_evidence(self):
        """log p(x | D), the densities of the views averaged: (sample,)."""
        xp, X = self.xp, self.X
        total, scale = None, self._here(np.log(self.model.class_factor[self.model.known]), X)
        for r, w in zip(*self.pairs, strict=True):
            joint = self._log_joint(X[:, int(r)], int(w))[0] * self.temperature - scale
            top = xp.max(joint, axis=1)
            here = top + xp.log(xp.sum(xp.exp(joint - top[:, None]), axis=1))
            total = here if total is None else xp.logaddexp(total, here)
        return total - float(np.log(len(self.pairs.worlds)))

    def typicality(self):
        """p-value for each class."""
        if self.lens.typical is not None:
            other = copy(self)
            other.lens = self.lens.typical
            return other.typicality()
        scale, table = (self._here(part, self.X) for part in self.lens._tables)

        def p_values(joint, depth, w):
            place = self.xp.sqrt(depth) * scale[w]
            place = self.xp.clip(place, max=table.shape[-1] - 2.0)
            left = self.xp.astype(place, self.xp.int64)
            columns = [
                (before := table[w, k][left[:, k]])
                + (place[:, k] - self.xp.astype(left[:, k], place.dtype))
                * (table[w, k][left[:, k] + 1] - before)
                for k in range(self.lens.n_parts)
            ]
            return self.xp.stack(columns, axis=1)

        return self._spread(self._largest(self.average(p_values, self.lens.n_parts)))

    def budget(self, n_draws):
        """Where the uncertainty comes from: models are drawn on the host, and used on the device."""
        xp, X = self.xp, self.X
        draws = draws_of_readings(self.predictor, self.structure, n_draws)
        views = list(zip(*self.pairs, draws, strict=True))
        parts = xp.zeros((4, X.shape[0]), dtype=X.dtype, device=X.device)
        size = max(1, _BLOCK_NUMBERS // draws[0].gaussians.mean.size)
        for start in range(0, X.shape[0], size):
            rows = slice(start, start + size)
            each = [self._split_view(X[rows, int(r)], int(w), models) for r, w, models in views]
            mean_P, inner, model, overlap = (sum(part) / len(views) for part in zip(*each, strict=True))
            total = self._entropy(mean_P)
            between = xp.clip(total - inner, min=0.0)
            parts[:, rows] = xp.astype(xp.stack([total, model, between, overlap]), X.dtype)
        return UncertaintyBudget(*parts)

    def _split_view(self, points, w, models):
        """Class probabilities of points in a world, their entropy, and its model and overlap part."""
        xp = self.xp
        P = xp.astype(self._softmax(self._odds(self._look(points, w)[0])), xp.float64)
        weight = self._softmax(self._odds(self._log_joint_of_draws(points, models) / self.temperature))
        table = P[:, None, :] * weight
        entropy = self._entropy(P)
        rest = xp.sum(self._entropy(table), axis=1) - self._entropy(xp.sum(table, axis=2))
        rest = xp.minimum(xp.clip(rest, min=0.0), entropy)
        n = len(models.log_phi)  # to second order, n draws have (n − 1)/n of the information
        model = xp.minimum((entropy - rest) * (n / max(n - 1, 1)), entropy)
        return P, entropy, model, entropy - model

    def _log_joint_of_draws(self, points, models):
        """log P(class) + log p(x | class) of drawn models, in double precision: (sample, draw, class)."""
        xp, gaussians = self.xp, models.gaussians
        n, K, p = gaussians.mean.shape
        x = xp.astype(points, xp.float64)
        centre = self.lens._centre
        whitening = np.broadcast_to(gaussians.whitening, (n, K, p, p))
        shift = np.einsum("nkij,nkj->nki", whitening, gaussians.mean - centre)
        stacked = self._here(whitening.reshape(n * K * p, p).T, x)
        z = (x - self._here(centre, x)) @ stacked - self._here(shift.reshape(-1), x)
        q = xp.sum(xp.reshape(z * z, (x.shape[0], n, K, p)), axis=3)
        return self._here(models.log_phi + gaussians.log_det, x) - 0.5 * q

    def _entropy(self, P):
        """−Σ p log p over the last axis."""
        xp = self.xp
        safe = xp.where(P > 0, P, xp.ones_like(P))
        return xp.clip(-xp.sum(P * xp.log(safe), axis=-1), min=0.0)

    def _spread(self, values):
        """Columns of the known classes among all classes; the others have 0."""
        known, K = self.model.known_classes, len(self.model.classes)
        if len(known) == K:
            return values
        out = self.xp.zeros((values.shape[0], K), dtype=values.dtype, device=values.device)
        for column, k in enumerate(known):
            out[:, int(k)] = values[:, column]
        return out

    def _look(self, points, w):
        """Log joint and depth of points in a world; in double precision where single is not enough."""
        joint, depth, q = self._log_joint(points, w)
        if points.dtype == self.xp.float64:
            return joint, depth
        P = self._of_parts(joint)
        doubt = self._here(self.lens._doubt(np.abs(self.lens.location - self.lens._centre))[w], points)
        error = self.xp.sum(P * (doubt[:, 0] + doubt[:, 1] * q), axis=1)
        again = error > _TOLERANCE
        if bool(self.xp.any(again)):
            better, deeper, _ = self._log_joint(self.xp.astype(points[again], self.xp.float64), w)
            # Only differences between classes survive in single precision.
            top = self.xp.max(better, axis=1, keepdims=True)
            base = self.xp.max(joint[again], axis=1, keepdims=True)
            joint[again] = self.xp.astype(better - top, points.dtype) + base
            depth[again] = self.xp.astype(deeper, points.dtype)
        return joint, depth

    def _log_joint(self, points, w):
        lens, xp = self.lens, self.xp
        near = lens._centre.astype(np.float32)
        x = (points - self._here(near, points)) - self._here(lens._centre - near, points)
        whitening, shift = (self._here(part[w], points) for part in lens._stacked)
        z = xp.reshape(x @ whitening - shift, (x.shape[0], lens.n_parts, lens.n_features))
        q = xp.clip(xp.sum(z * z, axis=2), max=1e15)
        depth = xp.log1p(q / self._here(lens.dof[w], points))
        slope = self._here(lens.slope[w], points)
        return self._here(lens.log_weight[w], points) - slope * depth, depth, q

    def _odds(self, joint):
        """Log odds of the classes, from log joints that may be those of their parts: (..., class)."""
        if self.lens.components.trivial:
            return joint
        xp, columns = self.xp, []
        for part in self._classes(joint):
            top = xp.max(part, axis=-1)
            columns.append(top + xp.log(xp.sum(xp.exp(part - top[..., None]), axis=-1)))
        return xp.stack(columns, axis=-1) / self.lens.components.temperature

    def _of_parts(self, joint):
        """What the error of each log joint does to the probabilities: p(1 − p), shared out among parts."""
        P = self._softmax(self._odds(joint))
        if self.lens.components.trivial:
            return P * (1 - P)
        share = [self._softmax(part) for part in self._classes(joint)]
        P = P * (1 - P) / self.lens.components.temperature
        return self.xp.concat([P[:, k, None] * each for k, each in enumerate(share)], axis=1)

    def _largest(self, values):
        """The largest number of the parts of each class."""
        if self.lens.components.trivial:
            return values
        return self.xp.stack([self.xp.max(part, axis=1) for part in self._classes(values)], axis=1)

    def _classes(self, values):
        """Columns of the parts of each class."""
        first = self.lens.components.first
        return [values[..., int(a) : int(b)] for a, b in pairwise(first)]

    def _here(self, values, array):
        return self.xp.asarray(np.ascontiguousarray(values), dtype=array.dtype, device=array.device)

    def _softmax(self, joint):
        """Shares along the second axis: classes of a log joint, draws of a table."""
        e = self.xp.exp(joint - self.xp.max(joint, axis=1, keepdims=True))
        return e / self.xp.sum(e, axis=1, keepdims=True)


def _structure(X):
    return Structure(X.shape[1] if X.ndim == 3 else None)
