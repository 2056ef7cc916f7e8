"""Statistical checks by simulation: intervals, realisations, labels; and the benchmark that runs them all."""

from collections.abc import Callable
from itertools import chain

from benchmarks import statistics_typicality
from benchmarks.registry import Table, benchmark

# Each takes ``quick`` and returns one table.
CHECKS: list[Callable[[bool], Table]] = []


@benchmark("statistics")
def statistics(quick):
    """Return the tables of all checks, those of this module first."""
    return [check(quick) for check in chain(CHECKS, statistics_typicality.CHECKS)]
