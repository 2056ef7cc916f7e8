"""The claims about the land cover study, as data; and the tests of the tables that are not of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from uncover.metrics import wilson_interval
from uncover.studies.claims import (
    NOTHING,
    Alike,
    Claim,
    Growth,
    Leads,
    OftenBest,
    Results,
    Scores,
    Test,
    decided,
    joined,
)
from uncover.studies.findings import Contrast, Finding, Outcome, Verdict, all_better, at_least, percent
from uncover.studies.models import PAPER
from uncover.studies.tables import Tables

#: Few training pixels are at most so many.
FEW = 1000
METRICS = ("f1", "f2", "cross_entropy_norm", "brier_norm")
_BRIER = "brier_norm"
#: Least size of the data for claims about scores; the paper's have 189,142 pixels and 25 realisations.
ENOUGH = {"pixels": 50_000, "realisations": 10}
_CLASSES = {
    "cropland": ("cropland", "crops", "arable"),
    "forest": ("forest", "woodland"),
    "grassland": ("grassland", "grass"),
    "settlements": ("settlements", "settlement", "urban"),
}
_INDEPENDENT = "Intervals take pixels for independent, and so are too narrow."


def land_cover_findings(tables: Tables, size: Mapping[str, int]) -> list[Finding]:
    """All findings, in the order of the report.

    `size` has the pixels and realisations of the data.
    """
    cases = {name: _with_cases(tables[name]) for name in ("scores", "replicates")}
    results = Results(tables, Scores.of_draws(cases["scores"], cases["replicates"]))
    return [claim.judge(results, size) for claim in LAND_COVER_CLAIMS]


def _with_cases(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(
        across=table["train_year"] != table["test_year"],
        few=table["pixels"] <= FEW,
        largest=table["pixels"] == table["pixels"].max(),
    )


# ---- the data ------------------------------------------------------------------------------------------


def components_hold(share: float) -> Test:
    """The first two principal components hold more than a share of the variance in every year."""

    def test(results: Results) -> Outcome:
        if "components" not in results.tables:
            return NOTHING
        years = results.tables["components"].groupby("year")[["pc1_share", "pc2_share"]].first().sum(axis=1)
        return Outcome(
            decided(bool((years > share).all())),
            "; ".join(f"{year} {percent(value)}".strip() for year, value in years.items()) + ".",
            f"It holds if the first two components hold more than {percent(share)} in every year, over all "
            "pixels of the first realisation.",
        )

    return test


def clusters(results: Results) -> Outcome:
    """Settlements, forest and grassland lie apart from each other in the plane of the components."""
    wanted = [_class(results, name) for name in ("settlements", "forest", "grassland")]
    if "components" not in results.tables or None in wanted:
        return NOTHING
    table = results.tables["components"]
    shares = _own_neighbours(table[table["class"].isin(wanted)])
    return Outcome(
        joined(_limited(share, 0.9) for share in shares.values()),
        "Share of pixels whose 15 nearest of the three classes are mostly of their own: "
        + "; ".join(f"{name} {_in_percent(share)}" for name, share in shares.items())
        + ".",
        "It holds if the share is above 90 % for each of the three, in every year, with its interval.",
    )


def _own_neighbours(table: pd.DataFrame, k: int = 15) -> dict[str, Contrast]:
    """Share of the pixels of each class and year most of whose neighbours are of the same class."""
    from sklearn.neighbors import NearestNeighbors

    found = {}
    for year, rows in table.groupby("year"):
        plane, names = rows[["pc1", "pc2"]].to_numpy(), rows["class"].to_numpy()
        near = NearestNeighbors(n_neighbors=min(k + 1, len(rows))).fit(plane).kneighbors(plane)[1][:, 1:]
        own = (names[near] == names[:, None]).mean(axis=1) > 0.5
        for name in np.unique(names):
            found[f"{year} {name}".strip()] = _share(own[names == name].sum(), (names == name).sum())
    return found


def cropland_spreads(results: Results) -> Outcome:
    """Cropland covers more of the plane of the components than any other class."""
    if "components" not in results.tables:
        return NOTHING
    area = {
        (str(year), str(name)): float(np.sqrt(np.linalg.det(np.cov(rows[["pc1", "pc2"]].to_numpy().T))))
        for (year, name), rows in results.tables["components"].groupby(["year", "class"])
    }
    table = pd.Series(area).unstack()
    return _largest_of(results, table, "Area in the plane, √det of the covariance", ".2e")


def cropland_varies(results: Results) -> Outcome:
    """Cropland has the largest variance over all bands."""
    bands = results.tables["bands"]
    total = bands.assign(variance=bands["sd"] ** 2).groupby(["year", "class"])["variance"].sum().unstack()
    return _largest_of(results, np.sqrt(total), "Standard deviation over all bands together", ".4f")


def _largest_of(results: Results, table: pd.DataFrame, what: str, form: str) -> Outcome:
    """Cropland (column) has the largest value in every year (row)."""
    crops = _class(results, "cropland")
    if crops is None:
        return NOTHING
    rows = [
        f"{year} " + ", ".join(f"{name} {value:{form}}" for name, value in row.items())
        for year, row in table.iterrows()
    ]
    return Outcome(
        decided(bool((table.idxmax(axis=1) == crops).all())),
        f"{what}: {'; '.join(rows)}.".replace("-", "−"),
        "It holds if that of cropland is the largest in every year.",
    )


def bands_overlap(results: Results) -> Outcome:
    """The intervals x̄ ± 2 s of the classes overlap."""
    overlaps = []
    for _, rows in results.tables["bands"].groupby(["year", "band"]):
        low, high = (rows["mean"] + sign * 2 * rows["sd"] for sign in (-1, 1))
        pairs = np.less_equal.outer(low.to_numpy(), high.to_numpy())
        apart = ~(pairs & pairs.T)
        overlaps.append(1 - apart[np.triu_indices(len(rows), 1)].mean())
    return Outcome(
        decided(bool(np.mean(overlaps) > 0.5)),
        f"{percent(float(np.mean(overlaps)))} of the pairs of classes overlap, over bands and years.",
        "It holds if more than half of the pairs overlap.",
    )


# ---- confusion: trained on the most pixels of the first year, tested in the last one ---------------------


@dataclass(frozen=True)
class Confusion:
    """Pixels by predicted (row) and true class (column) of one model.

    Examples
    --------
    >>> table = pd.DataFrame([[90, 5], [10, 95]], ["crop", "wood"], ["crop", "wood"])
    >>> str(Confusion(table).missed("crop")), Confusion(table).called("crop") / Confusion(table).true("crop")
    ('0.1000 [0.0552, 0.1744]', 0.95)
    """

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


def confusions(results: Results) -> dict[str, Confusion]:
    """Of each model of the paper, where the paper looks at them."""
    table = results.tables["confusion"]
    if table.empty:
        return {}
    here = table[
        (table["fraction"] == table["fraction"].max())
        & (table["train_year"] == table["train_year"].unique()[0])
        & (table["test_year"] == table["test_year"].unique()[-1])
    ]
    return {
        model: Confusion(rows.pivot(index="predicted", columns="true", values="count"))
        for model in PAPER
        if len(rows := here[here["model"] == model])
    }


def _of_classes(test: Callable[[dict[str, Confusion], str, str], Outcome]) -> Test:
    """A test of the confusion matrices that speaks of cropland and forest."""

    def whole(results: Results) -> Outcome:
        crops, forest, found = _class(results, "cropland"), _class(results, "forest"), confusions(results)
        lacking = crops is None or forest is None or not {"QDA", "RF", "NN"} <= set(found)
        return NOTHING if lacking else test(found, str(crops), str(forest))

    return whole


def confusion_alike(results: Results) -> Outcome:
    """QDA and BQDA have nearly the same confusion matrix."""
    found = confusions(results)
    if not {"QDA", "BQDA"} <= set(found):
        return NOTHING
    a, b = found["QDA"].table, found["BQDA"].table
    differ = float((a - b).abs().to_numpy().sum() / 2 / b.to_numpy().sum())
    return Outcome(
        decided(differ < 0.01),
        f"At least {percent(differ)} of the test pixels are called otherwise.",
        "It holds if that is less than 1 %. Half the sum of the differences of all cells.",
    )


def crops_called_wrongly(found: dict[str, Confusion], crops: str, _: str) -> Outcome:
    """In every classifier cropland has a larger share of false positives than all pixels together."""
    shares = {model: {name: one.false(name) for name in one.table} for model, one in found.items()}
    largest = {model: max(each, key=lambda name: each[name].value) for model, each in shares.items()}
    return Outcome(
        joined(_limited(each[crops], found[model].wrong) for model, each in shares.items()),
        f"Share of the pixels called {crops} that are something else, and of all pixels called wrongly: "
        + "; ".join(
            f"{model} {_in_percent(each[crops])}, {percent(found[model].wrong)}"
            for model, each in shares.items()
        )
        + ". Largest such share: "
        + "; ".join(f"{model} {name}" for model, name in largest.items())
        + ".",
        f"High: larger than that of all pixels, with its interval, in every classifier. {_INDEPENDENT}",
    )


def forest_missed(found: dict[str, Confusion], crops: str, forest: str) -> Outcome:
    """QDA misses a larger share of forest than of all pixels."""
    qda = found["QDA"]
    missed = {name: qda.missed(name) for name in qda.table}
    return Outcome(
        _limited(missed[forest], qda.wrong),
        "Share of the pixels of a class that QDA misses: "
        + "; ".join(f"{name} {_in_percent(share)}" for name, share in missed.items())
        + f"; of all pixels {percent(qda.wrong)}.",
        f"Large: larger than that of all pixels, with its interval. {_INDEPENDENT}",
    )


def forest_becomes_crops(found: dict[str, Confusion], crops: str, forest: str) -> Outcome:
    """Most of the forest that QDA misses is called cropland."""
    column = found["QDA"].table[forest].drop(forest)
    share = _share(column[crops], column.sum())
    return Outcome(
        _limited(share, 0.5),
        f"{_in_percent(share)} of the missed pixels of {forest} are called {crops}.",
        "It holds if it is more than half, with its interval.",
    )


def more_than_qda(what: str, rate: Callable[[Confusion, str, str], Contrast | float], sign: int = 1) -> Test:
    """A rate, or a count, of RF and of NN is larger than that of QDA (smaller, with sign −1)."""

    def test(found: dict[str, Confusion], crops: str, forest: str) -> Outcome:
        values = {model: rate(found[model], crops, forest) for model in ("QDA", "RF", "NN")}
        shares = {m: v if isinstance(v, Contrast) else Contrast(v, v, v) for m, v in values.items()}
        gaps = [_difference(shares[model], shares["QDA"], sign) for model in ("RF", "NN")]
        said = "; ".join(
            f"{m} {_in_percent(v) if isinstance(v, Contrast) else f'{v:,.0f}'}" for m, v in values.items()
        )
        return Outcome(
            all_better(gaps),
            f"{what}: {said}.",
            f"It holds if that of RF and that of NN are {'larger' if sign > 0 else 'smaller'} than that of "
            f"QDA. {_INDEPENDENT}",
        )

    return _of_classes(test)


def crops_over_predicted(found: dict[str, Confusion], crops: str, _: str) -> Outcome:
    """QDA calls more pixels cropland than there are."""
    ratios = {model: one.called(crops) / one.true(crops) for model, one in found.items()}
    return Outcome(
        decided(ratios["QDA"] > 1),
        f"Pixels called {crops} over pixels of {crops}: "
        + "; ".join(f"{model} {ratio:.3f}" for model, ratio in ratios.items())
        + ".",
        "It holds if the ratio of QDA is above 1.",
    )


# ---- training sizes and cost ---------------------------------------------------------------------------


def trained_at(share: float, model: str, trainable: bool) -> Test:
    """A model can be trained on a share of the pixels; or cannot."""

    def test(results: Results) -> Outcome:
        training = results.tables["training"]
        mine = training[(training["fraction"] == share) & (training["model"] == model)]
        if mine.empty:
            return Outcome("undecided", f"No training set has {percent(share)} of the pixels.")
        why = mine.loc[~mine["trained"], "why"]
        reason = f" It says: {why.iloc[0]}" if len(why) else ""
        return Outcome(
            decided(bool((mine["trained"] == trainable).all())),
            f"With {mine['pixels'].iloc[0]:,} pixels {model} could be trained in "
            f"{int(mine['trained'].sum())} of {len(mine)} cases.{reason}",
            "A covariance is invertible only if a class has more pixels than there are bands.",
        )

    return test


def steadiest(results: Results) -> Outcome:
    """Across years BQDA's Brier score varies least over the training sizes."""
    rows = results.scores.rows(_BRIER, {"across": True})
    trained = [m for m in PAPER if m in rows and len(rows) and rows.loc[rows["unit"] == -1, m].notna().all()]
    if "BQDA" not in trained:
        return NOTHING
    by = ["unit", "train_year", "test_year"]
    places = rows.groupby(by)[trained]
    ranges = (places.max() - places.min()).groupby("unit").mean()
    each = {m: Contrast.of_replicates(ranges.loc[-1, m], ranges[m].drop(-1)) for m in trained}
    gaps = [ranges[m] - ranges["BQDA"] for m in trained if m != "BQDA"]
    return Outcome(
        all_better(Contrast.of_replicates(gap.loc[-1], gap.drop(-1)) for gap in gaps),
        "Range of the normalised Brier score over the training sizes, mean over both directions: "
        + "; ".join(f"{model} {c}" for model, c in each.items())
        + ".",
        "It holds if the range of BQDA is the smallest with the intervals of the differences, among the "
        "models that could be trained at every size.",
    )


def better_within(results: Results) -> Outcome:
    """RF and NN score better in the year of their training than in the other."""
    rows = results.scores.rows(_BRIER, {"largest": True})
    if rows.empty or not rows["across"].any():
        return NOTHING
    side = np.where(rows["across"], -2.0, 2.0)
    gains = {m: results.scores.contrast(rows, rows[m] * side) for m in PAPER if m in rows}
    known = {m: c for m, c in gains.items() if c is not None}
    return Outcome(
        all_better(known[m] for m in ("RF", "NN") if m in known),
        "Gain in the normalised Brier score within a year over across years, at the largest training size: "
        + "; ".join(f"{m} {c}" for m, c in known.items())
        + ".",
        "It holds if the gain of RF and that of NN are above zero with their intervals.",
    )


def _seconds(results: Results, index: str) -> pd.DataFrame:
    """Median CPU seconds of training and evaluation by size (row) and model (column)."""
    table = results.tables["cost"].groupby([index, "model"])["seconds"].median().unstack()
    return table.reindex(columns=table.columns.union(list(PAPER)))


def _said_of_seconds(seconds: pd.DataFrame, index: str) -> str:
    return "; ".join(
        f"{_INDEX[index].format(size)} " + ", ".join(f"{m} {row[m]:.3g} s" for m in PAPER if row[m] == row[m])
        for size, row in seconds.iterrows()
    )


_INDEX = {"pixels": "{:,} pixels", "p": "p = {}"}
_CHEAP = ["LDA", "QDA", "BQDA"]


def cheaper(index: str) -> Test:
    """The dearest of LDA, QDA and BQDA costs less than the cheaper of RF and NN, at every size."""

    def test(results: Results) -> Outcome:
        seconds = _seconds(results, index)
        ratios = seconds[["RF", "NN"]].min(axis=1) / seconds[_CHEAP].max(axis=1)
        return Outcome(
            at_least(ratios, 1),
            f"The cheaper of RF and NN costs {ratios.min():.1f} to {ratios.max():.1f} times as much as the "
            f"dearest of LDA, QDA and BQDA: {_said_of_seconds(seconds, index)}.",
            "It holds if the ratio is above 1 at every size. Medians of the CPU time of training and "
            "evaluation together, one thread, after a warm-up.",
        )

    return test


def cost_alike(factor: float) -> Test:
    """BQDA, QDA and LDA cost about the same."""

    def test(results: Results) -> Outcome:
        seconds = _seconds(results, "pixels")[_CHEAP]
        ratios = (seconds.max(axis=1) / seconds.min(axis=1))[seconds.notna().all(axis=1)]
        if ratios.empty:
            return NOTHING
        return Outcome(
            decided(bool((ratios <= factor).all())),
            f"The dearest costs {ratios.min():.1f} to {ratios.max():.1f} times as much as the cheapest.",
            f"About the same: within a factor of {factor:g} at every size at which all could be trained.",
        )

    return test


def forest_dearest(index: str) -> Test:
    """RF costs more than every other model of the paper at every size."""

    def test(results: Results) -> Outcome:
        seconds = _seconds(results, index)[list(PAPER)]
        ratios = seconds["RF"] / seconds.drop(columns="RF").max(axis=1)
        ours = results.tables["cost"][~results.tables["cost"]["model"].isin(PAPER)]
        dearer = ours.groupby("model")["seconds"].median().sort_values(ascending=False)
        said = ", ".join(f"{m} {s:.3g} s" for m, s in dearer.items())
        return Outcome(
            at_least(ratios, 1),
            "RF over the dearest other model: "
            + "; ".join(f"{_INDEX[index].format(size)} {ratio:.2f}" for size, ratio in ratios.items())
            + "."
            + (f" Ours, medians over all sizes: {said}." if said else ""),
            "It holds if the ratio is above 1 at every size. The implementation decides here: these are "
            "scikit-learn's, the paper's are MATLAB's.",
        )

    return test


def reproducible(models: tuple[str, ...], same: bool) -> Test:
    """Two fits with different seeds give the same probabilities; or do not."""

    def test(results: Results) -> Outcome:
        table = results.tables.get("reproducibility")
        if table is None or not set(models) <= set(table["model"]):
            return NOTHING
        largest = table.set_index("model")["largest_difference"][list(models)]
        return Outcome(
            decided(bool(((largest == 0) == same).all())),
            "Largest difference of a probability between two seeds: "
            + "; ".join(f"{model} {value:.2g}" for model, value in largest.items())
            + ".",
            "Fitted twice to the same pixels of one realisation. RF and NN are reproducible, too, where "
            "their seed is kept.",
        )

    return test


def pooling(results: Results) -> Outcome:
    """Pooled plain QDA is nearer to BQDA than one QDA per realisation at every size."""
    rows = results.scores.rows(_BRIER, {})
    rows = rows[rows["unit"] == -1]
    if not {"QDA pooled", "QDA", "BQDA"} <= set(rows):
        return NOTHING
    gaps = rows[["QDA pooled", "QDA"]].sub(rows["BQDA"], axis=0).abs().groupby(rows["pixels"]).max().dropna()
    return Outcome(
        decided(bool((gaps["QDA pooled"] <= gaps["QDA"]).all())) if len(gaps) else "undecided",
        "Largest distance of the normalised Brier score from BQDA, of pooled QDA and of one QDA per "
        "realisation: "
        + "; ".join(f"{size:,} pixels {a:.4f} and {b:.4f}" for size, (a, b) in gaps.iterrows())
        + ".",
        "It holds if pooled QDA is nearer at every size.",
    )


# ---- shares --------------------------------------------------------------------------------------------


def _class(results: Results, kind: str) -> str | None:
    """The class of the data that is called so, None if there is none."""
    return next((name for name in results.tables["shares"]["class"] if name.lower() in _CLASSES[kind]), None)


def _share(part: float, whole: float) -> Contrast:
    """A share with Wilson's interval."""
    if not whole:
        return Contrast(float("nan"), -np.inf, np.inf)
    low, high = wilson_interval(part / whole, whole)
    return Contrast(float(part / whole), float(low), float(high))


def _difference(a: Contrast, b: Contrast, sign: int) -> Contrast:
    """a − b with an interval from theirs, as of independent samples; turned by the sign."""
    below = float(np.hypot(a.value - a.low, b.high - b.value))
    above = float(np.hypot(a.high - a.value, b.value - b.low))
    if sign < 0:
        below, above = above, below
    value = sign * (a.value - b.value)
    return Contrast(value, value - below, value + above)


def _limited(share: Contrast, limit: float) -> Verdict:
    return "holds" if share.above(limit) else "does not hold" if share.below(limit) else "undecided"


def _in_percent(share: Contrast) -> str:
    return f"{percent(share.value)} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _others(*names: str) -> tuple[str, ...]:
    return tuple(name for name in PAPER if name not in names)


_FEW, _LARGEST = {"few": True}, {"largest": True}
_SAME_YEAR = {"largest": True, "across": False}

LAND_COVER_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "pca-share", "3", "components",
        "The first two principal components of the bands hold more than 99 % of the variance.",
        components_hold(0.99),
    ),
    Claim(
        "clusters", "3", "components",
        "Settlements, forest and grassland form distinct clusters in the plane of the components.",
        clusters,
    ),
    Claim("cropland-spread", "3", "components", "Cropland is spread over that plane.", cropland_spreads),
    Claim("cropland-variance", "3", "bands", "Cropland has the largest variance.", cropland_varies),
    Claim("overlap", "3", "bands", "The bands of the classes overlap.", bands_overlap),
    Claim(
        "confusion-alike", "4.3", "confusion", "QDA and BQDA have almost the same confusion matrix.",
        confusion_alike, ENOUGH,
    ),
    Claim(
        "cropland-false-positives", "4.3", "confusion",
        "All classifiers have a high share of false positives in cropland.",
        _of_classes(crops_called_wrongly), ENOUGH,
    ),
    Claim(
        "forest-missed", "4.3", "confusion", "QDA misses much of forest.", _of_classes(forest_missed), ENOUGH
    ),
    Claim(
        "forest-becomes-cropland", "4.3", "confusion", "What QDA misses of forest it mostly calls cropland.",
        _of_classes(forest_becomes_crops), ENOUGH,
    ),
    Claim(
        "cropland-missed", "4.3", "confusion", "RF and NN miss more of cropland than QDA does.",
        more_than_qda("Share of cropland that is missed", lambda one, crops, _: one.missed(crops)), ENOUGH,
    ),
    Claim(
        "forest-false-positives", "4.3", "confusion",
        "RF and NN have a larger share of false positives in forest than QDA.",
        more_than_qda("Share of what is called forest that is not", lambda one, _, forest: one.false(forest)),
        ENOUGH,
    ),
    Claim(
        "forest-over-predicted", "4.3", "confusion", "RF and NN predict more forest than QDA does.",
        more_than_qda("Pixels called forest", lambda one, _, forest: one.called(forest)), ENOUGH,
    ),
    Claim(
        "cropland-under-predicted", "4.3", "confusion", "RF and NN predict less cropland than QDA does.",
        more_than_qda("Pixels called cropland", lambda one, crops, _: one.called(crops), -1), ENOUGH,
    ),
    Claim(
        "cropland-over-predicted", "4.3", "confusion", "QDA predicts more cropland than there is.",
        _of_classes(crops_over_predicted), ENOUGH,
    ),
    Claim(
        "lda-worst", "4.3", "scores", "LDA is the worst of the five.",
        Leads("LDA", _others("LDA"), (_BRIER,), _LARGEST, behind=True), ENOUGH,
    ),
    Claim(
        "qda-converges", "4.3", "scores",
        "QDA and BQDA become equivalent as the training set grows.",
        Alike(
            "BQDA", ("QDA",), {"f1": 0.02, _BRIER: 0.02}, _LARGEST,
            "At the largest training size, for each pair of years. One QDA for each realisation does "
            "not see the spread between realisations, however large the training set is: the gap goes with "
            "that spread, not with the training size.", ("train_year", "test_year"),
        ),
        ENOUGH,
    ),
    Claim(
        "qda-drops", "4.3", "scores", "With fewer training pixels QDA falls behind BQDA.",
        Growth("BQDA", ("QDA",), _BRIER, "pixels", downwards=True), ENOUGH,
    ),
    Claim(
        "qda-not-trained", "4.3", "scores", "On 0.1 % of the pixels QDA cannot be trained.",
        trained_at(0.001, "QDA", trainable=False), ENOUGH,
    ),
    Claim(
        "bqda-trained", "4.3", "scores", "On 0.1 % of the pixels BQDA can be trained.",
        trained_at(0.001, "BQDA", trainable=True), ENOUGH,
    ),
    Claim(
        "few-pixels", "4.3", "scores",
        f"With few training pixels (at most {FEW:,}) BQDA is best in almost all cases in F₁, F₂ and "
        "Brier score.",
        OftenBest("BQDA", PAPER, ("f1", "f2", _BRIER), 0.75, _FEW), ENOUGH,
    ),
    Claim(
        "few-pixels-cross-entropy", "4.3", "scores",
        "With few training pixels BQDA is not best in cross-entropy.",
        OftenBest("BQDA", PAPER, ("cross_entropy_norm",), 0.5, _FEW, seldom=True), ENOUGH,
    ),
    Claim(
        "network-cross-entropy", "4.3", "scores", "NN is on average the best in cross-entropy.",
        Leads("NN", _others("NN"), ("cross_entropy_norm",)), ENOUGH,
    ),
    Claim(
        "forest-poorest", "4.3", "scores", "With few training pixels RF is on average the poorest.",
        Leads("RF", _others("RF"), (_BRIER, "f1"), _FEW, behind=True), ENOUGH,
    ),
    Claim(
        "forest-least-robust", "4.3", "scores", "RF depends most on the size of the training set.",
        Growth("RF", _others("RF", "QDA"), "f1", "pixels", note="QDA cannot be trained on the least."),
        ENOUGH,
    ),
    Claim(
        "across-lowest", "4.3", "scores", "Across years BQDA has the lowest Brier score.",
        Leads("BQDA", _others("BQDA"), (_BRIER,), {"across": True}), ENOUGH,
    ),
    Claim(
        "across-steadiest", "4.3", "scores",
        "Across years the Brier score of BQDA depends least on the size of the training set.",
        steadiest, ENOUGH,
    ),
    Claim(
        "better-within", "4.3", "scores",
        "RF and NN are better in the year of their training than in the other year.", better_within, ENOUGH,
    ),
    Claim(
        "best-within", "4.3", "scores",
        "Another reading of the same sentence: within a year RF and NN are better than BQDA.",
        Leads("BQDA", ("RF", "NN"), (_BRIER,), _SAME_YEAR, behind=True), ENOUGH,
    ),
    Claim(
        "cost", "4.3", "cost", "LDA, QDA and BQDA cost less to compute than RF and NN.", cheaper("pixels"),
        ENOUGH,
    ),
    Claim("cost-alike", "4.3", "cost", "LDA, QDA and BQDA cost about the same.", cost_alike(3.0), ENOUGH),
    Claim(
        "forest-dearest", "4.3", "cost", "RF is the dearest at every training size.",
        forest_dearest("pixels"), ENOUGH,
    ),
    Claim(
        "reproducible", "4.3", "",
        "LDA, QDA and BQDA give the same probabilities when they are fitted again.",
        reproducible(("LDA", "QDA", "BQDA"), same=True),
    ),
    Claim(
        "not-reproducible", "4.3", "", "RF and NN do not: their training draws random numbers.",
        reproducible(("RF", "NN"), same=False),
    ),
    Claim(
        "pooling", "", "scores-ours",
        "Pooled plain QDA nears BQDA: what is gained over one QDA per realisation comes from pooling.",
        pooling, ENOUGH,
    ),
)  # fmt: skip
