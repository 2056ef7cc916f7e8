"""A stand-in for CuPy where there is no device: kernels are compiled for the processor, thread by thread.

It shows that kernels compute what they should, not that they do on a device: there is one thread a block.
"""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np

COMPILER = shutil.which("g++")
HEAD = r"""
#include <algorithm>
#include <cmath>
#include <cstring>
#define __device__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define __log2f std::log2
using std::max; using std::min; using std::sqrt; using std::exp; using std::log; using std::log1p;
static float rsqrtf(float x) { return 1 / std::sqrt(x); }
struct Three { unsigned x, y, z; };
static Three blockIdx, threadIdx, blockDim = {1, 1, 1}, gridDim = {4, 1, 1};
__attribute__((aligned(64))) unsigned char memory[1 << 19];
static void __syncthreads() {}
extern "C" void set_across(unsigned across) { gridDim.y = across; }
static unsigned atomicAdd(unsigned *at, unsigned n) { unsigned old = *at; *at += n; return old; }
"""
ENTRY = r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^{]*)\) \{'
ATTRIBUTES = {"MultiProcessorCount": 2, "MaxSharedMemoryPerBlockOptin": 232448}


class Array(np.ndarray):
    """An array that says it lies on a device."""

    __module__ = "cupy"

    def get(self):
        return np.array(self)


def _here(array):
    return np.ascontiguousarray(array).view(Array)


class RawKernel:
    """A kernel of the source, compiled for the processor when it is first called."""

    def __init__(self, code, name, options=()):
        self.code, self.name = code, name

    def __call__(self, grid, block, arguments, shared_mem=0):
        assert shared_mem <= ATTRIBUTES["MaxSharedMemoryPerBlockOptin"]
        library = _compiled(self.code, self.name)
        library.set_across(grid[1] if len(grid) > 1 else 1)
        function = getattr(library, f"call_{self.name}")
        function(*(_argument(each) for each in arguments))


@cache
def _compiled(code, wanted):
    place = Path(tempfile.mkdtemp()) / "kernels.so"
    source = HEAD + code
    for name, given in re.findall(ENTRY, code):
        if name != wanted:  # others may not be there in this problem
            continue
        given = given.replace("SOURCE", _macro(code, "SOURCE"), 1)
        passed = ", ".join(each.split()[-1].lstrip("*") for each in given.split(","))
        source += f"""
extern "C" void call_{name}({given}) {{
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
        for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {name}({passed});
}}"""
    file = place.with_suffix(".cpp")
    file.write_text(source)
    options = ["-O0", "-std=c++17", "-w", "-fPIC", "-shared", "-ffp-contract=off"]
    subprocess.run([COMPILER, *options, str(file), "-o", str(place)], check=True)
    return ctypes.CDLL(str(place))


def _macro(code, name):
    if f"#define {name} \\" not in code:
        return name
    lines = code[code.index(f"#define {name} \\") :].split("\n")
    found = []
    for line in lines[1:]:
        found.append(line.rstrip("\\ "))
        if not line.endswith("\\"):
            break
    return " ".join(found)


def _argument(value):
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    kinds = {np.int32: ctypes.c_int32, np.int64: ctypes.c_int64, np.uintp: ctypes.c_void_p,
             np.float32: ctypes.c_float, np.float64: ctypes.c_double}  # fmt: skip
    return kinds[type(value)](value.item())


def _module():
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError, memGetInfo=lambda: (1 << 26, 1 << 26)
    )
    device = SimpleNamespace(attributes=ATTRIBUTES, id=0, synchronize=lambda: None)
    return SimpleNamespace(
        asarray=lambda a, dtype=None: np.array(a, dtype, order="K").view(Array),
        ascontiguousarray=_here,
        empty=lambda shape, dtype=float: _poisoned(np.empty(shape, dtype)).view(Array),
        zeros=lambda shape, dtype=float: np.zeros(shape, dtype).view(Array),
        flatnonzero=lambda a: np.flatnonzero(a).view(Array),
        RawKernel=RawKernel,
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        cuda=SimpleNamespace(
            Device=lambda *_: device,
            runtime=runtime,
            get_current_stream=lambda: device,
            Stream=lambda **_: nullcontext(),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        ),
    )


def _poisoned(array):
    array.view(np.uint8)[...] = 0xFF
    return array


@contextmanager
def emulated():
    """Let kernels run on the processor."""
    from uncover.engines import cuda

    with mock.patch.dict(sys.modules, {"cupy": _module()}):
        for each in (cuda._given, cuda._compiled, cuda.pool_kernel):
            each.cache_clear()
        yield sys.modules["cupy"]
        for each in (cuda._given, cuda._compiled, cuda.pool_kernel):
            each.cache_clear()


def device():
    """CuPy, if it is installed and there is a device."""
    try:
        import cupy

        return cupy if cupy.cuda.runtime.getDeviceCount() else None
    except Exception:
        return None
