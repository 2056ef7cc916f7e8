"""Steps of long work: whoever computes names them, whoever listens shows them, a signal stops it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Told the name of a step, and where they are known, how many parts of it are done, and of how many.
Listener = Callable[[str, int, int], None]
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def step(name: str, done: int = 0, total: int = 0) -> None:
    """Say what goes on, to whoever listens.

    >>> with listening(print):
    ...     step("reading", 2, 7)
    reading 2 7
    """
    listener = _listener.get()
    if listener is not None:
        listener(name, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Listen to the steps of what is computed meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def part_of(name: str, number: int, parts: int) -> Iterator[None]:
    """Steps of what is computed meanwhile are those of one part of a longer step.

    >>> with listening(print), part_of("checking", 1, 3):
    ...     step("fitting", 2, 7)
    checking 9 21
    """
    outer = _listener.get() or (lambda _name, _done, _total: None)
    with listening(lambda _name, done, total: outer(name, number * total + done, parts * total)):
        yield


class Stopped(KeyboardInterrupt):
    """Somebody asked the program to stop, by a signal of this number; `advice` says how it goes on."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number, self.advice = number, ""


class _Stopping:
    """The signal that has come, and how many blocks go on to the end of their unit."""

    asked: int | None = None
    units = 0


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into `Stopped`, at the end of a unit where there are units; a second one ends
    the program at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, _frame: object) -> None:
        if _Stopping.asked is not None:
            os._exit(128 + number)
        _Stopping.asked = number
        if not _Stopping.units:
            raise Stopped(number)

    _Stopping.asked = None
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        if _Stopping.asked is None:  # else the program ends, and a second signal ends it at once
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def in_units() -> Iterator[Callable[[], None]]:
    """Work in units, each of which is finished: it stops where it calls what this yields.

    >>> with in_units() as may_stop:
    ...     may_stop()
    """

    def may_stop() -> None:
        if _Stopping.asked is not None:
            raise Stopped(_Stopping.asked)

    _Stopping.units += 1
    try:
        yield may_stop
    finally:
        _Stopping.units -= 1
