"""`uncover demo`: the embedded scene, from satellite measurement to report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from uncover.cli.console import bar, pixel_bar
from uncover.cli.options import refuse, seed_option


@click.command(
    epilog="""
    \b
    Examples:
      uncover demo
      uncover demo --size 1000 --only-scene --out large
      uncover demo --size 400 --only-scene --dates 6 --out season
    """
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("demo-output"),
    help="Folder for the results; made where there is none.",
)
@click.option("--size", default=400, metavar="PIXELS", help="Side of the scene, in pixels of 10 m.")
@click.option("--only-scene", is_flag=True, help="Make the products, earlier maps and truth alone.")
@click.option(
    "--dates",
    default=0,
    metavar="NUMBER",
    help="With --only-scene: also products of 4 to 8 dates of 2020, with clouds.",
)
@click.option("--clouds", default=0.4, metavar="SHARE", help="Mean share of --dates that is cloudy.")
@click.option("--draws", default=10, help="Number of worlds: optical depths that are drawn.")
@seed_option
def demo(out: Path, size: int, only_scene: bool, dates: int, clouds: float, draws: int, seed: int) -> None:
    """Run everything once, on a simulated scene whose truth is known.

    Makes two Sentinel-2 products of a landscape, collects labels from simulated earlier maps, draws optical
    depths, fits the recommended and the published model, maps the scene with each, compares the maps with
    the truth, and writes a report with both side by side. What an earlier run made from the same inputs is
    not made again. Most of the time goes into the recommended model's map, in proportion to the pixels.
    """
    from uncover.files import only_run_in
    from uncover.studies.demo import DemoOptions, make_scene, numbers_in_words, run_demo
    from uncover.studies.landscape import LandscapeOptions

    if not only_scene:
        refuse("without --only-scene, which makes scenes of several dates; give that too", "dates", "clouds")
    options = DemoOptions(LandscapeOptions(size=size, seed=seed, dates=dates, clouds=clouds), draws)
    if only_scene:
        refuse("with --only-scene, which draws nothing; leave one of them out", "draws")
        with only_run_in(out):
            make_scene(out, options, _watch)
        click.echo(f"SIMULATED DATA, of no real place: {size} x {size} pixels of 10 m, in {out / 'scene'}")
        return
    with only_run_in(out):
        numbers = run_demo(out, options, _watch)
        _report(out)
    click.echo(f"SIMULATED DATA, of no real place: {size} x {size} pixels of 10 m, seed {seed}\n")
    click.echo(numbers_in_words(numbers))
    click.echo(f"\nThe report is {out / 'report.html'}, the map {out / 'map'}")


def _report(out: Path) -> None:
    """The page, unless it shows what is there already."""
    from uncover import __version__
    from uncover.report.map_report import make_report
    from uncover.studies.demo import FILE, Steps

    def make() -> None:
        with _watch("report"):
            make_report(out)

    shown = [out / name for name in ("map", "labels.tif", "evaluation", "evaluation-trained-classes", FILE)]
    Steps(out).do("report", {"version": __version__}, shown, ["report.html"], make)


@contextmanager
def _watch(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; in a pipe a line with the time taken, and some on the way for maps."""
    began = time.monotonic()
    shown = pixel_bar if name.startswith("map") else bar
    with shown(f"{name:<18}" if sys.stderr.isatty() else name) as progress:
        yield progress
    if not sys.stderr.isatty():
        click.echo(f"{name}: {time.monotonic() - began:.1f} s", err=True)
