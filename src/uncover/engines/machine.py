"""The door to the compiled kernels: loaded on the first call, and None where there are none."""

import warnings
from functools import cache

from uncover.engines.kernels import Kernels, load


@cache
def machine_code() -> Kernels | None:
    """The compiled kernels, or None where they cannot be loaded, which is said once."""
    try:
        return load()
    except OSError as problem:
        warnings.warn(
            f"predictions run in NumPy, several times slower, for there are no compiled kernels: {problem}. "
            "To compile them: python -m uncover.engines.kernels.build (with a C compiler, or ziglang from pip)",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
