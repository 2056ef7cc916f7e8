"""The items of the paper beside the product: tables of docs/paper.md, from benchmarks and studies."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
STUDIES = {"landcover-standard": "land cover", "synthetic-standard": "synthetic"}

_SLIP = "slip, no effect on what follows ([below](#departures-and-slips))"
_DEPARTS = "departure ([below](#departures-and-slips))"

#: Number, what it is, where the product has it, and a verdict where it is not a number that can be compared.
EQUATIONS = (
    ("1.1", "a class as a function of the input", "every estimator: `predict`", "definition"),
    ("2.1", "measured input = true input + error", "[the model](maths.md#the-model)", "definition"),
    ("2.2, 2.3", "Bayes' theorem", "[class probabilities](maths.md#class-probabilities)", "definition"),
    (
        "2.4, 2.5", "known noise: posterior and its integral",
        "`fit(X, y, X_cov=…)`, [known noise](known-noise.md)",
        "the paper leaves it for future work; here computed",
    ),
    ("2.6", "posterior of the joint parameters", "`bayes.niw.NIW.update`", _SLIP),
    ("2.7", "integral over the true input", "[realisations](maths.md#realisations)", ""),
    ("2.8", "class posterior predictive", '`BayesianQDA(realisations="pooled")`', ""),
    ("2.9", "the integral for Gaussians", "[realisations](maths.md#realisations)", _SLIP),
    ("2.10", "Gaussian with both covariances", "learned by pooling the realisations", "definition"),
    ("2.11", "class posterior predictive of BQDA", '`BayesianQDA(prior="weak")`', ""),
    ("2.12", "its limit, QDA", "`BayesianQDA` with many samples", "the limit is reached to that"),
    ("3.1", "uncertainty of the optical depth", "`measurement.quantity.cams_uncertainty`", ""),
    ("4.1", "F_β weighted by the class shares", "`metrics.score`: `f1`, `f2`", ""),
    ("4.2", "cross-entropy", "`metrics.score`: `cross_entropy`", ""),
    ("4.3", "Brier score", "`metrics.score`: `brier`", ""),
    ("4.4", "normalised cross-entropy", "`metrics.score`: `cross_entropy_norm`", ""),
    ("4.5", "normalised Brier score", "`metrics.score`: `brier_norm`", ""),
    (
        "4.6", "covariances of the synthetic classes", "`studies.synthetic.draw_problem`",
        f"the same; E[Σ_ij]: {_SLIP}",
    ),
    ("A.1 – A.5, A.8", "likelihood, classes, prior", "[the model](maths.md#the-model)", "definition"),
    (
        "A.6, A.7", "Dirichlet prior and its mean",
        "`class_prior`, [class proportions](maths.md#class-proportions)", "definition",
    ),
    ("A.9 – A.11", "posterior of the parameters", "`bayes.niw.NIW.update`", _SLIP),
    ("A.12", "predictive of the class", "`class_prior`", ""),
    ("A.13, B.1, B.2", "predictive of the input", "`bayes.niw.NIW.predictive`", _SLIP),
    ("B.3, B.4", "normal-inverse-Wishart prior", "`bayes.niw.NIW`", "B.4"),
    ("B.5", "its posterior", "`bayes.niw.NIW.update`", ""),
    ("B.6, B.7", "Student t predictive", "`bayes.niw.NIW.predictive`, `bayes.student_t.StudentT`", "B.6"),
    ("B.8, B.9", "the prior, with N where 2.11 has N − 1", "`bayes.priors.weak_prior`: N − 1", _DEPARTS),
)  # fmt: skip

#: Figure of the paper, what it shows, the study's figure that shows it here.
FIGURES = (
    ("1", "labelled pixels over the scene", "landcover-standard", "scene"),
    ("2", "distribution of the classes", "landcover-standard", "class-shares"),
    ("3", "principal components of one realisation", "landcover-standard", "components"),
    ("4", "bands of each class, mean ± 2 s", "landcover-standard", "bands"),
    ("5", "confusion matrices", "landcover-standard", "confusion"),
    ("6", "scores, trained and tested in 2020", "landcover-standard", "scores-2020-2020"),
    ("7", "scores, trained and tested in 2021", "landcover-standard", "scores-2021-2021"),
    ("8", "scores, trained in 2020, tested in 2021", "landcover-standard", "scores-2020-2021"),
    ("9", "scores, trained in 2021, tested in 2020", "landcover-standard", "scores-2021-2020"),
    ("10", "computing cost", "landcover-standard", "cost"),
    *(
        (
            str(11 + 2 * i + j),
            f"scores against noise, p = {p}, {kind}",
            "synthetic-standard",
            f"scores-p{p}-{kind}",
        )
        for i, p in enumerate((2, 10, 50))
        for j, kind in enumerate(("gaussian", "uniform"))
    ),
)


def paper_table(kind):
    """One of the tables of the page, as Markdown."""
    kinds = {"equations": equations, "figures": figures, "claims": claims, "filter": f1_filter}
    return kinds[kind]()


def equations():
    """Every numbered equation, where it is, and how far an independent computation is from it."""
    found = {row[0]: row for row in _table("paper", "formulas")}
    rows = []
    for number, what, place, verdict in EQUATIONS:
        check = found.get(verdict, found.get(number))
        number_found = f"{check[2]:.1e}".replace("e-", "e−") if check else "–"
        said = verdict if verdict and verdict not in found else "the same"
        rows.append((number, what, place, number_found, said))
    return _markdown(("equation", "what", "here", "largest difference", "verdict"), rows)


def figures():
    """Every figure, and the file that shows the same here."""
    rows = []
    for number, what, study, name in FIGURES:
        image = f"images/study-{STUDIES[study].replace(' ', '-')}-{name}.png"
        shown = f"[figure]({image})" if (ROOT / "docs" / image).is_file() else "–"
        rows.append((number, what, f"`{name}` of `uncover reproduce {study.split('-')[0]}`", shown))
    return _markdown(("figure", "what", "here", "at the standard scale"), rows)


def claims():
    """Every claim, in our words, with the verdict and the numbers of the studies."""
    rows = []
    for study, title in STUDIES.items():
        for finding in findings_of(study):
            if not finding["ours"]:
                section = finding.get("section", "")
                rows.append(
                    (
                        section and f"§ {section}",
                        title,
                        finding["claim"],
                        finding["verdict"],
                        finding["found"],
                    )
                )
    return _markdown(("section", "study", "claim", "verdict", "found"), rows)


def f1_filter():
    """Data sets by the reading of the F₁ filter, and verdicts that change between the two."""
    tables = {table["name"]: table for table in document_of("synthetic-standard")["tables"]}
    if "filter verdicts" not in tables:
        return "What the other reading does to the verdicts is not measured yet."
    parts = [f"{tables[name]['caption']}:\n\n{_as_text(tables[name])}" for name in _FILTER_TABLES]
    return "\n\n".join(parts)


_FILTER_TABLES = ("filter sets", "filter verdicts")


def _as_text(table):
    return _markdown(list(table["columns"]), [[str(cell) for cell in row] for row in table["rows"]])


def document_of(study):
    """A study that was taken into the results."""
    return json.loads((RESULTS / f"study-{study}.json").read_text(encoding="utf-8"))


def findings_of(study):
    """Its findings."""
    return document_of(study)["findings"]


def _table(name, table):
    document = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return next(each["rows"] for each in document["tables"] if each["name"] == table)


def _markdown(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
