"""The claims about the land cover study, as data; and the measurements of tables that are not of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from uncover.metrics import wilson_interval
from uncover.studies.claims import (
    FEW,
    Claim,
    Contrast,
    Criterion,
    Finding,
    Lacking,
    Measured,
    Results,
    ScoreTable,
    alike,
    claims_of,
    exact,
    growth,
    holds_if,
    leads,
    listed,
    often_best,
    percent,
    signs,
)
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

_BRIER = "brier_norm"
#: Least size of the data for claims about scores; the paper's have 189,142 pixels and 25 realisations.
ENOUGH = {"pixels": 50_000, "realisations": 10}
_CLASSES = {
    "cropland": ("cropland", "crops", "arable"),
    "forest": ("forest", "woodland"),
    "grassland": ("grassland", "grass"),
    "settlements": ("settlements", "settlement", "urban"),
}
_LARGEST_EVERY_YEAR = "It holds if that of cropland is the largest in every year."
_INDEPENDENT = "Intervals take pixels for independent, and so are too narrow."


def land_cover_findings(tables: Tables, size: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of the report; `size` has the pixels and realisations of the data."""
    results = Results(tables, ScoreTable.of_draws(tables["scores"], tables["replicates"]))
    return [claim.judge(results, size) for claim in LAND_COVER_CLAIMS]


def _class(results: Results, kind: str) -> str:
    """The class of the data that is called so."""
    for name in results.table("shares")["class"]:
        if name.lower() in _CLASSES[kind]:
            return str(name)
    raise Lacking


# ---- the data ------------------------------------------------------------------------------------------


@holds_if(
    "It holds if the first two components hold more than 99.0 % in every year, over all pixels of the first "
    "realisation.",
    limit=0.99,
)
def _components_share(results: Results) -> Measured:
    parts = results.table("components").groupby("year")[["pc1_share", "pc2_share"]].first()
    years = parts.sum(axis=1)
    return exact(years), "; ".join(f"{year} {percent(value)}".strip() for year, value in years.items()) + "."


@holds_if(
    "It holds if the share is above 90 % for each of the three, in every year, with its interval.", limit=0.9
)
def _own_neighbours(results: Results, k: int = 15) -> Measured:
    """Share of the pixels of each class and year most of whose neighbours are of the same class."""
    from sklearn.neighbors import NearestNeighbors

    wanted = [_class(results, name) for name in ("settlements", "forest", "grassland")]
    table = results.table("components")
    shares = {}
    for year, rows in table[table["class"].isin(wanted)].groupby("year"):
        plane, names = rows[["pc1", "pc2"]].to_numpy(), rows["class"].to_numpy()
        near = NearestNeighbors(n_neighbors=min(k + 1, len(rows))).fit(plane).kneighbors(plane)[1][:, 1:]
        own = (names[near] == names[:, None]).mean(axis=1) > 0.5
        for name in np.unique(names):
            shares[f"{year} {name}".strip()] = _share(own[names == name].sum(), (names == name).sum())
    text = "Share of pixels whose 15 nearest of the three classes are mostly of their own: "
    return shares.values(), f"{text}{listed(_in_percent(shares))}."


@holds_if(_LARGEST_EVERY_YEAR)
def _areas(results: Results) -> Measured:
    """Of each class in the plane of the components."""
    what = "Area in the plane, √det of the covariance"
    area = {
        (str(year), str(name)): float(np.sqrt(np.linalg.det(np.cov(rows[["pc1", "pc2"]].to_numpy().T))))
        for (year, name), rows in results.table("components").groupby(["year", "class"])
    }
    return _cropland_over_others(results, pd.Series(area).unstack(), what, ".2e")


@holds_if(_LARGEST_EVERY_YEAR)
def _spreads(results: Results) -> Measured:
    """Standard deviation of each class over all bands."""
    bands = results.table("bands")
    total = bands.assign(variance=bands["sd"] ** 2).groupby(["year", "class"])["variance"].sum().unstack()
    return _cropland_over_others(results, np.sqrt(total), "Standard deviation over all bands together", ".4f")


def _cropland_over_others(results: Results, table: pd.DataFrame, what: str, form: str) -> Measured:
    """Cropland (column) less the largest of the others, in every year (row)."""
    crops = _class(results, "cropland")
    rows = {
        year: ", ".join(f"{name} {value:{form}}" for name, value in row.items())
        for year, row in table.iterrows()
    }
    more = table[crops] - table.drop(columns=crops).max(axis=1)
    return exact(more), f"{what}: {listed(rows)}.".replace("-", "−")


@holds_if("It holds if more than half of the pairs overlap.", limit=0.5)
def _overlaps(results: Results) -> Measured:
    """Share of the pairs of classes whose intervals x̄ ± 2 s overlap."""
    overlaps = []
    for _, rows in results.table("bands").groupby(["year", "band"]):
        low, high = (rows["mean"] + sign * 2 * rows["sd"] for sign in (-1, 1))
        pairs = np.less_equal.outer(low.to_numpy(), high.to_numpy())
        overlaps.append((pairs & pairs.T)[np.triu_indices(len(rows), 1)].mean())
    share = float(np.mean(overlaps))
    return exact([share]), f"{percent(share)} of the pairs of classes overlap, over bands and years."


# ---- confusion: trained on the most pixels of the first year, tested in the last one ---------------------


@dataclass(frozen=True)
class Confusion:
    """Pixels by predicted (row) and true class (column) of one model."""

    table: pd.DataFrame

    def called(self, name: str) -> float:
        """Pixels that are predicted to be of a class."""
        return float(self.table.loc[name].sum())

    def true(self, name: str) -> float:
        """Pixels that are of a class."""
        return float(self.table[name].sum())

    @property
    def wrong(self) -> float:
        """Share of all pixels that are called wrongly."""
        return 1 - float(np.trace(self.table) / self.table.to_numpy().sum())

    def missed(self, name: str) -> Contrast:
        """Share of the pixels of a class that are called something else."""
        return _share(self.true(name) - self.table.loc[name, name], self.true(name))

    def false(self, name: str) -> Contrast:
        """Share of the pixels called so that are something else."""
        return _share(self.called(name) - self.table.loc[name, name], self.called(name))


def _confusions(results: Results, *needed: str) -> dict[str, Confusion]:
    """Of each model of the paper, where the paper looks at them."""
    table = results.table("confusion")
    here = table[
        (table["fraction"] == table["fraction"].max())
        & (table["train_year"] == table["train_year"].unique()[0])
        & (table["test_year"] == table["test_year"].unique()[-1])
    ]
    found = {
        model: Confusion(rows.pivot(index="predicted", columns="true", values="count"))
        for model in PAPER
        if len(rows := here[here["model"] == model])
    }
    if not set(needed) <= set(found):
        raise Lacking
    return found


def _in_all(results: Results) -> tuple[dict[str, Confusion], str, str]:
    """The confusion matrices, and the names of cropland and forest in them."""
    return _confusions(results, "QDA", "RF", "NN"), _class(results, "cropland"), _class(results, "forest")


@holds_if("It holds if that is less than 1 %. Half the sum of the differences of all cells.", margin=0.01)
def _called_otherwise(results: Results) -> Measured:
    found = _confusions(results, "QDA", "BQDA")
    a, b = found["QDA"].table, found["BQDA"].table
    differ = float((a - b).abs().to_numpy().sum() / 2 / b.to_numpy().sum())
    return exact([differ]), f"At least {percent(differ)} of the test pixels are called otherwise."


@holds_if(f"High: larger than that of all pixels, with its interval, in every classifier. {_INDEPENDENT}")
def _crops_called_wrongly(results: Results) -> Measured:
    """Share of false positives of cropland in each classifier, less that of all pixels."""
    found, crops, _ = _in_all(results)
    false = {model: one.false(crops) for model, one in found.items()}
    shares = {model: f"{share}, {percent(found[model].wrong)}" for model, share in _in_percent(false).items()}
    largest = {m: max(one.table, key=lambda name: one.false(name).value) for m, one in found.items()}
    return (
        [false[model] - one.wrong for model, one in found.items()],
        f"Share of the pixels called {crops} that are something else, and of all pixels called wrongly: "
        f"{listed(shares)}. Largest such share: {listed(largest)}.",
    )


@holds_if(f"Large: larger than that of all pixels, with its interval. {_INDEPENDENT}")
def _forest_missed(results: Results) -> Measured:
    found, _, forest = _in_all(results)
    qda = found["QDA"]
    missed = {name: qda.missed(name) for name in qda.table}
    text = f"{listed(_in_percent(missed))}; of all pixels {percent(qda.wrong)}."
    return [missed[forest] - qda.wrong], f"Share of the pixels of a class that QDA misses: {text}"


@holds_if("It holds if it is more than half, with its interval.", limit=0.5)
def _forest_becomes_crops(results: Results) -> Measured:
    found, crops, forest = _in_all(results)
    column = found["QDA"].table[forest].drop(forest)
    share = {"": _share(column[crops], column.sum())}
    said = _in_percent(share)[""]
    return share.values(), f"{said} of the missed pixels of {forest} are called {crops}."


def _more_than_qda(what: str, rate: Callable[[Confusion, str], Contrast | float], kind: str, sign: int = 1):
    """A rate, or a count, of a class by RF and by NN is larger than by QDA (smaller, with sign −1)."""

    def measure(results: Results) -> Measured:
        found = _in_all(results)[0]
        values: dict[str, Any] = {
            model: rate(found[model], _class(results, kind)) for model in ("QDA", "RF", "NN")
        }
        if isinstance(values["QDA"], Contrast):
            shares, said = values, _in_percent(values)
        else:
            shares = dict(zip(values, exact(values.values()), strict=True))
            said = {model: f"{count:,.0f}" for model, count in values.items()}
        gaps = [_difference(shares[model], shares["QDA"]) for model in ("RF", "NN")]
        return [gap if sign > 0 else -gap for gap in gaps], f"{what}: {listed(said)}."

    than = "larger" if sign > 0 else "smaller"
    return Criterion(
        measure, f"It holds if that of RF and that of NN are {than} than that of QDA. {_INDEPENDENT}"
    )


@holds_if("It holds if the ratio of QDA is above 1.", limit=1.0)
def _crops_over_predicted(results: Results) -> Measured:
    found, crops, _ = _in_all(results)
    ratios = {model: one.called(crops) / one.true(crops) for model, one in found.items()}
    said = listed({model: f"{ratio:.3f}" for model, ratio in ratios.items()})
    return exact([ratios["QDA"]]), f"Pixels called {crops} over pixels of {crops}: {said}."


# ---- training sizes and cost ---------------------------------------------------------------------------


def _trained_at(share: float, model: str, trainable: bool) -> Criterion:
    """A model can be trained on a share of the pixels; or cannot."""

    @holds_if("A covariance is invertible only if a class has more pixels than there are bands.")
    def test(results: Results) -> Measured:
        training = results.table("training")
        mine = training[(training["fraction"] == share) & (training["model"] == model)]
        if mine.empty:
            raise Lacking(f"no training set has {percent(share)} of the pixels")
        why = mine.loc[~mine["trained"], "why"]
        reason = f" It says: {why.iloc[0]}" if len(why) else ""
        return (
            signs(mine["trained"] == trainable),
            f"With {mine['pixels'].iloc[0]:,} pixels {model} could be trained in "
            f"{int(mine['trained'].sum())} of {len(mine)} cases.{reason}",
        )

    return test


@holds_if(
    "It holds if the range of BQDA is the smallest with the intervals of the differences, among the models "
    "that could be trained at every size."
)
def _ranges(results: Results) -> Measured:
    """Range of each other model over the training sizes, less that of BQDA."""
    rows = results.rows(_BRIER, {"across": True}, ["BQDA"])
    trained = [m for m in PAPER if m in rows and rows.loc[rows["unit"] == -1, m].notna().all()]
    if "BQDA" not in trained:
        raise Lacking
    places = rows.groupby(["unit", "train_year", "test_year"])[trained]
    ranges = (places.max() - places.min()).groupby("unit").mean()
    each = {m: results.scores.interval(ranges[m]) for m in trained}
    text = "Range of the normalised Brier score over the training sizes, mean over both directions: "
    others = (m for m in trained if m != "BQDA")
    return [results.scores.interval(ranges[m] - ranges["BQDA"]) for m in others], f"{text}{listed(each)}."


@holds_if("It holds if the gain of RF and that of NN are above zero with their intervals.")
def _gains_within(results: Results) -> Measured:
    """Gain of RF and NN in the year of their training over the other."""
    rows = results.rows(_BRIER, {"largest": True}, ())
    if not rows["across"].any():
        raise Lacking
    side = np.where(rows["across"], -2.0, 2.0)
    gains = {m: results.scores.contrast(rows, rows[m] * side) for m in PAPER if m in rows}
    known = {m: c for m, c in gains.items() if c is not None}
    text = (
        "Gain in the normalised Brier score within a year over across years, at the largest training size: "
    )
    return [known[m] for m in ("RF", "NN") if m in known], f"{text}{listed(known)}."


def _seconds(results: Results, index: str) -> pd.DataFrame:
    """Median CPU seconds of training and evaluation by size (row) and model (column)."""
    table = results.tables["cost"].groupby([index, "model"])["seconds"].median().unstack()
    return table.reindex(columns=table.columns.union(list(PAPER)))


_INDEX = {"pixels": "{:,} pixels", "p": "p = {}"}
_CHEAP = ["LDA", "QDA", "BQDA"]


def cheaper(index: str) -> Criterion:
    """The dearest of LDA, QDA and BQDA costs less than the cheaper of RF and NN, at every size."""

    @holds_if(
        "It holds if the ratio is above 1 at every size. Medians of the CPU time of training and "
        "evaluation together, one thread, after a warm-up.",
        limit=1.0,
    )
    def test(results: Results) -> Measured:
        seconds = _seconds(results, index)
        ratios = seconds[["RF", "NN"]].min(axis=1) / seconds[_CHEAP].max(axis=1)
        said = {
            _INDEX[index].format(size): ", ".join(f"{m} {row[m]:.3g} s" for m in PAPER if row[m] == row[m])
            for size, row in seconds.iterrows()
        }
        return (
            exact(ratios),
            f"The cheaper of RF and NN costs {ratios.min():.1f} to {ratios.max():.1f} times as much as the "
            f"dearest of LDA, QDA and BQDA: {listed(said)}.",
        )

    return test


def forest_dearest(index: str) -> Criterion:
    """RF costs more than every other model of the paper at every size."""

    @holds_if(
        "It holds if the ratio is above 1 at every size. The implementation decides here: these are "
        "scikit-learn's, the paper's are MATLAB's.",
        limit=1.0,
    )
    def test(results: Results) -> Measured:
        seconds = _seconds(results, index)[list(PAPER)]
        ratios = seconds["RF"] / seconds.drop(columns="RF").max(axis=1)
        ours = results.tables["cost"][~results.tables["cost"]["model"].isin(PAPER)]
        dearer = ours.groupby("model")["seconds"].median().sort_values(ascending=False)
        said = ", ".join(f"{m} {s:.3g} s" for m, s in dearer.items())
        sizes = {_INDEX[index].format(size): f"{ratio:.2f}" for size, ratio in ratios.items()}
        more = f" Ours, medians over all sizes: {said}." if said else ""
        return exact(ratios), f"RF over the dearest other model: {listed(sizes)}.{more}"

    return test


def _cost_alike(factor: float) -> Criterion:
    """BQDA, QDA and LDA cost about the same."""

    @holds_if(f"About the same: within a factor of {factor:g} at every size at which all could be trained.")
    def test(results: Results) -> Measured:
        seconds = _seconds(results, "pixels")[_CHEAP].dropna()
        ratios = seconds.max(axis=1) / seconds.min(axis=1)
        return (
            signs(ratios <= factor),
            f"The dearest costs {ratios.min():.1f} to {ratios.max():.1f} times as much as the cheapest.",
        )

    return test


def _reproducible(models: tuple[str, ...], same: bool) -> Criterion:
    """Two fits with different seeds give the same probabilities; or do not."""

    @holds_if(
        "Fitted twice to the same pixels of one realisation. RF and NN are reproducible, too, where "
        "their seed is kept."
    )
    def test(results: Results) -> Measured:
        table = results.table("reproducibility").set_index("model")["largest_difference"]
        if not set(models) <= set(table.index):
            raise Lacking
        said = listed({model: f"{table[model]:.2g}" for model in models})
        return (
            signs((table[model] == 0) == same for model in models),
            f"Largest difference of a probability between two seeds: {said}.",
        )

    return test


@holds_if("It holds if pooled QDA is nearer at every size.")
def _pooled_nearer(results: Results) -> Measured:
    """Pooled plain QDA is nearer to BQDA than one QDA per realisation, at every size."""
    rows = results.rows(_BRIER, {"unit": -1}, ["QDA pooled", "QDA", "BQDA"])
    gaps = rows[["QDA pooled", "QDA"]].sub(rows["BQDA"], axis=0).abs().groupby(rows["pixels"]).max().dropna()
    said = listed({f"{size:,} pixels": f"{a:.4f} and {b:.4f}" for size, (a, b) in gaps.iterrows()})
    return (
        signs(gaps["QDA pooled"] <= gaps["QDA"]),
        "Largest distance of the normalised Brier score from BQDA, of pooled QDA and of one QDA per "
        f"realisation: {said}.",
    )


# ---- shares --------------------------------------------------------------------------------------------


def _share(part: float, whole: float) -> Contrast:
    """A share with Wilson's interval."""
    if not whole:
        return Contrast(float("nan"), -np.inf, np.inf)
    low, high = wilson_interval(part / whole, whole)
    return Contrast(float(part / whole), float(low), float(high))


def _difference(a: Contrast, b: Contrast) -> Contrast:
    """a − b with an interval from theirs, as of independent samples."""
    below = float(np.hypot(a.value - a.low, b.high - b.value))
    above = float(np.hypot(a.high - a.value, b.value - b.low))
    value = a.value - b.value
    return Contrast(value, value - below, value + above)


def _in_percent(shares: Mapping[str, Contrast]) -> dict[str, str]:
    return {
        name: f"{percent(share.value)} [{100 * share.low:.1f}, {100 * share.high:.1f}]"
        for name, share in shares.items()
    }


def _others(*names: str) -> tuple[str, ...]:
    return tuple(name for name in PAPER if name not in names)


_FEW, _LARGEST, _ACROSS = {"few": True}, {"largest": True}, {"across": True}

LAND_COVER_CLAIMS: tuple[Claim, ...] = (
    *claims_of("3", "components", {},
        ("pca-share",
         "The first two principal components of the bands hold more than 99 % of the variance.",
         _components_share),
        ("clusters",
         "Settlements, forest and grassland form distinct clusters in the plane of the components.",
         _own_neighbours),
        ("cropland-spread", "Cropland is spread over that plane.", _areas),
    ),
    *claims_of("3", "bands", {},
        ("cropland-variance", "Cropland has the largest variance.", _spreads),
        ("overlap", "The bands of the classes overlap.", _overlaps),
    ),
    *claims_of("4.3", "confusion", ENOUGH,
        ("confusion-alike", "QDA and BQDA have almost the same confusion matrix.", _called_otherwise),
        ("cropland-false-positives", "All classifiers have a high share of false positives in cropland.",
         _crops_called_wrongly),
        ("forest-missed", "QDA misses much of forest.", _forest_missed),
        ("forest-becomes-cropland", "What QDA misses of forest it mostly calls cropland.",
         _forest_becomes_crops),
        ("cropland-missed", "RF and NN miss more of cropland than QDA does.",
         _more_than_qda("Share of cropland that is missed", Confusion.missed, "cropland")),
        ("forest-false-positives", "RF and NN have a larger share of false positives in forest than QDA.",
         _more_than_qda("Share of what is called forest that is not", Confusion.false, "forest")),
        ("forest-over-predicted", "RF and NN predict more forest than QDA does.",
         _more_than_qda("Pixels called forest", Confusion.called, "forest")),
        ("cropland-under-predicted", "RF and NN predict less cropland than QDA does.",
         _more_than_qda("Pixels called cropland", Confusion.called, "cropland", -1)),
        ("cropland-over-predicted", "QDA predicts more cropland than there is.", _crops_over_predicted),
    ),
    *claims_of("4.3", "scores", ENOUGH,
        ("lda-worst", "LDA is the worst of the five.",
         leads("LDA", _others("LDA"), (_BRIER,), _LARGEST, behind=True)),
        ("qda-converges", "QDA and BQDA become equivalent as the training set grows.",
         alike(
             "BQDA", ("QDA",), {"f1": 0.02, _BRIER: 0.02}, _LARGEST,
             "At the largest training size, for each pair of years. One QDA for each realisation does "
             "not see the spread between realisations, however large the training set is: the gap goes "
             "with that spread, not with the training size.", ("train_year", "test_year"),
         )),
        ("qda-drops", "With fewer training pixels QDA falls behind BQDA.",
         growth("BQDA", ("QDA",), _BRIER, "pixels", downwards=True)),
        ("qda-not-trained", "On 0.1 % of the pixels QDA cannot be trained.",
         _trained_at(0.001, "QDA", trainable=False)),
        ("bqda-trained", "On 0.1 % of the pixels BQDA can be trained.",
         _trained_at(0.001, "BQDA", trainable=True)),
        ("few-pixels",
         f"With few training pixels (at most {FEW:,}) BQDA is best in almost all cases in F₁, F₂ and "
         "Brier score.",
         often_best("BQDA", PAPER, ("f1", "f2", _BRIER), 0.75, _FEW)),
        ("few-pixels-cross-entropy", "With few training pixels BQDA is not best in cross-entropy.",
         often_best("BQDA", PAPER, ("cross_entropy_norm",), 0.5, _FEW, seldom=True)),
        ("network-cross-entropy", "NN is on average the best in cross-entropy.",
         leads("NN", _others("NN"), ("cross_entropy_norm",))),
        ("forest-poorest", "With few training pixels RF is on average the poorest.",
         leads("RF", _others("RF"), (_BRIER, "f1"), _FEW, behind=True)),
        ("forest-least-robust", "RF depends most on the size of the training set.",
         growth("RF", _others("RF", "QDA"), "f1", "pixels", note="QDA cannot be trained on the least.")),
        ("across-lowest", "Across years BQDA has the lowest Brier score.",
         leads("BQDA", _others("BQDA"), (_BRIER,), _ACROSS)),
        ("across-steadiest",
         "Across years the Brier score of BQDA depends least on the size of the training set.",
         _ranges),
        ("better-within", "RF and NN are better in the year of their training than in the other year.",
         _gains_within),
        ("best-within",
         "Another reading of the same sentence: within a year RF and NN are better than BQDA.",
         leads("BQDA", ("RF", "NN"), (_BRIER,), {**_LARGEST, "across": False}, behind=True)),
    ),
    *claims_of("4.3", "cost", ENOUGH,
        ("cost", "LDA, QDA and BQDA cost less to compute than RF and NN.", cheaper("pixels")),
        ("cost-alike", "LDA, QDA and BQDA cost about the same.", _cost_alike(3.0)),
        ("forest-dearest", "RF is the dearest at every training size.", forest_dearest("pixels")),
    ),
    *claims_of("4.3", "", {},
        ("reproducible", "LDA, QDA and BQDA give the same probabilities when they are fitted again.",
         _reproducible(("LDA", "QDA", "BQDA"), same=True)),
        ("not-reproducible", "RF and NN do not: their training draws random numbers.",
         _reproducible(("RF", "NN"), same=False)),
    ),
    *claims_of("", "scores-ours", ENOUGH,
        ("pooling",
         "Pooled plain QDA nears BQDA: what is gained over one QDA per realisation comes from pooling.",
         _pooled_nearer),
    ),
)  # fmt: skip
