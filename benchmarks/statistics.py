"""Statistical checks by simulation: coverage of intervals, realisations, soft labels; tables from two modules."""

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
