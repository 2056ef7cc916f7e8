"""Work that becomes a product when it is finished: kept beside its goal until then, done by one run."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uncover.files import alone
from uncover.raster.errors import SceneError
from uncover.raster.journal import Journal


@contextmanager
def unfinished(path: str | Path, key: str, resume: bool) -> Iterator[tuple[Path, Journal]]:
    """A store that becomes `path` if all goes well; kept for resuming if not, unless nothing was done yet.

    It lies in `PATH.partial`, with a journal; what else lies there goes when the store has its name.
    """
    final, partial = Path(path), Path(f"{path}.partial")
    if final.exists():
        raise SceneError(f"{final} exists already; remove it, or write somewhere else")
    if partial.exists() and not resume:
        raise SceneError(f"{partial} is an unfinished run; go on with --resume, or remove it")
    with writing(final):
        partial.mkdir(parents=True, exist_ok=True)
    busy = SceneError(f"another run works in {partial}; wait for it, or write elsewhere")
    with alone(partial, busy):
        with writing(final):
            journal = Journal(partial / "journal", key)
        try:
            yield partial / "store", journal
            with writing(final):
                (partial / "store").rename(final)
                shutil.rmtree(partial)
        finally:
            if partial.exists() and not journal.done:
                shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the file system refuses into one line."""
    try:
        yield
    except OSError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        remedy = "write somewhere else" if refused else "make room and resume, or write somewhere else"
        raise SceneError(f"{path} cannot be written ({error.strerror or error}); {remedy}") from error
