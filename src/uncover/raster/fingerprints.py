"""Fingerprints of inputs: whether a run that goes on has the same files before it as when it began."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from uncover.engines.threads import in_order
from uncover.raster.errors import ChangedError, ReadError
from uncover.raster.names import split_band, split_vsizip
from uncover.raster.npy import is_npy, npy_file
from uncover.remote import RemoteError, is_address, state_of

#: Files are read whole for their fingerprint up to this many bytes in all; beyond, size and time must do.
READ_BYTES = 4 << 30


def fingerprint_of(thing: Any) -> str:
    """Hash of the content of all files and arrays behind a scene, cube or other observed."""
    return _hash(thing, [name.encode() + content for name, content in _contents(thing)])


def content_identity(thing: Any) -> str:
    """Identity of a scene, cube or table by its content alone: the names of its files do not count.

    Two copies of a file are one scene, two files of one name are two.
    """
    return f"sha256:{_hash(thing, sorted(content for _, content in _contents(thing)))[:32]}"


def _hash(thing: Any, contents: list[bytes]) -> str:
    digest = hashlib.sha256(b"".join(contents))
    for part in _parts(thing):
        path = str(getattr(part, "path", ""))
        if isinstance(part, np.ndarray):
            digest.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(getattr(part, "moment", None), str):
            digest.update(f"date {part.moment}".encode() if part.moment else b"")
        elif is_npy(path):
            digest.update(f"date {npy_file(path)[1]}".encode())  # dates of one file are different scenes
    return digest.hexdigest()


def _contents(thing: Any) -> list[tuple[str, bytes]]:
    """Names of the files behind a value, each with its hash; with size and time where they are too large.

    Of a file at an address it is what the server says of it, which need not be read for that.
    """
    paths = [getattr(part, "path", None) for part in _parts(thing)]
    files = sorted({file for path in paths if isinstance(path, str | Path) for file in _files(str(path))})
    far = sorted({path for path in paths if isinstance(path, str) and is_address(path)})
    whole = sum(file.stat().st_size for file in files) <= READ_BYTES
    hashes = in_order(lambda file: _content(file, whole), files)
    said = in_order(lambda address: f"{address} {state_of(address)}".encode(), far)
    return [*zip((file.name for file in files), hashes, strict=True), *zip(far, said, strict=True)]


def sha256_of(path: str | Path, but: str = "") -> str:
    """SHA-256 of a file; of a folder, that of the hashes of its files in the order of their names.

    Files of the name `but` do not count.
    """
    files = sorted(file for file in _files(str(path)) if file.name != but)
    hashes = [_content(file, whole=True) for file in files]
    return (hashes[0] if files == [Path(path)] else hashlib.sha256(b"".join(hashes)).digest()).hex()


def _content(file: Path, whole: bool) -> bytes:
    """Hash of a file, or its size and time."""
    status = file.stat()
    if not whole:
        return f"{status.st_size} {status.st_mtime_ns}".encode()
    with open(file, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").digest()
    _hashes[file, _status(file)] = found
    return found


#: What tells a change: size, time and inode, or what a server says; None of a file that is not there.
Status = tuple[int, int, int] | str | None
#: Hashes of files as they were at some time.
_hashes: dict[tuple[Path, Status], bytes] = {}
_watched: list[dict[Path | str, Status]] = []  # paths, and addresses as text
#: Files that belong to a file of the same name.
_COMPANIONS = (".dbf", ".shx", ".prj", ".cpg", ".hdr", ".tfw")


def _status(file: Path | str) -> Status:
    if isinstance(file, str):
        return _answer(file)
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _answer(address: str) -> str | None:
    try:
        return state_of(address)
    except RemoteError as error:
        raise ReadError(str(error)) from None


def opened(path: str | Path) -> None:
    """Note a file that is about to be read for the first time, where somebody watches the inputs."""
    far = [path] if isinstance(path, str) and is_address(path) else []
    for files in _watched:
        found: list[Path | str] = [*_files(str(path)), *far]
        for file in found:
            if file not in files:
                files[file] = _status(file)


@contextmanager
def unchanged(*names: str | Path | None, apart: str | Path = "") -> Iterator[Callable[[], None]]:
    """Inputs that must not change while they are read; yields what raises `ChangedError` if one has.

    Files are those that are named, those in named folders except of the output `apart`, and those that are
    opened meanwhile. Size, time and inode tell a change; where they moved, a content that was hashed before.

    >>> with unchanged(__file__) as check:
    ...     check()
    """
    given = [Path(split_band(name)[0]) for name in names if name is not None and not is_address(name)]
    beside = [path.with_suffix(suffix) for path in given if path.name for suffix in _COMPANIONS]
    out = [Path(apart).absolute(), Path(f"{apart}.partial").absolute()] if str(apart) else []
    files: dict[Path | str, Status] = {
        file: _status(file)
        for path in (*given, *beside)
        for file in _files(str(path))
        if not any(file.absolute().is_relative_to(place) for place in out)
    }

    def check() -> None:
        far = [file for file in files if isinstance(file, str)]
        answers = dict(zip(far, in_order(_answer, far), strict=True))
        for file, before in list(files.items()):
            now = answers[file] if isinstance(file, str) else _status(file)
            if now == before:
                continue
            known = _hashes.get((file, before)) if isinstance(file, Path) else None
            if now is None or known is None or _content(Path(file), whole=True) != known:
                what = "was removed" if now is None else "changed"
                raise ChangedError(f"{file} {what} while it was read; what came of it is not kept: run again")
            files[file] = now

    _watched.append(files)
    try:
        yield check
    except (ValueError, OSError):
        with suppress(ReadError):  # a server that is gone has said nothing
            check()  # whatever went wrong, this is why
        raise
    finally:
        _watched[:] = [each for each in _watched if each is not files]


def _files(path: str) -> Iterator[Path]:
    """Files of this machine behind a path: the file, all files of a folder, the archive of a member."""
    if path.startswith("/vsizip/"):
        path = split_vsizip(path)[0]
    found = npy_file(path)[0] if is_npy(path) else Path(path)
    if found.is_dir():
        yield from (file for file in found.rglob("*") if file.is_file())
    elif found.is_file():
        yield found


def _parts(thing: Any) -> Iterator[Any]:
    """A value and all values in it, in the order of their fields."""
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield thing
        for field in dataclasses.fields(thing):
            yield from _parts(getattr(thing, field.name))
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, list | tuple):
        for each in thing:
            yield from _parts(each)
