"""`uncover view`: maps at full resolution in the browser."""

from __future__ import annotations

import click

from uncover.cli.console import say
from uncover.cli.options import overwrite_option, refuse


@click.command(
    epilog="""
    \b
    Example: a map
      uncover view map
    \b
    Example: maps of two years, to swipe between them
      uncover view map-2020 map-2025
    \b
    Example: with labels, right and wrong, and the most confident errors
      uncover view map --labels polygons.gpkg --class-field class
    \b
    Example: the same page as files for a web server
      uncover view map --export site
    """
)
@click.argument("maps", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--labels",
    multiple=True,
    metavar="FILE[:BAND]",
    help="Labels to compare with; may be given several times (default: labels.tif in DIR).",
)
@click.option("--class-field", metavar="NAME", help="Field with the class, for vector files.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of this machine (default: a free one).")
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.")
@click.option("--export", type=click.Path(), metavar="NEW-DIR", help="Write the page as files, and end.")
@overwrite_option
def view(
    maps: tuple[str, ...],
    labels: tuple[str, ...],
    class_field: str | None,
    port: int | None,
    browser: bool,
    export: str | None,
    overwrite: bool,
) -> None:
    """Show maps in the browser: every layer down to single pixels, and the story of each pixel.

    DIR is what `uncover map` wrote, or a folder with such a map in map/. The page is served on this machine
    alone, to those who have its address; Ctrl-C ends it. Nothing is asked of the network.
    """
    if export is not None:
        refuse("for a page that is served; leave it out with --export", "port")
        from uncover.viewer.export import export_page

        click.echo(f"{export_page(maps, export, labels, class_field, overwrite=overwrite, say=say)}")
        return
    import webbrowser

    from uncover.viewer import open_maps
    from uncover.viewer.server import Server, spare_memory

    spare_memory()
    server = Server(open_maps(maps, labels, class_field), port or 0)
    click.echo(server.address)
    click.echo("Ctrl-C ends it", err=True)
    server.start()
    if browser and not webbrowser.open(server.address):
        click.echo("no browser could be started; open the address above in one", err=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        click.echo("", err=True)
    finally:
        server.stop()
