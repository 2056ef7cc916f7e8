"""Series of dates that clouds hide: training and prediction with gaps, against filling them in."""

import time
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.probability_problems import DATA
from benchmarks.registry import Table, benchmark
from uncover import BayesianClassifier, BayesianLDA, BayesianQDA
from uncover.bayes.streams import stream

SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
SIZES, REPEATS, TESTED = (150, 400), 1, 400
DATES, BANDS, CLASSES = 6, 10, 7
LEAST = 1e-6  # probability that counts in the cross-entropy
# Models by name: what makes one, and whether gaps are filled in before it.
OURS, FILLED = "BayesianClassifier", "BayesianClassifier, interpolated"
RIVALS = {
    "random forest, interpolated": (lambda: RandomForestClassifier(300, random_state=0), True),
    "gradient boosting, native": (lambda: HistGradientBoostingClassifier(random_state=0), False),
    "logistic regression, interpolated": (
        lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        True,
    ),
}
MODELS = {OURS: (BayesianClassifier, False), FILLED: (BayesianClassifier, True), **RIVALS}
# The calibration of single class models: features, in blocks that are missing together; samples of a class.
FEATURES, BLOCKS, COUNTS = 6, 3, (20, 50, 200)


@benchmark("gaps")
def run(quick):
    """Cross-entropy by share of hidden dates; then how sure single class models are."""
    shares = (0.0, 0.4) if quick else SHARES
    tables = [
        _series_table(name, draw, size, shares, *((1, 100) if quick else (REPEATS, TESTED)))
        for size in ((60,) if quick else SIZES)
        for name, draw in problems(quick).items()
    ]
    return [*tables, _calibration_table(quick)]


def problems(quick):
    """Functions that draw samples (size, seed, tested) of each series that is here, by name."""
    found, folder = {"simulated": simulated}, DATA / "s2_l1c_reference"
    if quick:
        return found
    if not folder.exists():
        print(f"real: skipped, {folder.name} is not here")
        return found
    return {**found, "real": real(folder)}


def simulated(size, seed, tested):
    """Reflectances of 6 dates x 10 bands of 7 vegetations, each a curve of cover over the year.

    Of a class all have the same curve but for its time, width and height, the brightness of the soil, its
    moisture on a date, and haze of a date.
    """
    of_classes = np.random.default_rng(7)
    peak, width = of_classes.uniform(0.3, 0.7, CLASSES), of_classes.uniform(0.12, 0.35, CLASSES)
    height, least = of_classes.uniform(0.4, 1.0, CLASSES), of_classes.uniform(0.0, 0.25, CLASSES)
    bright = of_classes.uniform(0.7, 1.3, CLASSES)
    soil, plant = np.linspace(0.08, 0.30, BANDS), np.array([3, 6, 3, 12, 28, 36, 38, 40, 20, 10]) / 100.0
    rng, n = np.random.default_rng(seed), size + tested
    y = rng.integers(CLASSES, size=n)
    middle = peak[y] + 0.05 * rng.normal(size=n)
    spread = width[y] * np.exp(0.15 * rng.normal(size=n))
    top = height[y] * np.exp(0.12 * rng.normal(size=n))
    days = np.linspace(0.08, 0.92, DATES)
    curve = np.exp(-0.5 * ((days - middle[:, None]) / spread[:, None]) ** 2)
    cover = np.clip(least[y][:, None] + top[:, None] * curve, 0.0, 1.0)[..., None]
    wet = bright[y] * np.exp(0.12 * rng.normal(size=n))
    wet = wet[:, None] * np.exp(0.1 * rng.normal(size=(n, DATES)))
    haze = 0.008 * rng.normal(size=(n, DATES, 1)) * np.linspace(1.5, 0.3, BANDS)
    X = (1.0 - cover) * soil * wet[..., None] + cover * plant
    X = np.maximum(X * np.exp(0.06 * rng.normal(size=X.shape)) + haze, 0.002)
    return X[:size], y[:size], X[size:], y[size:]


def real(folder):
    """Samples of five dates of 2015 over one place, four classes of its land cover map."""
    bands, kinds = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12], (2, 3, 4, 8)
    image = np.load(folder / "l1c_reflectance.npy")[..., bands].astype(float)
    X = image.transpose(1, 2, 0, 3).reshape(-1, len(image), len(bands))
    labels = np.load(folder / "lulc.npy").ravel()
    good = np.isin(labels, kinds) & (X > 0).all((1, 2))
    X, y = X[good], np.searchsorted(kinds, labels[good])

    def draw(size, seed, tested):
        rng, train, test = np.random.default_rng(seed), [], []
        for k in range(len(kinds)):
            order = rng.permutation(np.flatnonzero(y == k))
            few = min(size // len(kinds), len(order) // 2)
            train, test = [*train, order[:few]], [*test, order[few : few + tested // len(kinds)]]
        train, test = np.concatenate(train), np.concatenate(test)
        return X[train], y[train], X[test], y[test]

    return draw


def hidden(X, share, rng):
    """The samples (sample, date, band) with each date hidden by this probability, but for one at least."""
    gone = rng.random(X.shape[:2]) < share
    gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] &= ~gone.all(1)
    return np.where(gone[..., None], np.nan, X)


def interpolated(X):
    """Gaps filled in linearly over dates; before the first and after the last clear date, by these."""
    out, dates = X.copy(), np.arange(X.shape[1])
    for sample in out:
        clear = ~np.isnan(sample).any(1)
        for b in range(X.shape[2]):
            sample[:, b] = np.interp(dates, dates[clear], sample[clear, b])
    return out


def cross_entropy(P, y):
    """Mean negative log probability of the true classes, in nats."""
    return float(-np.log(np.maximum(P[np.arange(len(y)), y], LEAST)).mean())


def _series_table(name, draw, size, shares, repeats, tested):
    rows = []
    for share in shares:
        found, seconds = np.zeros((2, len(MODELS)))
        for seed in range(repeats):
            scores, took = _compared(draw(size, seed, tested), share, seed)
            found, seconds = found + scores / repeats, seconds + took / repeats
        best = found[2:].min()
        rows.append([f"{share:.0%}", *found, found[0] / found[1], found[0] / best, *seconds[:2]])
        print(name, size, *rows[-1], flush=True)
    columns = {"dates hidden": "", **dict.fromkeys(MODELS, ".3f"), "ours / interpolated": ".2f"}
    columns |= {"ours / best of the others": ".2f", "seconds, ours": ".1f", "seconds, interpolated": ".1f"}
    caption = (
        f"Cross-entropy in nats, {name} series, {size} training samples, mean of {repeats}; seconds to fit "
        f"and to predict {tested} samples."
    )
    return Table(f"{name}, {size}", caption, columns, rows)


def _compared(samples, share, seed):
    """Cross-entropy and seconds of each model."""
    train, y, test, truth = samples
    rng = stream(seed, "clouds", round(100 * share))
    train, test = hidden(train, share, rng), hidden(test, share, rng)
    full = [interpolated(each) for each in (train, test)]
    # Interpolation makes features depend on each other exactly, which Gaussians do not bear: a millionth of
    # their spread is added.
    full = [each + 1e-6 * full[0].std((0, 1)) * rng.normal(size=each.shape) for each in full]
    scores, seconds = np.empty((2, len(MODELS)))
    for m, (make, fills) in enumerate(MODELS.values()):
        known, new = (each.reshape(len(each), -1) for each in (full if fills else (train, test)))
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores[m] = cross_entropy(make().fit(known, y).predict_proba(new), truth)
        seconds[m] = time.perf_counter() - start
    return scores, seconds


def _calibration_table(quick):
    """Confidence less accuracy of class models trained through gaps, and of the fit to as much without."""
    rows = []
    for make, prior in ((BayesianQDA, "weak"), (BayesianQDA, "evidence"), (BayesianLDA, "evidence")):
        for n in COUNTS[:1] if quick else COUNTS:
            for share in (0.4, 0.8):
                fewer = max(round((1.0 - share) ** 2 * n + share * (1.0 - share) * n / BLOCKS), 3)
                each = [
                    [_surplus(make(prior=prior), n, share, r), _surplus(make(prior=prior), fewer, 0.0, r)]
                    for r in range(2 if quick else 40)
                ]
                rows.append([f"{make.__name__}, {prior}", n, f"{share:.0%}", *np.mean(each, axis=0), fewer])
    columns = {"model": "", "samples of a class": "d", "hidden": "", "with gaps": "+.3f"}
    columns |= {"as many seen, no gaps": "+.3f", "samples of a class there": "d"}
    caption = (
        f"Mean confidence less accuracy for new whole samples, two Gaussian classes of {FEATURES} features "
        f"in {BLOCKS} blocks. The last two columns: of a fit to as many whole samples as show two features."
    )
    return Table("calibration", caption, columns, rows)


def _surplus(model, n, share, seed):
    rng = np.random.default_rng(seed)
    roots = np.tril(0.5 * rng.normal(size=(2, FEATURES, FEATURES))) + np.eye(FEATURES)
    if isinstance(model, BayesianLDA):
        roots[1] = roots[0]
    means = 0.7 * rng.normal(size=(2, FEATURES))

    def draw(count):
        y = np.repeat([0, 1], count)
        return means[y] + np.einsum("nij,nj->ni", roots[y], rng.normal(size=(len(y), FEATURES))), y

    (X, y), (new, truth) = draw(n), draw(400)
    X = hidden(X.reshape(len(X), BLOCKS, -1), share, rng).reshape(X.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        P = model.fit(X, y).predict_proba(new)
    return P.max(1).mean() - (P.argmax(1) == truth).mean()
