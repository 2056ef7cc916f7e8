"""Outputs that appear whole or not at all, and folders in which one run works at a time."""

from __future__ import annotations

import fcntl
import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def check_place(out: str | Path) -> Path:
    """The path, if its folder is there and takes files: found out by trying, which permissions do not tell.

    >>> check_place("nowhere/map")
    Traceback (most recent call last):
    ...
    ValueError: nowhere/map cannot be written: there is no folder nowhere; make it first
    """
    goal = Path(out)
    folder = goal.absolute().parent
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{goal} cannot be written: {goal.parent} is not a folder; write somewhere else")
    if not folder.is_dir():
        raise ValueError(f"{goal} cannot be written: there is no folder {goal.parent}; make it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = f"the folder {goal.parent} takes no files ({error.strerror})"
        raise ValueError(f"{goal} cannot be written: {why}; write somewhere else") from error
    return goal


def check_goal(out: str | Path) -> Path:
    """The path, if a file can be written there: found out before the work, not after it.

    >>> check_goal("nowhere/model.uncover")
    Traceback (most recent call last):
    ...
    ValueError: nowhere/model.uncover cannot be written: there is no folder nowhere; make it first
    """
    goal = Path(out)
    if goal.is_dir():
        raise ValueError(f"{goal} is a folder; name a file to write")
    return check_place(goal)


def check_new(*outs: str | Path | None, overwrite: bool) -> None:
    """Refuse outputs that exist, unless they are to be overwritten.

    >>> check_new(__file__, overwrite=True)
    """
    for out in outs:
        if out is not None and Path(out).exists() and not overwrite:
            raise ValueError(f"{out} exists already; replace it with --overwrite, or write somewhere else")


@contextmanager
def whole_or_nothing(out: str | Path) -> Iterator[Path]:
    """A path to write to; what was written there takes its place when the block ends well.

    They are written into a hidden folder beside the goal and renamed, the named file last, so that it never
    stands there without its companions. After an error nothing is left.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_or_nothing(Path(folder) / "a.txt") as path:
    ...         _ = path.write_text("done")
    ...     sorted(p.name for p in Path(folder).iterdir())
    ['a.txt']
    """
    goal = check_goal(out)
    with tempfile.TemporaryDirectory(prefix=f".{goal.name}.", suffix=".partial", dir=goal.parent) as folder:
        yield Path(folder) / goal.name
        made = sorted(Path(folder).iterdir(), key=lambda path: path.name == goal.name)
        for path in made:
            os.replace(path, goal.parent / path.name)


def write_whole(file: Path, text: str) -> None:
    """Write a text that is there in full or not at all, on disk before this returns."""
    partial = file.with_name(f".{file.name}.partial")
    with partial.open("w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    os.replace(partial, file)


@contextmanager
def alone(folder: Path, refusal: Exception) -> Iterator[int]:
    """Lock a folder, made where there is none, for this run, or raise `refusal` where another run has it.

    Yields the handle of the lock: a program that inherits it keeps the folder locked after its parent.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield handle
    finally:
        os.close(handle)


def in_use(folder: Path) -> bool:
    """Return whether a run works in a folder now."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def json_text(value: Any) -> str:
    """JSON of values that may be NumPy's: what is not a number is null, and infinity is a word.

    >>> print(json_text({"share": np.float64("nan"), "counts": np.array([1, 2]), "bits": np.inf}))
    {
      "share": null,
      "counts": [
        1,
        2
      ],
      "bits": "infinity"
    }
    <BLANKLINE>
    """
    return json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "infinity"
    return value if isinstance(value, str | int | float | None) else str(value)
