"""Unfinished work: a journal of finished pieces, kept beside the goal until the product is whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

from uncover.files import FULL, alone, parse_json
from uncover.progress import Stopped
from uncover.raster.errors import ChangedError, ReadError, SceneError


def fingerprint(facts: Mapping[str, Any]) -> str:
    """A hash of what decides a result, the same on every machine and in every process.

    >>> fingerprint({"a": 1, "b": [2.5]}) == fingerprint({"b": [2.5], "a": 1})
    True
    """
    text = json.dumps(facts, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class _Line(TypedDict, total=False):
    key: str
    piece: str
    note: int | None


class Journal:
    """One line per finished piece, on disk before the next begins. `key` says what is being made."""

    def __init__(self, path: Path, key: str, check: Callable[[], None] = lambda: None) -> None:
        self.path, self._check = path, check
        self.done: dict[str, int | None] = {}
        if path.exists():
            self._load(key)
        else:
            self._append({"key": key})

    def _load(self, key: str) -> None:
        content = self.path.read_bytes()
        # A line that was cut in the middle is dropped: its piece is done again.
        whole = content[: content.rfind(b"\n") + 1]
        os.truncate(self.path, len(whole))
        try:
            lines = [parse_json(line, _Line, self.path) for line in whole.splitlines()]
            self.done = {line["piece"]: line.get("note") for line in lines[1:]}
        except (ValueError, KeyError) as error:
            raise SceneError(f"{self.path} is damaged ({error}); remove {self.path.parent}") from None
        if lines and lines[0].get("key") != key:
            raise SceneError(
                f"{self.path.parent} was begun with other inputs or options; "
                "remove it, or write somewhere else"
            )
        if not lines:
            self._append({"key": key})

    def add(self, *pieces: str, note: int | None = None) -> None:
        """Note that pieces are finished, with a number about them; several at the price of one."""
        self._check()
        self._append(*({"piece": piece, "note": note} for piece in pieces))
        self.done.update(dict.fromkeys(pieces, note))

    def _append(self, *lines: Mapping[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def unfinished(
    path: str | Path,
    key: str,
    resume: bool,
    overwrite: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Path, Journal]]:
    """A store that becomes `path` if all goes well; kept for resuming if not, unless nothing was done yet.

    It lies in `PATH.partial`, with a journal; what else lies there goes when the store has its name. With
    `overwrite` it then takes the place of a folder that is there. `check` raises where inputs have changed;
    it is asked before a piece counts as finished, and before the store has its name.
    """
    final, partial = Path(path), Path(f"{path}.partial")
    _check_begun(final, partial, resume, overwrite, now=False)
    with writing(final):
        partial.mkdir(parents=True, exist_ok=True)
    with alone(partial, lambda who: SceneError(f"{who} works in {partial}; wait for it, or write elsewhere")):
        _check_begun(final, partial, resume, overwrite, now=True)  # another run may have finished meanwhile
        with writing(final):
            journal = Journal(partial / "journal", key, check)
        try:
            yield partial / "store", journal
            check()
            with writing(final):
                for left in (partial / "store").rglob("*.partial"):
                    left.unlink()  # of Zarr, in a run that was killed
                shutil.rmtree(partial / "replaced", ignore_errors=True)
                if final.exists():
                    final.rename(partial / "replaced")
                (partial / "store").rename(final)
                shutil.rmtree(partial)
        except (ValueError, OSError) as error:
            try:
                with suppress(ReadError):  # a server that is gone has said nothing
                    check()
            except ChangedError:
                journal.done.clear()  # and with it what was computed
                raise
            if getattr(error, "errno", None) not in FULL:
                raise
            with writing(final):
                raise
        except Stopped as stop:
            stop.advice = "go on with --resume" if journal.done else ""
            raise
        finally:
            if partial.exists() and not journal.done:
                shutil.rmtree(partial, ignore_errors=True)


def _check_begun(final: Path, partial: Path, resume: bool, overwrite: bool, now: bool) -> None:
    """Refuse a product that is there, and, once no other run works there, the rest of an earlier run."""
    if final.exists() and not overwrite:
        with suppress(OSError):
            partial.rmdir()  # empty where it was made a moment ago
        raise SceneError(f"{final} exists already; remove it, or write somewhere else")
    if now and not resume and any(partial.iterdir()):
        raise SceneError(f"{partial} is an unfinished run; go on with --resume, or remove it")


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the file system refuses into one line."""
    try:
        yield
    except OSError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        remedy = "write somewhere else" if refused else "make room and resume, or write somewhere else"
        raise SceneError(f"{path} cannot be written ({error.strerror or error}); {remedy}") from error
