"""The libraries that only reports need, and what to do where they are missing."""

from importlib.util import find_spec


def require_report(*names: str) -> None:
    """Raise ImportError with a remedy where a library is missing.

    >>> require_report("no_such_library")
    Traceback (most recent call last):
    ...
    ImportError: reports need no_such_library, which is not installed; run pip install 'uncover[report]'
    """
    for name in names:
        if find_spec(name) is None:
            raise ImportError(
                f"reports need {name}, which is not installed; run pip install 'uncover[report]'"
            )
