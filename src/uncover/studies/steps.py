"""Steps of a study that are done once: a step whose inputs and results are unchanged is not done again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uncover.files import write_whole
from uncover.raster.fingerprints import fingerprint_of
from uncover.raster.journal import fingerprint

RECORD = "steps.json"


@dataclass(frozen=True)
class Tree:
    """A file or a folder with all that is in it."""

    path: Path

    def content(self) -> str | None:
        """Hash of what is there, None where there is nothing."""
        return fingerprint_of(self) if self.path.exists() else None


@dataclass(frozen=True)
class Steps:
    """The steps of a study in one folder, with a record of what each was made from.

    >>> import tempfile
    >>> steps = Steps(Path(tempfile.mkdtemp()))
    >>> def make():
    ...     print("made")
    ...     _ = (steps.folder / "a.txt").write_text("a")
    >>> steps.do("a", {"size": 1}, [], ["a.txt"], make)
    made
    True
    >>> steps.do("a", {"size": 1}, [], ["a.txt"], make)
    False
    >>> steps.do("a", {"size": 2}, [], ["a.txt"], make)
    made
    True
    """

    folder: Path

    def do(
        self,
        name: str,
        options: Mapping[str, Any],
        inputs: list[Path],
        outputs: list[str],
        make: Callable[[], None],
    ) -> bool:
        """Do a step unless it is done; returns whether it was done now.

        It is done if options and inputs are those of the record and the outputs are what they were. Else what
        an earlier run of this step left, finished or not, is removed first. What no run of it made is never
        touched: that is an error.
        """
        key = fingerprint({"options": dict(options), "inputs": [Tree(path).content() for path in inputs]})
        record = self._read()
        known = record.get(name)
        if known is not None and known["key"] == key and known["outputs"] == self._contents(outputs):
            return False
        for output in outputs:
            if (self.folder / output).exists():
                self._remove(output, ours=known is not None)
        self._write(record | {name: {"key": "unfinished", "outputs": {}}})
        make()
        self._write(self._read() | {name: {"key": key, "outputs": self._contents(outputs)}})
        return True

    def _remove(self, output: str, *, ours: bool) -> None:
        path = self.folder / output
        if not ours:
            raise ValueError(f"{path} is there already, and no earlier run made it; name another folder")
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()

    def _contents(self, outputs: list[str]) -> dict[str, str | None]:
        return {output: Tree(self.folder / output).content() for output in outputs}

    def _read(self) -> dict[str, Any]:
        path = self.folder / RECORD
        try:
            return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}
        except ValueError:
            return {}

    def _write(self, record: Mapping[str, Any]) -> None:
        write_whole(self.folder / RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
