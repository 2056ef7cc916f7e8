"""How far QDA stays from BQDA on the embedded scene, as the spread of its worlds is made smaller."""

import numpy as np

from benchmarks.registry import Table, benchmark
from uncover.metrics import score
from uncover.studies.landcover import LandCoverSplit
from uncover.studies.landcover_data import embedded_scene
from uncover.studies.models import MODELS
from uncover.studies.protocol import model_seed

_SPREADS = (1.0, 0.5, 0.25, 0.1)


@benchmark("convergence")
def convergence(quick):
    """Normalised Brier score of one QDA per world less that of BQDA on all worlds pooled."""
    data = embedded_scene(*((300, 4) if quick else (2000, 25)), 0)
    split = LandCoverSplit.of(data.codes, 0)
    rows, sizes = [], {}
    for spread in _SPREADS:
        values = [_narrowed(each, spread) for each in data.values]
        for train in split.training.values():
            gap = _gap(values, data.codes, data.shares, np.sort(train), split.test)
            if gap is not None:
                sizes.setdefault(spread, {})[len(train)] = gap
        gaps = sizes[spread]
        rows.append([f"{spread:g}", *(gaps.values()), float(np.mean(list(gaps.values())))])
    columns = {"spread of the worlds": "", **{f"{n:,} pixels": ".4f" for n in sizes[1.0]}, "mean": ".4f"}
    caption = (
        "Distance of the normalised Brier scores of QDA and BQDA, mean over the pairs of years, with the "
        f"differences of the {data.realisations} worlds from their mean multiplied by the spread; "
        f"{len(split.test):,} test pixels"
    )
    return [Table("convergence", caption, columns, rows)]


def _narrowed(values, spread):
    mean = values.mean(axis=1, keepdims=True)
    return mean + spread * (values - mean)


def _gap(values, codes, shares, train, test):
    """Mean over the pairs of years; None where QDA cannot be trained."""
    gaps = []
    for before in values:
        X = np.asarray(before[train], np.float64)
        try:
            models = [MODELS[name].make(model_seed(0, name)).fit(X, codes[train]) for name in ("QDA", "BQDA")]
        except ValueError:
            return None
        for after in values:
            new = np.asarray(after[test], np.float64)
            qda, bqda = (score(codes[test], model.predict_proba(new), shares).brier_norm for model in models)
            gaps.append(abs(qda - bqda))
    return float(np.mean(gaps))
