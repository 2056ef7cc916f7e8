"""Pieces of work in their order: here, or by the workers of a dask.distributed scheduler."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from uncover.raster.errors import SceneError

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def computed(
    work: Callable[[Piece], Result], pieces: Iterable[Piece], scheduler: str | None = None, ahead: int = 2
) -> Iterator[Result]:
    """Results of all pieces in their order: computed here, or by the workers of a dask.distributed scheduler.

    Whoever adds up the results gets the same to the last bit, as they come in the same order.

    >>> list(computed(abs, [-1, 2]))
    [1, 2]
    """
    if scheduler is None:
        yield from map(work, pieces)
        return
    parcel, folder = pickle.dumps(work), os.getcwd()
    name = hashlib.sha256(parcel).hexdigest()
    with connect_cluster(scheduler) as client:
        workers = max(1, sum(client.nthreads().values()))

        def submit(piece: Piece) -> Any:
            return client.submit(_on_worker, name, parcel, folder, piece, pure=False, retries=2)

        yield from in_turn(submit, _result, pieces, workers + ahead)


def _result(future: Any) -> Any:
    """The result of a piece; a cluster that lost it is one clear line."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker

    try:
        return future.result()
    except (KilledWorker, CancelledError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200]
        raise SceneError(f"the cluster lost a part of the work ({why}); look at its workers") from error


def connect_cluster(address: str) -> Any:
    """A client of a dask.distributed scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise SceneError('distributed is not installed; it comes with pip install "uncover[dask]"') from error
    try:
        return Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise SceneError(f"no dask scheduler answers at {address} ({error}); check the address") from error


#: The work that a worker's process has unpacked; it travels with every piece, so that any worker may die.
_unpacked: dict[str, Callable[[Any], Any]] = {}


def _on_worker(name: str, parcel: bytes, folder: str, piece: Any) -> Any:
    """Do a piece of work in a worker's process, whose libraries stay with one thread each."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    work = _unpacked.get(name)
    if work is None:
        work = pickle.loads(parcel)
        _unpacked.clear()
        _unpacked[name] = work
    with _working_in(folder):
        try:
            return work(piece)
        except ValueError as error:
            raise _alone(error) from None


def _alone(error: ValueError) -> ValueError:
    """The error without its causes, which may not travel."""
    return type(error)(str(error)) if isinstance(error, SceneError) else ValueError(str(error))


#: The working folder of a worker's process, and how many threads rely on it.
_place = threading.Condition()
_users = [0]


@contextmanager
def _working_in(folder: str) -> Iterator[None]:
    """Work in the folder of whoever asks, where relative names mean what they mean there.

    A worker that has no such folder finds no relative name at all.
    """
    here = folder if os.path.isdir(folder) else os.sep
    with _place:
        _place.wait_for(lambda: _users[0] == 0 or os.getcwd() == here)
        os.chdir(here)
        _users[0] += 1
    try:
        yield
    finally:
        with _place:
            _users[0] -= 1
            _place.notify_all()


def in_turn(
    submit: Callable[[Piece], Any], result: Callable[[Any], Result], pieces: Iterable[Piece], most: int
) -> Iterator[Result]:
    """Results of work in the order of its pieces, never more than so many in the works."""
    waiting: deque[Any] = deque()
    try:
        for piece in pieces:
            if len(waiting) >= most:
                yield result(waiting.popleft())
            waiting.append(submit(piece))
        while waiting:
            yield result(waiting.popleft())
    finally:
        for future in waiting:
            future.cancel()
