"""What makes loops fast where it is there: machine code, and threads for what lets go of Python."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import cache
from itertools import islice
from types import ModuleType
from typing import Self, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Results that may wait for their turn: memory does not grow with the number of pieces.
_WAITING = 32


@cache
def machine_code() -> ModuleType | None:
    """The compiled kernels, or None where numba is not installed."""
    try:
        from uncover.bayes import compiled
    except ImportError:
        return None
    return compiled


class Compiling:
    """CPU seconds that numba takes to compile, once, while this is open; 0 where it is not installed.

    Examples
    --------
    >>> with Compiling() as nothing:
    ...     _ = sum(range(10))
    >>> nothing.seconds
    0.0
    """

    def __init__(self) -> None:
        self.seconds, self._began, self._depth = 0.0, 0.0, 0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if machine_code() is not None:
            from numba.core import event

            listener = type("Notice", (event.Listener,), {"on_start": self._start, "on_end": self._end})()
            self._open.enter_context(event.install_listener("numba:compile", listener))
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.close()

    def _start(self, happened: object) -> None:
        self._depth += 1
        if self._depth == 1:  # one function is compiled within another
            self._began = time.process_time()

    def _end(self, happened: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.process_time() - self._began


def processors() -> int:
    """How many processors this process may use."""
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
