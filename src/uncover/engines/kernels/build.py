"""Compile the kernels into a shared library: by the C compiler of the system, or by that of the package ziglang.

`python -m uncover.engines.kernels.build` compiles them in place; an installation from source does the same. This
file imports nothing of the package, so that an installation can run it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
_OPTIONS = [
    "-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Wno-psabi", "-Wno-unused-function",
    "-Wno-unused-const-variable", "-Wno-unknown-pragmas", "-Wno-unknown-warning-option",
]  # fmt: skip
_AVX2 = ["-mavx2", "-mfma", "-mbmi", "-mbmi2"]
_AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mprefer-vector-width=512"]
#: Options of the levels of each processor, by what its name begins with.
LEVELS = {
    "x86": {"2": ["-msse4.2"], "3": _AVX2, "4": [*_AVX2, *_AVX512]},
    "other": {"0": []},
}


def levels(machine: str = "") -> dict[str, list[str]]:
    """Levels of a processor, this one by default, and the options of the compiler for each."""
    machine = (machine or platform.machine()).lower()
    return LEVELS["x86" if machine in ("x86_64", "amd64") else "other"]


def library(folder: Path = FOLDER) -> Path:
    """File of the compiled kernels."""
    return folder / f"kernels{'.dll' if sys.platform == 'win32' else '.so'}"


def sources(folder: Path = FOLDER) -> str:
    """Digest of the sources: a library that was made of others does not fit."""
    digest = hashlib.sha256()
    for file in sorted([*folder.glob("*.c"), *folder.glob("*.h")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def compiler() -> list[str] | None:
    """Command of a C compiler: $CC, that of the package ziglang, or the first of the system; None without one."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    found = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    return None if found is None else [found]


def build(command: Sequence[str], target: Path | None = None, machine: str = "") -> Path:
    """Compile all kernels with a compiler, two files for each level at the same time, and link them."""
    target = target or library()
    mark = f'-DSOURCES="{sources()}"'
    with tempfile.TemporaryDirectory() as room:
        jobs = [["levels.c", mark, "-o", f"{room}/levels.o"]]
        for level, options in levels(machine).items():
            for precision in ("SINGLE", "TWICE"):
                given = [*options, f"-DLEVEL={level}", f"-D{precision}"]
                jobs.append(["kernels.c", *given, "-o", f"{room}/{precision}{level}.o"])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda job: _run([*command, *_OPTIONS, "-c", *job]), jobs))
        made = Path(room) / target.name
        _run([*command, "-shared", "-o", str(made), *(job[-1] for job in jobs), "-lm"])
        # A library that is in use keeps its file; the new one takes its name.
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.copyfile(made, fresh)
        fresh.replace(target)
    return target


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command[:3])} … failed: {done.stderr.strip()[-2000:]}")


def main() -> None:
    """Compile the kernels in place."""
    command = compiler()
    if command is None:
        sys.exit("no C compiler was found: install one, or `pip install ziglang`, or name one by the variable CC")
    try:
        print(build(command))
    except OSError as problem:
        sys.exit(f"the kernels could not be compiled: {problem}")


if __name__ == "__main__":
    main()
