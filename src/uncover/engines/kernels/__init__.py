"""Compiled kernels: C in a shared library, called without Python's lock.

The formulas are those of :mod:`uncover.bayes`; here are loops over blocks of points, features first, that
never leave the cache. Their innermost values are vectors, one point in each lane, and the points of a block
are padded to whole vectors, so that a point's result does not depend on its neighbours.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from uncover.engines.kernels.build import levels, library, sources

# Kinds of the arguments of each kernel, those of tuples one by one. Of arrays: r is the floating-point type
# that the kernel is called with, * any type, the others are as in NumPy; ! says that the kernel writes to it.
# Of numbers: i is a whole one, x any.
_DENSITIES, _EXACT, _COMPONENTS = 14 * ["r"], 14 * ["f8"], ["i8", "f8"]
_NOISY_PIXELS = ["*", "f8", "f8", "i"]
_KINDS = {
    "average_probability": ["r", "i8", "i8", *_DENSITIES, *_EXACT, *_COMPONENTS, "i", "r!"],
    "summarise": [
        *["*", "f8", "f8", "r", "f8", "i8", "i8"], *_DENSITIES, *_EXACT, *_DENSITIES, "i", *_COMPONENTS, "i",
        *["r!", "r!", "r!", "r!", "u1!"],
    ],
    "conclude": ["r", "r", "r", "r", "u1", "r!", "f8!", "u1!"],
    "read_with_noise": [
        *_NOISY_PIXELS, *4 * ["f8"], "i", *5 * ["f8"], *_EXACT, *_EXACT, *_COMPONENTS, *5 * ["f8"],
        *["i", "i", "i8", "f8"], *["x", "x", "x", "x", "i"], *5 * ["f8!"],
    ],
    "best_in_worlds": [*_NOISY_PIXELS, *4 * ["f8"], *_EXACT, *_COMPONENTS, "i8", "u1!"],
    "f_tails": ["f8", "f8", "f8", "f8!"],
    "functions": ["r", "r!"],
    "grouped_moments": ["r", "i4", "f8", *4 * ["f8!"]],
    "kernel_sums": ["r", "r", "r", "r", "i8", "f8!", "f8!"],
    "sums_of_leaves": ["f4", "i8", "f4", "i8", "f8", "f8!"],
    "squared_distances": ["f8", "f8", "f8", "i", "i", "f8!"],
    "temper": ["f8", "x", "f8", "f8!", "f8!", "u1!"],
    "pool_answers": [*4 * ["f8"], "f8!", "f8!"],
    "pool_views": ["f8", "f8", "f8", "f8!", "f8!"],
    "gather": ["*", "i8", "*!"],
    "put_steps": ["r", "x", "i", "i8", "u2!", "u2!"],
    "mark": ["u1", "r", "f8", "r", "x", "x", "x", "u2", "u1", "i8", "u1!", "u2!"],
    "add_areas": ["f8!", "u1", "u1", "f8", "i8"],
    "calibrate": ["*", "x", "x", "x", "x", "i", "f4!", "u2!"],
    "complete": ["f4", "i", "i", "u2!"],
    "count": ["*", "i8!"],
}  # fmt: skip
_AXES = 4


class Kernels:
    """Kernels for one level of instructions: each is called like a function of its name."""

    def __init__(self, file: Path, level: str = "") -> None:
        self._library = ctypes.CDLL(str(file))
        self._library.uncover_sources.restype = ctypes.c_char_p
        made_of = self._library.uncover_sources().decode()
        if made_of != sources():
            raise OSError("they were compiled from the sources of another version")
        self.level = level or str(self._library.uncover_level())
        if self.level not in levels():
            raise OSError("this processor is too old for them")

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in _KINDS:
            raise AttributeError(name)
        kinds = _KINDS[name]

        def call(*arguments: Any) -> None:
            """Check the arguments and run the kernel: what it writes to is among them."""
            leaves = list(zip(_leaves(arguments), kinds, strict=True))
            real = next((_kind_of(leaf.dtype)[0] for leaf, kind in leaves if kind == "r"), "f8")
            ready = [_ready(name, leaf, kind, real) for leaf, kind in leaves]
            words = [word for each in ready for word in _words(each)]
            function = self._library[f"{name}_{'f32' if real == 'f4' else 'f64'}_{self.level}"]
            if failed := function((ctypes.c_int64 * len(words))(*words)):
                raise MemoryError(name) if failed == 1 else TypeError(f"{name} does not take such arrays")

        self.__dict__[name] = call
        return call


def _leaves(arguments: Any) -> Iterator[Any]:
    """Arrays and numbers of tuples; None stands for the two arrays of components that there are not."""
    for each in arguments:
        if each is None:
            yield from (None, None)
        elif isinstance(each, tuple):
            yield from _leaves(each)
        else:
            yield each


@cache
def _kind_of(dtype: np.dtype[Any]) -> tuple[str, int]:
    """Name of a type without its byte order, and its number for the kernels."""
    return dtype.str[1:], ord(dtype.kind) << 8 | dtype.itemsize


def _ready(name: str, leaf: Any, kind: str, real: str) -> Any:
    """An argument as its kind: a number, or a contiguous array; what is only read may be copied."""
    if leaf is None:
        return None
    if kind in "ix":
        return int(leaf) if kind == "i" else float(leaf)
    wanted, written = kind.rstrip("!").replace("r", real), kind.endswith("!")
    array = leaf if written else np.ascontiguousarray(leaf)
    fits = array.flags.c_contiguous and array.ndim <= _AXES and array.dtype.isnative
    if wanted not in ("*", _kind_of(array.dtype)[0]) or not fits:
        raise TypeError(f"{name} takes contiguous arrays of {wanted}, got {leaf.dtype} {leaf.strides}")
    return array


def _words(argument: Any) -> list[int]:
    """An argument as whole numbers of 64 bits, as `Array` of common.h has them."""
    if argument is None:
        return [0, 0, *_AXES * [0]]
    if isinstance(argument, int):
        return [argument]
    if isinstance(argument, float):
        return list(struct.unpack("q", struct.pack("d", argument)))
    shape = (*argument.shape, *(_AXES - argument.ndim) * (1,))
    return [argument.ctypes.data, _kind_of(argument.dtype)[1], *shape]


def load() -> Kernels:
    """Kernels for this processor; an OSError says why there are none."""
    file = library()
    if not file.exists():
        raise OSError("they were not compiled")
    return Kernels(file)


__all__ = ["Kernels", "load"]
