"""`uncover scenes`: scenes of a STAC API."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.options import filled


@click.command(
    epilog="""
    \b
    Examples:
      uncover scenes --stac https://earth-search.aws.element84.com/v1 --bbox 15.9 46.2 16.1 46.4 \\
        --dates 2024-04/2024-09 --max-cloud 60
      uncover scenes --stac https://earth-search.aws.element84.com/v1 --bbox 15.9 46.2 16.1 46.4 \\
        --dates 2024-04/2024-09 --max-cloud 60 --out items
    """
)
@click.option("--stac", required=True, metavar="URL", help="Address of the STAC API.")
@click.option(
    "--bbox",
    required=True,
    type=float,
    nargs=4,
    metavar="WEST SOUTH EAST NORTH",
    help="Bounding box in longitude and latitude; scenes that touch it are found.",
)
@click.option("--dates", metavar="DATES", help="2024-06-01, 2024-06, 2024, or FIRST/LAST (default: all).")
@click.option("--max-cloud", type=float, metavar="PERCENT", help="Largest cloud cover that a scene states.")
@click.option("--collection", default="sentinel-2-l2a", metavar="NAME", help="Collection of the scenes.")
@click.option("--limit", type=click.IntRange(1), default=1000, help="Most scenes that may match.")
@click.option("--out", type=click.Path(), metavar="DIR", help="Folder for an item file of each scene.")
def scenes(stac: str, out: str | None, **given: Any) -> None:
    """List scenes of a STAC API, and write an item file of each, which other commands take as a scene.

    Pixels stay where they are: commands read the parts that they need, by range requests.
    """
    from uncover import pipeline

    found = pipeline.find_items(stac, filled(pipeline.ItemSearch, given))
    width = max([len(item.identity) for item in found], default=0)
    for item in found:
        cloud = "cloud not stated" if item.cloud is None else f"cloud {item.cloud:5.1f} %"
        click.echo(f"{item.identity:<{width}}  {item.time:<20.20}  {cloud}")
    if not found:
        click.echo("no scene matches; widen --bbox, --dates or --max-cloud", err=True)
    elif out is not None:
        files = pipeline.write_items(found, out)
        click.echo(f"wrote {len(files)} item file(s) to {out}", err=True)
