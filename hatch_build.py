"""Compile the kernels when the package is installed or a wheel is made."""

import os
import sysconfig
import tempfile
from functools import cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "uncover/engines/kernels"
#: Where ziglang has wheels: installing it works there.
KNOWN = "platform_machine in 'x86_64 AMD64 aarch64 arm64'"
#: Tags of wheels for the targets of `make dist`.
TAGS = {
    "x86_64-linux-gnu.2.17": "manylinux_2_17_x86_64.manylinux2014_x86_64",
    "aarch64-linux-gnu.2.17": "manylinux_2_17_aarch64.manylinux2014_aarch64",
}


class KernelsHook(BuildHookInterface[Any]):
    """Compile the kernels by the compiler of the system, or by ziglang, which is then a build requirement.

    The variable KERNELS_TARGET names the target of a wheel that is given to others: ziglang compiles for it
    against an old C library. Without a compiler the package has no kernels, and works in NumPy.
    """

    def dependencies(self) -> list[str]:
        """Ziglang where it is needed."""
        needed = os.environ.get("KERNELS_TARGET") or self._build.compiler() is None
        return [f"ziglang>=0.13; {KNOWN}"] if needed else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place for an editable installation, and into the wheel otherwise."""
        build, target = self._build, os.environ.get("KERNELS_TARGET", "")
        command = build.ziglang(target) if target else build.compiler()
        if command is None:
            self.app.display_warning("no C compiler: uncover will run in NumPy, several times slower")
            return
        place = build.library()
        if version != "editable":
            self._room = tempfile.TemporaryDirectory()
            place = Path(self._room.name) / place.name
        try:
            build.build(command, place, target.partition("-")[0])
        except OSError as problem:
            if target:
                raise
            self.app.display_warning(f"uncover will run in NumPy, several times slower: {problem}")
            return
        if version != "editable":
            tag = TAGS[target] if target else sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{tag}"
            build_data["force_include"][str(place)] = f"{PLACE}/{place.name}"

    @cached_property
    def _build(self) -> ModuleType:
        """The module that compiles, by its file: the package is not installed yet."""
        spec = spec_from_file_location("kernels_build", Path(self.root) / "src" / PLACE / "build.py")
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
