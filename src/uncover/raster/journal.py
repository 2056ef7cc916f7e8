"""A journal of finished pieces of work, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uncover.raster.errors import SceneError


def fingerprint(facts: Mapping[str, Any]) -> str:
    """A hash of what decides a result, the same on every machine and in every process.

    >>> fingerprint({"a": 1, "b": [2.5]}) == fingerprint({"b": [2.5], "a": 1})
    True
    """
    text = json.dumps(facts, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """One line per finished piece, on disk before the next begins. `key` says what is being made.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "journal"
    >>> journal = Journal(path, key="k")
    >>> journal.add("block 0")
    >>> Journal(path, key="k").done
    {'block 0': None}
    """

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

    def add(self, piece: str, note: Any = None) -> None:
        """Note that a piece is finished, with a word about it."""
        self._append({"piece": piece, "note": note})
        self.done[piece] = note

    def add_all(self, pieces: Sequence[str]) -> None:
        """Note that several pieces are finished, at the price of one."""
        self._append(*({"piece": piece, "note": None} for piece in pieces))
        self.done.update(dict.fromkeys(pieces))

    def _append(self, *lines: Mapping[str, Any]) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
