"""Executors of units: one thread, several, or a cluster; and how much memory they take."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from uncover.raster.cluster import computed, in_turn
from uncover.raster.errors import SceneError
from uncover.raster.mapper import Mapper, Parts
from uncover.raster.observed import ObservedScene
from uncover.raster.product import CHUNK, SPLIT_BYTES, UNIT, Product, Unit
from uncover.raster.tiles import GDAL_CACHE_BYTES

MEGABYTE = 1 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


PartsOf = Callable[[int], Parts | None]


def _all_of_it(number: int) -> Parts | None:
    """Every pixel of a unit counts once."""
    return None


class Executor(Protocol):
    """Anything that computes units; `parts` says which pixels of a unit count in its areas."""

    def run(self, mapper: Mapper, numbers: Sequence[int], parts: PartsOf = _all_of_it) -> Iterator[Unit]:
        """The units of those numbers, in any order."""


@dataclass(frozen=True)
class Serial:
    """One unit after the other."""

    def run(self, mapper: Mapper, numbers: Sequence[int], parts: PartsOf = _all_of_it) -> Iterator[Unit]:
        """The units, in order."""
        with one_thread_per_product():
            for number in numbers:
                yield mapper.compute(number, mapper.read(number), parts(number))


@dataclass(frozen=True)
class Threads:
    """Several units at a time, each read and computed by one thread, while the caller writes the last ones.

    `ahead` is how many units may have been computed, or wait for a thread, beyond those that have one.
    """

    threads: int = 2
    ahead: int = 2

    def run(self, mapper: Mapper, numbers: Sequence[int], parts: PartsOf = _all_of_it) -> Iterator[Unit]:
        """The units, in order; never more than threads + ahead of them in memory."""
        with one_thread_per_product(), ThreadPoolExecutor(self.threads, "compute") as workers:

            def submit(number: int) -> Future[Unit]:
                return workers.submit(lambda: mapper.compute(number, mapper.read(number), parts(number)))

            yield from in_turn(submit, Future.result, numbers, self.threads + self.ahead)


@dataclass(frozen=True)
class Cluster:
    """Workers of a dask.distributed scheduler; they must see the scene under the same path."""

    address: str
    ahead: int = 2

    def run(self, mapper: Mapper, numbers: Sequence[int], parts: PartsOf = _all_of_it) -> Iterator[Unit]:
        """The units, in order."""
        pieces = ((number, parts(number)) for number in numbers)
        return computed(_UnitsOf(mapper), pieces, self.address, self.ahead)


@dataclass(frozen=True)
class _UnitsOf:
    """The work on units."""

    mapper: Mapper

    def __call__(self, piece: tuple[int, Parts | None]) -> Unit:
        number, parts = piece
        return self.mapper.compute(number, self.mapper.read(number), parts)


@contextmanager
def one_thread_per_product() -> Iterator[None]:
    """Keep matrix products to one thread: several would split them, and give other last bits."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


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
class ComputePlan:
    """Threads and memory of a map on this machine; they do not change the result."""

    threads: int
    ahead: int
    cache_bytes: int
    bytes_needed: int

    @classmethod
    def of(
        cls, memory: int, observed: ObservedScene, product: Product, threads: int | None = None
    ) -> ComputePlan:
        """As many threads as there are processors, or as fit into the memory.

        What libraries take for themselves (about 200 MB) is not counted.
        """
        reading = UNIT * UNIT * observed.bytes_per_pixel
        result = UNIT * UNIT * product.bytes_per_pixel
        computing = CHUNK * (
            4 * observed.realisations * len(observed.bands)
            + 8 * product.classes * (2 * len(observed.bands) + 16)
            + product.worlds
        ) + (3 * SPLIT_BYTES if product.share_names else 0)
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
            f"{memory / MEGABYTE:.0f} MB are too few for {observed.realisations} realisations of "
            f"{len(observed.bands)} bands; give --memory {-(-least // MEGABYTE)}MB or more"
        )
