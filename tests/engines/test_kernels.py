"""Compiled kernels: right to rounding on every level of instructions, and absent ones."""

import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from class_cases import Classes, every_world
from numpy.testing import assert_allclose, assert_array_equal

from uncover.engines import class_densities, kernels, machine
from uncover.engines.kernels import Kernels, build, load

KINDS = pytest.mark.parametrize("kind", [np.float32, np.float64])
#: Levels that this processor has: on x86-64, a newer one has the instructions of the older ones.
LEVELS = [level for level in build.levels() if int(level) <= int(load().level)]


@pytest.fixture(params=LEVELS)
def code(request):
    return Kernels(build.library(), request.param)


# ---- functions and levels --------------------------------------------------------------------------


@KINDS
def test_functions_are_right_to_rounding(code, kind):
    x = np.concatenate([[0.0], np.geomspace(1e-12, 80.0, 511)]).astype(kind)
    out = np.empty((3, len(x)), kind)
    code.functions(x, out)
    exact = x.astype(np.longdouble)
    expected = np.exp(-exact), np.log1p(exact), -np.expm1(-exact)
    # The last is a difference where the series ends, which takes digits.
    bounds = np.finfo(kind).eps * np.array([3, 3, 30 if kind == np.float32 else 2000])
    for found, truth, bound in zip(out, expected, bounds, strict=True):
        assert_allclose(found, truth.astype(np.float64), rtol=bound, atol=0)


@KINDS
@pytest.mark.parametrize("p", [1, 2, 7, 8, 9, 16, 19])
def test_all_levels_say_the_same(code, kind, p, monkeypatch):
    rng = np.random.default_rng(p)
    classes = Classes.random(rng, p, 3, 2)
    X, densities = classes.draw(rng, 333, 2).astype(kind), classes.densities
    pairs, planes = every_world(densities, 2), np.ascontiguousarray(X.transpose(1, 2, 0))
    monkeypatch.setattr(class_densities, "_FEW", 0)

    def results(kernels):
        monkeypatch.setattr(class_densities, "machine_code", lambda: kernels)
        return [densities.probability(X, pairs), *densities.summarise(planes, pairs)]

    found, best = results(code), results(load())
    bound, truth = 1e-5 if kind == np.float32 else 1e-12, classes.probability(X, pairs)
    assert_allclose(found[0], truth, rtol=0, atol=bound)
    for one, other in zip(found, best, strict=True):
        if int(code.level) >= 3:  # products and sums are fused on these, and only there
            assert_array_equal(one, other)
        assert_allclose(one, other, rtol=0, atol=1e-4 if kind == np.float32 else 1e-10)


def test_a_kernel_refuses_arrays_that_it_would_misread():
    planes, where, out = np.zeros((2, 6)), np.arange(3), np.empty((2, 3))
    load().gather(planes, where, out)
    planes[:] = np.arange(12).reshape(2, 6)
    load().gather(planes, np.arange(6)[::2], out)  # what is read may lie anywhere
    assert_array_equal(out, planes[:, ::2])
    with pytest.raises(TypeError, match="gather takes contiguous arrays of i8, got int32"):
        load().gather(planes, where.astype(np.int32), out)
    with pytest.raises(TypeError, match="gather takes contiguous"):
        load().gather(planes, where, np.empty((2, 6))[:, ::2])
    with pytest.raises(TypeError, match="does not take such arrays"):
        load().count(np.zeros((1, 3)), np.zeros((1, 3), np.int64))


# ---- where there are none --------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A library of its own, which is the one that is loaded."""
    file = tmp_path / "kernels.so"
    monkeypatch.setattr(kernels, "library", lambda: file)
    machine.machine_code.cache_clear()
    yield file
    machine.machine_code.cache_clear()


def of_another_version():
    return build.library().read_bytes().replace(build.sources().encode(), b"0123456789abcdef")


def of_another_processor():
    content = bytearray(build.library().read_bytes())
    content[18:20] = b"\xf3\x00"  # the machine of an ELF file: RISC-V
    return bytes(content)


@pytest.mark.skipif(sys.platform != "linux", reason="the file is altered as ELF")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "they were not compiled"),
        (of_another_version, "they were compiled from the sources of another version"),
        (of_another_processor, "cannot open shared object file|invalid ELF|wrong ELF"),
        (lambda: b"", "file too short"),
    ],
)
def test_without_a_library_that_fits_numpy_predicts_and_that_is_said_once(place, content, why):
    if content is not None:
        place.write_bytes(content())
    with pytest.warns(RuntimeWarning, match=f"Predictions run in NumPy, several times slower: .*({why})"):
        assert machine.machine_code() is None
    rng = np.random.default_rng(0)
    classes = Classes.random(rng, 4, 3)
    X = classes.draw(rng, 5000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = classes.densities.probability(X, classes.densities.pairs(1))
    assert_allclose(found, classes.probability(X, classes.densities.pairs(1)), atol=1e-12)


def test_an_old_processor_has_no_kernels(monkeypatch):
    monkeypatch.setattr(kernels, "levels", lambda: {"9": []})
    with pytest.raises(OSError, match="too old"):
        load()


# ---- compiling -------------------------------------------------------------------------------------

#: Writes its name to what `-o` names, as slowly as a compiler.
COMPILER = """#!/bin/sh
while [ "$1" != "-o" ]; do shift; done
for i in 1 2 3 4 5 6 7 8; do echo "$0" >> "$2"; sleep 0.01; done
"""


def compiler_of(folder: Path, name, text=COMPILER):
    file = folder / name
    file.write_text(text)
    file.chmod(0o755)
    return [str(file)]


def test_without_a_compiler_one_line_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="no C compiler was found: install one, or `pip install ziglang`"):
        build.main()


def test_ziglang_compiles_where_nothing_else_does(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build, "find_spec", lambda name: object())
    assert build.compiler() == [sys.executable, "-m", "ziglang", "cc"]


def test_a_compiler_that_fails_says_why(monkeypatch, tmp_path):
    failing = compiler_of(tmp_path, "failing", "#!/bin/sh\necho no such option >&2; exit 1")
    monkeypatch.setenv("CC", failing[0])
    monkeypatch.setattr(build, "library", lambda: tmp_path / "kernels.so")
    with pytest.raises(SystemExit, match=r"could not be compiled: `.*failing.*` failed: no such option"):
        build.main()
    assert not (tmp_path / "kernels.so").exists()


def test_a_folder_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CC", compiler_of(tmp_path, "compiler")[0])
    monkeypatch.setattr(build, "library", lambda: tmp_path / "file" / "kernels.so")
    with pytest.raises(SystemExit, match=r"could not be compiled: .*file/kernels\.so"):
        build.main()


def test_two_that_compile_at_once_leave_one_whole_library(tmp_path):
    place = tmp_path / "kernels.so"
    both = [compiler_of(tmp_path, name) for name in ("one", "other")]
    threads = [threading.Thread(target=build.build, args=(command, place)) for command in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read_text() in [8 * f"{command[0]}\n" for command in both]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kernels.so", "one", "other"]


def test_the_compiler_of_this_machine_compiles_them(tmp_path, monkeypatch):
    command = build.compiler()
    if command is None:
        pytest.skip("there is no C compiler")
    oldest = LEVELS[0]
    monkeypatch.setattr(build, "levels", lambda machine, all=build.levels: {oldest: all(machine)[oldest]})
    made = Kernels(build.build(command, tmp_path / "kernels.so"), oldest)
    x, out = np.linspace(0.0, 5.0, 16), np.empty((3, 16))
    made.functions(x, out)
    assert_allclose(out[0], np.exp(-x), rtol=1e-15)


def test_the_command_compiles_in_place(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "uncover.engines.kernels"],
        env={**os.environ, "CC": "/nowhere/cc"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "the kernels could not be compiled: " in done.stderr and "/nowhere/cc" in done.stderr
