"""How fast classification is: ratios to scikit-learn, to the plain formula and to the floor, in one run.

Run it with `python -m benchmarks speed`; everything uses two threads. `benchmarks/speed_figures.py` draws.
"""

import subprocess
import sys
import time
import tracemalloc
from unittest import mock

import numpy as np
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits

from benchmarks.interpolation import interpolation_tables
from benchmarks.registry import Table, benchmark
from uncover import BayesianQDA
from uncover.engines import class_densities, threads
from uncover.engines.threads import in_order

THREADS = 2
# (samples, realisations, features, classes, type), and the ratio to scikit-learn's QDA that is wanted.
CASES = {
    "float32": (20_000, 25, 10, 4, np.float32, 20),
    "float64": (20_000, 25, 10, 4, np.float64, 8),
    "50 features": (20_000, 5, 50, 20, np.float32, 8),
    "100,000 samples": (100_000, 25, 10, 4, np.float32, 20),
}
FIT_WANTED, IMPORT_WANTED = 5, 0.3
# Of methods that take far longer, as many samples are enough.
ENOUGH = {"random forest, 100 trees": 2_000, "plain NumPy formula": 10_000}


def shortest(works, repeats):
    """Shortest seconds of each of some works, taken in turns so that a slow moment hits all of them."""
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def draw(n, n_realisations, p, K, kind, seed=0):
    """Samples of K overlapping classes with realisations, and their classes."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(K, p, p)) / np.sqrt(p)
    y = np.arange(n) % K
    X = np.empty((n, n_realisations, p), kind)
    for k, mean in enumerate(rng.normal(size=(K, p))):
        mine = y == k
        X[mine] = (mean + rng.normal(size=(mine.sum(), p)) @ mixing[k].T)[:, None, :]
    X += 0.2 * rng.standard_normal(X.shape, np.float32)
    return X, y


def by_realisation(model):
    """What scikit-learn's users write: a loop over realisations."""

    def predict(X):
        return sum(model.predict_proba(X[:, r]) for r in range(X.shape[1])) / X.shape[1]

    return predict


def plain_formula(model):
    """The formula as it stands, for all realisations at once."""
    predictive, log_prior = model.posterior_.predictive(), np.log(model.class_posterior_)

    def predict(X):
        return softmax(log_prior + predictive.log_prob(X), axis=-1).mean(axis=1)

    return predict


def without_machine_code(model):
    """The same estimator without compiled kernels."""

    def predict(X):
        with mock.patch.object(class_densities, "machine_code", lambda: None):
            return model.predict_proba(X)

    return predict


def methods(p, K, kind, few=False):
    """Fitted models by name, each as a function of X (sample, realisation, feature)."""
    X, y = draw(60 * max(p, 10) * K, 1, p, K, kind, seed=1)
    X = X[:, 0]
    ours = BayesianQDA().fit(X, y)
    found = {
        "uncover": ours.predict_proba,
        "scikit-learn QDA": by_realisation(QuadraticDiscriminantAnalysis().fit(X, y)),
    }
    if few:
        return found
    forest = RandomForestClassifier(100, n_jobs=THREADS, random_state=0).fit(X[:4000], y[:4000])
    return found | {
        "uncover, in NumPy": without_machine_code(ours),
        "scikit-learn LDA": by_realisation(LinearDiscriminantAnalysis().fit(X, y)),
        "random forest, 100 trees": by_realisation(forest),
        "plain NumPy formula": plain_formula(ours),
    }


def nanoseconds(found, X, repeats):
    """ns per sample and realisation of each method, with one thread of BLAS or two, whichever is faster."""
    parts = {name: X[: ENOUGH.get(name, len(X))] for name in found}
    works = {name: (lambda n=name: found[n](parts[n])) for name in found}
    tries = []
    for limit in (1, THREADS):
        with threadpool_limits(limit):
            tries.append(shortest(works, repeats))
    return {name: 1e9 * min(t[name] for t in tries) / np.prod(parts[name].shape[:2]) for name in found}


def ceilings(kind):
    """Bytes a second of a copy by all threads, and multiply-adds a second of a matrix product."""
    source = np.ones(1 << 25, np.float32)
    target = np.empty_like(source)
    pieces = [slice(start, start + (1 << 20)) for start in range(0, len(source), 1 << 20)]
    square = np.ones((1024, 1024), kind)
    took = shortest(
        {
            "copy": lambda: list(in_order(lambda i: np.copyto(target[i], source[i]), pieces)),
            "product": lambda: square @ square,
        },
        7,
    )
    return 2 * source.nbytes / took["copy"], len(square) ** 3 / took["product"]


def floors(R, p, K, kind):
    """ns per sample and realisation that moving the bytes takes, and that the multiply-adds take."""
    copy, rate = ceilings(kind)
    size = np.dtype(kind).itemsize
    moved = size * (p + K / R)
    adds = K * (p * (p + 1) / 2 + 2 * p)
    return {"floor: bytes": 1e9 * moved / copy, "floor: multiply-adds": 1e9 * adds / rate}


def ratios_table(quick):
    """Time of each method in each case, and how many times that of ours it is."""
    columns: dict = {}
    for name, (n, R, p, K, kind, _) in CASES.items():
        X, _ = draw(n // 5 if quick else n, R, p, K, kind)
        found = methods(p, K, kind)
        found["uncover"](X[:3000])  # compiles
        columns[name] = nanoseconds(found, X, 1 if quick else 3) | floors(R, p, K, kind)
    rows = []
    for method in next(iter(columns.values())):
        times = [(values[method], values[method] / values["uncover"]) for values in columns.values()]
        rows.append([method, *(number for pair in times for number in pair)])
    heads = {f"{name}{unit}": form for name in CASES for unit, form in ((", ns", ".3g"), (", ratio", ".3g"))}
    wanted = ", ".join(f"{case[-1]} ({name})" for name, case in CASES.items())
    caption = (
        "predict_proba, ns per sample and realisation, and as a ratio to ours: (20,000, 25, 10) at K = 4 in "
        "two types, (20,000, 5, 50) at K = 20 and (100,000, 25, 10) at K = 4 in float32; "
        f"{THREADS} threads, BLAS with one or two as is faster. "
        f"Wanted of scikit-learn's QDA: at least {wanted}"
    )
    return Table("ratios", caption, {"method": "", **heads}, rows)


def extra_megabytes(work):
    """Peak of what Python and NumPy allocate meanwhile."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def fit_table(quick):
    """Time and memory of fitting."""
    n, p, K = (100_000 if quick else 1_000_000), 10, 4
    X, y = draw(n, 1, p, K, np.float64)
    X = X[:, 0]
    works = {
        "uncover": lambda: BayesianQDA().fit(X, y),
        "scikit-learn QDA": lambda: QuadraticDiscriminantAnalysis().fit(X, y),
        "scikit-learn LDA": lambda: LinearDiscriminantAnalysis().fit(X, y),
    }
    works["uncover"]()  # compiles
    took = shortest(works, 2 if quick else 5)
    copy, _ = ceilings(np.float64)
    rows = [[name, 1e3 * s, s / took["uncover"], extra_megabytes(works[name])] for name, s in took.items()]
    rows.append(["floor: bytes", 1e3 * X.nbytes / copy, X.nbytes / copy / took["uncover"], 0.0])
    caption = (
        f"fit on ({n:,}, {p}) float64 ({X.nbytes / 1e6:.0f} MB), {K} classes, {THREADS} threads; memory over "
        f"the input. Wanted of scikit-learn's QDA: a ratio of at least {FIT_WANTED}"
    )
    return Table("fit", caption, {"method": "", "ms": ".3g", "ratio": ".2f", "MB": ".0f"}, rows)


def growth_table(quick):
    """Time per sample and realisation as one of four sizes grows."""
    base = {"pixels": 4_000, "realisations": 25, "bands": 10, "classes": 4}
    sizes = {
        "pixels": (100, 1_000, 10_000, 100_000),
        "realisations": (1, 3, 10, 30, 100),
        "bands": (2, 5, 10, 20, 50),
        "classes": (2, 4, 8, 16, 32),
    }
    rows = []
    for axis, values in sizes.items():
        for size in values[:3] if quick else values:
            n, R, p, K = (base | {axis: size}).values()
            singles = nanoseconds(methods(p, K, np.float32, few=True), draw(n, R, p, K, np.float32)[0], 2)
            ours = BayesianQDA().fit(*_plain(draw(60 * max(p, 10) * K, 1, p, K, np.float64, seed=1)))
            double = nanoseconds({"uncover": ours.predict_proba}, draw(n, R, p, K, np.float64)[0], 2)
            rows.append([axis, size, singles["uncover"], double["uncover"], singles["scikit-learn QDA"]])
    fixed = ", ".join(f"{size:,} {axis}" for axis, size in base.items())
    caption = f"predict_proba, ns per pixel and realisation, as one size grows; the others are {fixed}"
    heads = {"grows": "", "to": ",d", "float32": ".1f", "float64": ".1f", "scikit-learn QDA": ".0f"}
    return Table("growth", caption, heads, rows)


def _plain(drawn):
    return drawn[0][:, 0], drawn[1]


def import_table(quick):
    """Wall-clock time of imports, each in a process of its own."""
    imports = {
        "nothing": "pass",
        "numpy": "import numpy",
        "uncover": "import numpy, uncover",
        "uncover.BayesianQDA": "import numpy; from uncover import BayesianQDA",
        "scikit-learn's QDA": "from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis",
    }
    works = {
        name: (lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))
        for name, code in imports.items()
    }
    took = shortest(works, 2 if quick else 7)
    rows = [[name, seconds, seconds - took["numpy"]] for name, seconds in took.items()]
    caption = f"Importing, a process each. Wanted of uncover: at most {IMPORT_WANTED} s over NumPy"
    return Table("import", caption, {"import": "", "s": ".3f", "over NumPy, s": ".3f"}, rows)


@benchmark("speed")
def run(quick=False):
    """All tables."""
    with threadpool_limits(THREADS), mock.patch.object(threads, "processors", lambda: THREADS):
        tables = [ratios_table(quick), fit_table(quick), growth_table(quick), import_table(quick)]
    return [*tables, *interpolation_tables()]
