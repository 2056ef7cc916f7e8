"""Every fast path against the plain formulas, in double precision, on random problems."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from class_cases import Classes, every_world, path
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from uncover.bayes import class_densities as reference
from uncover.bayes.class_densities import Pairs
from uncover.bayes.moments import Moments
from uncover.bayes.student_t import StudentT
from uncover.engines import class_densities, moments
from uncover.engines.class_densities import FastClassDensities
from uncover.engines.kernels import load
from uncover.engines.machine import machine_code
from uncover.engines.moments import moments_by_group

compiled = load()

BLOCK = 128  # points that the kernels score together
SINGLE, DOUBLE = np.float32, np.float64
# What is promised of probabilities in single precision.
BOUND = 1e-5
PATHS = pytest.mark.parametrize("how", ["compiled", "numpy"])
SIZES = st.sampled_from([1, 2, BLOCK - 1, BLOCK, BLOCK + 1])


def rng_of(*numbers):
    return np.random.default_rng(numbers)


def tolerance(kind):
    return BOUND if kind == SINGLE else 1e-12


# ---- probabilities of samples ----------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("kind", [SINGLE, DOUBLE])
@given(p=st.sampled_from([1, 2, 3, 7, 10, 13]), K=st.integers(2, 6), worlds=st.integers(1, 3), n=SIZES)
@example(p=1, K=2, worlds=1, n=1)
@example(p=50, K=20, worlds=2, n=BLOCK + 1)
def test_probabilities_are_those_of_the_formula(how, kind, p, K, worlds, n):
    rng = rng_of(p, K, worlds, n)
    classes = Classes.random(rng, p, K, worlds)
    X = classes.draw(rng, n, 3).astype(kind)
    densities = classes.densities
    pairs = every_world(densities, 3)
    with path(how):
        found = densities.probability(X, pairs)
    assert found.dtype == kind and found.shape == (n, K)
    assert_allclose(found, classes.probability(X, pairs), rtol=0, atol=tolerance(kind))


def test_probabilities_do_not_wait_for_tables_of_p_values(monkeypatch):
    monkeypatch.setattr(reference, "_table", lambda *_: pytest.fail("made a table that nobody reads"))
    classes = Classes.random(rng_of(0), 3, 2)
    with path("compiled"):
        densities = classes.densities
        P = densities.probability(classes.draw(rng_of(1), 10), densities.pairs(1))
    assert P.shape == (10, 2)


def test_small_inputs_do_not_wait_for_machine_code(monkeypatch):
    loaded = lambda: pytest.fail("loaded machine code for ten points")  # noqa: E731
    monkeypatch.setattr(class_densities, "machine_code", loaded)
    classes = Classes.random(rng_of(0), 4, 3)
    X = classes.draw(rng_of(1), 10)
    assert_allclose(classes.densities.probability(X, Pairs(*np.zeros((2, 1), int))).sum(axis=1), 1)


@pytest.mark.parametrize("kind", [SINGLE, DOUBLE])
def test_a_result_depends_on_neither_neighbours_nor_position_nor_threads(kind):
    """Bit by bit: maps would otherwise show the borders of blocks."""
    rng = rng_of(5)
    classes = Classes.random(rng, 7, 4, correlation=0.999, dof=(1e3, 1e6))
    densities, n = classes.densities, 2 * BLOCK + 77
    X = classes.draw(rng, n, 2).astype(kind)
    pairs = every_world(densities, 2)
    order = rng.permutation(n)
    with path("compiled"):
        whole = densities.probability(X, pairs)
        assert_array_equal(densities.probability(X[order], pairs), whole[order])
        assert_array_equal(densities.probability(X[100:], pairs), whole[100:])
        assert_array_equal(densities.probability(X[:1], pairs), whole[:1])
        with mock.patch.multiple(class_densities, _MANY=0, _CHUNK=1):
            assert_array_equal(densities.probability(X, pairs), whole)
        planes = np.ascontiguousarray(X.transpose(1, 2, 0))
        sums = densities.summarise(planes, pairs)
        again = densities.summarise(np.ascontiguousarray(planes[:, :, order]), pairs)
    for one, other in zip(sums, again, strict=True):
        assert_array_equal(one[..., order], other)


# ---- where single precision is hard ----------------------------------------------------------------


def correlated(rng):
    """Correlation 0.999 and a million samples: log(1 + q/ν) in single precision has no digits left."""
    classes = Classes.random(rng, 10, 4, correlation=0.999, dof=(1e6, 1.1e6), spread=0.2)
    return classes, classes.draw(rng, 3000)


def far_out(rng):
    """A thousand sigmas from two classes of equal scale, between which the odds are still open."""
    p = 10
    scale = np.broadcast_to(np.eye(p) * 0.7 + 0.3, (2, p, p))
    t = StudentT.from_scale(np.zeros((2, p)), scale, np.array([1e6, 1e6]))
    towards = rng.normal(size=(2000, p)) @ t.root[0].T
    x = 1000 * towards / np.sqrt(t.squared_distance(towards)[:, :1])
    step = np.zeros((2, p))
    step[1] = 2e-3 * rng.normal(size=p)
    worlds = [StudentT(step, t.root, t.dof)]
    empty = Classes.random(rng, p, 2).variances
    return Classes(worlds, np.log([0.5, 0.5]), empty), x[:, None, :]


def far_from_zero(rng):
    """Numbers like 3000 ± 3."""
    classes = Classes.random(rng, 10, 4, centre=3000.0, spread=3.0)
    return classes, classes.draw(rng, 3000)


HARD = pytest.mark.parametrize("case", [correlated, far_out, far_from_zero])


def by_probability(densities, X, pairs):
    return densities.probability(X, pairs)


def by_summary(densities, X, pairs):
    return densities.summarise(np.ascontiguousarray(X.transpose(1, 2, 0)), pairs).probability.T


@HARD
@pytest.mark.parametrize("route", [by_probability, by_summary])
def test_single_precision_keeps_its_bound(case, route):
    classes, X = case(rng_of(7))
    X = X.astype(SINGLE)
    pairs = Pairs(*np.zeros((2, 1), int))
    truth = classes.probability(X, pairs)
    assert np.mean((truth > 0.01) & (truth < 0.99)) > 0.005, "nothing is at stake"
    with path("compiled"):
        assert np.abs(route(classes.densities, X, pairs) - truth).max() <= BOUND


def test_the_bound_is_kept_by_recomputing():
    """Without what is computed again in double precision the same points are further off."""
    classes, X = far_out(rng_of(7))
    X = X.astype(SINGLE)
    densities, pairs = classes.densities, Pairs(*np.zeros((2, 1), int))
    out = np.empty((len(X), densities.n_classes), SINGLE)
    numbers = densities.numbers(SINGLE), densities.numbers(DOUBLE)
    compiled.average_probability(X, *pairs, *numbers, None, False, out)
    assert np.abs(out - classes.probability(X, pairs)).max() > 10 * BOUND


def test_the_logarithm_of_one_plus_little_keeps_its_digits():
    """The same in NumPy, all in single precision but the distances: log(1 + q/ν) alone breaks the bound."""
    classes, X = correlated(rng_of(7))
    t = classes.worlds[0]
    q, nu = t.squared_distance(X[:, 0]), t.dof
    constant = (classes.log_prior + t._log_constant).astype(SINGLE)

    def probability(log1p_distance):
        return softmax(constant - (0.5 * (nu + 10)).astype(SINGLE) * log1p_distance, axis=1)

    truth = classes.probability(X, Pairs(*np.zeros((2, 1), int)))
    small = (q / nu).astype(SINGLE)
    assert np.abs(probability(np.log(SINGLE(1) + small)) - truth).max() > 100 * BOUND
    assert np.abs(probability(np.log1p(small)) - truth).max() < BOUND


def shares_of_the_bound(classes, X):
    """Errors of single precision, as shares of the bound that decides on recomputing."""
    pairs, densities = Pairs(*np.zeros((2, 1), int)), classes.densities
    X = X.astype(SINGLE)
    out = np.empty((len(X), densities.n_classes), SINGLE)
    numbers = densities.numbers(SINGLE), densities.numbers(DOUBLE)
    compiled.average_probability(X, *pairs, *numbers, None, False, out)
    truth, q = classes.probability(X, pairs), classes.worlds[0].squared_distance(X[:, 0])
    bound_of = densities.rounding_bound(np.abs(densities.location - densities.centre))[0]
    bound = (truth * (1 - truth) * (bound_of[:, 0] + bound_of[:, 1] * q)).sum(axis=1)
    counts = bound > 4e-6  # below, the rounding of the result itself is all that is left
    return np.abs(out - truth).max(axis=1)[counts] / bound[counts]


def test_the_bound_of_the_error_is_one():
    """What decides on recomputing is at least twice the error that single precision makes."""
    shares = []
    for seed in range(40):
        rng = rng_of(11, seed)
        p = int(rng.integers(1, 14))
        classes = Classes.random(rng, p, 3, centre=rng.choice([0.0, 50.0]), dof=(3.0, 1e6))
        shares.extend(shares_of_the_bound(classes, classes.draw(rng, 400) * rng.choice([1.0, 3.0])))
    assert 0.01 < max(shares) < 0.5 and len(shares) > 100


@pytest.mark.parametrize("p", [2, 10, 50])
def test_the_bound_holds_along_the_longest_axes(p):
    """Far out where all features change together: large terms, which cancel."""
    shares = []
    for seed in range(4):
        rng = rng_of(13, p, seed)
        classes = Classes.random(rng, p, 3, correlation=0.999, dof=(3.0, 1e6))
        middle, step = classes.worlds[0].location.mean(axis=0), np.exp(rng.uniform(-2, 6, (400, 1, 1)))
        signs = rng.choice([-1.0, 1.0], (400, 1, 1))
        shares.extend(shares_of_the_bound(classes, middle + signs * step * np.ones(p)))
    assert 0.01 < max(shares) < 0.5 and len(shares) > 50


# ---- all that a map says ---------------------------------------------------------------------------

# Entropies have the slope log p, and p-values do not decide on the second look.
LESS_SHARP = 1e-4
# What the table of p-values, which odd numbers of features read, is off by itself.
TABLE = 1e-7


def assert_sums(found, expected, n, kind):
    bounds = (BOUND, *[LESS_SHARP] * 3) if kind == SINGLE else (1e-12, TABLE, 1e-11, 1e-11)
    for name, bound in zip(found._fields, bounds, strict=False):
        part = getattr(found, name)
        assert part.dtype == kind
        assert_allclose(part / n, getattr(expected, name) / n, rtol=0, atol=bound, err_msg=name)
    assert found.best.dtype == np.uint8
    # Where two classes are equally probable to rounding, either may come first.
    assert np.mean(found.best != expected.best) <= (0.001 if kind == SINGLE else 0)


@PATHS
@pytest.mark.parametrize("kind", [SINGLE, DOUBLE])
@settings(max_examples=6)  # tables of p-values take their time
@given(p=st.sampled_from([1, 2, 3, 7, 10, 13]), K=st.integers(2, 6), worlds=st.integers(1, 3), n=SIZES)
@example(p=2, K=2, worlds=1, n=BLOCK + 1)
@example(p=13, K=6, worlds=3, n=BLOCK - 1)
def test_summaries_are_those_of_the_formulas(how, kind, p, K, worlds, n):
    rng = rng_of(p, K, worlds, n)
    classes = Classes.random(rng, p, K, worlds)
    X = classes.draw(rng, n, 3).astype(kind)
    densities = classes.densities
    pairs = every_world(densities, 3)
    with path(how):
        found = densities.summarise(np.ascontiguousarray(X.transpose(1, 2, 0)), pairs)
    assert_sums(found, classes.plainly(X, pairs), 3, kind)


@pytest.mark.parametrize("p", [4, 5])
def test_p_values_are_read_from_densities_of_their_own(p):
    rng = rng_of(p, 3, 2, 300)
    classes, others = Classes.random(rng, p, 3, 2), Classes.random(rng, p, 3, 2)
    origin = classes.densities.centre
    densities = replace(classes.densities, typical=replace(others.densities, origin=origin))
    planes = np.ascontiguousarray(classes.draw(rng, 300, 3).transpose(1, 2, 0))
    pairs = every_world(densities, 3)
    with path("compiled"):
        found = densities.summarise(planes, pairs)
    with path("NumPy"):
        alone, without = others.densities.summarise(planes, pairs), classes.densities.summarise(planes, pairs)
    assert_allclose(found.typicality, alone.typicality, atol=1e-6)
    assert_allclose(found.probability, without.probability, atol=1e-9)
    assert_allclose(found.model, without.model, atol=1e-9)


def atmospheres(rng, n_realisations, p):
    """Path reflectance, slope and spherical albedo of each realisation: (realisation, 3, feature)."""
    low, high = np.array([[0.02], [0.6], [0.05]]), np.array([[0.1], [0.9], [0.2]])
    return rng.uniform(low, high, (n_realisations, 3, p))


def corrected_plainly(toa, coefficients):
    """Surface reflectance (sample, realisation, feature) from (feature, sample)."""
    return np.stack([(toa.T - a) / (b + s * (toa.T - a)) for a, b, s in coefficients], axis=1)


@PATHS
@pytest.mark.parametrize("kind", [np.uint16, SINGLE, DOUBLE])
@pytest.mark.parametrize(
    ("p", "K", "worlds"), [(1, 2, 1), (2, 3, 4), (3, 6, 4), (7, 2, 1), (10, 4, 4), (13, 5, 1)]
)
def test_realisations_are_made_inside_from_measured_numbers(how, kind, p, K, worlds):
    rng = rng_of(p, K)
    classes = Classes.random(rng, p, K, worlds, centre=0.25, spread=0.03)
    coefficients = atmospheres(rng, 4, p)
    numbers = rng.uniform(500, 5000, (p, BLOCK + 9)).round()
    scale, offset = np.full(p, 1e-4), np.full(p, -0.01)
    planes = numbers.astype(kind)[None]
    densities = classes.densities
    pairs = every_world(densities, 4)
    with path(how):
        found = densities.summarise(planes, pairs, coefficients=coefficients, scale=scale, offset=offset)
    X = corrected_plainly(numbers * scale[:, None] + offset[:, None], coefficients)
    assert_sums(found, classes.plainly(X, pairs), 4, DOUBLE if kind == DOUBLE else SINGLE)


@PATHS
def test_scaled_integers_are_physical_numbers(how):
    rng = rng_of(3)
    classes = Classes.random(rng, 10, 4, centre=0.25, spread=0.03)
    scale, offset = np.full(10, 1e-4), np.full(10, -0.1)
    numbers = np.rint((classes.draw(rng, 700).transpose(1, 2, 0) - offset[0]) / scale[0]).astype(np.uint16)
    pairs = Pairs(*np.zeros((2, 1), int))
    with path(how):
        found = classes.densities.summarise(numbers, pairs, scale=scale, offset=offset)
    X = (numbers * scale[:, None] + offset[:, None]).transpose(2, 0, 1)
    assert_sums(found, classes.plainly(X, pairs), 1, SINGLE)


# ---- outputs are written in full -------------------------------------------------------------------


def poisoned(shape, dtype=float, **options):
    """Like np.empty, but what nobody writes shows."""
    kind = np.dtype(dtype)
    return np.full(shape, np.nan if kind.kind == "f" else 255, kind)


@PATHS
@pytest.mark.parametrize("n", [1, BLOCK + 3])
@pytest.mark.parametrize("p", [3, 4])
def test_outputs_are_written_in_full(how, n, p, monkeypatch):
    classes = Classes.random(rng_of(p), p, 3, 2)
    X = classes.draw(rng_of(n), n, 2).astype(SINGLE)
    densities = classes.densities
    densities.p_value_tables, densities.stacked  # what is made once is not under test
    pairs = every_world(densities, 2)
    with path(how), monkeypatch.context() as patch:
        patch.setattr(np, "empty", poisoned)
        P = densities.probability(X, pairs)
        sums = densities.summarise(np.ascontiguousarray(X.transpose(1, 2, 0)), pairs)
    assert np.isfinite(P).all()
    for part in sums[:4]:
        assert np.isfinite(part).all()
    assert sums.best.max() < 3


@PATHS
def test_points_at_the_end_of_the_range_get_finite_numbers(how):
    densities = Classes.random(rng_of(1), 4, 3).densities
    X = np.full((9, 1, 4), 1e18, SINGLE) * np.arange(-4, 5)[:, None, None].astype(SINGLE)
    pairs = densities.pairs(1)
    with path(how):
        assert_allclose(densities.probability(X, pairs).sum(axis=1), 1, atol=1e-6)
        sums = densities.summarise(np.ascontiguousarray(X.transpose(1, 2, 0)), pairs)
    assert all(np.isfinite(part).all() for part in sums[:4])


# ---- statistics ------------------------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("kind", [SINGLE, DOUBLE])
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=8)
@given(p=st.integers(1, 12), groups=st.integers(1, 5), n=st.sampled_from([1, 100, 20_001]))
def test_moments_of_groups_are_those_of_each_group(how, kind, weighted, p, groups, n):
    rng = rng_of(p, groups, n)
    x = (1000 + rng.normal(size=(n, p))).astype(kind)
    group = rng.integers(0, groups, n)
    weight = rng.uniform(0.0, 2.0, n) if weighted else None
    code = {} if how == "compiled" else {"machine_code": lambda: None}
    with mock.patch.multiple(moments, _MANY=0, **code):
        found = moments_by_group(x, group, groups, weight)
    for k in range(groups):
        mine = group == k
        expected = Moments.of(x[mine], None if weight is None else weight[mine])
        assert_allclose(found.count[k], expected.count, rtol=1e-12)
        assert_allclose(found.mean[k], expected.mean, rtol=1e-12)
        assert_allclose(found.scatter[k], expected.scatter, rtol=1e-9, atol=1e-9 * n)


def test_machine_code_is_there():
    assert machine_code() is not None
    assert isinstance(Classes.random(rng_of(0), 2, 2).densities, FastClassDensities)
