"""Run benchmarks: ``python -m benchmarks [NAME …] [--quick] [--out DIR]``; all of them without a name."""

import argparse
import importlib
import importlib.util
import sys
import time
from pathlib import Path

from benchmarks.registry import BENCHMARKS, RESULTS, write_results

# Each is a module of this package, imported when it runs: not every machine has what every benchmark needs.
NAMES = (
    "realisations", "labels", "atmosphere", "known-noise", "measured-noise", "coverage", "probabilities",
    "statistics", "paper", "convergence", "speed", "map", "areas", "embedded-scene", "stated-uncertainty",
    "gates", "strata", "worlds", "statistics-details", "engine-choices", "gpu", "unknown", "gaps",
    "gap-speed", "gap-run", "view", "class-shares", "map-areas", "regions", "change",
    "radiometry", "effects", "match-ups", "l2a-totals", "sampling",
    "coverage-effects", "weighted-worlds", "first-seconds", "many-classes", "areas-run",
    "map-effects",
)  # fmt: skip

#: Modules of benchmarks that are not called like their module.
MODULES = {"gap-run": "gap-speed", "map-effects": "map"}


def main(arguments=None):
    """Run the named benchmarks, print their tables, write their results."""
    options = _parse(arguments)
    folder = options.out or (None if options.quick else RESULTS)
    for name in options.names or [name for name in NAMES if name != "gpu" or _has_gpu()]:
        if name not in BENCHMARKS:
            importlib.import_module(f"benchmarks.{MODULES.get(name, name).replace('-', '_')}")
        print(f"# {name}\n", flush=True)
        start = time.perf_counter()
        tables = BENCHMARKS[name](options.quick)
        seconds = time.perf_counter() - start
        print("\n\n".join(table.as_text() for table in tables))
        print(f"\n{seconds:.0f} s", flush=True)
        if folder is not None:
            print(f"written: {write_results(folder, name, tables, seconds, options.quick)}\n")
    return 0


def _has_gpu():
    return importlib.util.find_spec("cupy") is not None


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Run benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(NAMES)}")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes; writes nothing unless --out is given"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where results go (default: benchmarks/results)"
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in {*NAMES, *BENCHMARKS}]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
