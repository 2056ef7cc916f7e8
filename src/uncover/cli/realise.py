"""`uncover realise`: the worlds of a scene, stored."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.options import product_aod_option, scene_from, scene_options, world_options, worlds_from
from uncover.cli.progress import bar


@click.command(
    epilog="""
    \b
    Example: 25 worlds of a scene whose optical depth is 0.12
      uncover realise S2A_MSIL1C_….SAFE --aod 0.12 --draws 25 --seed 0 --out cube.zarr
    """
)
@click.argument("source", metavar="SCENE")
@click.option("--out", required=True, type=click.Path(), help="Cube to write (Zarr).")
@world_options
@product_aod_option
@click.option("--resume", is_flag=True, help="Go on with a cube that was not finished.")
@scene_options
def realise(source: str, out: str, resume: bool, **given: Any) -> None:
    """Correct a scene for the atmosphere once per drawn optical depth, and store the realisations.

    L1C and L2A products of Sentinel-2; without --aod the optical depths are drawn around the product's own.
    `uncover fit --aod` makes the same numbers without storing them.
    """
    from uncover import pipeline

    options = worlds_from(given)
    with bar("realise") as progress:
        cube = pipeline.write_realisations(
            source, out, options, scene_from(given), resume=resume, progress=progress
        )
    click.echo(
        f"{options.draws} realisations of {len(cube.bands)} bands, {cube.grid.height} x {cube.grid.width}"
    )
