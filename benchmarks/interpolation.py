"""Whether distances at a few optical depths give those at all others: an experiment on the algebra of a map.

One optical depth moves all bands of a pixel along one smooth curve, so its squared distance to a class is a
smooth function of the depth. Evaluated at J of R draws and interpolated to the others by a polynomial, the
p² work would be done J times instead of R times. What it costs in accuracy is measured here.
"""

import numpy as np
from scipy.interpolate import BarycentricInterpolator
from scipy.special import softmax

from benchmarks.gpu import BANDS, WORLDS, problem
from benchmarks.registry import Table
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import corrected

DEPTHS = {"narrow": (0.12, 0.04), "wide": (0.3, 0.15)}
COORDINATES = {"AOD": lambda aod: aod, "log(0.3 + AOD)": lambda aod: np.log(0.3 + aod)}
BOUND = 1e-5


def nodes_among(draws, count):
    """Numbers of draws that lie nearest to the extremes of a Chebyshev polynomial on their range."""
    low, high = draws.min(), draws.max()
    wanted = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * np.arange(count) / (count - 1))
    chosen: list[int] = []
    for place in wanted:
        order = np.argsort(np.abs(draws - place))
        chosen.append(next(int(i) for i in order if i not in chosen))
    return np.array(chosen)


def pixels_of_all_sorts(measure, n, rng):
    """Numbers (band, pixel): a third of one kind of land, a third of two, a third with clouds over them."""
    first, second = (measure(n).astype(np.float64) for _ in range(2))
    share, cloud = np.ones(n), np.zeros(n)
    share[n // 3 :] = rng.random(n - n // 3)
    cloud[2 * n // 3 :] = rng.random(n - 2 * n // 3)
    land = share * first + (1 - share) * second
    return np.rint((1 - cloud) * land + cloud * rng.uniform(4000, 8000, n))


def distances(densities, pairs, planes, coefficients):
    """Squared distances in each world, in double precision: (world, pixel, class)."""
    X = corrected(planes * 1e-4, coefficients)
    return np.stack([densities.squared_distance(X[r].T, w) for r, w in zip(*pairs, strict=True)])


def probability(densities, pairs, q):
    """Probabilities averaged over the worlds: (pixel, class)."""
    distances = [densities.log1p_distance(q[i], w) for i, w in enumerate(pairs.worlds)]
    joints = (densities.log_joint(v, w) for v, w in zip(distances, pairs.worlds, strict=True))
    each = [softmax(joint, axis=1) for joint in joints]
    return np.mean(each, axis=0)


def errors(depth, realisations, n, counts):
    """Largest error of averaged probabilities for each coordinate and number of nodes."""
    rng = np.random.default_rng(0)
    model, coefficients, measure, aod = problem(rng, WORLDS, *depth, realisations)
    densities, pairs = Predictor(model.model_).densities(WORLDS, np.ones(len(BANDS), bool))
    q = distances(densities, pairs, pixels_of_all_sorts(measure, n, rng), coefficients)
    exact = probability(densities, pairs, q)
    found = {}
    for name, coordinate in COORDINATES.items():
        at = coordinate(aod)
        for count in counts:
            nodes = nodes_among(at, count)
            guess = BarycentricInterpolator(at[nodes], q[nodes], axis=0, rng=0)(at)
            wrong = np.abs(probability(densities, pairs, np.maximum(guess, 0)) - exact)
            found[name, count] = float(wrong.max())
    return found


def interpolation_tables():
    """A table for each coordinate: the largest error in probability by the number of nodes."""
    n, counts = 20_000, range(4, 11)
    cases = [(width, kind) for width in DEPTHS for kind in ("shared", "pooled")]
    found = {case: errors(DEPTHS[case[0]], case[1], n, counts) for case in cases}
    tables = []
    for name in COORDINATES:
        rows = [[J, WORLDS / J, *(found[case][name, J] for case in cases)] for J in counts]
        heads = {"J": "d", "work saved, times": ".1f"} | {f"{w} AOD, {kind}": ".1e" for w, kind in cases}
        caption = (
            f"Largest error of the averaged probabilities of {n:,} pixels where distances at J of {WORLDS} "
            f"draws of the optical depth give the others by a polynomial in {name}; bound: {BOUND:g}. "
            "Narrow: 0.12 ± 0.04, wide: 0.3 ± 0.15"
        )
        tables.append(Table(f"interpolation in {name}", caption, heads, rows))
    return tables
