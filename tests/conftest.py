import os

# Before NumPy is imported: the suite already runs one process for each core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from browsers import CHROMIUM, NO_BROWSER

settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("deterministic")


@pytest.fixture
def rng():
    return np.random.default_rng(20250101)


def pytest_unconfigure(config):
    """A report that no browser has seen is not tested: say so last, that nobody overlooks it."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if CHROMIUM is None and terminal is not None and not hasattr(config, "workerinput"):
        terminal.write_sep("!", "REPORTS WERE NOT TESTED IN A BROWSER", red=True, bold=True)
        terminal.write_line(f"WARNING: {NO_BROWSER}")
