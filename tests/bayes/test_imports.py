"""The mathematics needs NumPy and SciPy, and nothing else."""

import subprocess
import sys

CODE = """
import importlib, importlib.abc, pkgutil, sys

ALLOWED = {"numpy", "scipy", "uncover"} | set(sys.stdlib_module_names) | set(sys.modules)

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"blocked: {name}")
        return None

blocker = Block()
sys.meta_path.insert(0, blocker)
import uncover.bayes
names = [m.name for m in pkgutil.walk_packages(uncover.bayes.__path__, "uncover.bayes.")]
for name in names:
    importlib.import_module(name)
assert not [name for name in sys.modules if name.startswith('uncover.engines')]
from uncover import NIW, UncertaintyBudget
assert len(names) >= 9, names
assert "sklearn" not in sys.modules and "pandas" not in sys.modules
try:
    import sklearn
except ModuleNotFoundError:
    print("ok")
"""


def test_bayes_imports_with_numpy_and_scipy_only():
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == "ok"
