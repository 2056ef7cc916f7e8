"""Messages on the terminal: progress as a bar, or lines in a pipe; errors and warnings in one line each."""

from __future__ import annotations

import errno
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import click

Progress = Callable[[int, int], None]  # done, in all

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def bar(label: str) -> Iterator[Progress | None]:
    """A bar on a terminal; nothing in a pipe."""
    with _shown(label) if sys.stderr.isatty() else nullcontext() as show:
        yield show


@contextmanager
def counter(label: str, unit: str = "") -> Iterator[Progress]:
    """A bar on a terminal, now and then a line in a pipe, for long work; with a unit also its speed."""
    with _shown(label, unit) if sys.stderr.isatty() else nullcontext(_lines(label, unit)) as show:
        yield show


def pixel_bar(label: str) -> AbstractContextManager[Progress]:
    """A counter of pixels."""
    return counter(label, "pixels")


@contextmanager
def _shown(label: str, unit: str = "") -> Iterator[Progress]:
    """A bar, which shows its speed where it has a unit."""
    pace = _Pace()
    told = (lambda speed: speed or "beginning: up to a minute of compiling, the first time") if unit else None
    with click.progressbar(length=1, label=label, file=sys.stderr, item_show_func=told) as shown:

        def show(done: int, total: int) -> None:
            shown.length = total
            shown.update(done - shown.pos, f"{pace.speed(done):,.0f} {unit}/s" if unit else None)

        yield show


def _lines(label: str, unit: str) -> Progress:
    """Progress as lines that are not too many."""
    pace = _Pace()

    def show(done: int, total: int) -> None:
        speed = pace.speed(done)
        if pace.time_to_speak():
            rate = f" {unit}, {speed:,.0f} {unit}/s" if unit else ""
            left = f", {(total - done) / speed:,.0f} s left" if speed > 0 else ""
            click.echo(f"{label}: {done:,} of {total:,}{rate}{left}", err=True)

    return show


class _Pace:
    """Speed of the work; what an earlier run had done does not count."""

    def __init__(self) -> None:
        self._began = self._spoke = time.monotonic()
        self._first: int | None = None

    def speed(self, done: int) -> float:
        """Pieces per second since the beginning."""
        if self._first is None:
            self._first = done
        return (done - self._first) / max(time.monotonic() - self._began, 1e-6)

    def time_to_speak(self) -> bool:
        """Return whether the last line in a pipe is long enough ago."""
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
