"""Warnings that point to the line of the caller's own code, however deep in this package they arise."""

import sys
import warnings


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the first line outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "uncover":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
