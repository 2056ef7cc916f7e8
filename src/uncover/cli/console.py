"""Messages on the terminal: progress as a bar, or lines in a pipe; errors and warnings in one line each."""

from __future__ import annotations

import errno
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def bar(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on a terminal; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as shown:

        def show(done: int, total: int) -> None:
            shown.length = total
            shown.update(done - shown.pos)

        yield show


@contextmanager
def pixel_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with pixels per second and the time left on a terminal; now and then a line in a pipe."""
    pace = _Pace()
    if not sys.stderr.isatty():
        yield partial(_line_now_and_then, label, pace)
        return
    with click.progressbar(
        length=1, label=label, file=sys.stderr, item_show_func=_speed_or_beginning
    ) as shown:

        def show(done: int, total: int) -> None:
            shown.length = total
            shown.update(done - shown.pos, f"{pace.speed(done):,.0f} pixels/s")

        yield show


def _speed_or_beginning(speed: str | None) -> str:
    return speed or "beginning: up to a minute of compiling, the first time"


@contextmanager
def counter(label: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal; now and then a line in a pipe, for work that takes hours."""
    with bar(label) as show:
        if show is not None:
            yield show
            return
        pace = _Pace()

        def speak(done: int, total: int) -> None:
            speed = pace.speed(done)
            if pace.time_to_speak():
                left = f", {(total - done) / speed:,.0f} s left" if speed > 0 else ""
                click.echo(f"{label}: {done:,} of {total:,}{left}", err=True)

        yield speak


def _line_now_and_then(label: str, pace: _Pace, done: int, total: int) -> None:
    speed = pace.speed(done)
    if pace.time_to_speak():
        left = f", {(total - done) / speed:,.0f} s left" if speed > 0 else ""
        click.echo(f"{label}: {done:,} of {total:,} pixels, {speed:,.0f} pixels/s{left}", err=True)


class _Pace:
    """How fast pieces of work come; what an earlier run had done does not count as speed of this one."""

    def __init__(self) -> None:
        self._began = self._spoke = time.monotonic()
        self._first: int | None = None

    def speed(self, done: int) -> float:
        """Pieces per second since the beginning."""
        if self._first is None:
            self._first = done
        return (done - self._first) / max(time.monotonic() - self._began, 1e-6)

    def time_to_speak(self) -> bool:
        """Whether the last line in a pipe is long enough ago."""
        now = time.monotonic()
        if now - self._spoke < _SECONDS_BETWEEN_LINES:
            return False
        self._spoke = now
        return True


def say(step: str) -> None:
    """Say what goes on, to a person at a terminal and to nobody else."""
    if sys.stderr.isatty():
        click.echo(click.style(f"… {step}", dim=True), err=True)


class PlainGroup(click.Group):
    """Commands whose errors and warnings a person can read, in the order in which they were added.

    What is wrong with the input, the disk or the installation is one line and exit code 1; how a command is
    called wrongly is exit code 2, by click. Anything else is a mistake of ours and shows where it happened.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: D102
        with _plainly():
            return super().invoke(ctx)


@contextmanager
def _plainly() -> Iterator[None]:
    def show(message: Warning | str, *_: object, **__: object) -> None:
        click.echo(f"Warning: {_one_line(message)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        try:
            yield
        except (ValueError, OSError, ImportError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read what we print has gone: click leaves quietly
            raise click.ClickException(_one_line(error)) from None


def _one_line(message: object) -> str:
    if isinstance(message, OSError) and message.strerror and message.filename:
        return f"{message.filename}: {message.strerror}"
    return " ".join(str(message).split())
