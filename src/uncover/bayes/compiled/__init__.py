"""Machine code for the fast path, by numba: blocks of points, features first, that never leave the cache.

What it computes, and how, is said in :mod:`uncover.bayes.kernels`; here are loops only. Their innermost
values are lanes (:mod:`uncover.bayes.compiled.lanes`), one point each, and the points of a block are padded
to whole lanes, so that a point's result does not depend on its neighbours.
"""

from uncover.bayes.compiled.stale import forget_stale_code

forget_stale_code()

from uncover.bayes.compiled.moments import grouped_moments  # noqa: E402
from uncover.bayes.compiled.probabilities import average_probability  # noqa: E402
from uncover.bayes.compiled.summaries import summarise  # noqa: E402
from uncover.bayes.compiled.weighing import BLOCK  # noqa: E402

__all__ = ["BLOCK", "average_probability", "grouped_moments", "summarise"]
