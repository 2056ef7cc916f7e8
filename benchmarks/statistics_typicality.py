"""Statistical checks by simulation: typicality and the uncertainty budget, for benchmarks.statistics."""

from collections.abc import Callable

from benchmarks.registry import Table

# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = []
