"""`uncover map`: every pixel with its class, its probabilities and its uncertainty."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from uncover.cli.console import pixel_bar
from uncover.cli.far_files import shown
from uncover.cli.options import (
    FILES_OF_A_SCENE,
    dates_option,
    digits_from,
    filled,
    measurement_from,
    measurement_options,
    overwrite_option,
    refuse,
    scheduler_option,
)


def _read_share(_context: Any, _option: Any, text: str | None) -> float | str | None:
    """A number, or the word that asks for an estimate; its range is checked with the other options."""
    if text is None or text == "estimate":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f'{text!r} is no number; give one from 0 to 1, or "estimate"') from None


@click.command(
    name="map",
    epilog="""
    \b
    Example: a Sentinel-2 product, with the uncertainty of its aerosol optical depth
      uncover map model.uncover S2A_MSIL1C_….SAFE --aod 0.12 --out map
    \b
    Example: standard uncertainty of each band from a table, with which the model was fitted too
      uncover map model.uncover scene.tif --level L2A --scale 0.0001 --offset -0.1 \\
        --uncertainty noise.csv --between-pixels random --out map
    \b
    Example: a product as it is, by a model that was fitted without --aod
      uncover map model.uncover S2A_MSIL1C_….SAFE --out map
    \b
    Example: what would it take?
      uncover map model.uncover S2A_MSIL1C_….SAFE --aod 0.12 --out map --dry-run
    \b
    Example: three dates, by a model of the same dates
      uncover map model.uncover A.SAFE B.SAFE C.SAFE --out map
    \b
    Example: four tiles as one map, by a model of one date
      uncover map model.uncover T32TQM.SAFE T33TUG.SAFE T33TVG.SAFE T33TVF.SAFE --out map
    \b
    Example: as many worlds as one digit of the uncertainties takes, of all effects
      uncover map model.uncover S2A_MSIL1C_….SAFE --aod 0.12 --effects all --draws auto --out map
    """,
)
@click.argument("model", metavar="MODEL")
@click.argument("scenes", nargs=-1, required=True, metavar="SCENE...|CUBE")
@click.option("--out", required=True, type=click.Path(), help="Folder of the product.")
@click.option(
    "--paired/--unpaired",
    default=None,
    help="Treat the scene as the training scene (default: decided from the datatake).",
)
@dates_option
@click.option(
    "--missing",
    type=click.Choice(["nodata", "marginalise"]),
    default="nodata",
    help="Pixels that lack bands: no class, or a class from the bands that are there; of several dates, a "
    "date that lacks a band is left out, or its other bands count.",
)
@click.option(
    "--method",
    type=click.Choice(["fast", "exact"]),
    default="fast",
    help="Predictive density of pixels whose uncertainty is stated: approximate, or exact (far slower).",
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    help="Compute on the processor, or on a GPU of NVIDIA with CuPy; probabilities agree to 1e-5, those of "
    "the recommended model to 1e-3.",
)
@click.option(
    "--unknown-share",
    callback=_read_share,
    metavar="SHARE",
    help="Share of pixels of none of the classes, or 'estimate': their probability becomes a layer.",
)
@click.option(
    "--class-shares",
    default="training",
    show_default=True,
    metavar="SHARES",
    help="Class shares of the place: those of the training samples, 'estimate' (from the scene), "
    "forest=0.6,water=0.4, or a CSV (class, share).",
)
@click.option(
    "--shares",
    is_flag=True,
    help="Split the measurement part by the --effects: a layer, a table and a figure of the report.",
)
@click.option(
    "--crs",
    metavar="EPSG:CODE",
    help="Reference system of the product (default: that of the scene, or of most tiles).",
)
@click.option(
    "--dtype",
    type=click.Choice(["uint16", "float32"]),
    default="uint16",
    help="Data type of probability and uncertainty layers.",
)
@click.option(
    "--format",
    type=click.Choice(["cog", "zarr", "netcdf"]),
    default="cog",
    help="Format of the layers: GeoTIFFs, or one CF dataset.",
)
@click.option("--memory", default="1GB", help="Upper limit of the memory that is used.")
@click.option("--threads", type=int, help="Number of threads (default: one per processor).")
@click.option(
    "--block", default=1024, metavar="PIXELS", help="Side of the blocks that are computed at a time."
)
@scheduler_option
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@overwrite_option
@click.option("--dry-run", is_flag=True, help="Estimate time, memory and disk space, and write nothing.")
@measurement_options
def map_command(model: str, scenes: tuple[str, ...], out: str, dry_run: bool, **given: Any) -> None:
    """Map a scene: class, probabilities, uncertainty and quality of every pixel.

    A scene is a product, a raster, a folder of band files, or its band files one by one. A model of several
    dates (uncover fit --as features) takes a scene of each, in any order; a clouded date is left out.

    Scenes of several places make one map. Where they overlap, the one with most clear dates counts at each
    pixel, and of equals that with the lowest total uncertainty.

    Memory, threads, blocks and cluster have no influence on the product: it is the same to the last byte.
    """
    from uncover import pipeline

    gathered = tuple(pipeline.gathered(scenes))
    scene = gathered[0] if len(gathered) == 1 else pipeline.SeveralScenes(gathered)
    pipeline.check_apart(out, model, *scenes, *(given[name] for name in FILES_OF_A_SCENE))
    source = pipeline.SourceOptions(**measurement_from(given), dates=given["dates"])
    memory = pipeline.parse_memory(given["memory"])
    options = filled(pipeline.MapOptions, given, source=source, memory=memory, digits=digits_from(given))
    if dry_run:
        refuse("with --dry-run, which estimates the whole map; leave it out", "resume")
        click.echo(pipeline.forecast(model, scene, options).text())
        return
    with _little_garbage(), pixel_bar("map") as progress:
        made = pipeline.map_scene(model, scene, out, options, progress, progress.phase)
    _conclude(made)
    click.echo(shown(made))


def _conclude(folder: Path) -> None:
    """Say how far the map can be believed, and what it took."""
    from uncover import pipeline
    from uncover.files import read_json

    item, run = (read_json(folder / name, dict[str, Any]) for name in ("item.json", "run.json"))
    facts = pipeline.MapFacts.in_item(item)
    click.echo(f"{facts.text()}\n{'time':<13}{run['seconds']:,.0f} s", err=True)
    if (shares := pipeline.shares_in_words(item["properties"])) is not None:
        click.echo(f"{'shares':<13}{shares}", err=True)
    for warning in facts.warnings() if facts.mapped_pixels else ():
        click.echo(f"Warning: {warning}", err=True)
    when = item["properties"]
    if when["datetime"] is None and "start_datetime" not in when:
        click.echo(
            "the scene does not say when it was measured: item.json has no date, and STAC catalogues "
            "refuse it; --date states it",
            err=True,
        )


@contextmanager
def _little_garbage() -> Iterator[None]:
    """Look for garbage rarely: importing makes very many objects, all of which stay."""
    before = gc.get_threshold()
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)  # nor are they looked through once more when the program ends
    try:
        yield
    finally:
        gc.set_threshold(*before)
