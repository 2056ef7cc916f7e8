"""`uncover areas`: areas of the classes of a map in regions."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.console import bar
from uncover.cli.options import overwrite_option


@click.command(
    epilog="""
    \b
    Example: parcels, named by their field "parcel"
      uncover areas map/ --regions parcels.gpkg --field parcel --out parcels
    """
)
@click.argument("folder", metavar="MAP")
@click.option("--regions", required=True, metavar="FILE", help="Polygons: GeoPackage, Shapefile, GeoJSON.")
@click.option("--field", metavar="NAME", help="Field whose values name the regions.")
@click.option("--out", required=True, type=click.Path(), help="Folder for regions.gpkg and regions.csv.")
@click.option("--memory", default="1GB", help="Upper limit of the memory that is used.")
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@overwrite_option
def areas(folder: str, regions: str, out: str, **given: Any) -> None:
    """Areas of the classes of a map in regions, each with its standard uncertainty.

    Errors that pixels share, of the measurement, the model and the class shares, do not average out within a
    region. The scene and the model of the map are read again, and must be where they were.
    """
    from uncover import pipeline

    pipeline.check_apart(out, folder, regions)
    given["memory"] = pipeline.parse_memory(given["memory"])
    with bar("areas") as progress:
        made = pipeline.areas_of_regions(folder, regions, out, pipeline.RegionOptions(**given), progress)
    click.echo(f"{made}")
