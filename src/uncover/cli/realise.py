"""`uncover realise`: the worlds of a scene, stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from uncover.cli.console import bar, counter
from uncover.cli.options import (
    inputs,
    product_aod_option,
    refuse,
    scene_from,
    scene_options,
    scheduler_option,
    world_options,
    worlds_from,
)

if TYPE_CHECKING:
    from uncover.raster.cube import Cube

#: What Sen2Cor finds out by itself.
_OF_THE_TABLE = (
    *("altitude", "dem", "water_vapour", "ozone", "effects", "product_aod_value"),
    "aerosol_models",
    *("altitude_uncertainty", "water_vapour_uncertainty", "ozone_uncertainty", "geolocation_uncertainty"),
)
_OF_SEN2COR = ("sen2cor", "workers", "dry_run", "keep_products")
_OF_DRAWS = ("aod", "aod_uncertainty", "draws", "draw_method", "impossible", "seed", "product_aod")


@click.command(
    epilog="""
    \b
    Example: 25 worlds of a scene whose optical depth is 0.12
      uncover realise S2A_MSIL1C_….SAFE --aod 0.12 --draws 25 --seed 0 --out cube.zarr
    \b
    Example: corrected by Sen2Cor, around the CAMS forecast in the product; what would be run?
      uncover realise S2A_MSIL1C_….SAFE --correction sen2cor --out cube.zarr --dry-run
    \b
    Example: products that were corrected elsewhere, one for each world
      uncover realise world-*.SAFE --as worlds --out cube.zarr
    """
)
@inputs(
    "SCENE...",
    "Cube to write (Zarr).",
    ("scene", "worlds"),
    "Sources: one scene, or L2A products that are worlds of one scene.",
)
@world_options
@product_aod_option
@click.option(
    "--correction",
    type=click.Choice(["table", "sen2cor"]),
    default="table",
    help="Atmospheric correction: the embedded lookup table, or Sen2Cor, installed separately.",
)
@click.option(
    "--sen2cor", metavar="PATH", help="Folder of Sen2Cor, or its L2A_Process (default: that on the PATH)."
)
@click.option("--workers", default=1, help="Number of Sen2Cor runs at a time.")
@click.option("--keep-products", is_flag=True, help="Keep the L2A products of Sen2Cor, in OUT.sen2cor.")
@click.option("--dry-run", is_flag=True, help="Print the files and commands of Sen2Cor, and run nothing.")
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@scheduler_option
@scene_options
def realise(sources: tuple[str, ...], out: str, meaning: str, dry_run: bool, **given: Any) -> None:
    """Correct a scene for the atmosphere once per drawn optical depth, and store the realisations.

    L1C and L2A products of Sentinel-2; --product-aod draws around the optical depth that the product states
    (L2A: also the default) or carries as a forecast of CAMS (L1C). `uncover fit --aod` makes the same numbers
    without storing them.
    """
    from uncover import pipeline

    pipeline.check_apart(out, *sources, *(given[name] for name in ("aoi", "mask", "dem")))
    cube: Cube | None
    if meaning == "worlds":
        why = "with --as worlds, whose products are corrected already; leave it out"
        refuse(why, *_OF_DRAWS, *_OF_THE_TABLE, *_OF_SEN2COR, "correction")
        with bar("realise") as progress:
            how = {"resume": given["resume"], "progress": progress, "scheduler": given["scheduler"]}
            cube = pipeline.write_worlds(sources, out, scene_from(given), **how)
    elif len(scenes := pipeline.gathered(sources)) > 1:
        raise ValueError(
            f"{len(scenes)} scenes came; give one, or --as worlds if they are corrections of one"
        )
    elif given["correction"] == "table":
        refuse("without --correction sen2cor; give that too, or leave it out", *_OF_SEN2COR)
        with bar("realise") as progress:
            how = {"resume": given["resume"], "progress": progress, "scheduler": given["scheduler"]}
            cube = pipeline.write_realisations(scenes[0], out, worlds_from(given), scene_from(given), **how)
    elif (cube := _by_sen2cor(sources[0], out, dry_run, given)) is None:
        return
    click.echo(
        f"{cube.realisations} realisations of {len(cube.bands)} bands, {cube.grid.height} x {cube.grid.width}"
    )


def _by_sen2cor(source: str, out: str, dry_run: bool, given: dict[str, Any]) -> Cube | None:
    """The cube; of a dry run none, but every file and every command of Sen2Cor."""
    from uncover import pipeline

    refuse("with --correction sen2cor, which finds that out itself; leave it out", *_OF_THE_TABLE)
    refuse("with --correction sen2cor, which runs on this machine; leave it out", "scheduler")
    given["product_aod"] = given["aod"] is None  # Sen2Cor takes the forecast in the product anyway
    how = pipeline.Sen2CorOptions(given["sen2cor"], given["workers"], given["keep_products"])
    options = worlds_from(given), scene_from(given), how
    if dry_run:
        refuse("with --dry-run, which lists all runs; leave it out", "resume")
        click.echo("\n".join(pipeline.plan_sen2cor(source, out, *options)))
        return None
    with counter("sen2cor") as correcting, bar("realise") as progress:
        return pipeline.write_sen2cor(
            source, out, *options, resume=given["resume"], correcting=correcting, progress=progress
        )
