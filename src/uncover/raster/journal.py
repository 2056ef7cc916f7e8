"""Unfinished work: a journal of finished pieces, kept beside the goal until the product is whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uncover.files import alone
from uncover.raster.errors import SceneError


def fingerprint(facts: Mapping[str, Any]) -> str:
    """A hash of what decides a result, the same on every machine and in every process.

    >>> fingerprint({"a": 1, "b": [2.5]}) == fingerprint({"b": [2.5], "a": 1})
    True
    """
    text = json.dumps(facts, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """One line per finished piece, on disk before the next begins. `key` says what is being made."""

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.done: dict[str, Any] = {}
        if path.exists():
            self._load(key)
        else:
            self._append({"key": key})

    def _load(self, key: str) -> None:
        content = self.path.read_bytes()
        # A line that was cut in the middle is dropped: its piece is done again.
        whole = content[: content.rfind(b"\n") + 1]
        os.truncate(self.path, len(whole))
        lines = [json.loads(line) for line in whole.splitlines()]
        if lines and lines[0]["key"] != key:
            raise SceneError(
                f"{self.path.parent} was begun with other inputs or options; "
                "remove it, or write somewhere else"
            )
        if not lines:
            self._append({"key": key})
        self.done = {line["piece"]: line["note"] for line in lines[1:]}

    def add(self, *pieces: str, note: Any = None) -> None:
        """Note that pieces are finished, with a word about them; several at the price of one."""
        self._append(*({"piece": piece, "note": note} for piece in pieces))
        self.done.update(dict.fromkeys(pieces, note))

    def _append(self, *lines: Mapping[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def unfinished(
    path: str | Path, key: str, resume: bool, overwrite: bool = False
) -> Iterator[tuple[Path, Journal]]:
    """A store that becomes `path` if all goes well; kept for resuming if not, unless nothing was done yet.

    It lies in `PATH.partial`, with a journal; what else lies there goes when the store has its name. With
    `overwrite` it then takes the place of a folder that is there.
    """
    final, partial = Path(path), Path(f"{path}.partial")
    if final.exists() and not overwrite:
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
                if final.exists():
                    final.rename(partial / "replaced")
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
