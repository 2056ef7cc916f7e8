"""Names of a package that are imported when they are first used: a command waits only for what it needs."""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Lazy = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def lazy_names(package: str, file: str) -> Lazy:
    """`__all__`, `__getattr__` and `__dir__` of a package, from the imports in the stub beside its file.

    >>> import uncover.measurement
    >>> everything, get, _ = lazy_names("uncover.measurement", uncover.measurement.__file__)
    >>> everything[0], get("Quantity").__module__
    ('Draws', 'uncover.measurement.quantity')
    """
    stub = Path(file).with_suffix(".pyi").read_text("utf-8")
    home = {name: module for module, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.M)}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return sorted(home), get, lambda: sorted(home)
