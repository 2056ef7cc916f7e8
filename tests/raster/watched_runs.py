"""Runs of the command line in processes of their own that can be killed in a chosen phase."""

import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

from uncover.cli import main
from uncover.pipeline import map_files
from uncover.raster.scratch import Scratch

#: What a map goes through, in this order; a dataset takes the place of the four GeoTIFFs.
PHASES = (
    "opening", "units", "uncertainty.tif", "probability.tif", "class.tif", "quality.tif", "dataset",
    "overview.png", "items", "rename", "clean up",
)  # fmt: skip


class WatchedRun:
    """A command in a forked process, which says before each phase that it begins, and waits for a word."""

    def __init__(self, *arguments):
        self._said, said = os.pipe()
        go, self._go = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            _run([str(argument) for argument in arguments], said, go)
        os.close(said)
        os.close(go)

    def next_phase(self):
        """The phase that the process waits before; None when it is over."""
        name = b""
        while not name.endswith(b"\n"):
            ready, _, _ = select.select([self._said], [], [], 120)
            assert ready, "the run has been silent for two minutes"
            letter = os.read(self._said, 1)
            if not letter:
                return None
            name += letter
        return name.decode().strip()

    def let_go(self):
        """Let it enter the phase."""
        os.write(self._go, b".")

    def end(self, kill=True):
        """Kill it, or wait for it; its exit code, negative for a signal."""
        if kill:
            os.kill(self._process, signal.SIGKILL)
        _, status = os.waitpid(self._process, 0)
        os.close(self._said)
        os.close(self._go)
        return os.waitstatus_to_exitcode(status)


def rehearse(*arguments):
    """An undisturbed run: seconds that each phase takes."""
    run, begun = WatchedRun(*arguments), {}
    while (phase := run.next_phase()) is not None:
        begun[phase] = time.monotonic()
        run.let_go()
    ends = [*begun.values(), time.monotonic()][1:]
    assert run.end(kill=False) == 0
    return {phase: end - start for (phase, start), end in zip(begun.items(), ends, strict=True)}


def killed_in(phase, seconds, *arguments):
    """Kill a run so long after it enters a phase, or at the first phase after it; where it was killed."""
    run = WatchedRun(*arguments)
    while (now := run.next_phase()) is not None and PHASES.index(now) < PHASES.index(phase):
        run.let_go()
    assert now is not None, f"the run was over before {phase}"
    if now == phase and seconds > 0:
        run.let_go()
        time.sleep(seconds)
    assert run.end() == -signal.SIGKILL
    return now


def _run(arguments, said, go):
    """The command in the child: it never returns."""
    code, entered = 70, set()

    def enter(phase):
        if phase is not None and phase not in entered:
            entered.add(phase)
            os.write(said, f"{phase}\n".encode())
            os.read(go, 1)

    def announced(function, phase_of):
        def call(*args, **options):
            enter(phase_of(args))
            return function(*args, **options)

        return call

    try:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        for owner, name, phase_of in _HOOKS:
            setattr(owner, name, announced(getattr(owner, name), phase_of))
        enter("opening")
        main(arguments, prog_name="uncover")
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        os._exit(code)


_HOOKS = (
    (Scratch, "put", lambda args: "units"),
    (map_files, "write_cog", lambda args: args[0].name),
    (map_files, "write_dataset", lambda args: "dataset"),
    (map_files, "write_overview", lambda args: "overview.png"),
    (map_files.Finish, "_items", lambda args: "items"),
    (Path, "rename", lambda args: "rename"),
    (shutil, "rmtree", lambda args: "clean up" if str(args[0]).endswith(".partial") else None),
)
