"""What a measurement was made on: enough to compare, nothing that names the machine."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

from uncover import __version__


def describe_machine():
    """Return processor, cores and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "default"),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "uncover": __version__,
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
