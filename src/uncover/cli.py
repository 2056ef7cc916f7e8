"""The command line: parses, calls the layers below, prints. No mathematics and no file formats here."""

from __future__ import annotations

import functools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from uncover import __version__

Command = Callable[..., None]

_SECONDS_BETWEEN_LINES = 10.0


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="uncover")
def main() -> None:
    """Classification that knows what it does not know."""


def plainly(command: Command) -> Command:
    """Turn what goes wrong with the input into one line and exit code 1, and warnings into one line each."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"Warning: {_one_line(message)}", err=True)

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default", UserWarning)
            warnings.showwarning = show
            try:
                command(*args, **options)
            except (ValueError, OSError, ImportError) as error:
                raise click.ClickException(_one_line(error)) from None

    return run


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield show


@contextmanager
def _pixel_progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with pixels per second and the time left on a terminal; now and then a line in a pipe."""
    began, first, spoken = time.monotonic(), [-1], [time.monotonic()]

    def rate(done: int) -> str:
        seconds = max(time.monotonic() - began, 1e-6)
        return f"{(done - max(first[0], 0)) / seconds:,.0f} pixels/s"

    if sys.stderr.isatty():
        with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=str) as bar:

            def show(done: int, total: int) -> None:
                first[0] = done if first[0] < 0 else first[0]
                bar.length = total
                bar.update(done - bar.pos, rate(done))

            yield show
        return

    def say(done: int, total: int) -> None:
        first[0] = done if first[0] < 0 else first[0]
        if time.monotonic() - spoken[0] >= _SECONDS_BETWEEN_LINES:
            spoken[0] = time.monotonic()
            speed = (done - first[0]) / (spoken[0] - began)
            left = f", {(total - done) / speed:,.0f} s left" if speed > 0 else ""
            click.echo(f"{label}: {done:,} of {total:,} pixels, {rate(done)}{left}", err=True)

    yield say


def _stacked(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which the help shows them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


area_options = _stacked(
    click.option(
        "--bbox",
        type=float,
        nargs=4,
        metavar="WEST SOUTH EAST NORTH",
        help="Area: longitude and latitude by default.",
    ),
    click.option("--bbox-crs", default="EPSG:4326", show_default=True, help="Reference system of --bbox."),
    click.option("--aoi", type=click.Path(), help="Area: the polygons of a vector file."),
)

scene_options = _stacked(
    area_options,
    click.option("--bands", metavar="B02,B03,…", help="Bands, in order [all that the first source has]."),
    click.option(
        "--scale", type=float, help="Reflectance = scale · number + offset, where metadata are silent."
    ),
    click.option("--offset", type=float, help="See --scale; -0.1 for Sentinel-2 from baseline 04.00 on."),
    click.option("--resampling", default="nearest", show_default=True, help="nearest, bilinear or cubic."),
    click.option("--mask", type=click.Path(), help="Mask raster of your own: what is not 0 is left out."),
    click.option("--scene-id", help="Identity of the scene where the product has none."),
)


realise_options = _stacked(
    click.option("--aod", type=float, help="Aerosol optical depth at 550 nm [that of the product]."),
    click.option("--aod-uncertainty", type=float, help="Standard uncertainty of it [by its retrieval]."),
    click.option("--draws", default=25, show_default=True, help="Realisations: optical depths drawn."),
    click.option(
        "--draw-method",
        type=click.Choice(["mc", "quantile", "quadrature"]),
        default="mc",
        show_default=True,
        help="Random, quantile midpoints, or nodes with weights.",
    ),
    click.option(
        "--impossible",
        type=click.Choice(["truncate", "clip", "gamma", "refuse"]),
        default="truncate",
        show_default=True,
        help="What becomes of negative draws.",
    ),
    click.option("--altitude", default=0.0, show_default=True, metavar="KM", help="Of the ground, 0 to 3."),
    click.option("--dem", metavar="FILE", help="Heights in metres, any raster, in place of --altitude."),
    click.option("--water-vapour", type=float, metavar="CM", help="Column [that of the product, or 2]."),
    click.option("--ozone", type=float, metavar="DU", help="Column [that of the product, or 330]."),
)


def _realise_options(given: dict[str, Any]) -> Any:
    from uncover import pipeline

    return pipeline.RealiseOptions(
        aod=given["aod"],
        uncertainty=given["aod_uncertainty"],
        draws=given["draws"],
        method=given["draw_method"],
        impossible=given["impossible"],
        seed=given["seed"],
        altitude=given["altitude"],
        dem=given["dem"],
        water_vapour=given["water_vapour"],
        ozone=given["ozone"],
    )


def _scene_options(given: dict[str, Any]) -> Any:
    from uncover import pipeline

    bands = given["bands"]
    return pipeline.SceneOptions(
        bands=None if bands is None else tuple(band.strip() for band in bands.split(",") if band.strip()),
        scale=given["scale"],
        offset=given["offset"],
        resampling=given["resampling"],
        bbox=given["bbox"],
        bbox_crs=given["bbox_crs"],
        aoi=given["aoi"],
        mask=given["mask"],
        scene_id=given["scene_id"],
    )


@main.command(
    epilog="""
    \b
    Example: three years of a map whose second band is the probability
      uncover labels lcm2018.tif lcm2019.tif lcm2020.tif \\
        --probability lcm2018.tif:2 --probability lcm2019.tif:2 --probability lcm2020.tif:2 \\
        --scheme ukceh-lulucf --out labels.tif
    \b
    Example: polygons on the grid of a scene
      uncover labels fields.gpkg --class-field class --like S2A_MSIL2A_….SAFE --out labels.tif
    """
)
@click.argument("maps", nargs=-1, required=True, metavar="MAP...")
@click.option(
    "--out", required=True, type=click.Path(), help="Label raster to write (Cloud-Optimised GeoTIFF)."
)
@click.option(
    "--probability",
    "probabilities",
    multiple=True,
    metavar="FILE[:BAND]",
    help="Probability layer of a map; one per map, in the same order.",
)
@click.option(
    "--scheme", metavar="NAME|FILE", help="Translation table or class scheme (see `uncover info schemes`)."
)
@click.option("--class-field", metavar="NAME", help="Field with the class, for vector files.")
@click.option(
    "--threshold", default=0.95, show_default=True, help="Each year's probability must be above it."
)
@click.option("--probability-scale", type=float, help="Value of certainty [100 for whole numbers, else 1].")
@click.option("--purity", type=float, metavar="SHARE", help="Least share of the window with the same label.")
@click.option("--window", default=3, show_default=True, metavar="PIXELS", help="Side of the purity window.")
@click.option(
    "--erosion", default=0, show_default=True, metavar="PIXELS", help="Taken off at edges of parcels."
)
@click.option("--spacing", default=0.0, metavar="METRES", help="Smallest distance between two labels.")
@click.option(
    "--like", type=click.Path(), metavar="SCENE|RASTER", help="Take its grid; the first map's otherwise."
)
@area_options
@click.option(
    "--test-out", type=click.Path(), help="Write a part of the labels here, for testing, and not to --out."
)
@click.option("--test-share", default=0.2, show_default=True, help="How much of them.")
@click.option(
    "--split",
    type=click.Choice(["pixel", "polygon", "block"]),
    default="block",
    show_default=True,
    help="What stays together when labels are split for testing.",
)
@click.option(
    "--block", default=1000.0, show_default=True, metavar="METRES", help="Side of a block for --split block."
)
@click.option("--seed", default=0, show_default=True, help="Decides which pixels spacing and split take.")
@click.option("--report", type=click.Path(), help="Write the counts as JSON, too.")
@plainly
def labels(
    maps: tuple[str, ...],
    out: str,
    probabilities: tuple[str, ...],
    like: str | None,
    test_out: str | None,
    report: str | None,
    **given: Any,
) -> None:
    """Collect labels from land cover maps of several years (FILE or FILE:BAND) or from a vector file.

    A pixel keeps its label where the translated maps agree in all years and are sure of it; further criteria
    on request. Prints how many pixels each criterion removed.
    """
    from uncover import pipeline

    for goal in (out, test_out, report):
        if goal is not None:
            pipeline.check_goal(goal)
    options = pipeline.LabelOptions(
        scheme=given["scheme"],
        class_field=given["class_field"],
        criteria=pipeline.Criteria(given["threshold"], given["purity"], given["window"], given["erosion"]),
        probability_scale=given["probability_scale"],
        spacing=given["spacing"],
        like=None if like is None else pipeline.grid_of(like),
        area=pipeline.Area(given["bbox"], given["bbox_crs"], given["aoi"]),
        seed=given["seed"],
    )
    with _progress("labels") as progress:
        found = pipeline.collect_labels(maps, probabilities, options, progress)
    if test_out is not None:
        how = pipeline.HoldOut(given["test_share"], given["split"], given["block"])
        found, test = pipeline.hold_out(found, how, given["seed"])
        test.write(test_out)
    found.write(out)
    if report is not None:
        with pipeline.whole_or_nothing(report) as path:
            path.write_text(json.dumps(found.report.as_dict(found.scheme), indent=2) + "\n", "utf-8")
    click.echo(found.report.table(found.scheme))
    if test_out is not None:
        kept, held = (int((part.codes > 0).sum()) for part in (found, test))
        click.echo(f"{kept:,} for training in {out}, {held:,} for testing in {test_out}")


@main.command(
    epilog="""
    \b
    Example: 25 worlds of a scene whose optical depth is 0.12
      uncover realise S2A_MSIL1C_….SAFE --aod 0.12 --draws 25 --seed 0 --out cube.zarr
    """
)
@click.argument("source", metavar="SCENE")
@click.option("--out", required=True, type=click.Path(), help="Cube to write (Zarr).")
@realise_options
@click.option("--seed", default=0, show_default=True, help="Decides the draws.")
@click.option("--resume", is_flag=True, help="Go on with a cube that was not finished.")
@scene_options
@plainly
def realise(source: str, out: str, resume: bool, **given: Any) -> None:
    """Correct a scene for the atmosphere once per drawn optical depth, and store the realisations.

    L1C and L2A products of Sentinel-2. `uncover fit --aod` makes the same numbers without storing them.
    """
    from uncover import pipeline

    options = _realise_options(given)
    with _progress("realise") as progress:
        cube = pipeline.write_realisations(
            source, out, options, _scene_options(given), resume=resume, progress=progress
        )
    click.echo(
        f"{options.draws} realisations of {len(cube.bands)} bands, {cube.grid.height} x {cube.grid.width}"
    )


@main.command(
    epilog="""
    \b
    Example: one scene, a tenth of its labels
      uncover fit S2A_MSIL2A_….SAFE --labels labels.tif --fraction 0.1 --out model.uncover
    \b
    Example: polygons
      uncover fit scene.tif --scale 0.0001 --offset -0.1 --labels fields.gpkg --class-field class --out
      model.uncover \b
    Example: a table of labelled pixels
      uncover fit pixels.csv --class-field class --out model.uncover
    """
)
@click.argument("sources", nargs=-1, required=True, metavar="SCENE|CUBE|TABLE...")
@click.option("--out", required=True, type=click.Path(), help="Model file to write.")
@click.option(
    "--labels", "label_file", metavar="FILE[:BAND]", help="Labels of the pixels: raster or vector file."
)
@click.option("--class-field", metavar="NAME", help="Field or column with the class.")
@click.option("--scheme", metavar="NAME|FILE", help="Translate the labels [the scheme that they carry].")
@click.option("--fraction", type=float, help="Use this share of the labelled pixels of each scene.")
@click.option("--count", type=int, help="Use this many labelled pixels of each scene.")
@click.option(
    "--allocation",
    type=click.Choice(["proportional", "stratified"]),
    default="proportional",
    show_default=True,
    help="Classes by their shares, or equally many of each.",
)
@click.option("--seed", default=0, show_default=True, help="Decides which pixels are used.")
@click.option(
    "--realisations",
    type=click.Choice(["pooled", "repeats", "draws", "shared"]),
    default="pooled",
    show_default=True,
    help="What several realisations of a pixel mean.",
)
@click.option(
    "--class-prior", default=1.0, show_default=True, help="Dirichlet parameter of the class shares."
)
@realise_options
@scene_options
@plainly
def fit(sources: tuple[str, ...], out: str, label_file: str | None, **given: Any) -> None:
    """Fit a model to the labelled pixels of scenes or cubes, or to sample tables (CSV, Parquet).

    Several scenes add samples, not features. Clouds, shadow, snow and saturated pixels are left out.
    """
    from uncover import pipeline

    pipeline.check_goal(out)
    options = pipeline.FitOptions(
        labels=label_file,
        class_field=given["class_field"],
        scheme=given["scheme"],
        scene=_scene_options(given),
        draw=pipeline.Draw(given["fraction"], given["count"], given["allocation"]),
        class_prior=given["class_prior"],
        realisations=given["realisations"],
        seed=given["seed"],
        realise=None if given["aod"] is None else _realise_options(given),
    )
    with _progress("fit") as progress:
        training = pipeline.fit_model(sources, options, progress)
    training.save(out)
    click.echo(training.summary())


@main.command(
    name="map",
    epilog="""
    \b
    Example: a Sentinel-2 product, with the uncertainty of its aerosol optical depth
      uncover map model.uncover S2A_MSIL1C_….SAFE --aod 0.12 --out map
    \b
    Example: noise of each band from a table
      uncover map model.uncover scene.tif --uncertainty noise.csv --between-pixels random --out map
    \b
    Example: what would it take?
      uncover map model.uncover S2A_MSIL2A_….SAFE --out map --dry-run
    """,
)
@click.argument("model", metavar="MODEL")
@click.argument("scene", metavar="SCENE|CUBE")
@click.option("--out", required=True, type=click.Path(), help="Folder of the product; it must not exist yet.")
@realise_options
@click.option("--product-aod", is_flag=True, help="Draw worlds around the product's own optical depth.")
@click.option("--seed", default=0, show_default=True, help="Decides the worlds, with the scene's identity.")
@click.option(
    "--angles",
    type=float,
    nargs=3,
    metavar="SUN VIEW RELATIVE",
    help="Zeniths and relative azimuth in degrees, where the product has none.",
)
@click.option("--uncertainty", type=click.Path(), help="CSV, JSON, raster or effects table with the noise.")
@click.option(
    "--between-pixels",
    type=click.Choice(["random", "systematic"]),
    help="What errors of two pixels have in common, where the file does not say it.",
)
@click.option("--correlation", type=click.Path(), help="CSV table of the correlation between bands.")
@click.option("--uncertainty-units", type=click.Choice(["1", "%"]), help="Where the file does not say it.")
@click.option(
    "--paired/--unpaired", default=None, help="Whether this scene trained the model [its own word]."
)
@click.option(
    "--missing",
    type=click.Choice(["nodata", "marginalise"]),
    default="nodata",
    show_default=True,
    help="Pixels that lack bands: no class, or one by the bands that they have.",
)
@click.option(
    "--dtype",
    type=click.Choice(["uint16", "float32"]),
    default="uint16",
    show_default=True,
    help="Of layers.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["cog", "zarr", "netcdf"]),
    default="cog",
    show_default=True,
    help="GeoTIFFs, or one CF dataset.",
)
@click.option("--memory", default="1GB", show_default=True, help="Stay below it.")
@click.option("--threads", type=int, help="How many [all processors].")
@click.option("--block", default=1024, show_default=True, metavar="PIXELS", help="What is computed together.")
@click.option("--scheduler", metavar="ADDRESS", help="Compute on a dask.distributed cluster.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped.")
@click.option("--dry-run", is_flag=True, help="Say what it would take, and write nothing.")
@scene_options
@plainly
def map_command(model: str, scene: str, out: str, dry_run: bool, **given: Any) -> None:
    """Map a scene: class, probabilities, uncertainty and quality of every pixel.

    Memory, threads, blocks and cluster have no influence on the product: it is the same to the last byte.
    """
    from uncover import pipeline

    options = _map_options(given)
    if dry_run:
        click.echo(pipeline.forecast(model, scene, options).text())
        return
    with _pixel_progress("map") as progress:
        made = pipeline.map_scene(model, scene, out, options, progress)
    click.echo(f"{made}")


def _map_options(given: dict[str, Any]) -> Any:
    from uncover import pipeline

    worlds = given["aod"] is not None or given["product_aod"]
    source = pipeline.SourceOptions(
        scene=_scene_options(given),
        realise=_realise_options(given) if worlds else None,
        angles=given["angles"],
        uncertainty=given["uncertainty"],
        uncertainty_options=pipeline.UncertaintyOptions(
            between_pixels=given["between_pixels"],
            correlation=given["correlation"],
            units=given["uncertainty_units"],
        ),
    )
    return pipeline.MapOptions(
        source=source,
        paired=given["paired"],
        missing=given["missing"],
        dtype=given["dtype"],
        format=given["kind"],
        memory=pipeline.parse_memory(given["memory"]),
        threads=given["threads"],
        block=given["block"],
        scheduler=given["scheduler"],
        resume=given["resume"],
    )


@main.command(
    epilog="""
    \b
    Example: points drawn at random in each class of the map
      uncover evaluate map/ --reference points.gpkg --class-field class --design stratified --out evaluation
    \b
    Example: labels that were kept for testing
      uncover evaluate map/ --reference test.tif --out evaluation
    """
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--reference", required=True, metavar="FILE[:BAND]", help="Raster, points or polygons with true classes."
)
@click.option("--out", required=True, type=click.Path(), help="Folder for the results.")
@click.option("--class-field", metavar="NAME", help="Field with the class, for vector files.")
@click.option("--scheme", metavar="NAME|FILE", help="Translate the classes of the reference.")
@click.option(
    "--design",
    type=click.Choice(["random", "stratified", "poststratified"]),
    help="How the sample was drawn; without it no areas are estimated.",
)
@click.option("--stratum-field", metavar="NAME", help="Field with the stratum [the map's classes].")
@click.option(
    "--stratum-areas", type=click.Path(), help="CSV with the columns stratum and area_ha (or pixels)."
)
@click.option("--level", default=0.95, show_default=True, help="Confidence level of the intervals.")
@click.option("--bins", default=10, show_default=True, help="Bins of the reliability curves.")
@click.option("--draws", default=1000, show_default=True, help="Bootstrap draws.")
@click.option("--seed", default=0, show_default=True, help="Seed of the bootstrap.")
@click.option(
    "--block",
    default=1000.0,
    show_default=True,
    metavar="METRES",
    help="Side of the blocks of a reference raster that are resampled together.",
)
@plainly
def evaluate(folder: str, reference: str, out: str, **given: Any) -> None:
    """Compare a map with reference data: accuracy, areas, scores and calibration, with intervals.

    Writes evaluation.json, confusion.csv, accuracy.csv, areas.csv and reliability.csv.
    """
    from uncover import pipeline

    pipeline.check_folder(out, folder)
    with _progress("evaluate") as progress:
        found = pipeline.evaluate_map(folder, reference, pipeline.EvaluateOptions(**given), progress)
    found.write(out)
    click.echo(found.summary())


@main.command(
    epilog="""
    \b
    Examples:
      uncover info model.uncover
      uncover info S2A_MSIL2A_….SAFE
      uncover info schemes
      uncover info ukceh-lulucf
    """
)
@click.argument("name", metavar="FILE|SCHEME")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
@scene_options
@plainly
def info(name: str, as_json: bool, **given: Any) -> None:
    """Show what is in a model, cube, scene, label raster, sample table or class scheme."""
    from uncover import pipeline

    found = pipeline.describe_file(name, _scene_options(given))
    if as_json:
        click.echo(json.dumps({"kind": found.kind, **found.facts}, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo(found.text())


if __name__ == "__main__":
    main(prog_name="uncover")


@main.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the results; made where there is none.",
)
def demo(out: Path) -> None:
    """Run a small example from measurement to answer, on simulated data.

    Simulates noisy spectra, fits a classifier, predicts new samples, compares with a classifier that
    ignores the noise, flags samples of a class never trained, saves the model and loads it again.

    \b
    Example:
      uncover demo --out demo-output
    """
    from uncover.studies.demo import run_demo  # scikit-learn is slow to import: --help need not wait for it

    try:
        result = run_demo(out, progress=_say)
    except OSError as problem:
        raise click.ClickException(f"cannot write to {out}: {problem.strerror or problem}") from None
    click.echo(result.summary())
    click.echo("The model was saved, loaded again, and predicts the same to the last bit. Files:")
    for file in result.files:
        click.echo(f"  {file}")


def _say(step: str) -> None:
    """Say what goes on, to a person at a terminal and to nobody else."""
    if sys.stderr.isatty():
        click.echo(click.style(f"… {step}", dim=True), err=True)
