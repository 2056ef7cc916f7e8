"""A whole Sentinel-2 tile on a graphics processor: correction, classification and entropies in one kernel.

Run it on a machine with CuPy: `python -m benchmarks gpu`. It needs neither rasterio nor dask nor xarray.
"""

import time
from unittest import mock

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianQDA
from uncover.atmosphere import Geometry, LookupTable, State
from uncover.engines.few_worlds import few_worlds
from uncover.measurement.pool_prediction import PoolPrediction
from uncover.measurement.pooled import PoolSummariser
from uncover.measurement.predictor import Predictor
from uncover.measurement.summary import Planes, Summariser

BANDS = ("B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B11", "B12")
# Typical surface reflectance of forest, cropland, grassland and settlements in these bands.
KINDS = np.array(
    [
        [0.03, 0.05, 0.04, 0.08, 0.20, 0.25, 0.28, 0.30, 0.15, 0.08],
        [0.06, 0.09, 0.09, 0.13, 0.22, 0.25, 0.28, 0.30, 0.25, 0.18],
        [0.04, 0.07, 0.05, 0.10, 0.28, 0.34, 0.37, 0.39, 0.22, 0.12],
        [0.10, 0.12, 0.14, 0.16, 0.19, 0.20, 0.22, 0.23, 0.25, 0.22],
    ]
)
WORLDS, SIDE = 25, 10_980


def surface(rng, kind):
    """Surface reflectance of pixels: three common factors and noise of each band."""
    loadings = np.random.default_rng(3).normal(0, 0.25, (len(KINDS), len(BANDS), 3))
    factors = rng.normal(size=(len(kind), 3))
    spread = np.einsum("npf,nf->np", loadings[kind], factors) + rng.normal(0, 0.12, (len(kind), len(BANDS)))
    return np.clip(KINDS[kind] * (1 + spread), 0.002, 0.9)


def problem(
    rng, worlds=WORLDS, mean=0.12, deviation=0.04, realisations="shared", samples=4000, estimator=BayesianQDA
):
    """A model with a world for each drawn optical depth, how each world corrects, and the depths."""
    table, geometry = LookupTable("S2A", BANDS), Geometry(35, 4, 120)
    aod = np.clip(rng.normal(mean, deviation, worlds), 0.01, None)
    kind = rng.integers(0, len(KINDS), samples)
    measured = table.simulate(surface(rng, kind), State(aod=0.14), geometry)
    model = estimator(realisations=realisations).fit(table.correct(measured, State(aod=aod), geometry), kind)
    found = table.coefficients(State(aod=aod), geometry)
    parts = np.broadcast_arrays(found.path, found.slope, found.albedo)
    coefficients = np.stack([part[..., 0] for part in parts], axis=1)

    def measure(n):
        kinds = rng.integers(0, len(KINDS), n)
        toa = table.simulate(surface(rng, kinds), State(aod=0.14), geometry)
        return np.rint(toa.T * 10_000).astype(np.uint16)  # (band, pixel)

    return model, coefficients, measure, aod


def seconds_on_device(work, repeats=7):
    """Shortest time of some work on the device."""
    import cupy

    work()
    best = np.inf
    for _ in range(repeats):
        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        stop.record()
        stop.synchronize()
        best = min(best, cupy.cuda.get_elapsed_time(start, stop) / 1000)
    return best


def ceilings():
    """Bytes a second of a copy, and multiply-adds a second of the plain units, as measured here."""
    import cupy

    source, target = cupy.zeros(1 << 30, np.float32), cupy.empty(1 << 30, np.float32)
    copy = 2 * source.nbytes / seconds_on_device(lambda: cupy.copyto(target, source))
    chain = cupy.RawKernel(
        r"""extern "C" __global__ void chain(float *out, float a, float b) {
        float x[8];
        for (int i = 0; i < 8; i++) x[i] = threadIdx.x + i;
        for (int n = 0; n < 4096; n++)
        #pragma unroll
            for (int i = 0; i < 8; i++) x[i] = fmaf(x[i], a, b);
        float sum = 0;
        for (int i = 0; i < 8; i++) sum += x[i];
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }""",
        "chain",
    )
    out = cupy.empty(132 * 16 * 256, np.float32)
    arguments = (out, np.float32(0.999), np.float32(0.5))
    rate = len(out) * 8 * 4096 / seconds_on_device(lambda: chain((132 * 16,), (256,), arguments))
    return copy, rate


@benchmark("gpu")
def run(quick=False):
    """Time of a tile, beside what the arithmetic alone takes; and of estimators with arrays on the device."""
    side = 2048 if quick else SIDE
    tables = [tile_table(side), worlds_table(side), pool_table(side)]
    return [*tables, estimator_table(1 << (18 if quick else 22))]


def tile(side, **given):
    """A tile of uint16, side by side pixels, and what reads it: all layers, or those of the first pixels."""
    import cupy

    from uncover.engines.cuda import summarise_on_device

    model, coefficients, measure, _ = problem(np.random.default_rng(0), **given)
    densities, pairs = Predictor(model.model_).densities(WORLDS, np.ones(len(BANDS), bool))
    sample = cupy.asarray(measure(1 << 18))
    planes = cupy.ascontiguousarray(cupy.tile(sample, (1, -(-(side**2) // sample.shape[1])))[:, : side**2])

    def work(n=None):
        some = planes if n is None else cupy.ascontiguousarray(planes[:, :n])
        units = {"coefficients": coefficients, "scale": np.full(len(BANDS), 1e-4)}
        return summarise_on_device(densities, some, pairs, **units)

    return model, planes, work, few_worlds(densities, pairs, coefficients), coefficients


def all_worlds():
    """Let the kernel read all worlds, however many pixels there are."""
    return mock.patch("uncover.engines.cuda.MANY_PIXELS", 1 << 62)


def worlds_table(side):
    """The tile where few worlds suffice, for narrow and wide optical depths, and models of both kinds."""
    rows = []
    for words, mean, deviation in (("0.12 ± 0.04", 0.12, 0.04), ("0.30 ± 0.15", 0.3, 0.15)):
        for kind in ("shared", "pooled"):
            _, _, work, few, _ = tile(side, mean=mean, deviation=deviation, realisations=kind)
            took, n = seconds_on_device(work, repeats=3), 1 << 20
            found = work(n)
            with all_worlds():
                exact, whole = work(n), seconds_on_device(work, repeats=3)
            apart = abs(found.probability - exact.probability).max(axis=0).get()
            read = WORLDS if few is None else few.weights.shape[1] + 1
            off = [float(apart.max()), float(np.quantile(apart, 0.999))]
            rows.append([words, kind, read, took, whole, *off])
    columns = {"optical depth": "", "class models": "", "worlds that are read": "d", "seconds": ".3g"}
    columns |= {"in all worlds, s": ".3g", "largest difference": ".1e", "at 99.9 %": ".1e"}
    caption = "A tile in 25 worlds, and the difference of probabilities from reading all of them"
    return Table("few worlds", caption, columns, rows)


def tile_table(side):
    """A tile of uint16, and the distance of the results from double precision."""
    import cupy

    model, planes, work, few, coefficients = tile(side)
    took = seconds_on_device(work)
    with all_worlds():
        whole = seconds_on_device(work)
    began = time.perf_counter()
    layers = work()
    cupy.cuda.Device().synchronize()
    wall = time.perf_counter() - began
    some = planes[:, :4096].get()[None].astype(np.float64) * 1e-4
    exact = Summariser(model).summarise(some, coefficients=coefficients)
    rows = [
        [
            "seconds for the tile",
            took,
            f"{device_name()}, {side} x {side} pixels, {WORLDS} worlds, uint16 in",
        ],
        ["seconds by the clock", wall, "launches and copies of the model included"],
        ["worlds that are read", few.weights.shape[1] + 1, "the others follow; one of them is a check"],
        ["seconds where all are read", whole, "for worlds that no single effect makes"],
        ["ns per pixel and world", 1e9 * took / side**2 / WORLDS, ""],
        *floor_rows(side**2, planes.nbytes, took),
        ["sure pixels, P > 0.99", float((layers.probability.max(axis=0) > 0.99).mean()), ""],
        *error_rows(layers, exact),
    ]
    caption = "A tile through correction, classification and entropies on the device"
    return Table("gpu", caption, {"": "", "value": ".3g", "remark": ""}, rows)


def pool_table(side):
    """A tile by the recommended classifier, fitted to 2,000 samples in all worlds, in blocks."""
    import cupy

    rng = np.random.default_rng(0)
    fitted, coefficients, measure, _ = problem(
        rng, realisations="pooled", samples=2000, estimator=BayesianClassifier
    )
    sample = (measure(1 << 18) * 1e-4).astype(np.float32)
    reader = PoolSummariser(fitted.model_, device="cuda")
    pool, few = reader.on_device, Planes(np.ascontiguousarray(sample[None, :, :20_000]), coefficients)
    nodes = reader.nodes_on_device(few)
    block = min(pool.block(WORLDS), 1 << 22, side**2)
    planes = cupy.ascontiguousarray(
        cupy.tile(cupy.asarray(sample), (1, -(-block // (1 << 18))))[None, :, :block]
    )

    def work():
        for start in range(0, side**2, block):
            pool.layers(pool.views(planes[:, :, : side**2 - start], coefficients), nodes)

    took = seconds_on_device(work, repeats=1)
    exact = PoolPrediction(fitted.model_, few.observation, quick=True).probability().T
    found = reader.summarise(few.numbers, coefficients=coefficients).probability
    wrong = np.abs(found - exact).max(axis=0)
    read = WORLDS if nodes is None else len(nodes.worlds)
    rows = [
        ["seconds for the tile", took, f"{side} x {side} pixels, {WORLDS} worlds"],
        ["ns per pixel and world", 1e9 * took / side**2 / WORLDS, ""],
        ["members", len(fitted.model_.members), ", ".join(m.name for m in fitted.model_.members)],
        ["worlds that trees and kernels read", read, "as few as keep probabilities within 1e-3"],
        [
            "difference at 99.9 % of pixels",
            np.quantile(wrong, 0.999),
            "of a probability, to all worlds on the processor",
        ],
        ["largest difference", wrong.max(), f"of {wrong.size:,} pixels"],
    ]
    caption = "A tile by the recommended classifier on the device"
    return Table("pool", caption, {"": "", "value": ".3g", "remark": ""}, rows)


def device_name():
    """Name of the device, as its driver gives it."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()


def floor_rows(pixels, bytes_in, took):
    """What the multiply-adds of the distances alone, and the bytes alone, would take."""
    copy, rate = ceilings()
    p, K = len(BANDS), len(KINDS)
    adds = pixels * WORLDS * K * (p * (p + 1) / 2 + 2 * p)
    moved = bytes_in + (K + 7) * 4 * pixels
    return [
        ["floor of multiply-adds in all worlds, s", adds / rate, f"{rate / 1e12:.1f} T/s measured"],
        ["floor of bytes, s", moved / copy, f"{copy / 1e12:.2f} TB/s copied, measured"],
        ["fraction of the floor", max(adds / rate, moved / copy) / took, "distances alone count as work"],
    ]


def error_rows(layers, exact):
    """Largest distances from what double precision gives, over the first pixels."""
    n = exact.probability.shape[1]
    wrong = np.abs(layers.probability[:, :n].get() - exact.probability).max()
    parts = ("total", "measurement")
    worst = max(np.abs(getattr(layers, name)[:n].get() - getattr(exact, name)).max() for name in parts)
    return [
        ["largest error of probability", wrong, "against double precision on the processor"],
        ["largest error of a part", worst, ""],
    ]


def estimator_table(n):
    """Methods of an estimator with CuPy arrays of float32, ten features and four classes."""
    import cupy

    rng = cupy.random.default_rng(0)
    y = cupy.arange(n) % 4
    X = rng.standard_normal((n, 10), dtype=np.float32) + y[:, None].astype(np.float32)
    worlds = X[: n // 4, None, :] + cupy.zeros((1, WORLDS, 1), np.float32)
    model = BayesianQDA().fit(X, y)
    works = {
        "fit": (n, lambda: BayesianQDA().fit(X, y)),
        "predict_proba": (n, lambda: model.predict_proba(X)),
        f"predict_proba, {WORLDS} realisations": (n // 4, lambda: model.predict_proba(worlds)),
        "typicality": (n, lambda: model.typicality(X)),
        "uncertainty, 100 drawn models": (n // 4, lambda: model.uncertainty(X[: n // 4], n_draws=100)),
    }
    rows = [
        [name, size, took := seconds_on_device(work), 1e9 * took / size]
        for name, (size, work) in works.items()
    ]
    caption = f"BayesianQDA with arrays that lie on the device ({device_name()}), results there too"
    return Table(
        "estimators", caption, {"": "", "samples": ",d", "seconds": ".3g", "ns a sample": ".3g"}, rows
    )
