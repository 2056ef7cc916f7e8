"""`uncover info`: what is in a file or folder."""

from __future__ import annotations

import json
from typing import Any

import click

from uncover.cli.options import scene_from, scene_options


@click.command(
    epilog="""
    \b
    Examples:
      uncover info model.uncover
      uncover info S2A_MSIL2A_….SAFE
      uncover info map/
      uncover info schemes
      uncover info ukceh-lulucf
    """
)
@click.argument("name", metavar="FILE|DIR|SCHEME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@scene_options
def info(name: str, as_json: bool, **given: Any) -> None:
    """Show what is in a model, scene, cube, map, evaluation, label raster, sample table or class scheme.

    Of a run that was stopped it says how far it came and how it goes on.
    """
    from uncover import pipeline

    found = pipeline.describe_file(name, scene_from(given))
    if as_json:
        click.echo(json.dumps({"kind": found.kind, **found.facts}, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo(found.text())
