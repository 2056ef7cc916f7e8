"""What goes wrong with the input, as one line and an exit code; the same for every command."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


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
