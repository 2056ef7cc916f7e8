"""`uncover evaluate`: a map against reference data."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.console import bar
from uncover.cli.options import class_options, overwrite_option, scheduler_option, seed_option


@click.command(
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
@class_options
@click.option(
    "--design",
    type=click.Choice(["random", "stratified", "poststratified"]),
    help="Sampling design of the reference; without it no areas are estimated.",
)
@click.option(
    "--stratum-field", metavar="NAME", help="Field with the stratum (default: the classes of the map)."
)
@click.option(
    "--stratum-areas", type=click.Path(), help="CSV with the columns stratum and area_ha (or pixels)."
)
@click.option("--level", default=0.95, help="Confidence level of the intervals.")
@click.option("--bins", default=10, help="Bins of the reliability curves.")
@click.option("--draws", default=1000, help="Number of bootstrap replicates.")
@seed_option
@click.option(
    "--block",
    default=1000.0,
    metavar="METRES",
    help="Side of the blocks of a reference raster that are resampled as a whole.",
)
@click.option(
    "--training", metavar="FILE[:BAND]", help="Labels that trained the model: samples near them are left out."
)
@click.option(
    "--buffer",
    type=float,
    metavar="METRES",
    help="Leave out samples nearer than this to --training labels (default: distance at which the "
    "correlation of the map's classes falls to 1/e).",
)
@scheduler_option
@overwrite_option
def evaluate(folder: str, reference: str, out: str, overwrite: bool, **given: Any) -> None:
    """Compare a map with reference data: accuracy, areas, scores and calibration, with intervals.

    Writes evaluation.json, confusion.csv, accuracy.csv, areas.csv and reliability.csv.
    """
    from uncover import pipeline

    inputs = (reference, *(given[name] for name in ("stratum_areas", "training", "scheme")))
    goal = pipeline.check_folder(out, folder, *inputs)
    pipeline.check_new(goal / "evaluation.json", overwrite=overwrite)
    with pipeline.results_folder(out, overwrite=overwrite) as place, bar("evaluate") as progress:
        found = pipeline.evaluate_map(folder, reference, pipeline.EvaluateOptions(**given), progress)
        found.write(place)
    click.echo(found.summary())
