"""Files at addresses (s3://…, https://…) as inputs and outputs of all commands.

Rasters, items, products and Zarr are read where they lie. Other inputs are fetched first; outputs are written
here, and sent when they are finished.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from pathlib import Path
from typing import Any

import click

_OUTPUTS = ("out", "test_out", "report", "export")
#: Options whose addresses are no files.
_SERVERS = ("stac", "scheduler")
#: Parameters that name scenes, which may be items; elsewhere JSON is a table.
_SCENES = ("sources", "scenes", "maps", "names", "like")
_READ_IN_PLACE = (".tif", ".tiff", ".jp2", ".j2k", ".vrt", ".img")
_SCENES_IN_PLACE = (*_READ_IN_PLACE, ".json", ".geojson", ".safe", ".zarr")
#: Files that belong to a shapefile.
_COMPANIONS = (".dbf", ".shx", ".prj", ".cpg")
#: The file of a folder that is sent last: whoever sees it finds the others.
_LAST = ("item.json", "evaluation.json", ".zmetadata")


def with_far_files(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Let the function of a command take addresses where it takes files."""

    @wraps(callback)
    def command(**given: Any) -> Any:
        far = {name: value for name, value in given.items() if name not in _SERVERS and _has_address(value)}
        if not far:
            return callback(**given)
        with ExitStack() as ends:
            goals = {name: _Goal(str(far[name])) for name in _OUTPUTS if name in far}
            for goal in goals.values():
                ends.enter_context(goal.alone())
                goal.check(bool(given.get("overwrite")), bool(given.get("resume")))
            fetched = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="uncover-")))
            near = {name: _near(name, value, fetched) for name, value in far.items() if name not in goals}
            click.get_current_context().meta["uncover.sent"] = {g.place: g.address for g in goals.values()}
            result = callback(**{**given, **near, **{name: str(goal.place) for name, goal in goals.items()}})
            for goal in goals.values():
                goal.send()
        return result

    return command


def shown(path: Path) -> str:
    """The name of an output as it was given."""
    sent: dict[Path, str] = click.get_current_context().meta.get("uncover.sent", {})
    return sent.get(path, str(path))


def _has_address(value: Any) -> bool:
    from uncover.remote import is_address

    each = value if isinstance(value, tuple) else (value,)
    return any(isinstance(one, str) and "://" in one and is_address(one) for one in each)


def _near(name: str, value: Any, folder: Path) -> Any:
    """The value with files of this machine in place of addresses that are not read in place."""
    if isinstance(value, tuple):
        return tuple(_near(name, one, folder) for one in value)
    if not _has_address(value):
        return value
    from uncover.remote import fetch, state_of

    address, _, band = value.rpartition(":") if value.rpartition(":")[2].isdigit() else (value, "", "")
    suffix = Path(address.rstrip("/")).suffix.lower()
    if suffix in (_SCENES_IN_PLACE if name in _SCENES else _READ_IN_PLACE):
        return value
    place = folder / hashlib.sha256(address.encode()).hexdigest()[:8]
    place.mkdir(exist_ok=True)
    if suffix == ".shp":
        beside = (address[: -len(suffix)] + each for each in _COMPANIONS)
        for companion in (each for each in beside if state_of(each) is not None):
            fetch(companion, place)
    try:
        found = fetch(address, place)
    except FileNotFoundError:
        raise ValueError(f"{address} does not exist; check the address") from None
    return f"{found}:{band}" if band else str(found)


class _Goal:
    """An address to write to, and the place where what belongs there is made."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.above, _, name = self.address.rpartition("/")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uncover" / "outputs"
        self.place = cache / hashlib.sha256(self.address.encode()).hexdigest()[:16] / name

    def alone(self) -> AbstractContextManager[int]:
        """Lock the place: one run of this machine at a time makes and sends what belongs there."""
        from uncover.files import alone

        remedy = "wait for it, or write somewhere else"
        return alone(self.place.parent, lambda who: ValueError(f"{who} writes {self.address}; {remedy}"))

    def check(self, overwrite: bool, resume: bool) -> None:
        """Refuse an address that cannot be written to, or where something is, before the work."""
        from uncover.remote import files_in, remove, send

        if self.address.lower().startswith(("http://", "https://")):
            raise ValueError(f"{self.address} can be read and not written; name a file or an object storage")
        there = files_in(self.address)
        unsent = resume and self.place.exists()  # finished, and sent in part
        if there and not overwrite and not unsent:
            raise ValueError(
                f"{self.address} exists already; replace it with --overwrite, or write somewhere else"
            )
        with tempfile.NamedTemporaryFile() as empty:  # what permissions do not tell is found out by trying
            send(Path(empty.name), f"{self.address}.partial")
            remove([f"{self.address}.partial"])
        if overwrite and self.place.exists():
            shutil.rmtree(self.place) if self.place.is_dir() else self.place.unlink()

    def send(self) -> None:
        """Send all files, that which tells of the others last; what was there before goes."""
        from uncover.remote import files_in, remove, send

        work = self.place.parent
        if not self.place.exists():
            return
        files = sorted(path for path in work.rglob("*") if path.is_file())
        files.sort(key=lambda path: (path == self.place, path.parent == self.place and path.name in _LAST))
        goals = {f"{self.above}/{path.relative_to(work).as_posix()}": path for path in files}
        before = files_in(self.address)
        try:
            remove([goal for goal in before if goal.rpartition("/")[2] in _LAST])
            for goal, path in goals.items():
                send(path, goal)
            remove([goal for goal in before if goal not in goals and goal.rpartition("/")[2] not in _LAST])
        except (ValueError, OSError) as error:
            raise ValueError(f"{error}; all is finished and kept in {self.place}") from None
        shutil.rmtree(work)
        click.echo(f"sent to {self.address}", err=True)
