"""Messages on the terminal: progress as a bar, or lines in a pipe; errors and warnings in one line each."""

from __future__ import annotations

import errno
import logging
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import click

from uncover.cli.far_files import with_far_files
from uncover.progress import Stopped, listening, stoppable

_SECONDS_BETWEEN_LINES, _SECONDS_BETWEEN_LOOKS = 60.0, 5.0
#: The rate is that of the last seconds; an estimate needs some of them, and some pieces.
_WINDOW, _LEAST, _PIECES = 15.0, 2.0, 8


class Watch:
    """Progress of a long command: `phase` names what goes on, a call says how much of it is done.

    A bar on a terminal, one line a minute in a pipe; with a unit also the rate and the time that is left.
    """

    def __init__(self, label: str, unit: str = "", shown: Any = None) -> None:
        self._label, self._unit, self._shown = label, unit, shown
        self._phase, self._amount, self._pace = "", "", _Pace()
        self._spoke = time.monotonic()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """Say what goes on now, and how much of it is done."""
        if name != self._phase:
            self._phase, self._pace, self._amount = name, _Pace(), ""
            if self._shown is not None:
                self._shown.label, self._shown.pos, self._shown.finished = f"{self._label}: {name}", 0, False
                self._shown.current_item = None  # the rate of the phase before
                self._shown.render_progress()
        if total:
            self(done, total)

    def __call__(self, done: int, total: int) -> None:
        """Show how much is done, of how much in all."""
        speed = self._pace.speed(done)
        rate = f"{speed:,.0f} {self._unit}/s, " if speed and self._unit else ""
        words = f"{rate}{_duration((total - done) / speed)} left" if speed else ""
        unit = f" {self._unit}" if self._unit else ""
        self._amount = f"{done:,} of {total:,}{unit}{', ' if words else ''}{words}"
        if self._shown is not None:
            self._shown.length = total
            self._shown.update(done - self._shown.pos, words)
        self.speak()

    def speak(self) -> None:
        """Write a line into a pipe, if the last one is a minute old."""
        if self._shown is None and time.monotonic() - self._spoke >= _SECONDS_BETWEEN_LINES:
            self._spoke = time.monotonic()
            what = ", ".join(filter(None, (self._phase, self._amount)))
            click.echo(f"{self._label}: {what or 'at work'}", err=True)


@contextmanager
def counter(label: str, unit: str = "") -> Iterator[Watch]:
    """The progress of one command, and of the steps that it does not count itself."""
    how: dict[str, Any] = {"show_eta": False, "item_show_func": lambda words: words}
    terminal = sys.stderr.isatty()
    with (
        click.progressbar(length=1, label=label, file=sys.stderr, **how)
        if terminal
        else nullcontext() as shown
    ):
        watch, ended = Watch(label, unit, shown), threading.Event()
        watch.phase("loading")  # modules, which takes seconds on a busy machine

        def remind() -> None:
            while not ended.wait(_SECONDS_BETWEEN_LOOKS):
                watch.speak()

        reminder = threading.Thread(target=remind, name="progress", daemon=True)
        reminder.start()
        try:
            with listening(watch.phase):
                yield watch
        finally:
            ended.set()
            reminder.join()


bar = counter


def pixel_bar(label: str) -> AbstractContextManager[Watch]:
    """A counter of pixels."""
    return counter(label, "pixels")


class _Pace:
    """Rate over the last seconds.

    What an earlier run had done, and the first piece, in which things are made once, do not count.
    """

    def __init__(self) -> None:
        self._start: int | None = None
        self._marks: deque[tuple[float, int]] = deque()
        self._pieces = 0

    def speed(self, done: int) -> float | None:
        """Pieces per second; None where that is not known yet."""
        now = time.monotonic()
        if self._start is None:
            self._start = done
        if done > self._start:
            self._marks.append((now, done))
            self._pieces += 1
        while len(self._marks) > 2 and self._marks[1][0] < now - _WINDOW:
            self._marks.popleft()
        if self._pieces < _PIECES or now - self._marks[0][0] < _LEAST:
            return None
        return (done - self._marks[0][1]) / (now - self._marks[0][0]) or None


def _duration(seconds: float) -> str:
    """Time in words.

    >>> _duration(8.4), _duration(200.0), _duration(8000.0)
    ('8 s', '3 min', '2.2 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def say(step: str) -> None:
    """Say what goes on, to a person at a terminal and to nobody else."""
    if sys.stderr.isatty():
        click.echo(click.style(f"… {step}", dim=True), err=True)


class PlainGroup(click.Group):
    """Commands whose errors and warnings a person can read, in the order in which they were added.

    What is wrong with the input, the disk or the installation is one line and exit code 1, and so is what we
    did not think of, with a hint to --debug, which shows where it happened. How a command is called wrongly
    is exit code 2, by click; a signal gives 128 and its number.
    """

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:  # noqa: D102
        if cmd.callback is not None:
            cmd.callback = with_far_files(cmd.callback)
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return list(self.commands)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:  # noqa: D102
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            _refuse_twice(click.Context(command, ctx, name), rest)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> Any:  # noqa: D102
        with _plainly(ctx.params["debug"]), stoppable():
            return super().invoke(ctx)


def _refuse_twice(ctx: click.Context, args: list[str]) -> None:
    """Refuse an option of one value that came twice, of which click would take the last without a word."""
    came = ctx.command.make_parser(ctx).parse_args(list(args))[2]
    once = [each for each in came if isinstance(each, click.Option) and not (each.multiple or each.is_flag)]
    twice = next((each for each in once if once.count(each) > 1), None)
    if twice is not None:
        name = max(twice.opts, key=len)
        line = f"{name} came {once.count(twice)} times, and takes one value; give it once"
        raise click.UsageError(line, ctx)


@contextmanager
def _plainly(debug: bool) -> Iterator[None]:
    said = set[str]()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := _one_line(message)) not in said:  # two places may look at one scene
            said.add(text)
            bar_off = "\r\x1b[K" if sys.stderr.isatty() else ""  # a bar may stand in the line
            click.echo(f"{bar_off}Warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        if not debug:  # what GDAL says besides is in the error's line
            logging.getLogger("rasterio").addHandler(logging.NullHandler())
        try:
            yield
        except Stopped as stop:
            click.echo("; ".join(filter(None, ("stopped", stop.advice))), err=True)
            sys.exit(128 + stop.number)
        except Exception as error:
            usual = (click.ClickException, click.exceptions.Exit, click.Abort)
            if debug or isinstance(error, usual) or getattr(error, "errno", None) == errno.EPIPE:
                raise  # EPIPE: whoever read what we print has gone, and click leaves quietly
            text = _one_line(error)
            if not isinstance(error, (ValueError, OSError, ImportError)):
                text = f"{type(error).__name__}: {text}; uncover --debug … shows where"
            raise click.ClickException(text) from None


def _one_line(message: object) -> str:
    from uncover.files import shortened

    if isinstance(message, OSError) and message.strerror and message.filename:
        return f"{shortened(str(message.filename))}: {message.strerror}"
    words = (shortened(word) for word in str(message).split())
    return shortened(" ".join(words), 460)
