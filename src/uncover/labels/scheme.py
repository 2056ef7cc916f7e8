"""Class schemes: codes of a land cover map and their meaning; translation between schemes. No rasters."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from uncover.files import read_toml, reader, shortened, typed

HIGHEST_LABEL = 254  # labels are uint8: 0 is "no label" and 255 stays free for a reader's own nodata
_GREY = "#999999"


class UnknownCodeError(ValueError):
    """A map has a code that its scheme does not know."""


@dataclass(frozen=True)
class LandClass:
    """One class: its code in the map, its name, the colour to draw it in, the broader class it belongs to.

    >>> LandClass(1, "forest", "#117733").rgb
    (17, 119, 51)
    """

    code: int
    name: str
    colour: str = _GREY
    parent: str | None = None

    def __post_init__(self) -> None:
        if self.colour and not re.fullmatch(r"#[0-9A-Fa-f]{6}", self.colour):
            raise ValueError(
                f"class {self.code} ({self.name!r}) has the colour {self.colour!r}; "
                "a colour is written as '#' and six hexadecimal digits, like '#117733'"
            )

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as red, green and blue from 0 to 255."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return red, green, blue


#: Codes are looked up in a table as long as this, twice.
_HIGHEST_CODE = 1 << 20


class _ClassEntry(TypedDict, total=False):
    code: int
    name: str | int
    colour: str
    parent: str | None


class _SchemeFile(TypedDict, total=False):
    name: str
    title: str
    reference: str
    nodata: list[int]
    classes: list[_ClassEntry]


_RuleEntry = TypedDict("_RuleEntry", {"from": int | list[int], "to": str | int, "why": str}, total=False)


class _TableFile(TypedDict, total=False):
    name: str
    title: str
    reference: str
    note: str
    source: str | dict[str, Any]
    target: str | dict[str, Any]
    rules: list[_RuleEntry]


@dataclass(frozen=True)
class Scheme:
    """A set of classes with their codes; `nodata` lists the codes that mean "nothing known here".

    >>> scheme = load_scheme("lulucf")
    >>> scheme.names
    ('forest', 'cropland', 'grassland', 'wetlands', 'settlements', 'other')
    >>> scheme.code_of("Cropland")
    2
    """

    name: str
    classes: tuple[LandClass, ...]
    title: str = ""
    reference: str = ""
    nodata: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError(
                f"the scheme {self.name!r} has no classes; it needs at least one [[classes]] entry"
            )
        for what, values in (("code", self.codes), ("name", tuple(n.casefold() for n in self.names))):
            twice = sorted({v for v in values if values.count(v) > 1}, key=str)
            if twice:
                raise ValueError(
                    f"the scheme {self.name!r} gives the {what} {twice[0]!r} to more than one class"
                )
        if far := [c for c in (*self.codes, *self.nodata) if abs(c) > _HIGHEST_CODE]:
            raise ValueError(f"the scheme {self.name!r} has the code {far[0]}; codes go to {_HIGHEST_CODE:,}")
        clash = sorted(set(self.codes) & set(self.nodata))
        if clash:
            raise ValueError(
                f"the scheme {self.name!r} uses the code {clash[0]} both for a class and for nodata"
            )

    @property
    def codes(self) -> tuple[int, ...]:
        """The codes, in the order of the classes."""
        return tuple(c.code for c in self.classes)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the classes."""
        return tuple(c.name for c in self.classes)

    def in_code_order(self) -> Scheme:
        """The same classes in the order of their codes."""
        return replace(self, classes=tuple(sorted(self.classes, key=lambda c: c.code)))

    @cached_property
    def _by_code(self) -> dict[int, LandClass]:
        return {c.code: c for c in self.classes}

    @cached_property
    def _by_name(self) -> dict[str, LandClass]:
        return {c.name.casefold(): c for c in self.classes}

    def __getitem__(self, code: int) -> LandClass:
        try:
            return self._by_code[int(code)]
        except KeyError:
            raise ValueError(
                f"the scheme {self.name!r} has no class with the code {code}; {self._known()}"
            ) from None

    def code_of(self, name: str) -> int:
        """Code of the class called `name`, whatever the case of its letters."""
        try:
            return self._by_name[name.strip().casefold()].code
        except KeyError:
            raise ValueError(
                f"the scheme {self.name!r} has no class called {name!r}; {self._known()}"
            ) from None

    def colour_table(self) -> dict[int, tuple[int, int, int, int]]:
        """Red, green, blue and opacity of each code, and a transparent 0: the form that GDAL takes."""
        return {0: (0, 0, 0, 0)} | {c.code: (*c.rgb, 255) for c in self.classes}

    def category_names(self) -> list[str]:
        """Names indexed by code, with empty strings in the gaps: the form that GDAL takes."""
        return [self._by_code[i].name if i in self._by_code else "" for i in range(max(self.codes) + 1)]

    def check_labels(self) -> None:
        """Raise ValueError where the codes do not fit into a label raster (whole numbers from 1 to 254)."""
        wrong = [c for c in self.codes if not 1 <= c <= HIGHEST_LABEL]
        if wrong:
            raise ValueError(
                f"the scheme {self.name!r} has the code {wrong[0]}, and labels are written as 8-bit codes "
                f"from 1 to {HIGHEST_LABEL}; translate it to another scheme first (`--scheme`)"
            )

    def as_dict(self) -> dict[str, Any]:
        """The scheme as plain values, as `from_dict` takes them: for files that carry their scheme along."""
        classes = [
            {"code": c.code, "name": c.name, "colour": c.colour} | ({"parent": c.parent} if c.parent else {})
            for c in self.classes
        ]
        return {
            "name": self.name,
            "title": self.title,
            "reference": self.reference,
            "nodata": list(self.nodata),
            "classes": classes,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scheme:
        """Scheme from plain values, as a TOML file or `as_dict` gives them.

        >>> scheme = load_scheme("worldcover")
        >>> Scheme.from_dict(scheme.as_dict()) == scheme
        True
        """
        name = str(values.get("name", "unnamed"))
        file = typed(dict(values), _SchemeFile, f"the class scheme {shortened(name)!r}")
        return cls(
            name=name,
            classes=_coloured(_class_of(name, entry) for entry in file.get("classes", ())),
            title=file.get("title", ""),
            reference=file.get("reference", ""),
            nodata=tuple(file.get("nodata", (0,))),
        )

    @classmethod
    def of_names(cls, names: Iterable[str], name: str = "labels") -> Scheme:
        """Scheme that numbers `names` from 1 in the given order, in colours that suit them where one does."""
        from uncover.labels.colours import natural

        every = list(names)
        colours = natural(every)
        return cls(
            name, tuple(LandClass(i + 1, n, c) for i, (n, c) in enumerate(zip(every, colours, strict=True)))
        )

    def counts(self, labels: NDArray[np.uint8]) -> dict[str, int]:
        """Number of elements of `labels` that carry each class, by name."""
        found = np.bincount(labels.ravel(), minlength=256)
        return {c.name: int(found[c.code]) for c in self.classes}

    def _known(self) -> str:
        listed = ", ".join(f"{c.code} {c.name}" for c in self.classes[:8])
        return f"it knows {listed}" + (f" and {len(self.classes) - 8} more" if len(self.classes) > 8 else "")


_SCHEMES, _TABLES = ("schemes", "class scheme"), ("tables", "translation table")  # folders and their content


@cache
def _shipped(folder: str) -> tuple[str, ...]:
    """Names of the TOML files of one kind that are shipped with the package."""
    files = resources.files("uncover.labels").joinpath(folder).iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


def _read_toml(folder: str, what: str, name_or_path: str | Path) -> dict[str, Any]:
    """Values of a shipped file by its name, or of the user's own file by its path."""
    name = str(name_or_path)
    if name in _shipped(folder):
        text = resources.files("uncover.labels").joinpath(folder, name + ".toml").read_text("utf-8")
        return tomllib.loads(text)
    path = Path(name_or_path)
    if not path.is_file():
        raise ValueError(
            f"there is no {what} {name!r}: shipped are {', '.join(_shipped(folder))}; "
            "your own is given as the path of its TOML file"
        )
    return read_toml(path)


def scheme_names() -> tuple[str, ...]:
    """Names of the class schemes that are shipped."""
    return _shipped("schemes")


@reader
def load_scheme(name_or_path: str | Path) -> Scheme:
    """Scheme that is shipped under a name, or the one in a TOML file of the user's own.

    >>> load_scheme("ukceh")[20].name
    'Urban'
    """
    return Scheme.from_dict(_read_toml(*_SCHEMES, name_or_path))


def _coloured(classes: Iterable[LandClass]) -> tuple[LandClass, ...]:
    """The classes, those without a colour of their own in one that no other has."""
    from uncover.labels.colours import natural

    every = list(classes)
    plain = [c.name for c in every if c.colour == ""]
    colours = iter(natural(plain, [c.colour for c in every if c.colour]))
    return tuple(c if c.colour else replace(c, colour=next(colours)) for c in every)


def one_spelling(names: Iterable[str]) -> None:
    """Refuse two names that differ in case, blanks or hyphens only: they are one class.

    >>> one_spelling(["Built Up", "built-up", "water"])
    Traceback (most recent call last):
    ...
    ValueError: one class is named in two spellings, 'Built Up' and 'built-up'; correct them, or give ...
    """
    seen: dict[str, str] = {}
    for name in names:
        key = re.sub(r"[\s_-]+", " ", name.casefold()).strip()
        first = seen.setdefault(key, name)
        if first != name:
            raise ValueError(
                f"one class is named in two spellings, {first!r} and {name!r}; correct them, or give both "
                f"one name (--classes '{first}=NAME,{name}=NAME,…')"
            )


def _class_of(scheme: str, entry: _ClassEntry) -> LandClass:
    missing = [k for k in ("code", "name") if k not in entry]
    if missing:
        raise ValueError(f"a class of the scheme {scheme!r} has no {missing[0]}: {dict(entry)}")
    return LandClass(entry["code"], str(entry["name"]), entry.get("colour", ""), entry.get("parent"))


_UNKNOWN = 255  # never a label: labels end at 254


@dataclass(frozen=True)
class Rule:
    """The source codes that become one target class (0: no label), and the reason."""

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
            raise UnknownCodeError(self._unknown_code(whole, unknown, origin))
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
        return self.about_unknown(dict(zip(found.tolist(), counts.tolist(), strict=True)), origin)

    def about_unknown(self, counts: Mapping[int, int], origin: str, at_least: str = "at least ") -> str:
        """Message on codes that the source scheme lacks, with the number of pixels of each."""
        known, (listed, some) = self.source.codes, codes_in_words(counts, f"in {at_least}")
        return (
            f"{origin} has the class code {listed}, which the scheme {self.source.name!r} does not "
            f"know (its codes are {min(known)} to {max(known)}); leave out codes with --ignore {some}, name "
            f"all classes with --classes CODE=NAME,…, or choose the scheme of this map with --scheme"
        )

    @classmethod
    def identity(cls, scheme: Scheme) -> Translation:
        """Translation that keeps every class of `scheme` and refuses codes it does not know.

        >>> Translation.identity(load_scheme("lulucf"))(np.array([6, 0]))
        array([6, 0], dtype=uint8)
        """
        return cls(scheme.name, scheme, scheme, tuple(Rule((c,), c) for c in scheme.codes), scheme.title)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], folder: Path | None = None) -> Translation:
        """Translation from plain values, as TOML files give them; its own schemes are sought in `folder`."""
        name = str(values.get("name", "unnamed"))
        missing = [key for key in ("source", "target", "rules") if key not in values]
        if missing:
            raise ValueError(
                f"the translation table {name!r} has no {missing[0]!r}; it needs source, target and rules"
            )
        file = typed(dict(values), _TableFile, f"the translation table {shortened(name)!r}")
        target = _scheme_of(file["target"], folder)
        return cls(
            name=name,
            source=_scheme_of(file["source"], folder),
            target=target,
            rules=tuple(_rule_of(name, entry, target) for entry in file["rules"]),
            title=file.get("title", ""),
            reference=file.get("reference", ""),
            note=file.get("note", ""),
        )


def codes_in_words(counts: Mapping[int, int], before: str = "") -> tuple[str, str]:
    """Codes with their pixels, and alone between commas; of many the first.

    >>> codes_in_words({0: 1200, 7: 3})
    ('0 (1,200 pixels), 7 (3 pixels)', '0,7')
    """
    first, more = list(counts.items())[:8], len(counts) - 8
    listed = ", ".join(f"{code} ({before}{n:,} pixels)" for code, n in first)
    return listed + (f" and {more} more" if more > 0 else ""), ",".join(str(code) for code, _ in first)


def translation_names() -> tuple[str, ...]:
    """Names of the translation tables that are shipped.

    >>> translation_names()
    ('corine-1-lulucf', 'corine-3-lulucf', 'corine-grid-lulucf', 'ukceh-lulucf', 'ukceh-study',
     'worldcover-lulucf')
    """
    return _shipped("tables")


@reader
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
    shipped = _shipped("tables")
    if name not in shipped and not Path(name).is_file():
        raise ValueError(
            f"there is no translation table or class scheme {name!r}: shipped are {', '.join(shipped)} "
            f"and {', '.join(scheme_names())}; your own is given as the path of its TOML file"
        )
    values = _read_toml(*_TABLES, name_or_path)
    if "rules" not in values and "classes" in values:
        return Translation.identity(Scheme.from_dict(values))
    return Translation.from_dict(values, None if name in shipped else Path(name).parent)


def _scheme_of(value: Any, folder: Path | None) -> Scheme:
    if isinstance(value, Mapping):
        return Scheme.from_dict(value)
    name = str(value)
    beside = None if folder is None else folder / name
    return load_scheme(beside if beside is not None and beside.is_file() else name)


def _rule_of(table: str, entry: _RuleEntry, target: Scheme) -> Rule:
    if "from" not in entry or "to" not in entry:
        raise ValueError(f"a rule of the translation table {table!r} lacks 'from' or 'to': {dict(entry)}")
    codes = entry["from"] if isinstance(entry["from"], list) else [entry["from"]]
    to = target.code_of(entry["to"]) if isinstance(entry["to"], str) else entry["to"]
    return Rule(tuple(codes), to, entry.get("why", ""))


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
