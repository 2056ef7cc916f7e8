"""Translation tables: which class of one scheme becomes which of another, and why. Arrays in, arrays out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.labels.scheme import HIGHEST_LABEL, Scheme, _Shelf, load_scheme, scheme_names

_UNKNOWN = 255  # never a label: labels end at 254


@dataclass(frozen=True)
class Rule:
    """The source codes that become one target class (0: no label), and the reason.

    >>> Rule((9, 10), 3, "shrubs below the thresholds of forest").target
    3
    """

    codes: tuple[int, ...]
    target: int
    why: str = ""


@dataclass(frozen=True)
class Translation:
    """From the classes of `source` to the classes of `target`, each source class by exactly one rule.

    >>> to_lulucf = load_translation("ukceh-lulucf")
    >>> to_lulucf(np.array([[1, 3], [11, 0]], np.uint8))
    array([[1, 2],
           [4, 0]], dtype=uint8)
    >>> to_lulucf.why(11)[:21]
    "peatland is the IPCC'"
    """

    name: str
    source: Scheme
    target: Scheme
    rules: tuple[Rule, ...]
    title: str = ""
    reference: str = ""
    note: str = ""  # what a user should know before relying on it

    def __post_init__(self) -> None:
        self.target.check_labels()
        named = [code for rule in self.rules for code in rule.codes]
        self._refuse(
            [c for c in named if c not in self.source.codes], "names the code {}, which {source} has not"
        )
        self._refuse(
            [c for c in named if named.count(c) > 1], "has more than one rule for the code {} of {source}"
        )
        self._refuse(
            [c for c in self.source.codes if c not in named], "has no rule for the code {} of {source}"
        )
        targets = [r.target for r in self.rules]
        self._refuse(
            [t for t in targets if t and t not in self.target.codes], "has the target {}, not in {target}"
        )

    def _refuse(self, wrong: list[int], problem: str) -> None:
        if wrong:
            said = problem.format(
                wrong[0], source=f"the scheme {self.source.name!r}", target=f"the scheme {self.target.name!r}"
            )
            raise ValueError(f"the translation table {self.name!r} {said}; mend its [[rules]]")

    @cached_property
    def _by_code(self) -> dict[int, Rule]:
        return {code: rule for rule in self.rules for code in rule.codes}

    @cached_property
    def _table(self) -> tuple[int, NDArray[np.uint8]]:
        """The lowest known code, and the label of every code from there on."""
        known = dict.fromkeys(self.source.nodata, 0) | {
            code: rule.target for code, rule in self._by_code.items()
        }
        lowest = min(known)
        table = np.full(max(known) - lowest + 1, _UNKNOWN, np.uint8)
        for code, label in known.items():
            table[code - lowest] = label
        return lowest, table

    def __call__(self, codes: NDArray[Any], origin: str = "the label map") -> NDArray[np.uint8]:
        """Labels of the target scheme for source `codes`; a code that the source scheme lacks is an error."""
        whole = _whole_numbers(codes, origin)
        lowest, table = self._table
        at = whole.astype(np.intp) - lowest
        outside = (at < 0) | (at >= table.size)
        labels = table[np.where(outside, 0, at)]
        unknown = outside | (labels == _UNKNOWN)
        if unknown.any():
            raise ValueError(self._unknown_code(whole, unknown, origin))
        return labels

    def of_name(self, name: str) -> int:
        """Label of a source class given by its name, or by its code as text (as vector files have it)."""
        text = name.strip()
        is_code = text.lstrip("-").isdigit()
        code = int(text) if is_code else self.source.code_of(text)
        return int(self(np.array([code]))[0])

    def why(self, code: int) -> str:
        """The reason that the table gives for its treatment of a source code."""
        self.source[code]  # says what is wrong where the code is unknown
        return self._by_code[code].why

    def _unknown_code(self, codes: NDArray[Any], unknown: NDArray[np.bool_], origin: str) -> str:
        found, counts = np.unique(codes[unknown], return_counts=True)
        known = self.source.codes
        return (
            f"{origin} has the class code {found[0]} (in at least {counts[0]} pixels), which the scheme "
            f"{self.source.name!r} does not know (its codes are {min(known)} to {max(known)}); choose the "
            f"scheme of this map with --scheme, or add the code to a table of your own"
        )

    @classmethod
    def identity(cls, scheme: Scheme) -> "Translation":
        """Translation that keeps every class of `scheme` and refuses codes it does not know.

        >>> Translation.identity(load_scheme("lulucf"))(np.array([6, 0]))
        array([6, 0], dtype=uint8)
        """
        return cls(scheme.name, scheme, scheme, tuple(Rule((c,), c) for c in scheme.codes), scheme.title)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: Path | None = None) -> "Translation":
        """Translation from plain values, as TOML files give them; its own schemes are sought in `folder`."""
        name = str(values.get("name", "unnamed"))
        missing = [key for key in ("source", "target", "rules") if key not in values]
        if missing:
            raise ValueError(
                f"the translation table {name!r} has no {missing[0]!r}; it needs source, target and rules"
            )
        target = _scheme_of(values["target"], folder)
        return cls(
            name=name,
            source=_scheme_of(values["source"], folder),
            target=target,
            rules=tuple(_rule_of(name, entry, target) for entry in values["rules"]),
            title=str(values.get("title", "")),
            reference=str(values.get("reference", "")),
            note=str(values.get("note", "")),
        )


def translation_names() -> tuple[str, ...]:
    """Names of the translation tables that are shipped.

    >>> translation_names()
    ('corine-1-lulucf', 'corine-3-lulucf', 'corine-grid-lulucf', 'ukceh-lulucf', 'ukceh-study',
     'worldcover-lulucf')
    """
    return _Shelf("tables", "translation table").known


def load_translation(name_or_path: str | Path) -> Translation:
    """Translation that is shipped under a name, that of a TOML file, or a scheme's own (codes are kept).

    >>> load_translation("worldcover-lulucf").target.name
    'lulucf'
    >>> load_translation("lulucf").source.name
    'lulucf'
    """
    name = str(name_or_path)
    if name in scheme_names():
        return Translation.identity(load_scheme(name))
    shelf = _Shelf("tables", "translation table")
    if name not in shelf.known and not Path(name).is_file():
        raise ValueError(
            f"there is no translation table or class scheme {name!r}: shipped are {', '.join(shelf.known)} "
            f"and {', '.join(scheme_names())}; your own is given as the path of its TOML file"
        )
    values = shelf.read(name_or_path)
    if "rules" not in values and "classes" in values:
        return Translation.identity(Scheme.from_dict(values))
    return Translation.from_dict(values, None if name in shelf.known else Path(name).parent)


def _scheme_of(value: Any, folder: Path | None) -> Scheme:
    if isinstance(value, Mapping):
        return Scheme.from_dict(value)
    name = str(value)
    beside = None if folder is None else folder / name
    return load_scheme(beside if beside is not None and beside.is_file() else name)


def _rule_of(table: str, entry: Mapping[str, Any], target: Scheme) -> Rule:
    if "from" not in entry or "to" not in entry:
        raise ValueError(f"a rule of the translation table {table!r} lacks 'from' or 'to': {dict(entry)}")
    codes = entry["from"] if isinstance(entry["from"], list) else [entry["from"]]
    to = target.code_of(entry["to"]) if isinstance(entry["to"], str) else int(entry["to"])
    return Rule(tuple(int(c) for c in codes), to, str(entry.get("why", "")))


def _whole_numbers(codes: NDArray[Any], origin: str) -> NDArray[Any]:
    array = np.asarray(codes)
    if array.dtype.kind in "ui":
        return array
    if array.dtype.kind == "b" or array.dtype.kind != "f":
        raise ValueError(
            f"{origin} holds {array.dtype} values; class codes are whole numbers from 1 to {HIGHEST_LABEL}"
        )
    if not np.all(np.isfinite(array)) or np.any(array != np.rint(array)):
        bad = array[~(np.isfinite(array) & (array == np.rint(array)))].flat[0]
        raise ValueError(
            f"{origin} holds the value {bad}; class codes are whole numbers: is this a probability layer, "
            "or a scene?"
        )
    return array.astype(np.int64)
