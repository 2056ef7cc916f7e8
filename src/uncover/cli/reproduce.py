"""`uncover reproduce`: the studies of the paper, from computing to the report."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from uncover.cli.console import counter, say
from uncover.cli.options import refuse, seed_option

_DATA = ("data", "labels", "class_field")


@click.command(
    epilog="""
    \b
    Example: a part of the synthetic study, in a few minutes
      uncover reproduce synthetic --scale quick --out synthetic
    \b
    Example: labelled pixels of your own, one column per band and one of the class
      uncover reproduce landcover --data pixels.csv --class-field class --out landcover
    \b
    Example: cubes of two years, and labels that are of both
      uncover reproduce landcover --data 2020.zarr --data 2021.zarr --labels labels.tif --out landcover
    \b
    Example: how long would all of it take?
      uncover reproduce synthetic --scale paper --out synthetic --dry-run
    """
)
@click.argument("study", type=click.Choice(["synthetic", "landcover"]))
@click.option(
    "--scale",
    type=click.Choice(["quick", "standard", "paper"]),
    default="quick",
    help="Size of the study: minutes, hours, or all that the paper did.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the results.")
@click.option(
    "--data",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Land cover: a table of labelled pixels (CSV, Parquet), or a table or cube for each year "
    "(default: the embedded scene).",
)
@click.option("--labels", metavar="FILE[:BAND]", help="Labels of the pixels of cubes: raster or vector file.")
@click.option("--class-field", metavar="NAME", help="Column or field with the class.")
@click.option(
    "--data-sets",
    type=int,
    metavar="N",
    help="Synthetic: the first N data sets only; run again without it for the rest (default: all).",
)
@click.option(
    "--f1-filter",
    type=click.Choice(["bqda", "all"]),
    help="Synthetic: models whose F1 score without noise must reach 0.9 for a data set to count: BQDA alone, "
    "or all five of the paper. Both use the same folder (default: bqda).",
)
@click.option(
    "--further",
    is_flag=True,
    help="With three further models, which take hours at larger scales: boosted trees (the other reading of "
    "the paper's forest; scores, not probabilities), a deep ensemble, a bootstrapped forest.",
)
@click.option("--workers", type=int, help="Processes on this machine (default: one per processor).")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Compute on a dask.distributed cluster, in place of --workers."
)
@seed_option
@click.option("--dry-run", is_flag=True, help="Estimate the time, and write nothing.")
def reproduce(study: str, scale: str, out: Path, dry_run: bool, **given: Any) -> None:
    """Repeat a study of the paper: tables, figures, and a report that goes through its claims.

    The same command goes on where it was stopped. The number of workers has no influence on the tables.
    """
    from uncover.studies.cells import Run, Workers, dry_plan

    if given["scheduler"] is not None:
        refuse("with --scheduler, whose own workers compute; leave it out", "workers")
    processes = given["workers"] if given["workers"] is not None else os.cpu_count() or 1
    workers = Workers(processes, given["scheduler"])
    say("preparing")
    chosen = replace(_study(study, scale, given, dry_run), further=given["further"])
    if dry_run:
        click.echo(dry_plan(chosen, out, workers))
        return
    from uncover.files import only_run_in
    from uncover.report.study import write_study_report

    with only_run_in(out):
        run = Run.begin(chosen, out, workers)
        if run.missing():
            say("estimating")
            click.echo(run.plan(), err=True)
        with counter("cells") as progress:
            _, findings = run.compute(progress)
        say("drawing")
        report = write_study_report(out)
    for finding in findings:
        click.echo(f"{finding.verdict:>16}  {finding.claim}")
    click.echo(f"{report}")


def _study(study: str, scale: str, given: dict[str, Any], dry_run: bool) -> Any:
    from uncover.studies.landcover import LandCoverStudy
    from uncover.studies.landcover_data import read_data
    from uncover.studies.synthetic import SyntheticStudy

    if study == "synthetic":
        refuse("for the synthetic study, which draws its data itself; leave it out", *_DATA)
        return SyntheticStudy(scale, given["seed"], given["data_sets"], given["f1_filter"] == "all")
    refuse("for the land cover study, which has one data set; leave it out", "data_sets", "f1_filter")
    if not given["data"]:
        refuse("without --data; give that too, or leave it out", *_DATA)
        make = LandCoverStudy.sketch if dry_run else LandCoverStudy.embedded
        return make(scale, given["seed"])
    data = read_data(given["data"], given["labels"], given["class_field"])
    return LandCoverStudy.of(data, scale, given["seed"])
