"""Machine code by numba: blocks of points, features first, that never leave the cache.

The formulas are those of :mod:`uncover.bayes`; here are loops only. Their innermost values are vectors
(:mod:`uncover.engines.compiled.simd`), one point in each lane, and the points of a block are padded to whole
vectors, so that a point's result does not depend on its neighbours.
"""

import hashlib
from pathlib import Path


def forget_stale_code(folder: Path = Path(__file__).parent) -> None:
    """Remove machine code that was not made from the sources as they are now.

    numba looks at the file of a function only, not at those of the functions that it calls; after an
    upgrade it would run old code, or fail to load it. A folder that cannot be written is left alone: then
    numba keeps its cache elsewhere.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "__pycache__").mkdir()
    >>> code = folder / "__pycache__" / "module.function.nbc"
    >>> code.touch()
    >>> forget_stale_code(folder)
    >>> code.exists()
    False
    """
    cache = folder / "__pycache__"
    sources = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        sources.update(file.read_bytes())
    mark = cache / "sources.sha256"
    try:
        if mark.exists() and mark.read_text(encoding="ascii") == sources.hexdigest():
            return
        for pattern in ("*.nbi", "*.nbc"):
            for file in cache.glob(pattern):
                file.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        mark.write_text(sources.hexdigest(), encoding="ascii")
    except OSError:
        return


forget_stale_code()

from uncover.engines.compiled.loops import (  # noqa: E402
    add_areas,
    calibrate,
    complete,
    count,
    gather,
    grouped_moments,
    kernel_sums,
    mark,
    put_steps,
    sums_of_leaves,
    temper,
)
from uncover.engines.compiled.noise import best_in_worlds  # noqa: E402
from uncover.engines.compiled.noise import read as read_with_noise  # noqa: E402
from uncover.engines.compiled.scores import BLOCK, average_probability  # noqa: E402
from uncover.engines.compiled.summaries import conclude, summarise  # noqa: E402

__all__ = [
    "BLOCK",
    "add_areas",
    "average_probability",
    "best_in_worlds",
    "calibrate",
    "complete",
    "conclude",
    "count",
    "gather",
    "grouped_moments",
    "kernel_sums",
    "mark",
    "put_steps",
    "read_with_noise",
    "summarise",
    "sums_of_leaves",
    "temper",
]
