"""Install wheel and sdist into empty environments, and try them.

`python tools/check_dist.py DIST [PYTHON ...]`; without interpreters, those of Python 3.11, 3.12
and 3.13 that are found. The sdist is tried with the first of them.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

SUPPORTED = ("python3.11", "python3.12", "python3.13")
#: With the required dependencies only: import, fit, predict, save and load; kernels are there.
SMOKE = """
import tempfile
from pathlib import Path
import numpy as np
import uncover
from uncover.engines.machine import machine_code
assert machine_code() is not None, "there are no compiled kernels"
rng = np.random.default_rng(0)
y = np.repeat(["a", "b"], 50)
X = rng.normal(size=(100, 3)) + 4.0 * (y == "b")[:, None]
for estimator in (uncover.BayesianQDA(), uncover.BayesianClassifier()):
    fitted = estimator.fit(X, y, X_cov=[0.01] * 3)
    probability = fitted.predict_proba(X, X_cov=[0.01] * 3)
    assert (fitted.classes_[probability.argmax(1)] == y).mean() > 0.95, fitted
path = Path(tempfile.mkdtemp()) / "model.uncover"
fitted.save(path)
assert np.array_equal(uncover.load_model(path).predict_proba(X, X_cov=[0.01] * 3), probability)
print(uncover.__version__)
"""


def version_of(python: str) -> str | None:
    """Version of an interpreter, None where it does not run."""
    if shutil.which(python) is None:
        return None
    answer = subprocess.run([python, "--version"], capture_output=True, text=True)
    return answer.stdout.split()[-1] if answer.returncode == 0 else None


def check(python: str, package: Path) -> str:
    """Install a package into an empty environment and use it; return the version that it states."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        programs = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin")
        run = partial(subprocess.run, cwd=folder, env=clean, check=True, stdout=subprocess.PIPE, text=True)
        run([python, "-m", "venv", folder])
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([programs / "python", *install, package.resolve()])
        said = run([programs / "python", "-W", "error", "-c", SMOKE]).stdout.strip()
        helped = run([programs / "uncover", "--help"]).stdout
    if "Usage: uncover" not in helped:
        raise SystemExit(f"{package.name} on {python}: `uncover --help` says {helped!r}")
    return said


def main(dist: str, *pythons: str) -> None:
    """Try the wheel with every interpreter, the sdist with the first."""
    # Wheels for other processors cannot be tried here.
    (wheel,), (sdist,) = Path(dist).glob(f"*_{platform.machine()}.whl"), Path(dist).glob("*.tar.gz")
    found = [(python, version) for python in pythons or SUPPORTED if (version := version_of(python))]
    for python in sorted({*(pythons or SUPPORTED)} - {python for python, _ in found}):
        print(f"{python}: not found, not tried")
    if not found:
        raise SystemExit(
            "no interpreter to try the packages with; name one: make dist PYTHONS=/path/to/python3.12"
        )
    for package, python, version in [(wheel, *each) for each in found] + [(sdist, *found[0])]:
        print(
            f"Python {version}: {package.name} installs, fits, predicts: {check(python, package)}", flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
