"""Changed inputs are read one after the other, those of each reader in a process that is watched."""

import multiprocessing
import os
import resource
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fuzzing import commands, folders  # noqa: F401 (their readers join the others)
from fuzzing.readers import HARNESSES, Refused
from uncover.cli.console import _one_line
from uncover.files import is_ours

#: An input may take so many seconds of the processor, a reader so many bytes, a line so many characters.
SECONDS, MEMORY, LINE = 5.0, 1 << 30, 500
#: One line each: what readers may raise.
EXPECTED = (ValueError, OSError, ImportError)


class NotMade(Exception):
    """A corpus that needs files that are not here."""


@dataclass
class Corpus:
    """The minimal files of a reader in a folder of their own, and how they are changed."""

    name: str
    folder: Path
    originals: dict = field(default_factory=dict)
    parts: list = field(default_factory=list)

    @classmethod
    def of(cls, name, folder):
        """Make the files."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = HARNESSES[name].make(folder)
        if not parts:
            raise NotMade(name)
        originals = {file: (folder / file).read_bytes() for file, _ in parts}
        return cls(name, folder, originals, parts)

    def read(self, seed, number):
        """Change one or two files, and read them: None, or what was raised. Input 0 is not changed."""
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        chosen = []
        for _ in range(0 if number == 0 else 1 + int(rng.integers(5) == 0)):
            file, how = self.parts[rng.integers(len(self.parts))]
            chosen.append(file)
            (self.folder / file).write_bytes(how(self.originals[file], rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                HARNESSES[self.name].read(self.folder)
        except Exception as error:
            return error
        finally:
            for file in chosen:
                (self.folder / file).write_bytes(self.originals[file])
        return None


def said(error):
    """Return whether a refusal has words for people: the package's, or the system's with a file's name."""
    named = isinstance(error, OSError) and error.filename is not None
    return named or isinstance(error, Refused) or is_ours(error)


def _work(name, seed, numbers, pipe):
    """Read inputs, and tell of each when it begins and how it ended."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # libraries complain of what they read
    with tempfile.TemporaryDirectory() as folder:
        try:
            corpus = Corpus.of(name, Path(folder))
        except NotMade:
            pipe.send(("absent", 0, "", 0))
            return
        except BaseException:
            pipe.send(("broken", 0, traceback.format_exc(), 0))
            return
        if (error := corpus.read(seed, 0)) is not None:
            pipe.send(("broken", 0, "".join(traceback.format_exception(error)), 0))
            return
        base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in numbers:
            pipe.send(("begins", number, "", time.process_time()))
            error = corpus.read(seed, number)
            used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            line = "" if error is None else _one_line(error)
            if error is None or isinstance(error, EXPECTED):
                kind = "read" if error is None else "refused" if said(error) else "not our words"
            else:
                kind = "traceback"
            if kind in ("traceback", "not our words"):
                line = "".join(traceback.format_exception(error))
            if used > MEMORY:
                pipe.send(("memory", number, f"{used >> 20} MB (base {base >> 10})", used))
                return  # the maximum of a process does not go down: the next one begins anew
            pipe.send((kind, number, line, used))
        pipe.send(("end", 0, "", 0))


def _seconds(process):
    """Time of the processor that a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(name, count, seed=0):
    """Read so many changed inputs: counts by how they ended, (kind, number, text) of what should not be,
    the longest line, and the most memory.
    """
    counts, bad, longest, peak, first = Counter(), [], 0, 0, 1
    context = multiprocessing.get_context("fork")
    while first <= count:
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(name, seed, range(first, count + 1), theirs))
        process.start()
        theirs.close()
        now, began = first, None
        while True:
            if not mine.poll(2.0):
                if began is not None and process.is_alive() and _seconds(process) - began > SECONDS:
                    process.kill()
                    bad.append(("hang", now, ""))
                    break
                continue
            try:
                kind, number, text, used = mine.recv()
            except EOFError:
                process.join()
                bad.append(("crash", now, f"exit code {process.exitcode}"))
                break
            if kind == "begins":
                now, began = number, used
                continue
            if kind == "broken":
                raise RuntimeError(f"the minimal files of {name} cannot be made or read:\n{text}")
            if kind in ("end", "absent"):
                counts["absent"] += kind == "absent"
                now = count
                break
            counts[kind] += 1
            peak = max(peak, used)
            if kind in ("traceback", "memory", "not our words"):
                bad.append((kind, number, text))
            elif len(text) >= LINE:
                bad.append(("long line", number, text))
            longest = max(longest, len(text) if kind == "refused" else 0)
            if kind == "memory":
                break
        process.join()
        first = now + 1
    return counts, bad, longest, peak
