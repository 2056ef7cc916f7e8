"""Machine code by numba: blocks of points, features first, that never leave the cache.

The formulas are those of :mod:`uncover.bayes`; here are loops only. Their innermost values are vectors
(:mod:`uncover.engines.compiled.simd`), one point in each lane, and the points of a block are padded to whole
vectors, so that a point's result does not depend on its neighbours.
"""

from uncover.engines.compiled.stale import forget_stale_code

forget_stale_code()

from uncover.engines.compiled import pixels  # noqa: E402
from uncover.engines.compiled.budget import conclude  # noqa: E402
from uncover.engines.compiled.members import kernel_sums, sums_of_leaves  # noqa: E402
from uncover.engines.compiled.moments import grouped_moments  # noqa: E402
from uncover.engines.compiled.noise import read as read_with_noise  # noqa: E402
from uncover.engines.compiled.probabilities import average_probability  # noqa: E402
from uncover.engines.compiled.scores import BLOCK  # noqa: E402
from uncover.engines.compiled.summaries import summarise  # noqa: E402
from uncover.engines.compiled.worlds import best_in_worlds  # noqa: E402

__all__ = [
    "BLOCK",
    "average_probability",
    "best_in_worlds",
    "conclude",
    "grouped_moments",
    "kernel_sums",
    "pixels",
    "read_with_noise",
    "summarise",
    "sums_of_leaves",
]
