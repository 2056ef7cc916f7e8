"""Names of a package that are imported when they are first used: a command waits only for what it needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

Lazy = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def lazy_names(package: str, names: Mapping[str, str]) -> Lazy:
    """`__all__`, `__getattr__` and `__dir__` of a package, from the names in each of its modules.

    >>> everything, get, _ = lazy_names("example", {"math": "pi tau"})
    >>> everything, get("pi")
    (['pi', 'tau'], 3.141592653589793)
    """
    home = {name: module for module, each in names.items() for name in each.split()}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home[name]), name)

    return sorted(home), get, lambda: sorted(home)
