"""`make fuzz`: so many changed inputs of all readers; exit code 1 where one does not fail in one line."""

import argparse
import math
import sys
import time

from fuzzing.readers import HARNESSES
from fuzzing.run import LINE, MEMORY, SECONDS, run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=5000, help="of all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="readers whose name contains this")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="no reader is begun after this")
    given = parser.parse_args()
    names = [name for name in HARNESSES if given.only is None or given.only in name]
    weights = sum(HARNESSES[name].weight for name in names)
    total, found, began = 0, [], time.monotonic()
    print(f"{'reader':<34}{'read':>8}{'refused':>9}{'wrong':>7}{'longest line':>14}{'peak MB':>9}{'s':>7}")
    for name in names:
        if time.monotonic() - began > 60 * given.minutes:
            print(f"{name}: no time is left")
            continue
        start = time.monotonic()
        count = math.ceil(given.inputs * HARNESSES[name].weight / weights)
        counts, bad, longest, peak = run(name, count, given.seed)
        total += sum(counts.values()) - counts["absent"]
        found += [(name, *each) for each in bad]
        row = f"{name:<34}{counts['read']:>8}{counts['refused']:>9}{len(bad):>7}{longest:>14}{peak >> 20:>9}"
        print(
            f"{row}{time.monotonic() - start:>7.0f}{'  (no data here)' if counts['absent'] else ''}",
            flush=True,
        )
    for name, kind, number, text in found[:40]:
        print(f"\n{name}, input {number} of seed {given.seed}: {kind}\n{text[-1500:]}")
    print(
        f"\n{total:,} inputs, {len(found)} wrong: tracebacks, over {SECONDS:g} s, over {MEMORY >> 20} MB, "
        f"lines of {LINE} characters"
    )
    sys.exit(bool(found))


main()
