"""Write a software bill of materials (CycloneDX 1.6, JSON) of the package with `.[all]`.

`python tools/sbom.py FILE` in an environment where `.[all]` is installed. Components are the distributions
that are installed here and the files of others inside the package, each with version, licence and hashes.
The file is the same for the same versions: it has no clock and no random number.
"""

import hashlib
import json
import re
import sys
from importlib.metadata import PackageMetadata, metadata, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent))
from hashes import FOLDER, needed

ROOT = Path(__file__).parents[1]
#: What others made and the package contains: file, name, version, licence, package address.
INSIDE = (("src/uncover/viewer/static/ol.js", "ol", "10.10.0", "BSD-2-Clause", "pkg:npm/ol@10.10.0"),)


def sha256(content: str) -> dict[str, str]:
    """A hash as CycloneDX writes it."""
    return {"alg": "SHA-256", "content": content}


def licence(about: PackageMetadata) -> list[dict[str, Any]]:
    """Licence as the distribution states it: an expression of SPDX, a classifier, or a first line of text."""
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = [c.rsplit(" :: ", 1)[-1] for c in about.get_all("Classifier") or () if "License ::" in c]
    named = [about["License"].strip().splitlines()[0]] if (about.get("License") or "").strip() else []
    return [{"license": {"name": name}} for name in (classifiers or named)]


def component(name: str, hashes: dict[str, list[str]]) -> dict[str, Any]:
    """One installed distribution."""
    about = metadata(name)
    address = f"pkg:pypi/{canonicalize_name(name)}@{about['Version']}"
    known = [sha256(each) for each in hashes.get(canonicalize_name(name), ())]
    return {
        "type": "library",
        "bom-ref": address,
        "name": about["Name"],
        "version": about["Version"],
        "licenses": licence(about),
        "purl": address,
        **({"hashes": known} if known else {}),
    }


def bill() -> dict[str, Any]:
    """The whole document."""
    text = (FOLDER / "hashed.txt").read_text("utf-8")
    blocks = re.findall(r"^([\w.-]+)==\S+((?: \\\n    --hash=\S+)+)", text, re.MULTILINE)
    hashes = {canonicalize_name(name): re.findall(r"sha256:(\w+)", rest) for name, rest in blocks}
    names = sorted(needed((("uncover", "all"),)))
    own = component("uncover", {})
    parts = [component(name, hashes) for name in names]
    for file, name, version, terms, address in INSIDE:
        content = hashlib.sha256((ROOT / file).read_bytes()).hexdigest()
        stated = {"licenses": [{"expression": terms}], "hashes": [sha256(content)]}
        parts.append(
            {
                "type": "library",
                "bom-ref": address,
                "name": name,
                "version": version,
                **stated,
                "purl": address,
            }
        )
    refs = {canonicalize_name(part["name"]): part["bom-ref"] for part in [own, *parts]}

    def direct(name: str) -> list[str]:
        wanted = {canonicalize_name(Requirement(text).name) for text in requires(name) or ()}
        return sorted(refs[each] for each in wanted & refs.keys() - {name})

    inside = [address for *_, address in INSIDE]
    depends = [{"ref": refs[name], "dependsOn": direct(name)} for name in names]
    depends.insert(0, {"ref": own["bom-ref"], "dependsOn": [*direct("uncover"), *inside]})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"type": "application"}},
        "components": parts,
        "dependencies": depends,
    }


if __name__ == "__main__":
    goal = Path(sys.argv[1])
    goal.parent.mkdir(parents=True, exist_ok=True)
    goal.write_text(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(goal)
