"""Compile the kernels into a shared library, by the C compiler of the system or that of the package ziglang.

`python -m uncover.engines.kernels` compiles them in place; an installation from source does the same by
`hatch_build.py`. This file imports nothing of the package, so that an installation can run it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
_OPTIONS = [
    "-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-function",
    "-Wno-unused-const-variable", "-Wno-unknown-pragmas", "-Wno-unknown-warning-option",
]  # fmt: skip
_AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2"]
_AVX512 = [*_AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"]
#: Options of the compiler for each level of instructions, of x86-64 and of all other processors.
_X86, _OTHER = {"2": ["-msse4.2"], "3": _AVX2, "4": _AVX512}, {"0": list[str]()}


def levels(machine: str = "") -> dict[str, list[str]]:
    """Levels of a processor, this one by default, and the options of the compiler for each."""
    return _X86 if (machine or platform.machine()).lower() in ("x86_64", "amd64") else _OTHER


def library() -> Path:
    """File of the compiled kernels."""
    return FOLDER / f"kernels{'.dll' if sys.platform == 'win32' else '.so'}"


def sources() -> str:
    """Digest of the sources: a library that was made of others does not fit."""
    digest = hashlib.sha256()
    for file in sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h"), Path(__file__)]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def compiler() -> list[str] | None:
    """Command of a C compiler: $CC, that of the system, or that of the package ziglang; None without one."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    found = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if found is not None:
        return [found]
    return ziglang() if find_spec("ziglang") is not None else None


def ziglang(target: str = "") -> list[str]:
    """Command of the compiler in the package ziglang, for a target like x86_64-linux-gnu.2.17."""
    return [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]


def build(command: Sequence[str], place: Path | None = None, machine: str = "") -> Path:
    """Compile all kernels, each level in both precisions at the same time, and link them into one library."""
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    place = place or library()
    with tempfile.TemporaryDirectory() as room:
        jobs = [["levels.c", f'-DSOURCES="{sources()}"', "-o", f"{room}/levels.o"]]
        for level, options in levels(machine).items():
            for precision in ("SINGLE", "TWICE"):
                given = [*options, f"-DLEVEL={level}", f"-D{precision}"]
                jobs.append(["kernels.c", *given, "-o", f"{room}/{precision}{level}.o"])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda job: _run([*command, *_OPTIONS, "-c", *job], room), jobs))
        _run([*command, "-shared", "-o", f"{room}/made", *(job[-1] for job in jobs), "-lm"], room)
        # A library that is in use keeps its file; the new one takes its name.
        fresh = place.with_name(f"{place.name}.{os.getpid()}")
        shutil.copyfile(f"{room}/made", fresh)
        fresh.replace(place)
    return place


def _run(command: Sequence[str], room: str) -> None:
    import subprocess

    caches = {"ZIG_GLOBAL_CACHE_DIR": room, "ZIG_LOCAL_CACHE_DIR": room}  # those of the user may be closed
    done = subprocess.run(
        command, cwd=FOLDER, env={**os.environ, **caches}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(f"`{' '.join(command[:4])} …` failed: {done.stderr.strip()[-2000:]}")


def main() -> None:
    """Compile the kernels in place."""
    command = compiler()
    if command is None:
        sys.exit(
            "no C compiler was found: install one, or `pip install ziglang`, or name one by the variable CC"
        )
    try:
        print(build(command))
    except OSError as problem:
        sys.exit(f"the kernels could not be compiled: {problem}")
