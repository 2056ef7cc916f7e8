"""Chunks of Zarr stores, looked at before they are read: what is lost or cut is an error, never a number."""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from pathlib import Path

from uncover.raster.errors import ReadError

_BLOSC_HEADER = 16  # bytes; the last four are the size of the chunk


def check_chunks(store: Path, *files: str) -> None:
    """Refuse chunks that are not there or have been cut.

    Zarr reads a chunk that is not there as empty. And Blosc believes the size in a chunk's header: of one
    that was cut it reads on in memory, where the rest may still lie from before, or anything else.
    """
    for name in files:
        file = store / name
        if not file.exists():
            raise ReadError(f"{store} lacks {name}; it is damaged, write it again")
        if _is_blosc(file.parent / ".zarray") and not _is_whole(file):
            raise ReadError(f"{store}: {name} has been cut; it is damaged, write it again")


@lru_cache(maxsize=256)
def _is_blosc(metadata: Path) -> bool:
    try:
        compressor = json.loads(metadata.read_text("utf-8"))["compressor"] or {}
    except (OSError, ValueError, KeyError) as error:
        raise ReadError(
            f"{metadata} cannot be read ({error}); the store is damaged, write it again"
        ) from error
    return bool(compressor.get("id") == "blosc")


def _is_whole(file: Path) -> bool:
    """Whether a chunk is as long as its header says."""
    with open(file, "rb") as stream:
        header = stream.read(_BLOSC_HEADER)
    return len(header) == _BLOSC_HEADER and struct.unpack("<I", header[12:])[0] == file.stat().st_size
