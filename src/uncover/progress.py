"""Steps of long work: whoever computes names them, and whoever listens shows them."""

from __future__ import annotations

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
