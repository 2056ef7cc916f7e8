"""Write requirements/hashed.txt: what `.[dev]` needs, at the pinned versions, with the hash of every wheel.

`python tools/hashes.py` in an environment where `.[dev]` is installed, after a change of
requirements/pinned.txt. The hashes are those that pip's index states: of all wheels of a version for this
and newer Pythons, Linux and macOS. pip then refuses a file that is not one of them.
"""

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version
from pip._internal.commands.index import IndexCommand
from pip._internal.index.collector import parse_links
from pip._internal.models.link import Link

FOLDER = Path(__file__).parents[1] / "requirements"
#: What building in place needs besides.
ROOTS = (("uncover", "dev"), ("hatchling", ""), ("editables", ""))


def needed(roots: Iterator[tuple[str, str]] | tuple[tuple[str, str], ...] = ROOTS) -> set[str]:
    """Names of all distributions that these need here, with an extra each, but this project's own."""
    found: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), extra) for name, extra in roots]
    while waiting:
        name, extra = each = waiting.pop()
        if each in found:
            continue
        found.add(each)
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                waiting += [(canonicalize_name(wanted.name), e) for e in ("", *wanted.extras)]
    return {name for name, _ in found} - {"uncover"}


def pinned() -> dict[str, tuple[str, str]]:
    """Names as they are written, and versions, by canonical names."""
    lines = re.findall(r"^([\w.-]+)==(\S+)$", (FOLDER / "pinned.txt").read_text("utf-8"), re.MULTILINE)
    return {canonicalize_name(name): (name, version) for name, version in lines}


def for_us(tag: Tag) -> bool:
    """Wheels for Python 3.11 and newer on Linux and macOS."""
    newer = re.fullmatch(r"cp3(\d+)", tag.interpreter)
    pure = tag.interpreter in ("py3", "py2") or tag.abi == "abi3"
    return (pure or (newer is not None and int(newer[1]) >= 11)) and not tag.platform.startswith("win")


def main() -> None:
    """Ask the index for every name, and write the file."""
    command = IndexCommand("index", "")
    options, _ = command.parse_args(["versions", "x"])
    with command.main_context():
        finder = command._build_package_finder(options=options, session=command.get_default_session(options))
        versions, lines = pinned(), ["# What `.[dev]` needs, with the hashes of the wheels: tools/hashes.py."]
        for name in sorted(needed()):
            written, version = versions[name]
            hashes = set()
            for index in finder.index_urls:
                page = finder._link_collector.fetch_response(Link(f"{index.rstrip('/')}/{name}/"))
                for link in parse_links(page) if page is not None else ():
                    try:
                        _, found, _, tags = parse_wheel_filename(link.filename)
                    except InvalidWheelFilename:
                        continue
                    if found == Version(version) and not link.is_yanked and any(map(for_us, tags)):
                        hashes.add(link._hashes["sha256"])
            if not hashes:
                raise SystemExit(f"the index lists no wheel of {written} {version}")
            lines += [
                " \\\n    ".join([f"{written}=={version}", *(f"--hash=sha256:{h}" for h in sorted(hashes))])
            ]
    (FOLDER / "hashed.txt").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
