"""The files of `make`, of `make sbom`, and what they state."""

import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))


def pins(name):
    lines = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE)
    return {canonicalize_name(each): number for each, number in lines}


def test_what_make_installs_has_hashes_at_the_pinned_versions():
    from hashes import needed

    hashed, pinned = pins("hashed.txt"), pins("pinned.txt")
    assert hashed.items() <= pinned.items()
    assert needed() <= hashed.keys(), "write it anew: python tools/hashes.py"
    blocks = (ROOT / "requirements" / "hashed.txt").read_text().replace(" \\\n", " ").splitlines()[1:]
    assert all(re.fullmatch(r"\S+==\S+(\s+--hash=sha256:[0-9a-f]{64})+", line) for line in blocks)


def test_the_bill_of_materials_lists_what_the_package_needs():
    from sbom import bill

    text = json.dumps(bill())
    assert text == json.dumps(bill()), "no clock, no random number"
    found = json.loads(text)
    parts = {canonicalize_name(part["name"]): part for part in found["components"]}
    assert {"numpy", "scipy", "msgspec", "rasterio", "zarr", "ol"} <= parts.keys()
    assert not {"pytest", "sphinx", "mypy", "uncover"} & parts.keys()
    assert all(part["hashes"] and part["licenses"] for part in parts.values())
    assert parts["numpy"]["version"] == version("numpy")
    refs = {part["bom-ref"] for part in found["components"]} | {found["metadata"]["component"]["bom-ref"]}
    assert all({each["ref"], *each["dependsOn"]} <= refs for each in found["dependencies"])
    assert parts["ol"]["version"] in (ROOT / "docs" / "view.md").read_text()
