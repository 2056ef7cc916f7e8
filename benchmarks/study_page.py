"""The section of the synthetic study in docs/studies.md, from its results: figures, tables, findings."""

from collections import Counter

from benchmarks.paper_page import document_of

_NUMBERS = {2: ("Two", "two", 11), 10: ("Ten", "ten", 13), 50: ("Fifty", "fifty", 15)}
_STUDY = "synthetic-standard"
_IMAGE = "images/study-synthetic-{}.png"
_COST = f"""\
Median CPU time of one cell, training in full colours and evaluation in light ones, one thread:

![CPU seconds of training and evaluation of each model for each p]({_IMAGE.format("cost")})

The cells were computed at low priority beside other work; ratios near 1 may be otherwise on another
machine."""
_OURS = f"![Brier score of the models that the paper does not have]({_IMAGE.format('ours-brier')})"
_FILTER = f"""\
### The F₁ filter

The paper keeps data sets with an F₁ of at least 0.9 "on model predictions" without noise, and does not say
of which model. Here BQDA alone decides; `--f1-filter all` asks it of all five. Data sets that pass, and the
models that are below 0.9 on the others:

% table: study-{_STUDY}/filter sets

Verdicts that change:

% table: study-{_STUDY}/filter verdicts"""


def synthetic_page():
    """Everything between the markers; the tables and findings themselves are filled in afterwards."""
    document = document_of(_STUDY)
    if not document["tables"]:  # an earlier version took findings only
        earlier = "It is a run of an earlier version, with the claims as they were put then."
        return "\n\n".join([_what_ran(document), earlier, _counted(document), _findings("")])
    return "\n\n".join(
        [
            _what_ran(document),
            "Brier score of the paper's models under Gaussian noise, mean over the data sets:",
            f"% table: study-{_STUDY}/Brier",
            _counted(document),
            *(_at(p) for p in _NUMBERS),
            "### Variants and cost",
            _findings("/scores-p2-uniform none cost"),
            _COST,
            "### The prior, pooling and repeats",
            _OURS,
            _findings("/ours-brier"),
            _FILTER,
        ]
    )


def _what_ran(document):
    facts = document["study"]
    sets = dict(facts["data_sets"])
    for table in document["tables"]:
        if table["name"] == "Brier":
            sets = {str(row[0]): row[2] for row in table["rows"]}
    counts = ", ".join(f"{sets[p]} for p = {p}" for p in sorted(sets, key=int))
    noises = ", ".join(f"{noise:g}" for noise in facts["noises"])
    return (
        f"What follows is of these data sets: {counts}; {facts['points']:,} points a class,\n"
        f"{facts['realisations']} realisations, σ = {noises}, seed {facts['seed']}."
    )


def _counted(document):
    counts = Counter(f["verdict"] for f in document["findings"] if not f["ours"])
    verbs = {"holds": "hold", "does not hold": "do not hold"}
    said = ", ".join(f"{n} {verbs.get(verdict, f'are {verdict}')}" for verdict, n in counts.most_common())
    return f"Of the paper's {counts.total()} claims about it {said}."


def _at(p):
    title, word, figure = _NUMBERS[p]
    parts = [f"### {title} variables: figures {figure} and {figure + 1} of the paper"]
    for kind in ("gaussian", "uniform"):
        name = kind.capitalize() if kind == "gaussian" else kind
        image = _IMAGE.format(f"scores-p{p}-{kind}")
        parts.append(f"{kind.capitalize()} noise, {word} variables:")
        parts.append(f"![Scores of five models against {name} noise, {word} variables]({image})")
    return "\n\n".join([*parts, _findings(f"/scores-p{p}-gaussian")])


def _findings(figures):
    return f"% findings: {_STUDY}{figures}\n\n% end of findings"
