"""Reading ahead: tiles of a scene are decoded while something else, such as an import, is waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from uncover.raster.errors import SceneError
from uncover.raster.grid import Window
from uncover.raster.scene import Scene


@contextmanager
def reading_ahead(scene: Scene, limit: int) -> Iterator[None]:
    """Fill the scene's cache meanwhile, up to so many bytes, in the order in which a map reads it.

    What cannot be read is left to whoever needs it: that reader gets the error.
    """
    stop = threading.Event()

    def fetch(*windows: Window) -> None:
        with suppress(SceneError, OSError):
            for window in windows:
                for group in scene.groups:
                    if stop.is_set() or scene.cache.nbytes >= limit:
                        return
                    group.fetch(scene.grid, window, scene.resampling, scene.cache)

    # Files are opened here: that changes warning filters for a moment, which all threads share.
    fetch(Window(0, 0, 1, 1))
    reader = threading.Thread(target=fetch, args=tuple(scene.grid.blocks()), name="read ahead")
    reader.start()
    try:
        yield
    finally:
        stop.set()
        reader.join()
