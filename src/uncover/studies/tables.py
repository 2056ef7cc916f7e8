"""Tables of a study: results of cells as data frames, written as Parquet and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

try:
    import pandas as pd
except ImportError:
    raise ImportError("studies need pandas: install it with `pip install uncover[tables]`") from None

from uncover.metrics import SCORE_NAMES, Outcomes
from uncover.studies.models import MODELS

Row = dict[str, Any]
Facts = Mapping[str, Any]

Tables = dict[str, pd.DataFrame]


def score_rows(where: Facts, found: Mapping[str, Any]) -> list[Row]:
    """One row for each score of a model."""
    head = {**where, "ours": MODELS[found["model"]].ours}
    values = ((name, found["scores"][name], *found["intervals"][name]) for name in SCORE_NAMES)
    names = ("metric", "value", "low", "high")
    return [{**head, **dict(zip(names, row, strict=True)), "zeros": found["zeros"]} for row in values]


def training_row(where: Facts, found: Mapping[str, Any]) -> Row:
    """Row of the outcome of training a model: success or failure, and its warnings."""
    return {
        **where,
        "model": found["model"],
        "trained": found["trained"],
        "why": found.get("why", ""),
        "warnings": "; ".join(found.get("warnings", [])),
    }


def cost_rows(where: Facts, found: Mapping[str, Any]) -> list[Row]:
    """CPU seconds of a model."""
    seconds = {name: found[name] for name in ("fit_seconds", "predict_seconds")}
    return [{**where, **seconds, "seconds": sum(seconds.values())}]


def confusion_rows(where: Facts, found: Mapping[str, Any], classes: Iterable[str]) -> list[Row]:
    """One row for each predicted and true class."""
    names = list(classes)
    return [
        {**where, "predicted": a, "true": b, "count": found["confusion"][i][j]}
        for i, a in enumerate(names)
        for j, b in enumerate(names)
    ]


def rate_rows(where: Facts, found: Mapping[str, Any], classes: Iterable[str]) -> list[Row]:
    """True and false positive and negative rates of each class."""
    seen = Outcomes.of(found["confusion"])
    names = [f"{side}_{kind}_rate" for kind in ("positive", "negative") for side in ("true", "false")]
    rates = {name: getattr(seen, name) for name in (*names, "precision")}
    return [
        {**where, "class": name, **{r: float(v[k]) for r, v in rates.items()}}
        for k, name in enumerate(classes)
    ]


def frame(found: Iterable[tuple[Facts, Facts]], rows: Callable[..., list[Row]], *more: Any) -> pd.DataFrame:
    """Rows of all models that could be trained, as one table; `found` has where, and what was found."""
    trained = (({**where, "model": one["model"]}, one) for where, one in found if one["trained"])
    return pd.DataFrame([row for where, one in trained for row in rows(where, one, *more)])


def write_tables(tables: Tables, out: Path) -> list[Path]:
    """Write each table as Parquet and CSV."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for name, table in tables.items():
        files += [out / f"{name}.parquet", out / f"{name}.csv"]
        table.to_parquet(files[-2], index=False)
        table.to_csv(files[-1], index=False, lineterminator="\n")
    return files


def read_tables(folder: Path) -> Tables:
    """Read the tables of a folder back."""
    return {file.stem: pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))}
