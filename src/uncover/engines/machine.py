"""The door to the compiled kernels: loaded on the first call, and None where there are none."""

from functools import cache

from uncover.engines.kernels import Kernels, load
from uncover.warn import warn


@cache
def machine_code() -> Kernels | None:
    """The compiled kernels, or None where they cannot be loaded, which is said once.

    >>> machine_code() is machine_code()
    True
    """
    try:
        return load()
    except OSError as problem:
        warn(
            f"Predictions run in NumPy, several times slower: compiled kernels cannot be loaded ({problem}). "
            "`python -m uncover.engines.kernels` compiles them; it needs a C compiler, or ziglang from pip.",
            RuntimeWarning,
        )
        return None
