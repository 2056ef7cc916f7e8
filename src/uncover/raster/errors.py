"""Exceptions and warnings about files; a message is one line, ready to be shown to a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from uncover.files import shortened


class SceneError(ValueError):
    """The input cannot be used as asked; the message says what came, what is needed and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class ReadError(SceneError):
    """A file is damaged, truncated or unreadable. It never turns into zeros."""


class ChangedError(SceneError):
    """An input is not what it was when it was opened: what was computed of it must not be kept."""


class NoScaleError(SceneError):
    """Whole numbers came, and nobody states how they become reflectance."""


def require(*modules: str, extra: str = "maps") -> None:
    """Say what to install where a library is missing.

    >>> require("numpy")
    >>> require("a_library_that_nobody_has")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.SceneError: a_library_that_nobody_has is not installed; it comes with
    pip install "uncover[maps]"
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            raise SceneError(
                f'{module} is not installed; it comes with pip install "uncover[{extra}]"'
            ) from error


@contextmanager
def damaged(name: str) -> Iterator[None]:
    """Turn whatever a damaged file makes a parser stumble over into one line that names the file.

    >>> with damaged("MTD_TL.xml"):
    ...     float("2.3.4")
    Traceback (most recent call last):
    ...
    uncover.raster.errors.ReadError: MTD_TL.xml is damaged (could not convert string to float: '2.3.4'); ...
    """
    try:
        yield
    except SceneError:
        raise
    except ImportError:
        raise
    except Exception as error:  # parsers raise what they please
        raise ReadError(f"{name} is damaged ({shortened(str(error))}); fetch it again") from error


class OffsetWarning(UserWarning):
    """The numbers look as if the radiometric offset had been left in, or the scale were another one."""
