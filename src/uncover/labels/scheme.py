"""Class schemes: which codes a land cover map may hold and what they mean. No translation, no rasters."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HIGHEST_LABEL = 254  # labels are uint8: 0 is "no label" and 255 stays free for a reader's own nodata
_GREY = "#999999"


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
        if not re.fullmatch(r"#[0-9A-Fa-f]{6}", self.colour):
            raise ValueError(
                f"class {self.code} ({self.name!r}) has the colour {self.colour!r}; "
                "a colour is written as '#' and six hexadecimal digits, like '#117733'"
            )

    @property
    def rgb(self) -> tuple[int, int, int]:
        """The colour as red, green and blue from 0 to 255."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return red, green, blue


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

    def in_code_order(self) -> "Scheme":
        """The same classes in the order of their codes.

        >>> Scheme.of_names(["forest", "water"]).in_code_order().codes
        (1, 2)
        """
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
    def from_dict(cls, values: Mapping[str, Any]) -> "Scheme":
        """Scheme from plain values, as a TOML file or `as_dict` gives them.

        >>> scheme = load_scheme("worldcover")
        >>> Scheme.from_dict(scheme.as_dict()) == scheme
        True
        """
        name = str(values.get("name", "unnamed"))
        return cls(
            name=name,
            classes=tuple(_class_of(name, entry) for entry in values.get("classes", ())),
            title=str(values.get("title", "")),
            reference=str(values.get("reference", "")),
            nodata=tuple(int(v) for v in values.get("nodata", (0,))),
        )

    @classmethod
    def of_names(cls, names: Iterable[str], name: str = "labels") -> "Scheme":
        """Scheme that numbers `names` from 1 in the given order, in colours that suit them where one does.

        >>> Scheme.of_names(["water", "forest"]).codes
        (1, 2)
        """
        from uncover.labels.colours import natural

        every = list(names)
        colours = natural(every)
        return cls(
            name, tuple(LandClass(i + 1, n, c) for i, (n, c) in enumerate(zip(every, colours, strict=True)))
        )

    def counts(self, labels: NDArray[np.uint8]) -> dict[str, int]:
        """Number of elements of `labels` that carry each class, by name.

        >>> load_scheme("lulucf").counts(np.array([1, 1, 5, 0], np.uint8))["forest"]
        2
        """
        found = np.bincount(labels.ravel(), minlength=256)
        return {c.name: int(found[c.code]) for c in self.classes}

    def _known(self) -> str:
        listed = ", ".join(f"{c.code} {c.name}" for c in self.classes[:8])
        return f"it knows {listed}" + (f" and {len(self.classes) - 8} more" if len(self.classes) > 8 else "")


@dataclass(frozen=True)
class _Shelf:
    """The TOML files of one kind that are shipped with the package."""

    folder: str
    what: str
    known: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        files = resources.files("uncover.labels").joinpath(self.folder).iterdir()
        names = sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml"))
        object.__setattr__(self, "known", tuple(names))

    def read(self, name_or_path: str | Path) -> dict[str, Any]:
        """Values of a shipped file by its name, or of the user's own file by its path."""
        name = str(name_or_path)
        if name in self.known:
            text = resources.files("uncover.labels").joinpath(self.folder, name + ".toml").read_text("utf-8")
            return tomllib.loads(text)
        path = Path(name_or_path)
        if not path.is_file():
            raise ValueError(
                f"there is no {self.what} {name!r}: shipped are {', '.join(self.known)}; "
                "your own is given as the path of its TOML file"
            )
        try:
            return tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not a readable TOML file: {error}") from None


def scheme_names() -> tuple[str, ...]:
    """Names of the class schemes that are shipped.

    >>> "lulucf" in scheme_names()
    True
    """
    return _Shelf("schemes", "class scheme").known


def load_scheme(name_or_path: str | Path) -> Scheme:
    """Scheme that is shipped under a name, or the one in a TOML file of the user's own.

    >>> load_scheme("ukceh")[20].name
    'Urban'
    """
    return Scheme.from_dict(_Shelf("schemes", "class scheme").read(name_or_path))


def _class_of(scheme: str, entry: Mapping[str, Any]) -> LandClass:
    missing = [k for k in ("code", "name") if k not in entry]
    if missing:
        raise ValueError(f"a class of the scheme {scheme!r} has no {missing[0]}: {dict(entry)}")
    parent = entry.get("parent")
    return LandClass(
        int(entry["code"]),
        str(entry["name"]),
        str(entry.get("colour", _GREY)),
        None if parent is None else str(parent),
    )
