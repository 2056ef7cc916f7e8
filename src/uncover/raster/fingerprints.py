"""Fingerprints of inputs: whether a run that goes on has the same files before it as when it began."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from uncover.engines.threads import in_order
from uncover.raster.npy import is_npy, npy_file
from uncover.raster.tiles import split_vsizip

#: Files are read whole for their fingerprint up to this many bytes in all; beyond, size and time must do.
READ_BYTES = 4 << 30


def fingerprint_of(thing: Any) -> str:
    """Hash of the content of all files and arrays behind a scene, cube or other observed."""
    return _hash(thing, [file.name.encode() + content for file, content in _contents(thing)])


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


def _contents(thing: Any) -> list[tuple[Path, bytes]]:
    """Files behind a value, in order, each with its hash, or its size and time where they are too large."""
    paths = (getattr(part, "path", None) for part in _parts(thing))
    files = sorted({file for path in paths if isinstance(path, str | Path) for file in _files(str(path))})
    whole = sum(file.stat().st_size for file in files) <= READ_BYTES
    return list(zip(files, in_order(lambda file: _content(file, whole), files), strict=True))


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file; of a folder, that of the hashes of its files in the order of their names."""
    files = sorted(_files(str(path)))
    hashes = [_content(file, whole=True) for file in files]
    return (hashes[0] if files == [Path(path)] else hashlib.sha256(b"".join(hashes)).digest()).hex()


def _content(file: Path, whole: bool) -> bytes:
    """Hash of a file, or its size and time."""
    if not whole:
        status = file.stat()
        return f"{status.st_size} {status.st_mtime_ns}".encode()
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


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
