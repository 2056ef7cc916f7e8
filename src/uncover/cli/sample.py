"""`uncover sample`: places on a map to visit."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.console import pixel_bar
from uncover.cli.options import overwrite_option, seed_option


@click.command(
    epilog="""
    \b
    Example: points that give overall accuracy and every class's share to 0.02
      uncover sample map --for areas --target-error 0.02 --out sample.gpkg
    \b
    Example: 200 points for accuracy and areas, spread over the classes to the best use
      uncover sample map --for areas -n 200 --out sample.gpkg
    \b
    Example: 100 places whose labels would teach the model most
      uncover sample map --for training -n 100 --out visit.gpkg
    """
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["areas", "training"]),
    required=True,
    help="areas: a stratified random sample for accuracy and areas. training: places where a label would "
    "teach the model most.",
)
@click.option("-n", "n", type=int, metavar="NUMBER", help="Number of places.")
@click.option(
    "--target-error",
    type=float,
    metavar="SHARE",
    help="Standard error of the overall accuracy and of the share of each class, in shares of the area; the "
    "number of points follows.",
)
@click.option("--least", default=30, metavar="NUMBER", help="Fewest points of each class of the map.")
@click.option(
    "--spacing",
    type=float,
    metavar="METRES",
    help="Smallest distance between two places for training (default: ten pixels).",
)
@seed_option
@click.option("--out", required=True, type=click.Path(), help="GeoPackage to write (.gpkg).")
@overwrite_option
def sample(folder: str, out: str, overwrite: bool, **given: Any) -> None:
    """Say where to collect reference or training data on the map in DIR.

    Writes points with an empty column `class` to fill in: NAME.gpkg, the same as NAME.csv, and
    NAME-ceo.csv for Collect Earth Online. `uncover evaluate DIR --reference NAME.gpkg` knows the design of a
    sample for areas; `uncover fit SCENE --labels NAME.gpkg` reads places for training.
    """
    from uncover import pipeline

    options = pipeline.SampleOptions(**given)
    goal = pipeline.check_sample_goal(out, folder)
    companions = pipeline.sample_files(goal)
    pipeline.check_new(*companions, overwrite=overwrite)
    with pipeline.whole_or_nothing(goal, overwrite=overwrite) as place, pixel_bar("sample") as progress:
        found = pipeline.sample_map(folder, options, progress)
        found.write(place)
    for line in found.summary:
        click.echo(line)
