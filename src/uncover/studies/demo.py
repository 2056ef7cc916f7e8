"""The demonstration: the embedded scene, from satellite measurement to an evaluated map, step by step."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from uncover import __version__, pipeline
from uncover.raster.errors import SceneError
from uncover.studies.demo_numbers import TRAINED_ONLY, Numbers, conclude
from uncover.studies.landscape import LandscapeOptions, SceneFiles, write_scene
from uncover.studies.landscape.acquisition import CRS, ORIGIN
from uncover.studies.landscape.geography import PIXEL
from uncover.studies.landscape.scene import FORMAT
from uncover.studies.steps import Steps

Progress = Callable[[int, int], None]
#: Something that watches a step by name: gives what its progress is reported to, or None.
Watch = Callable[[str], AbstractContextManager[Progress | None]]

YEAR, OTHER_YEAR = 2020, 2021
SMALLEST = 120


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demonstration: the scene's size, its seed, and the number of worlds that are drawn.

    >>> DemoOptions().landscape.size
    2000
    """

    landscape: LandscapeOptions = field(default_factory=LandscapeOptions)
    draws: int = 25

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"the number of draws is {self.draws}; give 1 or more")
        if self.landscape.size < SMALLEST:
            raise ValueError(
                f"a scene of {self.landscape.size} pixels a side may have no label of some class; "
                f"give {SMALLEST} or more"
            )


def run_demo(
    out: str | Path,
    options: DemoOptions | None = None,
    watch: Watch = lambda name: nullcontext(),
) -> Numbers:
    """Make the scene, collect labels, fit, map, evaluate; what is there already is not made again.

    Everything goes through the functions behind the commands of the same names, with their defaults but for
    the kind of realisations: the error of the optical depth is shared by all pixels of the scene.

    >>> run_demo(__file__)
    Traceback (most recent call last):
    ...
    FileExistsError: ...
    """
    demo = _Demo(Path(out), options or DemoOptions(), watch)
    demo.folder.mkdir(parents=True, exist_ok=True)
    for step in (
        demo.make_scene,
        demo.collect_labels,
        demo.fit,
        demo.map,
        demo.evaluate,
        demo.map_other_year,
        demo.conclude,
    ):
        step()
    return Numbers.read(demo.folder)


@dataclass(frozen=True)
class _Demo:
    folder: Path
    options: DemoOptions
    watch: Watch

    def _do(
        self,
        name: str,
        inputs: list[Path],
        outputs: list[str],
        make: Callable[[Progress | None], None],
        **more: Any,
    ) -> None:
        def watched() -> None:
            with self.watch(name) as progress:
                make(progress)

        settings = {"version": __version__, "format": FORMAT, **more}
        Steps(self.folder).do(name, settings, inputs, outputs, watched)

    @property
    def scene(self) -> SceneFiles:
        return SceneFiles.open(self.folder / "scene")

    def make_scene(self) -> None:
        """Make the landscape, its products and its maps of earlier years."""
        landscape = self.options.landscape

        def make(progress: Progress | None) -> None:
            write_scene(self.folder / "scene", landscape, progress)

        self._do("scene", [], ["scene"], make, landscape=asdict(landscape))

    def collect_labels(self) -> None:
        """`uncover labels`: what three earlier maps agree on and are sure of."""
        scene = self.scene
        maps = [str(path) for path in scene.previous_maps(YEAR)]

        def make(progress: Progress | None) -> None:
            chosen = pipeline.LabelOptions(scheme=scene.scheme)
            found = pipeline.collect_labels(maps, [f"{path}:2" for path in maps], chosen, progress)
            found.write(self.folder / "labels.tif")
            report = json.dumps(found.report.as_dict(found.scheme), indent=2)
            (self.folder / "labels.json").write_text(report + "\n", "utf-8")

        outputs = ["labels.tif", "labels.tif.aux.xml", "labels.json"]
        self._do("labels", [*map(Path, maps)], outputs, make, scheme=scene.scheme)

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

    def fit(self) -> None:
        """`uncover fit --realisations shared`: one world for each drawn optical depth."""
        product, labels = self.scene.product(YEAR), self.folder / "labels.tif"

        realise = self._realise(YEAR)

        def make(progress: Progress | None) -> None:
            chosen = pipeline.FitOptions(labels=str(labels), realisations="shared", realise=realise)
            pipeline.fit_model([product], chosen, progress).save(self.folder / "model.uncover")

        self._do("fit", [product, labels], ["model.uncover"], make, realise=asdict(realise))

    def map(self) -> None:
        """`uncover map`: every pixel, in every world."""
        self._map(YEAR, "map", pipeline.SceneOptions())

    def map_other_year(self) -> None:
        """A part of the other year's scene by the same model: here the error of the optical depth matters."""
        name = f"map-{OTHER_YEAR}"
        self._map(OTHER_YEAR, name, _middle(self.options.landscape.size))
        self._evaluate(OTHER_YEAR, name, {f"{name}-evaluation": True})

    def evaluate(self) -> None:
        """`uncover evaluate` against the truth: of all pixels, and of those whose class was trained."""
        self._evaluate(YEAR, "map", {"evaluation": False, "evaluation-trained-classes": True})

    def _map(self, year: int, name: str, part: pipeline.SceneOptions) -> None:
        product, model = self.scene.product(year), self.folder / "model.uncover"
        source = pipeline.SourceOptions(scene=part, realise=self._realise(year))

        def make(progress: Progress | None) -> None:
            _map_or_go_on(model, product, self.folder / name, source, progress)

        self._do(name, [product, model], [name], make, source=asdict(source))

    def _evaluate(self, year: int, name: str, goals: dict[str, bool]) -> None:
        """Each goal says whether pixels of classes that were never trained are left out."""
        truth = self.scene.truth(year)
        table = self.folder / "trained-classes.toml"

        def make(progress: Progress | None) -> None:
            table.write_text(TRAINED_ONLY, "utf-8")
            for goal, trained_only in goals.items():
                chosen = pipeline.EvaluateOptions(scheme=str(table) if trained_only else None)
                with warnings.catch_warnings():
                    # All pixels are compared, not a sample of them, and wetlands are meant to be missing.
                    warnings.simplefilter("ignore", UserWarning)
                    found = pipeline.evaluate_map(self.folder / name, truth, chosen, progress)
                found.write(self.folder / goal)

        step = f"evaluate {name}"
        self._do(step, [self.folder / name, truth], [*goals], make, table=TRAINED_ONLY)

    def conclude(self) -> None:
        """The numbers that matter."""
        folders = [self.folder / name for name in ("evaluation", "evaluation-trained-classes", "map")]
        others = [self.folder / f"map-{OTHER_YEAR}{of}" for of in ("", "-evaluation")]

        def make(_: Progress | None) -> None:
            conclude(self.folder, self.scene, YEAR, OTHER_YEAR)

        self._do("numbers", [*folders, *others], ["numbers.json", "typicality.json"], make)


def _middle(size: int) -> pipeline.SceneOptions:
    """128 × 128 pixels in the middle, or half the side of a small scene."""
    side = min(size // 2, 128)
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
