"""The demonstration: the embedded scene, from satellite measurement to evaluated maps and twelve numbers."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from uncover import __version__, pipeline
from uncover.files import read_json, write_whole
from uncover.pipeline.evaluation import BESIDE, StoredEvaluation, population_words
from uncover.pipeline.left_out import TooSureWarning
from uncover.pipeline.map_facts import MapFacts
from uncover.pipeline.map_product import MapProduct
from uncover.raster.errors import SceneError
from uncover.raster.fingerprints import sha256_of
from uncover.raster.journal import fingerprint
from uncover.raster.product import Thresholds
from uncover.raster.tiles import TileCache, describe
from uncover.studies.landscape import LandscapeOptions, SceneFiles, write_scene
from uncover.studies.landscape.acquisition import CRS, ORIGIN
from uncover.studies.landscape.geography import PIXEL
from uncover.studies.landscape.kinds import KINDS, TRAINED
from uncover.studies.landscape.scene import FORMAT

Progress = Callable[[int, int], None]
#: Something that watches a step by name: gives what its progress is reported to, or None.
Watch = Callable[[str], AbstractContextManager[Progress | None]]

YEAR, OTHER_YEAR = 2020, 2021
SMALLEST = 120
#: Side in metres of the blocks that are resampled for intervals: a few fields.
BLOCK = 500.0
THRESHOLDS = (0.001, 0.01, 0.05)
FILE = "numbers.json"
#: The truth without what was never trained, for `uncover evaluate --scheme`.
_TRAINED_ONLY = "trained-classes.toml"
#: Models by their names; the first makes the map of the report, the second is shown beside it.
MODELS = ("recommended", "published")


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demonstration: the scene's size, its seed, and the number of worlds that are drawn."""

    landscape: LandscapeOptions = field(default_factory=LandscapeOptions)
    draws: int = 10

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"the number of draws is {self.draws}; give 1 or more")
        if self.landscape.size < SMALLEST:
            raise ValueError(
                f"a scene of {self.landscape.size} pixels a side may have no label of some class; "
                f"give {SMALLEST} or more"
            )


def run_demo(
    out: str | Path, options: DemoOptions | None = None, watch: Watch = lambda name: nullcontext()
) -> dict[str, Any]:
    """Make the scene, collect labels, fit, map, evaluate; what is there already is not made again.

    Everything goes through the functions behind the commands of the same names, with their defaults but for
    the kind of realisations: the error of the optical depth is shared by all pixels of the scene. All is done
    with the recommended model, and again with the published one. Returns the numbers of the demonstration,
    as they are in `numbers.json`.

    >>> run_demo(__file__)
    Traceback (most recent call last):
    ...
    FileExistsError: ...
    """
    demo = make_scene(out, options, watch)
    demo.collect_labels()
    part = _middle(demo.options.landscape.size)
    for model in MODELS:
        demo.fit(model)
        demo.map(YEAR, model, pipeline.SceneOptions())
        # A part of the other year's scene by the same model: here the error of the optical depth matters.
        demo.map(OTHER_YEAR, model, part)
    demo.conclude()
    return read_json(demo.folder / FILE, dict[str, Any])


def make_scene(
    out: str | Path, options: DemoOptions | None = None, watch: Watch = lambda name: nullcontext()
) -> _Demo:
    """Make the scene of a demonstration alone: products, maps of earlier years and truth."""
    demo = _Demo(Path(out), options or DemoOptions(), watch)
    demo.folder.mkdir(parents=True, exist_ok=True)
    demo.make_scene()
    return demo


@dataclass(frozen=True)
class _Demo:
    """The steps, each done once; they are called after the commands that they stand for."""

    folder: Path
    options: DemoOptions
    watch: Watch

    def _do(
        self,
        name: str,
        inputs: list[Path],
        outputs: list[str],
        make: Callable[[Progress | None], Any],
        **settings: Any,
    ) -> None:
        def watched() -> None:
            with self.watch(name) as progress:
                make(progress)

        settings = {"version": __version__, "format": FORMAT, **settings}
        Steps(self.folder).do(name, settings, inputs, outputs, watched)

    @cached_property
    def scene(self) -> SceneFiles:
        return SceneFiles.open(self.folder / "scene")

    def make_scene(self) -> None:
        """Make the landscape, its products and its maps of earlier years."""
        landscape, goal = self.options.landscape, self.folder / "scene"
        make = partial(write_scene, goal, landscape)
        self._do("scene", [], ["scene"], make, landscape=asdict(landscape))

    def collect_labels(self) -> None:
        """Keep what three earlier maps agree on and are sure of."""
        maps, scheme = self.scene.previous_maps(YEAR), self.scene.scheme

        def make(progress: Progress | None) -> None:
            chosen = pipeline.LabelOptions(scheme=scheme)
            names = [str(path) for path in maps]
            found = pipeline.collect_labels(names, [f"{name}:2" for name in names], chosen, progress)
            found.write(self.folder / "labels.tif")
            _write(self.folder / "labels.json", found.report.as_dict(found.scheme))

        outputs = ["labels.tif", "labels.tif.aux.xml", "labels.json"]
        self._do("labels", maps, outputs, make, scheme=scheme)

    def _realise(self, year: int) -> pipeline.RealiseOptions:
        """Options known to a user: the reported optical depth; its uncertainty follows from its origin."""
        known = self.scene.facts["years"][str(year)]
        return pipeline.RealiseOptions(
            aod=known["reported_aod"],
            draws=self.options.draws,
            seed=self.options.landscape.seed,
            water_vapour=known["water_vapour_cm"],
            ozone=known["ozone_du"],
        )

    def fit(self, model: str) -> None:
        """Fit one world for each drawn optical depth: `--realisations shared`."""
        product, labels, realise = self.scene.product(YEAR), self.folder / "labels.tif", self._realise(YEAR)
        chosen = pipeline.FitOptions(labels=str(labels), model=model, realisations="shared", realise=realise)

        def make(progress: Progress | None) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TooSureWarning)  # the numbers say it, of the truth
                fitted = pipeline.fit_model([product], chosen, progress)
            fitted.save(self.folder / _named("model.uncover", model))

        outputs = [_named("model.uncover", model)]
        self._do(_step("fit", model), [product, labels], outputs, make, realise=asdict(realise))

    def map(self, year: int, model: str, part: pipeline.SceneOptions) -> None:
        """Map every pixel of a part, in every world, and compare it with the truth."""
        product, file, name = self.scene.product(year), _named("model.uncover", model), map_name(year, model)
        source = pipeline.SourceOptions(scene=part, realise=self._realise(year))
        make = partial(_map_or_go_on, self.folder / file, product, self.folder / name, source)
        self._do(_step(name, model), [product, self.folder / file], [name], make, source=asdict(source))
        goals = {evaluation_name(year, model): True}
        if name == "map":
            goals["evaluation"] = False
        self._evaluate(year, name, goals)

    def _evaluate(self, year: int, name: str, goals: dict[str, bool]) -> None:
        """Compare a map with the truth; a goal says whether classes that were never trained are left out."""
        truth, table = self.scene.truth(year), self.folder / _TRAINED_ONLY
        text = resources.files("uncover.studies").joinpath(_TRAINED_ONLY).read_text("utf-8")

        def make(progress: Progress | None) -> None:
            table.write_text(text, "utf-8")
            for goal, trained_only in goals.items():
                chosen = pipeline.EvaluateOptions(scheme=str(table) if trained_only else None, block=BLOCK)
                with warnings.catch_warnings():
                    # All pixels are compared, not a sample of them, and wetlands are meant to be missing.
                    warnings.simplefilter("ignore", UserWarning)
                    found = pipeline.evaluate_map(self.folder / name, truth, chosen, progress)
                found.write(self.folder / goal)

        self._do(f"evaluate {name}", [self.folder / name, truth], [*goals], make, table=text)

    def conclude(self) -> None:
        """Work out the numbers that matter, and say which evaluations are to be shown side by side."""
        compared = [evaluation_name(year, model) for year in (YEAR, OTHER_YEAR) for model in MODELS]
        names = ("evaluation", *compared, "map", map_name(OTHER_YEAR, MODELS[0]))
        outputs = [FILE, "typicality.json", BESIDE]
        self._do("numbers", [self.folder / name for name in names], outputs, lambda _: self._write_numbers())

    def _write_numbers(self) -> None:
        """Work the numbers out from the files; shares are of pixels."""
        kinds = {kind.code: (kind.name, kind.parent not in TRAINED) for kind in KINDS}
        novelty = measure_novelty(self.folder / "map", self.scene.kinds(YEAR), kinds)
        _write(self.folder / "typicality.json", novelty)
        _write(self.folder / BESIDE, _beside())
        known = self.scene.facts["years"][str(YEAR)]
        here, there = (_budget(self.folder / map_name(year, MODELS[0])) for year in (YEAR, OTHER_YEAR))
        every = StoredEvaluation.read(self.folder / "evaluation")
        (trained, published), (later, later_published) = (
            [StoredEvaluation.read(self.folder / evaluation_name(year, model)) for model in MODELS]
            for year in (YEAR, OTHER_YEAR)
        )
        flagged = next(r for r in novelty["rates"] if r["threshold"] == Thresholds().typicality)
        strange = sum(novelty["pixels"].get(name, 0) for name in novelty["never_trained"])
        numbers = {
            "labels": _labels(self.folder),
            **_accuracy(trained),
            "right_all": _right(every),
            "claimed": trained.claimed,
            "right_published": _right(published),
            "claimed_published": published.claimed,
            "entropy": here["total"],
            "measurement_share": here["measurement"] / max(here["total"], 1e-12),
            "reported_aod": known["reported_aod"],
            "aod_uncertainty": known["aod_standard_uncertainty"],
            "true_aod": known["true_aod"],
            "right_other": _right(later),
            "claimed_other": later.claimed,
            "right_other_published": _right(later_published),
            "claimed_other_published": later_published.claimed,
            "measurement_other": there["measurement"] / max(there["total"], 1e-12),
            "never_trained": strange / sum(novelty["pixels"].values()),
            "found": flagged["true_positive_rate"],
            "false_alarms": flagged["false_positive_rate"],
            "separation": novelty["area_under_roc"],
        }
        _write(self.folder / FILE, numbers)


def map_name(year: int, model: str) -> str:
    """Folder of a map."""
    return _named("map" if year == YEAR else f"map-{year}", model)


def evaluation_name(year: int, model: str) -> str:
    """Folder of the comparison of a map with the truth, of the classes that were trained."""
    if map_name(year, model) == "map":
        return "evaluation-trained-classes"
    return f"{map_name(year, model)}-evaluation"


def _named(name: str, model: str) -> str:
    """A name as it is, for the recommended model; or with that of another model."""
    stem, dot, suffix = name.partition(".")
    return name if model == MODELS[0] else f"{stem}-{model}{dot}{suffix}"


def _step(name: str, model: str) -> str:
    return name if name.endswith(model) else f"{name} ({model})"


def _beside() -> list[dict[str, str]]:
    """Evaluations that the report shows side by side."""
    places = {YEAR: f"{YEAR}, the scene that trained the models", OTHER_YEAR: f"{OTHER_YEAR}, a year later"}
    return [
        {"place": place, "model": model, "evaluation": evaluation_name(year, model)}
        for year, place in places.items()
        for model in MODELS
    ]


def _middle(size: int) -> pipeline.SceneOptions:
    """96 × 96 pixels in the middle, or half the side of a small scene."""
    side = min(size // 2, 96)
    west = ORIGIN[0] + PIXEL * ((size - side) // 2)
    north = ORIGIN[1] - PIXEL * ((size - side) // 2)
    box = (west, north - PIXEL * side, west + PIXEL * side, north)
    return pipeline.SceneOptions(bbox=box, bbox_crs=CRS)


def _map_or_go_on(
    model: Path, product: Path, out: Path, source: pipeline.SourceOptions, progress: Progress | None
) -> None:
    """Go on with a run that was stopped where that is possible, else begin anew."""
    partial = out.with_name(out.name + ".partial")
    if partial.exists():
        try:
            resumed = pipeline.MapOptions(source=source, resume=True)
            pipeline.map_scene(model, product, out, resumed, progress)
            return
        except SceneError:  # it was begun with other inputs
            shutil.rmtree(partial)
    pipeline.map_scene(model, product, out, pipeline.MapOptions(source=source), progress)


@dataclass(frozen=True)
class Steps:
    """The steps of a study in one folder, with a record of what each was made from.

    >>> import tempfile
    >>> steps = Steps(Path(tempfile.mkdtemp()))
    >>> def make():
    ...     print("made")
    ...     _ = (steps.folder / "a.txt").write_text("a")
    >>> steps.do("a", {"size": 1}, [], ["a.txt"], make)
    made
    True
    >>> steps.do("a", {"size": 1}, [], ["a.txt"], make)
    False
    >>> steps.do("a", {"size": 2}, [], ["a.txt"], make)
    made
    True
    """

    folder: Path

    def do(
        self,
        name: str,
        options: Mapping[str, Any],
        inputs: list[Path],
        outputs: list[str],
        make: Callable[[], None],
    ) -> bool:
        """Do a step unless it is done; returns whether it was done now.

        It is done if options and inputs are those of the record and the outputs are what they were. Else what
        an earlier run of this step left, finished or not, is removed first. What no run of it made is never
        touched: that is an error.
        """
        key = fingerprint({"options": dict(options), "inputs": [_content(path) for path in inputs]})
        record = self._read()
        known = record.get(name)
        if known is not None and known.get("key") == key and known.get("outputs") == self._contents(outputs):
            return False
        for output in outputs:
            if (self.folder / output).exists():
                self._remove(output, ours=known is not None)
        self._write(record | {name: {"key": "unfinished", "outputs": {}}})
        make()
        self._write(self._read() | {name: {"key": key, "outputs": self._contents(outputs)}})
        return True

    def _remove(self, output: str, *, ours: bool) -> None:
        path = self.folder / output
        if not ours:
            raise ValueError(f"{path} is there already, and no earlier run made it; name another folder")
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _contents(self, outputs: list[str]) -> dict[str, str | None]:
        return {output: _content(self.folder / output) for output in outputs}

    def _read(self) -> dict[str, Any]:
        path = self.folder / "steps.json"
        try:
            return read_json(path, dict[str, dict[str, Any]]) if path.exists() else {}
        except ValueError:
            return {}

    def _write(self, record: Mapping[str, Any]) -> None:
        write_whole(self.folder / "steps.json", json.dumps(record, indent=1, sort_keys=True) + "\n")


def _content(path: Path) -> str | None:
    """Hash of a file or folder but for the times of a map's run, None where there is nothing."""
    return sha256_of(path, but="run.json") if path.exists() else None


def _write(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=2) + "\n")


# ---- the numbers -----------------------------------------------------------------------------------------


#: Twelve lines to read. The report has the same words for the two populations of pixels.
_WORDS = """\
{labels:>9,}  pixels that three earlier maps agree on and are sure of: the training set
{right:>9.1%}  overall accuracy of {of_trained} ({right_low:.1%} to {right_high:.1%}, \
blocks of {block:g} m resampled)
{right_all:>9.1%}  overall accuracy of {of_all}
{weakest_right:>9.1%}  of the {weakest_class} are found, the least of all classes
{claimed:>9.1%}  is what the map claims of {of_trained}: its mean probability
{claimed_published:>9.1%}  is what the published model claims of them, and {right_published:.1%} are right
{brier:>9.2f}  is the map's Brier score (1: no better than knowing the class shares)
{entropy:>9.2f}  nat is the uncertainty of the average pixel, {measurement_share:.1%} of it from \
the measurement: the scene trained the model
{true_aod:>9.2f}  was the true optical depth, reported as {reported_aod:.2f} ± {aod_uncertainty:.2f}
{right_other:>9.1%}  are right a year later by the same model, {claimed_other:.1%} claimed \
(published: {right_other_published:.1%}, {claimed_other_published:.1%} claimed), \
{measurement_other:.0%} of the uncertainty from the measurement
{found:>9.1%}  of fen and water ({never_trained:.1%} of the land, never trained) are flagged as \
unlike the training data
{false_alarms:>9.1%}  of the rest are flagged as well (typicality below {limit:g}; \
area under the ROC curve {separation:.3f})"""


def numbers_in_words(numbers: Mapping[str, Any]) -> str:
    """Twelve lines to read, of the numbers that `run_demo` returns."""
    words = {"of_trained": population_words(False, "pixels"), "of_all": population_words(True, "pixels")}
    return _WORDS.format(limit=Thresholds().typicality, block=BLOCK, **words, **numbers)


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


def _budget(folder: Path) -> Mapping[str, float]:
    """Mean of each part of a map's uncertainty, in nats."""
    return MapFacts.in_item(read_json(folder / "item.json", dict[str, Any])).mean_uncertainty


def measure_novelty(map_folder: Path, truth: Path, kinds: Mapping[int, tuple[str, bool]]) -> dict[str, Any]:
    """Does typicality find what was never trained? Pixels that it flags, by kind of ground, and its ROC.

    `truth` is a raster of kinds; `kinds` has the name of each code, and if it was never trained.
    """
    product = MapProduct.open(map_folder)
    typicality = product.pixels("typicality", *(np.arange(side) for side in product.grid.shape))
    ground = describe(str(truth)).bands(1).read(product.grid.window, TileCache())[0]
    known = np.isfinite(typicality) & np.isin(ground, list(kinds))
    typicality, ground = typicality[known], ground[known]
    novel = np.isin(ground, [code for code, (_, is_new) in kinds.items() if is_new])
    pixels = {name: ground == code for code, (name, _) in sorted(kinds.items()) if (ground == code).any()}
    rates = []
    for threshold in THRESHOLDS:
        flagged = typicality < threshold - product.layer("typicality").step / 2
        rates.append(
            {
                "threshold": threshold,
                "true_positive_rate": float(flagged[novel].mean()),
                "false_positive_rate": float(flagged[~novel].mean()),
                "flagged": {name: float(flagged[mine].mean()) for name, mine in pixels.items()},
            }
        )
    return {
        "never_trained": [name for _, (name, is_new) in sorted(kinds.items()) if is_new],
        "pixels": {name: int(mine.sum()) for name, mine in pixels.items()},
        "area_under_roc": float(roc_auc_score(novel, -typicality)),
        "rates": rates,
    }
