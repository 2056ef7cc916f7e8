"""Folders of `uncover reproduce` as results: findings, a few tables, and figures for the documentation."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from benchmarks.registry import Table
from uncover.studies.cells import CellStore, Workers, run_cells
from uncover.studies.claims import FEW, UNIT, ScoreTable
from uncover.studies.models import PAPER
from uncover.studies.synthetic import LEAST_F1, SyntheticStudy
from uncover.studies.tables import read_tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
#: Models of `--further`, each beside the model of the paper that it varies.
FURTHER = {"AdaBoost.M2 scores": "RF", "RF bootstrap": "RF", "NN deep": "NN"}


def take_study(name, folder):
    """Keep what a study found, and what it was, among the results."""
    facts = json.loads((folder / "study.json").read_text(encoding="utf-8"))
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    further = FURTHER.keys() <= facts.pop("models").keys()
    tables = read_tables(folder / "tables")
    if further:
        findings, kept = [], [further_table(facts, tables)]
    elif facts["study"] == "landcover":
        kept = [brier_table(tables["scores"])]
    else:
        findings, kept = synthetic_results(facts, findings, folder)
    document = {"study": facts, "findings": findings, "tables": [table.as_dict() for table in kept]}
    text = json.dumps(document, indent=2, ensure_ascii=False)
    (RESULTS / f"study-{name}.json").write_text(text + "\n", encoding="utf-8")


def take_figures(title, folder):
    """Copy the figures of a study, as PNG of 256 colours."""
    from PIL import Image

    for file in sorted((folder / "figures").glob("*.png")):
        with Image.open(file) as image:
            small = image.convert("RGB")
            small.thumbnail((1400, 1400))
            few = small.quantize(256, kmeans=2, dither=Image.Dither.NONE)
            few.save(ROOT / f"docs/images/study-{title.replace(' ', '-')}-{file.name}", optimize=True)


def brier_table(scores):
    """Normalised Brier score by training pixels and model, mean over pairs of dates."""
    scores = scores.sort_values("ours", kind="stable")  # the paper's first
    names = {n: f"{n} (ours)" if ours else n for n, ours in zip(scores["model"], scores["ours"], strict=True)}
    means = scores[scores["metric"] == "brier_norm"].pivot_table("value", "pixels", "model")
    columns = {"training pixels": ",", **dict.fromkeys(names.values(), ".3f")}
    rows = [
        [int(pixels), *("–" if pd.isna(row.get(name)) else float(row[name]) for name in names)]
        for pixels, row in means.iterrows()
    ]
    return Table("Brier", "Normalised Brier score; – could not be trained", columns, rows)


# ---- the synthetic study: both readings of the F₁ filter ---------------------------------------------------


def synthetic_results(facts, findings, folder):
    """The findings; and tables: Brier scores, data sets by filter, verdicts that the other filter changes."""
    tables = read_tables(folder / "tables")
    sets = int(tables["scores"]["data_set"].max()) + 1
    strict = SyntheticStudy(facts["scale"], facts["seed"], sets, every_model=True)
    cells = strict.cells(folder)
    results = run_cells(cells, CellStore(folder, strict.facts), Workers())  # adds those without noise
    mine = SyntheticStudy(facts["scale"], facts["seed"], sets)
    again = mine.findings(mine.tables(mine.cells(folder), results))
    if [f["verdict"] for f in findings] != [f.verdict for f in again]:
        raise ValueError(
            f"{folder} was last summed up with another --f1-filter or version; run `uncover reproduce "
            f"synthetic --scale {facts['scale']} --out {folder}` again, which computes nothing anew"
        )
    others = strict.findings(strict.tables(cells, results))
    return [asdict(finding) for finding in again], [
        _means(tables["means"]),
        _filtered_sets([cell for cell in cells if cell.noise == 0], results),
        _changed_verdicts(again, others),
    ]


def _means(means):
    """Brier score of the models of the paper, Gaussian noise, mean over the data sets."""
    rows = means[means["covariance"] & (means["kind"] == "gaussian") & (means["metric"] == "brier")]
    wide = rows.pivot_table("value", ["p", "noise"], "model")
    columns = {"p": "d", "σ": "g", "data sets": "d", **dict.fromkeys(PAPER, ".3g")}
    counts = rows.groupby(["p", "noise"])["n"].max()
    return Table(
        "Brier",
        "Brier score, Gaussian noise, mean over the data sets",
        columns,
        [
            [int(p), float(noise), int(counts[p, noise]), *(float(row[m]) for m in PAPER)]
            for (p, noise), row in wide.iterrows()
        ],
    )


def _filtered_sets(plain, results):
    """How many data sets pass each filter, and which models are below it."""
    rows = []
    for p, covariance in dict.fromkeys((cell.p, cell.covariance) for cell in plain):
        failing, passed, every = Counter(), 0, 0
        for cell in (c for c in plain if (c.p, c.covariance) == (p, covariance)):
            low = [m["model"] for m in results[cell.key]["models"] if m["scores"]["f1"] < LEAST_F1]
            failing.update(low)
            passed += not low
            every += 1
        named = ", ".join(f"{model} {n}" for model, n in failing.most_common()) or "–"
        rows.append([p, "yes" if covariance else "no", every, passed, named])
    return Table(
        "filter sets",
        f"Data sets whose F₁ without noise is at least {LEAST_F1:g}",
        {"p": "d", "covariance": "", "BQDA alone": "d", "all five models": "d", "below it": ""},
        rows,
    )


def _changed_verdicts(bqda, every):
    """Claims whose verdict depends on the filter; one row says so if there is none."""
    rows = [[a.claim, a.verdict, b.verdict] for a, b in zip(bqda, every, strict=True)]
    changed = [row for row in rows if row[1] != row[2]]
    none = f"none of the {len(rows)} verdicts changes"
    return Table(
        "filter verdicts",
        "Verdicts that depend on the models whose F₁ without noise must reach 0.9",
        dict.fromkeys(("claim", "BQDA alone", "all five models"), ""),
        changed or [[none, "–", "–"]],
    )


# ---- models on request ------------------------------------------------------------------------------------


def further_table(facts, tables):
    """Each further model beside the paper's that it varies: scores, lead with its interval, cost."""
    if facts["study"] == "landcover":
        scores, norm, cost = (
            ScoreTable.of_draws(tables["scores"], tables["replicates"]),
            "_norm",
            tables["cost"],
        )
        few, most = cost["pixels"] <= FEW, cost["pixels"].max()
        cases = {
            f"at most {FEW:,} pixels": ({"few": True}, cost[few]),
            f"{most:,} pixels": ({"largest": True}, cost[cost["pixels"] == most]),
        }
    else:
        scores, norm = ScoreTable.of_data_sets(tables["scores"]), ""
        cases = {f"p = {p}": ({"p": p, "covariance": True}, rows) for p, rows in tables["cost"].groupby("p")}
    rows = []
    for case, (where, cost) in cases.items():
        seconds = cost.groupby("model")["seconds"].median()
        for model, other in FURTHER.items():
            found = scores.rows("f1", where)
            f1 = found[found[UNIT] == -1 if norm else found[UNIT] >= 0][[model, other]].mean()
            leads = [str(scores.lead(m, model, other, where)) for m in ("f1", f"brier{norm}")]
            rows.append([model, other, case, *map(float, f1), *leads, seconds[model] / seconds[other]])
    columns = {
        "model": "", "beside": "", "case": "", "F₁": ".4f", "F₁ of the other": ".4f",
        "lead in F₁": "", "lead in Brier score": "", "CPU time, times that of the other": ".1f",
    }  # fmt: skip
    return Table("further", "Models on request beside those of the paper, with 95 % intervals", columns, rows)
