"""`uncover labels`: labels from maps and vector files."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import click

from uncover.cli.console import bar
from uncover.cli.options import (
    area_options,
    class_options,
    filled,
    overwrite_option,
    pixel_purity_option,
    probability_scale_option,
    resolution_option,
    scheduler_option,
    seed_option,
)


@click.command(
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
@class_options
@click.option("--threshold", default=0.95, help="Probability that a label needs in each year.")
@probability_scale_option
@click.option(
    "--purity", type=float, metavar="SHARE", help="Smallest share of the window with the same label."
)
@pixel_purity_option
@click.option("--window", default=3, metavar="PIXELS", help="Side of the purity window.")
@click.option("--erosion", default=0, metavar="PIXELS", help="Width taken off the edges of parcels.")
@click.option("--spacing", default=0.0, metavar="METRES", help="Smallest distance between two labels.")
@click.option(
    "--like",
    type=click.Path(),
    metavar="SCENE|RASTER",
    help="Scene or raster whose grid the labels get (default: that of the first map).",
)
@resolution_option
@area_options
@click.option(
    "--test-out", type=click.Path(), help="Hold part of the labels out for testing, and write them here."
)
@click.option("--test-share", default=0.2, help="Share of the labels that are held out.")
@click.option(
    "--split",
    type=click.Choice(["pixel", "polygon", "block"]),
    default="block",
    help="Unit that is held out as a whole.",
)
@click.option("--block", default=1000.0, metavar="METRES", help="Side of a block for --split block.")
@click.option(
    "--buffer",
    type=float,
    metavar="METRES",
    help="Distance between training and test labels (default for --split block: distance at which the "
    "correlation of labels falls to 1/e, at most half a block).",
)
@seed_option
@scheduler_option
@overwrite_option
@click.option("--report", type=click.Path(), help="JSON file for the counts that are printed.")
def labels(
    maps: tuple[str, ...],
    out: str,
    probabilities: tuple[str, ...],
    like: str | None,
    test_out: str | None,
    report: str | None,
    overwrite: bool,
    **given: Any,
) -> None:
    """Collect labels from land cover maps of several years (FILE or FILE:BAND) or from a vector file.

    A pixel keeps its label where the translated maps agree in all years and are sure of it; further criteria
    on request. Prints how many pixels each criterion removed.
    """
    from uncover import pipeline
    from uncover.labels import load_translation

    inputs: tuple[str | None, ...] = (*maps, *probabilities, like, given["aoi"], given["scheme"])
    for goal in (out, test_out, report):
        if goal is not None:
            pipeline.check_apart(goal, *inputs)
            pipeline.check_goal(goal)
            inputs += (goal,)
    pipeline.check_new(out, test_out, report, overwrite=overwrite)
    options = filled(
        pipeline.LabelOptions,
        given,
        criteria=filled(pipeline.Criteria, given),
        like=None
        if like is None
        else pipeline.grid_of(like, pipeline.SceneOptions(resolution=given["resolution"])),
        area=filled(pipeline.Area, given),
    )
    with ExitStack() as outputs, bar("labels") as progress:
        # Those that are entered last take their places first.
        places = {
            goal: outputs.enter_context(pipeline.whole_or_nothing(goal, overwrite=overwrite))
            for goal in (out, test_out, report)
            if goal is not None
        }
        found = pipeline.collect_labels(maps, probabilities, options, progress)
        if test_out is not None:
            how = pipeline.HoldOut(given["test_share"], given["split"], given["block"], given["buffer"])
            before, buffer = int((found.codes > 0).sum()), pipeline.buffer_between(found, how)
            found, test = pipeline.hold_out(found, how, given["seed"])
            test.write(places[test_out])
        found.write(places[out])
        if report is not None:
            text = json.dumps(found.report.as_dict(found.scheme), indent=2)
            places[report].write_text(text + "\n", "utf-8")
    click.echo(found.report.table(found.scheme))
    if test_out is not None:
        kept, held = (int((part.codes > 0).sum()) for part in (found, test))
        click.echo(
            f"{kept:,} for training in {out}, {held:,} for testing in {test_out}; {before - kept - held:,} "
            f"nearer than {pipeline.distance(found.grid, buffer)} to a test label left out"
        )
    if given["scheme"] is not None and (note := load_translation(given["scheme"]).note):
        click.echo(f"table {given['scheme']}: {note}")
