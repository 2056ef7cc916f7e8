"""Threads for what lets go of Python's lock: pieces of work in order."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from itertools import islice
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Results that may wait for their turn: memory does not grow with the number of pieces.
_WAITING = 32


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Threads that wait for work; a process that was forked has none of them, and makes its own."""
    return ThreadPoolExecutor(count, thread_name_prefix="uncover")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def in_order(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
    """Results of all pieces in their order, computed in as many threads as there are processors.

    The calling thread does its share, of what no other has begun. So it never waits for threads that are
    busy with something else, and pieces may be cut into pieces themselves.

    >>> list(in_order(lambda n: n * n, [1, 2, 3]))
    [1, 4, 9]
    """
    threads = min(processors(), len(pieces))
    if threads < 2:
        yield from map(work, pieces)
        return
    pool, rest = _helpers(threads - 1), iter(pieces)
    waiting: deque[tuple[Future[Result], Piece]] = deque()
    try:
        while True:
            more = islice(rest, _WAITING - len(waiting))
            waiting.extend((pool.submit(work, piece), piece) for piece in more)
            if not waiting:
                return
            mine = None if waiting[0][0].done() else _not_begun(waiting)
            if mine is None:
                yield waiting.popleft()[0].result()
            else:
                done: Future[Result] = Future()
                done.set_result(work(waiting[mine][1]))
                waiting[mine] = done, waiting[mine][1]
    finally:
        wait([future for future, _ in waiting if not future.cancel()])


def _not_begun(waiting: Iterable[tuple[Future[Result], Piece]]) -> int | None:
    """The first piece that no thread has begun, which then none will begin."""
    return next((i for i, (future, _) in enumerate(waiting) if future.cancel()), None)
