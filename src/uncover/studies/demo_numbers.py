"""The ten numbers of the demonstration: how good the map is, and how far its statements can be trusted."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uncover.files import write_whole
from uncover.pipeline.evaluation import StoredEvaluation
from uncover.raster.product import Thresholds
from uncover.raster.tiles import TileCache, describe
from uncover.studies.landscape import SceneFiles
from uncover.studies.landscape.kinds import KINDS, TRAINED
from uncover.studies.novelty import measure_novelty

THRESHOLDS = (0.001, 0.01, 0.05)
FILE = "numbers.json"
_BUDGET = ("total", "measurement", "model", "overlap")
_CACHE_BYTES = 64 * 1024 * 1024

#: The truth without what was never trained, for `uncover evaluate --scheme`.
TRAINED_ONLY = """\
# IPCC categories to themselves, without wetlands: how good the map is where its classes are.
name = "trained-classes"
source = "lulucf"
target = "lulucf"
""" + "".join(
    f'\n[[rules]]\nfrom = [{code}]\nto = {target}\nwhy = "{why}"\n'
    for code, target, why in (
        (1, '"forest"', "trained"),
        (2, '"cropland"', "trained"),
        (3, '"grassland"', "trained"),
        (4, "0", "never trained"),
        (5, '"settlements"', "trained"),
        (6, "0", "never trained"),
    )
)


@dataclass(frozen=True)
class Numbers:
    """Numbers that the demonstration found; shares are of pixels."""

    labels: int
    right: float
    right_low: float
    right_high: float
    right_all: float
    weakest_class: str
    weakest_right: float
    claimed: float
    brier: float
    entropy: float
    measurement_share: float
    reported_aod: float
    aod_uncertainty: float
    true_aod: float
    right_other: float
    claimed_other: float
    measurement_other: float
    never_trained: float
    found: float
    false_alarms: float
    separation: float

    @classmethod
    def read(cls, folder: Path) -> Numbers:
        """The numbers of a demonstration that was run."""
        return cls(**json.loads((folder / FILE).read_text("utf-8")))

    def text(self) -> str:
        """Ten lines to read."""
        spread = f"{self.right_low:.1%} to {self.right_high:.1%}, blocks of 1 km resampled"
        stated = f"{self.reported_aod:.2f} ± {self.aod_uncertainty:.2f}"
        rows = (
            (f"{self.labels:,}", "pixels that three earlier maps agree on and are sure of: the training set"),
            (f"{self.right:.1%}", f"of the pixels of trained classes are right ({spread})"),
            (f"{self.weakest_right:.1%}", f"of the {self.weakest_class} are found, the least of all classes"),
            (f"{self.claimed:.1%}", "is what the map claims to have right: its mean probability"),
            (f"{self.brier:.2f}", "is its Brier score (1: no better than knowing the class shares)"),
            (f"{self.entropy:.2f}", "nat is the uncertainty of the average pixel, "
             f"{self.measurement_share:.1%} of it from the measurement: the scene trained the model"),
            (f"{self.true_aod:.2f}", f"was the true optical depth, reported as {stated}"),
            (f"{self.right_other:.1%}", f"are right a year later by the same model, {self.claimed_other:.1%} "
             f"claimed, {self.measurement_other:.0%} of the uncertainty from the measurement"),
            (f"{self.found:.1%}", f"of fen and water ({self.never_trained:.1%} of the land, never trained) "
             "are flagged as unlike the training data"),
            (f"{self.false_alarms:.1%}", "of the rest are flagged as well (typicality below "
             f"{Thresholds().typicality:g}; area under the ROC curve {self.separation:.3f})"),
        )  # fmt: skip
        return "\n".join(f"{number:>9}  {what}" for number, what in rows)


def conclude(folder: Path, scene: SceneFiles, year: int, other: int) -> Numbers:
    """Work the numbers out from the files of a demonstration, and write them."""
    kinds = {kind.code: (kind.name, kind.parent not in TRAINED) for kind in KINDS}
    novelty = measure_novelty(folder / "map", scene.kinds(year), kinds)
    _write(folder / "typicality.json", novelty.as_dict(THRESHOLDS))
    known = scene.facts["years"][str(year)]
    here, there = _budget(folder / "map"), _budget(folder / f"map-{other}")
    trained = StoredEvaluation.read(folder / "evaluation-trained-classes")
    later = StoredEvaluation.read(folder / f"map-{other}-evaluation")
    found, false_alarms = novelty.rates(Thresholds().typicality)
    numbers = Numbers(
        labels=_labels(folder),
        **_accuracy(trained),
        right_all=_right(StoredEvaluation.read(folder / "evaluation")),
        claimed=_claimed(trained),
        entropy=here["total"],
        measurement_share=here["measurement"] / max(here["total"], 1e-12),
        reported_aod=known["reported_aod"],
        aod_uncertainty=known["aod_standard_uncertainty"],
        true_aod=known["true_aod"],
        right_other=_right(later),
        claimed_other=_claimed(later),
        measurement_other=there["measurement"] / max(there["total"], 1e-12),
        never_trained=float(novelty.counts[novelty.novel].sum() / novelty.counts.sum()),
        found=found,
        false_alarms=false_alarms,
        separation=novelty.separation,
    )
    _write(folder / FILE, asdict(numbers))
    return numbers


def _write(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=2) + "\n")


def _labels(folder: Path) -> int:
    from uncover.models.files import load_fitted

    sources: Any = load_fitted(folder / "model.uncover").provenance_["sources"]
    return sum(sum(source["used"].values()) for source in sources)


def _right(evaluation: StoredEvaluation) -> float:
    return float(evaluation.facts["accuracy"]["overall accuracy"]["value"])


def _accuracy(evaluation: StoredEvaluation) -> dict[str, Any]:
    found = evaluation.facts
    overall, producers = found["accuracy"]["overall accuracy"], found["accuracy"]["producer's accuracy"]
    known = {name: entry["value"] for name, entry in producers.items() if entry["value"] is not None}
    weakest = min(known, key=lambda name: known[name])
    return {
        "right": overall["value"],
        "right_low": overall["lower"],
        "right_high": overall["upper"],
        "weakest_class": weakest,
        "weakest_right": known[weakest],
        "brier": found["scores"]["brier_norm"]["value"],
    }


def _claimed(evaluation: StoredEvaluation) -> float:
    """Mean probability of the mapped class."""
    curve = next(curve for curve in evaluation.curves if curve.name == "top label")
    return float(curve.samples @ curve.promised / curve.samples.sum())


def _budget(folder: Path) -> dict[str, float]:
    """Mean of each part of a map's uncertainty, in nats."""
    layer = describe(str(folder / "uncertainty.tif"))
    source = layer.bands(*(layer.names.index(name) + 1 for name in _BUDGET))
    cache, sums, count = TileCache(_CACHE_BYTES), np.zeros(len(_BUDGET)), 0
    for window in layer.grid.blocks(512):
        planes = source.read(window, cache)
        there = planes[0] != layer.nodata[0]
        sums += planes[:, there].sum(1, dtype=np.float64)
        count += int(there.sum())
    return dict(zip(_BUDGET, (sums / max(count, 1) * layer.scales[0]).tolist(), strict=True))
