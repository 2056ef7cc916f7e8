"""Outputs that appear whole or not at all, folders of one run at a time, structured files as typed values."""

from __future__ import annotations

import codecs
import csv
import errno
import fcntl
import gzip
import inspect
import json
import math
import os
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from opcode import opmap
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from uncover import remote

P = ParamSpec("P")
T = TypeVar("T")

#: What the file system says when there is no room.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Structured files are read whole; none that we know is larger.
MOST_BYTES = 64 << 20


def check_file(path: str | Path) -> None:
    """Refuse pipes and devices, which keep a reader waiting or would be replaced, and names out of UTF-8.

    >>> check_file("/dev/null")
    Traceback (most recent call last):
    ...
    ValueError: /dev/null is a pipe or a device; give a file
    """
    try:
        str(path).encode()
        kind = os.stat(path).st_mode
    except UnicodeEncodeError:
        raise ValueError(f"the name {str(path)!a} is not UTF-8; rename it") from None
    except OSError:
        return
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise ValueError(f"{path} is a pipe or a device; give a file")


def check_place(out: str | Path) -> Path:
    """The path, if its folder is there and takes files: found out by trying, which permissions do not tell.

    >>> check_place("nowhere/map")
    Traceback (most recent call last):
    ...
    ValueError: nowhere/map cannot be written: there is no folder nowhere; make it first
    """
    goal = Path(out)
    if remote.is_address(out):
        raise ValueError(f"{out} is an address; write to a file of this machine, and send it there")
    check_file(goal)
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
def whole_or_nothing(out: str | Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A path to write to; what was written there takes its place when the block ends well.

    Files are written into `.NAME.partial` beside the goal, in which one run works at a time, and renamed, the
    named file last: it never stands there without its companions. After an error nothing is left.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_or_nothing(Path(folder) / "a.txt") as path:
    ...         _ = path.write_text("done")
    ...     sorted(p.name for p in Path(folder).iterdir())
    ['a.txt']
    """
    goal = check_goal(out)
    with _work_place(goal, overwrite) as work:
        yield work / goal.name
        made = sorted(work.iterdir(), key=lambda path: path.name == goal.name)
        for path in made:
            _sync(path)
        if len(made) > 1:
            goal.unlink(missing_ok=True)  # it does not stand beside the new companions
        for path in made:
            os.replace(path, goal.parent / path.name)


@contextmanager
def whole_folder(out: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A new folder to write to, which takes its place when the block ends well.

    >>> with tempfile.TemporaryDirectory() as folder, whole_folder(Path(folder) / "a") as made:
    ...     made.parent.name, made.name
    ('.a.partial', 'a')
    """
    goal = check_place(out)
    with _work_place(goal, overwrite) as work:
        (work / goal.name).mkdir()
        yield work / goal.name
        for path in (work / goal.name).rglob("*"):
            _sync(path)
        if goal.exists():
            goal.rename(work / f"{goal.name}.replaced")
        (work / goal.name).rename(goal)


@contextmanager
def _work_place(goal: Path, overwrite: bool) -> Iterator[Path]:
    """An empty folder beside a goal for this run alone; what a run that was killed has left in it goes."""
    check_new(goal, overwrite=overwrite)
    work = goal.with_name(f".{goal.name}.partial")
    with alone(work, lambda who: ValueError(f"{who} writes {goal}; wait for it, or write somewhere else")):
        try:
            check_new(goal, overwrite=overwrite)  # nobody else finished it meanwhile
            for left in work.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            yield work
        except OSError as error:
            if error.errno not in FULL:
                raise
            why = os.strerror(error.errno)
            raise ValueError(f"{goal} cannot be written ({why}); make room, or write elsewhere") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _sync(path: Path) -> None:
    """Bring a file onto the disk, before its name says that it is there."""
    if path.is_file():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(file: Path, text: str) -> None:
    """Write a text that is there in full or not at all, on disk before this returns."""
    partial = file.with_name(f".{file.name}.partial")
    with partial.open("w", encoding="utf-8") as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    os.replace(partial, file)


@contextmanager
def alone(folder: Path, refusal: Callable[[str], Exception]) -> Iterator[int]:
    """Lock a folder, made where there is none, for this run; where another has it, raise `refusal` of it.

    Yields the handle of the lock: a program that inherits it keeps the folder locked after its parent.
    """
    handle = _locked(folder, refusal)
    try:
        yield handle
    finally:
        os.close(handle)


def only_run_in(folder: Path) -> AbstractContextManager[int]:
    """Lock the folder of a command that works in several steps; a second one there is refused."""
    return alone(
        folder, lambda who: ValueError(f"{who} works in {folder}; wait for it, or name another folder")
    )


def _locked(folder: Path, refusal: Callable[[str], Exception]) -> int:
    """Handle of a lock on a folder that is there: whoever had it before may have removed it."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        handle = -1
        try:
            handle = os.open(folder, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                return handle
        except BlockingIOError:
            who = _holder(os.fstat(handle))
            os.close(handle)
            raise refusal(who) from None
        except FileNotFoundError:
            pass
        if handle >= 0:
            os.close(handle)


def _holder(locked: os.stat_result) -> str:
    """Who has a lock, as far as Linux tells."""
    place = f"{os.major(locked.st_dev):02x}:{os.minor(locked.st_dev):02x}:{locked.st_ino}"
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        process = next(words[4] for words in lines if words[1] == "FLOCK" and words[5] == place)
        command = Path(f"/proc/{process}/cmdline").read_text(errors="replace").split("\0")
    except (OSError, StopIteration, IndexError):
        return "another run"
    return f"another run (process {process}: {shortened(' '.join(command).strip(), 120)})"


def shortened(text: str, most: int = 200) -> str:
    """A text with its middle left out where it is longer.

    >>> shortened("x" * 50 + "y" * 50, 9)
    'xxxx…yyyy'
    """
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


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


def read_text(path: str | Path) -> str:
    """Text of a file, or of what is at an address, that is read whole, if it is not too large for that."""
    if remote.is_address(path):
        content = remote.read_bytes(str(path))
    else:
        check_file(path)
        with open(path, "rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{path} has more than {MOST_BYTES >> 20} MB, far too much for what it should be")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8 ({error}); fetch it again") from None


@dataclass(frozen=True)
class TextTable:
    """How a table is written as text; many spreadsheets put ; between columns and , in numbers."""

    encoding: str
    separator: str
    decimal: str
    comments: int  # lines before the header that begin with #

    @classmethod
    def of(cls, path: str | Path) -> TextTable:
        """Seen in the first lines of a file."""
        with gzip.open(path) if str(path).lower().endswith(".gz") else open(path, "rb") as file:
            start = file.read(1 << 16)
        encoding = "utf-16" if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        lines = start.decode(encoding, "replace").splitlines()
        comments = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
        head = lines[comments] if comments < len(lines) else ""
        separator = max(",\t;", key=head.count)
        body = "\n".join(lines[comments + 1 :]).replace(separator, "\n")
        commas, points = (re.search(rf"^\s*-?\d+{mark}\d+\s*$", body, re.M) for mark in (",", r"\."))
        return cls(encoding, separator, "," if commas and not points else ".", comments)


def table_rows(path: str | Path) -> list[dict[str, str]]:
    """Rows of a small table by column, with points in numbers, however a spreadsheet has written it."""
    written = TextTable.of(path)
    try:
        with open(path, newline="", encoding=written.encoding) as file:
            lines = [line for line in file if not line.startswith("#")]
    except UnicodeDecodeError:
        raise not_unicode(path) from None
    rows = list(csv.DictReader(lines, delimiter=written.separator))
    if any(None in row or None in row.values() for row in rows):
        raise ValueError(f"{path}: some rows have more or fewer cells than the first line; mend them")
    if written.decimal == ".":
        return rows
    number = re.compile(r"\s*-?\d+,\d+\s*")
    return [{k: v.replace(",", ".") if number.fullmatch(v) else v for k, v in row.items()} for row in rows]


def not_unicode(path: str | Path) -> ValueError:
    """Refusal of a text in one of the encodings that do not say which they are."""
    return ValueError(
        f'{path} is not text in UTF-8; save it in that encoding ("CSV UTF-8" in spreadsheets), as the '
        "letters of other encodings cannot be told apart"
    )


def read_json(path: str | Path, kind: type[T]) -> T:
    """Content of a JSON file, if it is of that type."""
    return parse_json(read_text(path), kind, path)


def parse_json(text: str | bytes, kind: type[T], name: str | Path) -> T:
    """Content of JSON, if it is of that type; `name` says where it comes from.

    >>> parse_json('{"a": [1, "b"]}', dict[str, list[int]], "a.json")
    Traceback (most recent call last):
    ...
    ValueError: a.json is damaged, or not the JSON it should be: Expected `int`, got `str` - at `$[...][1]`
    """
    import msgspec

    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(
            f"{name} is damaged, or not the JSON it should be: {shortened(str(error))}"
        ) from None


def read_toml(path: str | Path) -> dict[str, Any]:
    """Content of a TOML file, to be given its types by `typed`."""
    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a readable TOML file: {shortened(str(error))}") from None


def typed(values: Any, kind: type[T], name: str | Path) -> T:
    """Plain values as a type; `name` says what they are.

    >>> typed({"code": "x"}, dict[str, int], "the table")
    Traceback (most recent call last):
    ...
    ValueError: the table is not what it should be: Expected `int`, got `str` - at `$[...]`
    """
    import msgspec

    try:
        return msgspec.convert(values, kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{name} is not what it should be: {shortened(str(error))}") from None


def reader(read: Callable[P, T]) -> Callable[P, T]:
    """Let a reader, whose first argument that is a path names its file, fail in one line, whatever happens.

    Libraries raise what they please on files that somebody has damaged, and name no file.
    """
    if inspect.isgeneratorfunction(read):
        raise TypeError(f"{read.__name__} yields, and does its work when nothing guards it any more")

    @wraps(read)
    def guarded(*args: P.args, **options: P.kwargs) -> T:
        try:
            return read(*args, **options)
        except Exception as error:
            of_system = isinstance(error, OSError) and error.errno != errno.EINVAL  # a seek before the start
            ours = isinstance(error, ValueError | OSError) and is_ours(error)
            if of_system or ours or isinstance(error, ImportError):
                raise
            why = f"{type(error).__name__}: {' '.join(shortened(str(error)).split())}"
            name = next((each for each in args if isinstance(each, str | Path)), "the file")
            raise ValueError(f"{name} is damaged, or not what it should be ({why})") from error

    return guarded


def is_ours(error: Exception) -> bool:
    """Return whether a `raise` of this package made the error: its words are for people.

    >>> try:
    ...     min([])
    ... except ValueError as error:
    ...     is_ours(error)
    False
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    here = str(last.tb_frame.f_globals.get("__name__")).partition(".")[0] == __name__.partition(".")[0]
    return here and code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]


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
