"""`uncover info`: what is in a file or folder."""

from __future__ import annotations

import json
from typing import Any

import click

from uncover.cli.options import angles_option, one_scene, scene_from, scene_options


@click.command(
    epilog="""
    \b
    Examples:
      uncover info model.uncover
      uncover info S2A_MSIL2A_….SAFE
      uncover info map/
      uncover info schemes
      uncover info ukceh-lulucf
      uncover info scene.tif --level L2A --scale 0.0001 --offset -0.1 --write-scene
    """
)
@click.argument("names", nargs=-1, required=True, metavar="FILE|DIR|SCHEME")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--write-scene",
    is_flag=True,
    help="Write --level, --sensor, --date, --angles, --scale, --offset and --bands to scene.toml beside the "
    "data, where all commands find them.",
)
@scene_options
@angles_option
def info(names: tuple[str, ...], as_json: bool, write_scene: bool, **given: Any) -> None:
    """Show what is in a model, scene, cube, map, evaluation, label raster, sample table or class scheme.

    Of a run that was stopped it says how far it came and how it goes on.
    """
    from uncover import pipeline

    name = one_scene(names, "info")
    options = scene_from(given)
    if write_scene:
        path = pipeline.write_scene_file(name, options)
        click.echo(f"wrote {path}", err=True)
        options = pipeline.SceneOptions()
    found = pipeline.describe_file(name, options)
    if as_json:
        click.echo(json.dumps({"kind": found.kind, **found.facts}, indent=2, ensure_ascii=False, default=str))
    else:
        click.echo(found.text())
