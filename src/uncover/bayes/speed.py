"""What makes loops fast where it is there: machine code, and threads for what lets go of Python."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import TypeVar

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


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> Iterator[Result]:
    """Results of all pieces in their order, computed in as many threads as there are processors.

    >>> list(in_order(lambda n: n * n, [1, 2, 3]))
    [1, 4, 9]
    """
    threads = min(processors(), len(pieces) // 2)
    if threads < 2:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(pieces), _WAITING):
            yield from pool.map(work, pieces[start : start + _WAITING])
