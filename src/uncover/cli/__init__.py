"""The command line: parses, calls the layers below, prints. No mathematics and no file formats here.

One module for each command. They import what they call when they are called: `--help` need not wait for it.
"""

import click

from uncover import __version__
from uncover.cli import (
    areas,
    change,
    demo,
    evaluate,
    fit,
    info,
    labels,
    map,
    realise,
    report,
    reproduce,
    sample,
    scenes,
    view,
)
from uncover.cli.console import PlainGroup


@click.group(cls=PlainGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="uncover")
@click.option("--debug", is_flag=True, help="Show where an error happened.")
def main(debug: bool) -> None:
    """Classification that knows what it does not know."""


main.add_command(demo.demo)
main.add_command(scenes.scenes)
main.add_command(labels.labels)
main.add_command(realise.realise)
main.add_command(fit.fit)
main.add_command(map.map_command)
main.add_command(evaluate.evaluate)
main.add_command(areas.areas)
main.add_command(change.change)
main.add_command(sample.sample)
main.add_command(report.report)
main.add_command(view.view)
main.add_command(reproduce.reproduce)
main.add_command(info.info)
