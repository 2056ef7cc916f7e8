"""`uncover report`: a folder as one page to look at."""

from __future__ import annotations

from pathlib import Path

import click

from uncover.cli.console import bar
from uncover.cli.options import refuse


@click.command(
    epilog="""
    \b
    Example: a map
      uncover report map
    \b
    Example: a map, the labels that trained its model, and what it was compared with
      uncover report map --labels labels.tif --evaluation evaluation --out report.html
    """
)
@click.argument("folder", metavar="DIR")
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="HTML file to write (default: report.html in DIR)."
)
@click.option("--labels", metavar="FILE[:BAND]", help="Training labels (default: labels.tif in DIR).")
@click.option("--class-field", metavar="NAME", help="Field with the class, for vector files.")
@click.option(
    "--evaluation",
    "evaluations",
    type=click.Path(),
    multiple=True,
    metavar="DIR",
    help="Folder that `uncover evaluate` wrote; may be given several times (default: evaluation… in DIR).",
)
def report(
    folder: str, out: str | None, labels: str | None, class_field: str | None, evaluations: tuple[str, ...]
) -> None:
    """Make one HTML file of a map: the scene, the model, the map with its uncertainty, and how good it is.

    DIR is what `uncover map` wrote, or a folder with such a map in map/ and, beside it, labels.tif,
    evaluation/ and scene/; or what `uncover reproduce` wrote. The file needs no network and no other file.
    What is missing is left out, and named.
    """
    if (Path(folder) / "study.json").is_file():
        refuse("for a study, and is for maps; leave it out", "labels", "class_field", "evaluations")
        from uncover.report.study import write_study_report

        click.echo(f"{write_study_report(folder, out)}")
        return
    from uncover.report.map_report import make_report

    with bar("report"):
        made = make_report(folder, out, labels=labels, class_field=class_field, evaluations=evaluations)
    click.echo(f"{made}")
