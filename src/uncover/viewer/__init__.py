"""The viewer: maps at full resolution in a browser, from a server on this machine or as static files."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from uncover.viewer.server import Maps, Server
from uncover.viewer.viewed import ViewedMap


class View:
    """A page that is served until `close`; a notebook shows it in the cell."""

    def __init__(self, server: Server, height: int = 640) -> None:
        self._server, self._height = server, height

    @property
    def address(self) -> str:
        """Address that a browser opens."""
        return self._server.address

    def close(self) -> None:
        """End the server."""
        self._server.stop()

    def _repr_html_(self) -> str:
        address = html.escape(self.address)
        style = f"width:100%;height:{self._height}px;border:1px solid #888"
        return f'<iframe src="{address}" style="{style}" title="uncover view"></iframe>'

    def __repr__(self) -> str:
        return f"<View {self.address}>"

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def open_maps(
    folders: Sequence[str | Path], labels: Sequence[str] = (), class_field: str | None = None
) -> Maps:
    """Maps for a page."""
    if not folders:
        raise ValueError("no map came; give the folder of one or more")
    return Maps([partial(ViewedMap, folder, labels, class_field) for folder in folders])


def view(
    *folders: str | Path,
    labels: Sequence[str] = (),
    class_field: str | None = None,
    port: int = 0,
    height: int = 640,
) -> View:
    """Show maps at full resolution in a cell of a notebook, or at the `address` of what is returned.

    Parameters
    ----------
    *folders
        Folders that `uncover map` wrote.
    labels, class_field
        Labels to compare the map with (of vector files: the field with the class); those beside the map by
        default.
    port
        Port of this machine; a free one by default.
    height
        Height of the cell in pixels.

    Examples
    --------
    >>> view("nowhere")
    Traceback (most recent call last):
    ...
    ValueError: nowhere is not a folder; give one that ... wrote
    """
    server = Server(open_maps(folders, labels, class_field), port)
    server.start()
    return View(server, height)
