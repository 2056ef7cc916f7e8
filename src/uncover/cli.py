"""The command line: parses, calls the layers below, prints. No mathematics and no file formats here."""

import click

from uncover import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="uncover")
def main() -> None:
    """Classification that knows what it does not know."""
