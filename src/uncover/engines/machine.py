"""The door to machine code: loaded on the first call, and None where numba is not installed."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from types import ModuleType
from typing import Self


@cache
def machine_code() -> ModuleType | None:
    """The compiled kernels, or None where numba is not installed."""
    try:
        from uncover.engines import compiled
    except ImportError:
        return None
    return compiled


class Compiling:
    """Seconds of a clock that numba takes to compile, once, while this is open; 0 where it is not installed.

    Examples
    --------
    >>> with Compiling() as nothing:
    ...     _ = sum(range(10))
    >>> nothing.seconds
    0.0
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds, self._began, self._depth, self._clock = 0.0, 0.0, 0, clock
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
            self._began = self._clock()

    def _end(self, happened: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += self._clock() - self._began
