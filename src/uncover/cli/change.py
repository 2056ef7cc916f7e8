"""`uncover change`: what changed between two maps."""

from __future__ import annotations

from typing import Any

import click

from uncover.cli.console import bar
from uncover.cli.options import overwrite_option


@click.command(
    epilog="""
    \b
    Example: two years of one place, by one model
      uncover change map-2020/ map-2021/ --out change
    """
)
@click.argument("before", metavar="MAP_A")
@click.argument("after", metavar="MAP_B")
@click.option(
    "--out", required=True, type=click.Path(), help="Folder for the layers, the table and the report."
)
@click.option("--memory", default="1GB", help="Upper limit of the memory that is used.")
@click.option("--resume", is_flag=True, help="Resume a run that was stopped.")
@overwrite_option
def change(before: str, after: str, out: str, **given: Any) -> None:
    """Change between two maps: P(change) of every pixel, and areas of transitions with their intervals.

    Writes change.tif, transition.tif, change.csv, item.json and report.html. Both scenes are read again, in
    worlds and by drawn models, and must be where they were.
    """
    from uncover import pipeline
    from uncover.report.change_report import write_change_report

    pipeline.check_apart(out, before, after)
    given["memory"] = pipeline.parse_memory(given["memory"])
    said = list[str]()
    with bar("change") as progress:
        made = pipeline.change_of_maps(
            before, after, out, pipeline.ChangeOptions(**given), progress,
            lambda folder: said.append(write_change_report(folder)),
        )  # fmt: skip
    click.echo(said[0], err=True)
    click.echo(f"{made}")
