"""Class shares of the place that is mapped: stated, or estimated from the scene."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.class_shares import ClassShares
from uncover.files import reader, table_rows
from uncover.metrics.calibration import unexplained_share
from uncover.models.gaussian import KNOWN_SHARES
from uncover.pipeline.map_facts import DOUBTFUL, MOST_UNLIKE, percent
from uncover.raster.errors import SceneError
from uncover.raster.mapper import Mapper


@dataclass(frozen=True)
class MappedShares:
    """Class shares that the probabilities of a map are for, and where they come from."""

    how: str  # "stated", "estimated", or "training" where an estimate was asked for and refused
    shares: Mapping[str, float]
    standard_uncertainty: Mapping[str, float] | None = None
    estimate: ClassShares | None = None

    def as_facts(self) -> dict[str, Any]:
        """Entry of the record of a map."""
        found = {"how": self.how, "shares": dict(self.shares)}
        if self.standard_uncertainty is not None:
            found["standard_uncertainty"] = dict(self.standard_uncertainty)
        return {"class_shares": found}


def with_class_shares(mapper: Mapper, asked: str) -> tuple[Mapper, MappedShares | None]:
    """A mapper for the class shares of the place, as `--class-shares` has them; None: those of training."""
    if asked == "training":
        return mapper, None
    if mapper.model.sets_ is not None:
        raise SceneError(
            "the sets of this model (uncover fit --coverage) hold for the class shares of its samples; fit "
            "it without --coverage, or leave out --class-shares"
        )
    names = [str(name) for name in mapper.model.classes_]
    if asked != "estimate":
        stated = read_class_shares(asked, "--class-shares")
        if not isinstance(stated, Mapping):
            raise SceneError(
                f"--class-shares {asked}: give estimate, {names[0]}=SHARE,... or a CSV (class, share)"
            )
        alpha = known_shares(stated, names, "--class-shares")
        return _in_place(mapper, alpha), MappedShares("stated", _rounded(names, alpha / alpha.sum()))
    found, typicality = mapper.estimate_shares()
    unlike = float((typicality < mapper.thresholds.typicality).mean())
    if unlike > MOST_UNLIKE:
        warnings.warn(
            f"class shares are not estimated, as {percent(unlike)} of the scene is unlike anything trained: "
            "the map has those of the training samples. Train with labels of this scene, or state the shares "
            "(--class-shares)",
            stacklevel=2,
        )
        return mapper, MappedShares("training", _rounded(names, _trained(mapper)))
    if (lost := unexplained_share(typicality)) > DOUBTFUL:
        warnings.warn(
            f"do not believe the estimated class shares: the model does not explain at least {percent(lost)} "
            "of the scene, and they are wrong by more than their uncertainty says. State the shares, or keep "
            "those of the training samples (--class-shares training)",
            stacklevel=2,
        )
    facts = MappedShares(
        "estimated", _rounded(names, found.shares), _rounded(names, found.standard_uncertainty), found
    )
    return _in_place(mapper, found.concentration), facts


def _in_place(mapper: Mapper, alpha: NDArray[np.float64]) -> Mapper:
    value = mapper.model.model_.with_class_shares(alpha)
    return replace(mapper, model=replace(mapper.model, value=value))


def _trained(mapper: Mapper) -> NDArray[np.float64]:
    from uncover.measurement.class_shares import trained_shares

    return trained_shares(mapper.model.model_)


def _rounded(names: Sequence[str], values: NDArray[np.float64]) -> dict[str, float]:
    return {name: float(f"{value:.5g}") for name, value in zip(names, values, strict=True)}


@reader
def read_class_shares(text: str | None, option: str = "--class-prior") -> float | dict[str, float]:
    """Class shares by name from the command line or a table (class, share); a number as it is.

    >>> read_class_shares("forest=0.6, water=0.4")
    {'forest': 0.6, 'water': 0.4}
    """
    if text is None:
        return 1.0
    form = "forest=0.6,water=0.4, or a CSV (class, share)"
    if Path(text).is_file():
        rows = table_rows(text)
        if not rows or not {"class", "share"} <= rows[0].keys():
            raise ValueError(f"{text} is no table of class shares; its columns must be class and share")
        pairs = [(row["class"].strip(), row["share"]) for row in rows]
        if not all(name for name, _ in pairs):
            raise ValueError(f"{text} has a row without a class; mend or remove it")
    elif "=" in text:
        pairs = [
            (name.strip(), share) for name, _, share in (part.partition("=") for part in text.split(","))
        ]
    elif Path(text).suffix.lower() in (".csv", ".txt", ".tsv"):
        raise ValueError(f"{option} {text}: this file does not exist; give {form}")
    else:
        pairs = [("", text)]
    found: dict[str, float] = {}
    for name, share in pairs:
        if name.lower() in map(str.lower, found):
            raise ValueError(f"{option} {text} names {name} twice; give one share of each class")
        try:
            found[name] = float(share)
        except ValueError:
            raise ValueError(f"{option} {text}: {share!r} is no number; give {form}") from None
    return found.get("", 0.0) if "" in found else found


def known_shares(
    shares: Mapping[str, float], classes: Sequence[str], option: str = "--class-prior"
) -> NDArray[np.float64]:
    """Dirichlet parameters so large that the shares of the training samples do not count."""
    own = {name.lower(): share for name, share in shares.items()}
    wanted = [name.lower() for name in classes]
    total, wrong = sum(own.values()), [name for name, share in shares.items() if not 0 < share < np.inf]
    if set(own) != set(wanted) or len(own) < len(shares) or wrong or not abs(total - 1) <= 1e-3:
        raise ValueError(
            f"{option} has the classes {', '.join(shares)} with the sum {total:g}"
            f"{''.join(f', and {name} has {shares[name]:g}' for name in wrong)}; give each of "
            f"{', '.join(classes)} a share above 0, that add up to 1"
        )
    return KNOWN_SHARES * np.array([own[name] for name in wanted]) / total
