"""How much a map may have in memory at a time, and how that decides threads and caches."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from uncover.raster.errors import SceneError
from uncover.raster.evidence import Evidence
from uncover.raster.product import CHUNK, UNIT, Product
from uncover.raster.tiles import GDAL_CACHE_BYTES

MEGABYTE = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_memory(text: str) -> int:
    """Bytes of a size as people write it.

    >>> parse_memory("1GB"), parse_memory("512 MiB")
    (1073741824, 536870912)
    >>> parse_memory("much")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: 'much' is not a size of memory; write it like 512MB or 2GB
    """
    match = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    try:
        assert match is not None
        return int(float(match.group(1)) * _UNITS[match.group(2).upper()])
    except (AssertionError, ValueError):
        raise SceneError(f"{text!r} is not a size of memory; write it like 512MB or 2GB") from None


@dataclass(frozen=True)
class Plan:
    """How a map is computed on this machine; nothing of it changes the result."""

    threads: int
    ahead: int
    cache_bytes: int
    bytes_needed: int

    @classmethod
    def of(cls, memory: int, evidence: Evidence, product: Product, threads: int | None = None) -> Plan:
        """As many threads as there are processors, or as fit into the memory.

        What libraries take for themselves (about 200 MB) is not counted.
        """
        reading = UNIT * UNIT * evidence.bytes_per_pixel
        result = UNIT * UNIT * product.bytes_per_pixel
        computing = CHUNK * (
            4 * evidence.realisations * len(evidence.bands)
            + 8 * product.classes * (2 * len(evidence.bands) + 16)
            + product.worlds
        )
        fixed = GDAL_CACHE_BYTES + 16 * MEGABYTE
        wanted = threads or len(os.sched_getaffinity(0))
        for count in range(wanted, 0, -1):
            for ahead in (2, 1, 0):
                used = fixed + (count + ahead) * (reading + result) + count * computing
                cache = min(256 * MEGABYTE, memory - used)
                if cache >= 32 * MEGABYTE:
                    return cls(count, ahead, cache, used + cache)
        least = fixed + reading + result + computing + 32 * MEGABYTE
        raise SceneError(
            f"{memory / MEGABYTE:.0f} MB are too few for {evidence.realisations} realisations of "
            f"{len(evidence.bands)} bands; give --memory {-(-least // MEGABYTE)}MB or more"
        )
