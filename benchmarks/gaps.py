"""Series of dates that clouds hide: training and prediction with gaps, against filling them in."""

import tempfile
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.probability_problems import DATA
from benchmarks.registry import RESULTS, Table, benchmark
from benchmarks.runs import Runs, timed_scores
from uncover import BayesianClassifier, BayesianLDA, BayesianQDA
from uncover.bayes.streams import stream

SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8)
SIZES, REPEATS, TESTED = (150,), 1, 400
DATES, BANDS, CLASSES = 6, 10, 7
# The scene of the tutorials: numbers of dates, hidden share while they vary, pixels along a side, features.
TWIN_DATES, TWIN_SHARE, TWIN_SIDE = (4, 6, 8), 0.4, 300
TEN = ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
SCORES = {"cross_entropy": "cross-entropy, nats", "accuracy": "accuracy", "calibration_error": "calibration"}


def _forest():
    return RandomForestClassifier(300, random_state=0)


def _logistic():
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))


# Models by name: what makes one, and what is made of gaps before it.
OURS, FILLED = "BayesianClassifier", "BayesianClassifier, interpolated"
MODELS = {
    OURS: (BayesianClassifier, "kept"),
    FILLED: (BayesianClassifier, "interpolated"),
    "random forest, interpolated": (_forest, "interpolated"),
    "random forest, composite": (_forest, "composite"),
    "random forest, complete cases": (_forest, "complete"),
    "gradient boosting, native": (lambda: HistGradientBoostingClassifier(random_state=0), "kept"),
    "logistic regression, interpolated": (_logistic, "interpolated"),
}
# The calibration of single class models: features, in blocks that are missing together; samples of a class.
FEATURES, BLOCKS, COUNTS = 6, 3, (20, 50, 200)


@benchmark("gaps")
def run(quick):
    """Scores by share of hidden dates and by number of dates; then how sure single class models are.

    Runs are kept in a file beside the results, and a benchmark that was stopped goes on.
    """
    with tempfile.TemporaryDirectory() as folder:
        found = problems(quick, folder)
        file = f"{folder}/runs" if quick else RESULTS / "gaps-runs.jsonl"
        sizes, shares, repeats = ((60,), (0.0, 0.4), 1) if quick else (SIZES, SHARES, REPEATS)
        runs = Runs(file, lambda *run: one_run(found, *run, tested=100 if quick else TESTED))
        cells = [(p, n, share) for n in sizes for p in found if "," not in p for share in shares]
        varied = [(p, sizes[-1], TWIN_SHARE) for p in found if "," in p]
        few = [cell for cell in cells if cell[-1] == SHARES[-1]]  # takes longest: last
        runs.make([*(cell for cell in cells if cell not in few), *varied, *few], repeats, MODELS)
    each = [(p, n, shares) for p in found if "," not in p for n in sizes]
    tables = [_summary_table(runs, each[-1][1], [p for p, *_ in each], repeats)]
    tables += [_share_table(runs, *which, score, repeats) for which in each for score in SCORES]
    tables += [_date_table(runs, varied, repeats)] if varied else []
    return [*tables, _calibration_table(quick)]


def problems(quick, folder):
    """Functions that draw samples (size, seed, tested) of each series that is here, by name."""
    found, real_data = {"simulated": simulated}, DATA / "s2_l1c_reference"
    if quick:
        return found
    for dates in TWIN_DATES:
        found["embedded scene" + ("" if dates == DATES else f", {dates} dates")] = twin(folder, dates)
    if not real_data.exists():
        print(f"real: skipped, {real_data.name} is not here")
        return found
    return {**found, "real": real(real_data)}


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


def twin(folder, dates):
    """Samples of the embedded scene on so many dates without clouds: training in its west, tests in its east.

    Level-1C reflectance, and the class of the ground in the first year.
    """
    import rasterio

    from uncover.raster import SceneOptions, open_scene
    from uncover.studies.landscape import LandscapeOptions, write_scene

    options = LandscapeOptions(TWIN_SIDE, dates=dates, clouds=0.0)
    files = write_scene(f"{folder}/{dates}", options)
    scenes = [open_scene(path, SceneOptions(bands=TEN)).read().reflectance for path in files.series]
    with rasterio.open(files.truth(2020)) as file:
        truth = file.read(1)
    X = np.stack(scenes).reshape(dates, BANDS, -1).transpose(2, 0, 1).astype(float)
    kinds, y = np.unique(truth.ravel(), return_inverse=True)
    west = np.arange(truth.size) % truth.shape[1] < truth.shape[1] // 2
    good = np.isfinite(X).all((1, 2)) & (kinds[y] > 0)
    # Classes with too few pixels on either side for every draw are left out.
    common = [
        k for k in range(len(kinds)) if min(np.sum(good & side & (y == k)) for side in (west, ~west)) > 500
    ]
    good &= np.isin(y, common)
    y = np.searchsorted(common, y)

    def draw(size, seed, tested):
        rng = np.random.default_rng(seed)
        few = [
            rng.choice(np.flatnonzero(good & side & (y == k)), n // len(common), replace=False)
            for side, n in ((west, size), (~west, tested))
            for k in range(len(common))
        ]
        train, test = np.concatenate(few[: len(common)]), np.concatenate(few[len(common) :])
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


def one_run(found, problem, size, share, repeat, name, tested=TESTED):
    """Scores of one model, and the seconds to fit and to predict."""
    train, y, test, truth = found[problem](size, repeat, tested)
    rng = stream(repeat, "clouds", round(100 * share))
    train, test = hidden(train, share, rng), hidden(test, share, rng)
    make, gaps = MODELS[name]
    known = np.arange(len(train))
    if gaps == "interpolated":
        train, test = interpolated(train), interpolated(test)
        # Interpolation makes features depend on each other exactly, which Gaussians do not bear: a millionth
        # of their spread is added.
        spread = 1e-6 * train.std((0, 1))
        train, test = (each + spread * rng.normal(size=each.shape) for each in (train, test))
    elif gaps == "composite":
        train, test = (np.nanmean(each, axis=1) for each in (train, test))
    elif gaps == "complete":
        known = np.flatnonzero(~np.isnan(train).any((1, 2)))
    flat = [each.reshape(len(each), -1) for each in (train, test)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return timed_scores(
            lambda: _probability(make, flat[0][known], y[known], flat[1], y), truth, np.unique(y)
        )


def _probability(make, known, y, new, every):
    """Class probabilities; shares of all training samples for what a model cannot read, or did not see."""
    classes, counts = np.unique(every, return_counts=True)
    P = np.tile(counts / counts.sum(), (len(new), 1))
    if len(np.unique(y)) < 2:
        return P
    clf = make().fit(known, y)
    readable = ~np.isnan(new).any(1) if isinstance(clf, RandomForestClassifier) else np.full(len(new), True)
    if readable.any():
        P[readable] = 0.0
        P[np.ix_(readable, np.searchsorted(classes, clf.classes_))] = clf.predict_proba(new[readable])
    return P


def _means(runs, cell, score, repeats):
    return [runs.values(cell, name, score, range(repeats)).mean() for name in MODELS]


def _share_table(runs, problem, size, shares, score, repeats):
    """One score of all models by share of hidden dates; of the cross-entropy also ratios and seconds."""
    rows, columns = [], {"dates hidden": "", **dict.fromkeys(MODELS, ".3f")}
    for share in shares:
        cell = (problem, size, share)
        if not runs.complete(cell, MODELS, repeats):
            continue  # tables are made of the runs that there are
        row = [f"{share:.0%}", *_means(runs, cell, score, repeats)]
        if score == "cross_entropy":
            seconds = _means(runs, cell, "seconds", repeats)[:2]
            row += [row[1] / row[2], row[1] / min(row[3:]), *seconds]
        rows.append(row)
    if score == "cross_entropy":
        columns |= {"ours / interpolated": ".2f", "ours / best of the others": ".2f"}
        columns |= {"seconds, ours": ".1f", "seconds, interpolated": ".1f"}
    caption = (
        f"{SCORES[score].capitalize()}, {problem} series, {size} training samples, mean of {repeats} draws."
    )
    return Table(f"{problem}, {size}, {score}", caption, columns, rows)


def _summary_table(runs, size, problems, repeats):
    """Cross-entropy of ours against ours after interpolation, and against the best of the others."""
    rows = []
    for problem in problems:
        for share in SHARES:
            cell = (problem, size, share)
            if runs.complete(cell, MODELS, repeats):
                ours, filled, *others = _means(runs, cell, "cross_entropy", repeats)
                best = int(np.argmin(others))
                name = [*MODELS][2 + best]
                rows.append([problem, f"{share:.0%}", ours, filled, others[best], name, ours / filled])
    columns = {"series": "", "hidden": "", "ours": ".3f", "ours, interpolated": ".3f"}
    columns |= {"best other": ".3f", "which": "", "ours / interpolated": ".2f"}
    caption = f"Cross-entropy, nats, {size} training samples, {TESTED} tested, mean of {repeats} draws."
    return Table("summary", caption, columns, rows)


#: Curves of the figure, with their names there.
_CURVES = {
    OURS: "ours, with gaps",
    FILLED: "ours, interpolated",
    "random forest, interpolated": "random forest, interpolated",
    "random forest, composite": "random forest, mean composite",
    "random forest, complete cases": "random forest, complete cases",
}


def draw_shares(tables, path):
    """Scores against the share of hidden dates, a column for each series, and against the number of dates."""
    from uncover.report.style import WIDE, figure_style, new_figure, save_figure

    series = list(dict.fromkeys(row[0] for row in tables["summary"]["rows"]))
    with figure_style():
        figure = new_figure(height=6.6, width=WIDE)
        panels = figure.subplots(len(SCORES), len(series) + 1, sharex="col", sharey="row")
        for row, (score, title) in zip(panels, SCORES.items(), strict=True):
            row[0].set_ylabel(title)
            for panel, name in zip(row, series, strict=False):
                table = next(t for n, t in tables.items() if n.startswith(name) and n.endswith(score))
                _draw_curves(panel, table, [float(line[0].rstrip("%")) for line in table["rows"]])
            lines = [line for line in tables["dates"]["rows"] if line[1] == title]
            _draw_curves(row[-1], {**tables["dates"], "rows": lines}, [line[0] for line in lines])
            row[0].set_ylim(bottom=0)
        for panel, name in zip(panels[0], series, strict=False):
            panel.set_title(f"{name} series" if name in ("simulated", "real") else name)
        panels[0, -1].set_title(f"embedded, {TWIN_SHARE:.0%} hidden")
        for panel in panels[-1]:
            panel.set_xlabel("hidden dates, %")
        panels[-1, -1].set_xlabel("dates")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        save_figure(figure, path)


def _draw_curves(panel, table, places):
    """A curve of each model."""
    from uncover.report.style import MARKERS, OKABE_ITO

    columns = list(table["columns"])
    for i, (model, label) in enumerate(_CURVES.items()):
        values = [row[columns.index(model)] for row in table["rows"]]
        panel.plot(places, values, color=OKABE_ITO[i], marker=MARKERS[i], markersize=4, label=label)


def _date_table(runs, cells, repeats):
    """Scores by number of dates of the embedded scene."""
    cells = sorted([*cells, ("embedded scene", cells[0][1], TWIN_SHARE)], key=_dates_of)
    cells = [cell for cell in cells if runs.complete(cell, MODELS, repeats)]
    rows = [
        [_dates_of(cell), SCORES[score], *_means(runs, cell, score, repeats)]
        for score in SCORES
        for cell in cells
    ]
    columns = {"dates": "d", "score": "", **dict.fromkeys(MODELS, ".3f")}
    caption = (
        f"Scores by number of dates, {TWIN_SHARE:.0%} of them hidden, embedded scene, {cells[0][1]} training "
        f"samples, mean of {repeats} draws."
    )
    return Table("dates", caption, columns, rows)


def _dates_of(cell):
    _name, _, dates = cell[0].partition(", ")
    return int(dates.split()[0]) if dates else DATES


def _calibration_table(quick):
    """Confidence less accuracy of class models trained through gaps, and of the fit to as much without."""
    rows = []
    for make, prior in ((BayesianQDA, "weak"), (BayesianQDA, "evidence"), (BayesianLDA, "evidence")):
        for n in COUNTS[:1] if quick else COUNTS:
            for share in (0.4, 0.8):
                fewer = max(round((1.0 - share) ** 2 * n + share * (1.0 - share) * n / BLOCKS), 3)
                each = [
                    [_surplus(make(prior=prior), n, share, r), _surplus(make(prior=prior), fewer, 0.0, r)]
                    for r in range(2 if quick else 10)
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
