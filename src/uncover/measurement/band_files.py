"""Uncertainty of bands in text files: CSV tables and JSON."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.files import parse_json, read_text, reader, typed
from uncover.measurement.band_uncertainty import (
    BandUncertainty,
    BetweenPixels,
    BetweenScenes,
    check_between_pixels,
    check_between_scenes,
    is_relative,
)
from uncover.measurement.bands import canonical_band, places_of

Array = NDArray[np.float64]

# Columns by meaning; the units of the first and the third are those of the column `units`, else reflectance.
_STANDARD = ("standard_uncertainty", "u", "u_k1", "u_k1_approx")
_ABSOLUTE = ("u_abs",)
_EXPANDED = ("expanded_uncertainty",)
_PERCENT = ("standard_uncertainty_pct", "u_pct", "u_rel_pct", "rel_pct")
_EXPANDED_PERCENT = ("expanded_uncertainty_pct", "expanded_uncertainty_rel_pct")
_FACTOR = ("k", "coverage_factor")
_REFERENCE = ("reflectance", "reference", "mean_rho")
_WORDS = ("band", "units", "between_pixels", "between_scenes", "name")
_REMARKS = ("source", "comment", "note", "notes", "wavelength", "wavelength_nm")
_COLUMNS = {
    *(*_STANDARD, *_ABSOLUTE, *_EXPANDED, *_PERCENT, *_EXPANDED_PERCENT, *_FACTOR, *_REFERENCE, *_WORDS),
    *_REMARKS,
}

#: Numbers of one row that say the same may differ by this fraction: both are rounded.
_AGREEMENT = 0.05

_KEYS = {
    *("standard_uncertainty", "expanded_uncertainty", "k", "units", "correlation"),
    *("between_pixels", "between_scenes", "name"),
}


@reader
def read_band_uncertainty(
    path: str | Path,
    bands: Sequence[str] | None = None,
    *,
    correlation: str | Path | ArrayLike | None = None,
    between_pixels: BetweenPixels | None = None,
    between_scenes: BetweenScenes | None = None,
    units: str | None = None,
    scale: float | None = None,
    effect_name: str | None = None,
) -> BandUncertainty:
    """Read a CSV table or a JSON file of per-band uncertainty.

    Standard uncertainties are read as they are. Expanded ones (a column `U` or `expanded_uncertainty`) are
    divided by their coverage factor `k`, and refused without it.

    Parameters
    ----------
    path : str or Path
        A name that ends in .json is JSON, anything else is a CSV table.
    bands : sequence of str, optional
        The bands that are needed, in their order, found by name (B2 is B02); all of the file by default.
    correlation : path or array, optional
        A CSV file with the correlation between the errors of bands, or the matrix itself in the order of the
        file's bands. Without it, and where the file has none, errors of bands are independent.
    between_pixels : {"random", "systematic"}, optional
        What errors of different pixels have in common, where the file does not say it.
    between_scenes : {"independent", "common"}, optional
        Whether a systematic error is each scene's own or the same in all, where the file does not say it.
    units : {"1", "%"}, optional
        Of a CSV table that does not say it; where there are columns in both, which is used: absolute
        uncertainty ("1", the default) or per cent.
    scale : float, optional
        Standard uncertainty = scale · number.
    effect_name : str, optional
        Name of the one effect of a file that does not say it. An effect that is common to all scenes needs
        one; others are called as the file is.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file} does not exist; check the path.")
    said = _Said(between_pixels, between_scenes, effect_name)
    if file.suffix.lower() == ".json":
        found = _read_json(file, said)
        if units is not None:
            raise ValueError(f"{file.name} states its units itself; leave --uncertainty-units out.")
        if correlation is not None:
            raise ValueError(f"{file.name} is where its correlation belongs too; leave --correlation out.")
        return _scaled(found if bands is None else found.select(bands, file.name), scale)
    table = _Table.read(file)
    wanted = tuple(bands) if bands is not None else table.bands
    places = places_of(wanted, table.bands, file.name)
    numbers, chosen = table.standard(units)
    reference, k = table.column(_REFERENCE), table.coverage_factor()
    pixels = _between_pixels(table.word("between_pixels"), between_pixels, file.name)
    stated = table.word("between_scenes")
    scenes = _agreed("between_scenes", stated, between_scenes, file.name) or "independent"
    found = BandUncertainty.of(
        wanted,
        numbers[places],
        _correlation(correlation, table.bands, wanted, places),
        units=chosen,
        between_pixels=pixels,
        between_scenes=check_between_scenes(scenes, pixels, file.name),
        reference=None if reference is None else reference[places],
        effect=said.name_of(table.name(), file.stem, scenes, file.name),
        coverage_factor=None if k is None or not table.is_expanded else k[places],
        name=file.name,
    )
    return _scaled(found, scale)


@dataclass(frozen=True)
class _Said:
    """Statements of the user on the effects of a file that does not make them."""

    between_pixels: BetweenPixels | None
    between_scenes: BetweenScenes | None
    name: str | None

    def name_of(self, stated: str | None, fallback: str, scenes: str, file: str) -> str:
        """The name of an effect; one that all scenes share is not named after its file."""
        if stated and self.name is not None and stated != self.name:
            raise ValueError(f"{file} names the effect {stated!r}; --effect-name {self.name} was asked for.")
        return stated or self.name or ("" if scenes == "common" else fallback)


def _scaled(found: BandUncertainty, scale: float | None) -> BandUncertainty:
    """With standard uncertainties that are multiples of the file's numbers."""
    if scale is None:
        return found
    if not scale > 0:
        raise ValueError(f"--uncertainty-scale is {scale:g}; it must be above 0.")
    effects = tuple(replace(effect, standard=scale * effect.standard) for effect in found.effects)
    return replace(found, effects=effects)


@reader
def read_correlation_table(path: str | Path, bands: Sequence[str] | None = None) -> Array:
    """Read a correlation matrix from CSV: band names in the first row and in the first column.

    Rows and columns are found by name; the matrix is checked where it is used.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file} does not exist; check the path.")
    rows = _rows(file)
    names, sides = rows[0][1:], [row[0] for row in rows[1:]]
    ragged = [row[0] for row in rows[1:] if len(row) != len(rows[0])]
    if ragged or not names:
        raise ValueError(
            f"{file.name} is no correlation table: it needs the bands' names in the first row and column, "
            f"and a number for each pair{f' (row {ragged[0]} is too short or too long)' if ragged else ''}."
        )
    wanted = list(bands) if bands is not None else names
    across, down = places_of(wanted, names, file.name), places_of(wanted, sides, file.name)
    numbers = np.array([[_number(text, file, side) for text in row] for side, *row in rows[1:]])
    return numbers[np.ix_(down, across)]


@dataclass(frozen=True)
class _Table:
    """A CSV table with one row per band."""

    file: Path
    columns: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, file: Path) -> "_Table":
        header, *rows = _rows(file)
        names = [_heading(name) for name in header]
        if "band" not in names or not rows:
            raise ValueError(
                f"{file.name} has the columns {', '.join(header)} and {len(rows)} rows; it needs a column "
                "`band` and a row for each band."
            )
        strange = [given for given, name in zip(header, names, strict=True) if name not in _COLUMNS]
        if strange or len(set(names)) < len(names):
            twice = next((name for name in names if names.count(name) > 1), "")
            what = f"column {strange[0]!r} is not understood" if strange else f"column {twice!r} comes twice"
            raise ValueError(
                f"{file.name}: {what}; a table has band, u or u_pct (or U with k), reflectance, units, "
                "between_pixels, between_scenes, and remarks in a column comment."
            )
        for row in rows:
            if len(row) != len(header):
                raise ValueError(f"{file.name}: the row of {row[0]} has {len(row)} of {len(header)} columns.")
        return cls(file, dict(zip(names, zip(*rows, strict=True), strict=True)))

    @property
    def bands(self) -> tuple[str, ...]:
        return self.columns["band"]

    def column(self, names: Sequence[str]) -> Array | None:
        """The first of these columns that is there, as numbers."""
        for name in names:
            if name in self.columns:
                pairs = zip(self.columns[name], self.bands, strict=True)
                return np.array([_number(text, self.file, band) for text, band in pairs])
        return None

    def word(self, name: str) -> str | None:
        """The word of a column, the same in all rows; None where there is no such column."""
        stated = {word.strip() for word in self.columns.get(name, ())}
        if len(stated) > 1:
            raise ValueError(f"{self.file.name}: {name} differs between rows; use JSON with effects.")
        return stated.pop() if stated else None

    def name(self) -> str | None:
        """The name of the effect; None where the column is not there, or has a name for each band."""
        stated = {word.strip() for word in self.columns.get("name", ())}
        return stated.pop() or None if len(stated) == 1 else None

    @property
    def is_expanded(self) -> bool:
        """True where expanded uncertainties are given."""
        return any(name in self.columns for name in (*_EXPANDED, *_EXPANDED_PERCENT))

    def standard(self, units: str | None) -> tuple[Array, str]:
        """The standard uncertainty that is asked for, and its units."""
        offers = self._offers(units)
        self._check_agreement(offers.get("1"), offers.get("%"))
        for unit in [units] if units is not None else ["1", "%"]:
            if unit in offers:
                return offers[unit], unit
        raise ValueError(
            f"{self.file.name} has the columns {', '.join(self.columns)}; it needs `standard_uncertainty` "
            f"(or u) in reflectance, or `standard_uncertainty_pct` (or u_pct) in per cent"
            f"{'' if units is None else f', and units={units!r} was asked for (--uncertainty-units)'}."
        )

    def _neutral(self, said: str | None) -> str:
        """Units of columns whose heading does not say it: the column units, else the user's word."""
        stated = self.word("units")
        in_per_cent = any(name in self.columns for name in (*_PERCENT, *_EXPANDED_PERCENT))
        given = stated if stated is not None or in_per_cent else said
        return "%" if given is not None and is_relative(given, self.file.name) else "1"

    def _offers(self, said: str | None) -> dict[str, Array]:
        """Standard uncertainties by their units, from all columns that state one."""
        stated, neutral, k = self.word("units"), self._neutral(said), self.coverage_factor()
        found: dict[str, Array] = {}
        groups = ((_STANDARD, neutral), (_ABSOLUTE, "1"), (_EXPANDED, neutral), (_PERCENT, "%"))
        first: dict[str, str] = {}
        for names, unit in (*groups, (_EXPANDED_PERCENT, "%")):
            for name in (name for name in names if name in self.columns):
                numbers = self.column([name])
                assert numbers is not None
                if name in (*_EXPANDED, *_EXPANDED_PERCENT):
                    if k is None:
                        raise ValueError(
                            f"{self.file.name} has expanded uncertainties (U) and no column k; add the "
                            "coverage factor of each band, such as 2, or give standard uncertainties (u)."
                        )
                    numbers = numbers / k
                if unit in found:
                    self._check_same(first[unit], found[unit], name, numbers)
                else:
                    found[unit], first[unit] = numbers, name
        if stated is not None and found and neutral not in found:
            raise ValueError(
                f"{self.file.name} states the units {stated!r}, and its column {next(iter(first.values()))} "
                "is in other units; make them agree, or leave units out."
            )
        return found

    def coverage_factor(self) -> Array | None:
        """The column k, checked: 1 or more, and 1 where only standard uncertainties are given."""
        k = self.column(_FACTOR)
        if k is None:
            return None
        if np.any(~(k >= 1)):
            i = int(np.argmax(~(k >= 1)))
            raise ValueError(
                f"{self.file.name}: the coverage factor k of band {self.bands[i]} is {k[i]:g}; it is 1 or "
                "more, usually 2."
            )
        if not self.is_expanded and np.any(k != 1):
            raise ValueError(
                f"{self.file.name} has k = {k.max():g} beside standard uncertainties, which have k = 1; name "
                "the column U where it is expanded, or leave k out."
            )
        return k

    def _check_same(self, first: str, numbers: Array, second: str, others: Array) -> None:
        wrong = np.abs(numbers - others) > _AGREEMENT * np.maximum(numbers, others)
        if np.any(wrong):
            i = int(np.argmax(wrong))
            raise ValueError(
                f"{self.file.name}: for band {self.bands[i]} the column {first} gives {numbers[i]:.6g} and "
                f"{second} gives {others[i]:.6g} (k = 1); make them agree, or leave one out."
            )

    def _check_agreement(self, absolute: Array | None, percent: Array | None) -> None:
        reference = self.column(_REFERENCE)
        if absolute is None or percent is None or reference is None:
            return
        expected = percent / 100 * np.abs(reference)
        wrong = np.abs(absolute - expected) > _AGREEMENT * np.maximum(absolute, expected)
        if np.any(wrong):
            i = int(np.argmax(wrong))
            raise ValueError(
                f"{self.file.name}: band {self.bands[i]} has a standard uncertainty of {absolute[i]:.6g}, "
                f"and {percent[i]:.6g} % of {reference[i]:.6g} is {expected[i]:.6g}; make them agree."
            )


def _heading(name: str) -> str:
    """A column's name in one spelling; a capital U is an expanded uncertainty, a small u a standard one."""
    text = name.strip()
    if text == "U" or text.startswith("U_"):
        rest = text[1:].lower().removesuffix("_abs")
        return f"expanded_uncertainty{rest}"
    return text.lower()


def _read_json(file: Path, said: _Said) -> BandUncertainty:
    content = parse_json(read_text(file), Any, file.name)
    if not isinstance(content, dict) or "bands" not in content:
        raise ValueError(f'{file.name} needs an object with "bands" and "standard_uncertainty" or "effects".')
    bands = typed(content.pop("bands"), list[str], f"bands in {file.name}")
    reference = content.pop("reference", None)
    if reference is not None:
        reference = typed(reference, list[float], f"reference in {file.name}")
    effects = content.pop("effects", None)
    if effects is None:
        effects = [content]
    elif content:
        raise ValueError(f'{file.name} has {", ".join(content)} beside "effects"; it belongs inside of each.')
    if not isinstance(effects, list) or not effects:
        raise ValueError(f'{file.name}: "effects" needs at least one effect.')
    if said.name is not None and len(effects) > 1:
        raise ValueError(f'{file.name} has {len(effects)} effects; name each by a key "name" in the file.')
    parts = [
        _effect(effect, f"effect {i}" if len(effects) > 1 else file.stem, bands, reference, said, file.name)
        for i, effect in enumerate(effects, start=1)
    ]
    if said.between_scenes is not None and all(p.effects[0].between_pixels == "random" for p in parts):
        check_between_scenes(said.between_scenes, "random", file.name)
    return sum(parts[1:], start=parts[0])


_Numbers = float | list[float]


class _Effect(TypedDict, total=False):
    units: str
    standard_uncertainty: _Numbers
    expanded_uncertainty: _Numbers
    k: float
    correlation: str | list[list[float]]
    between_pixels: str | None
    between_scenes: str | None
    name: str | float | None


def _effect(
    effect: Any, title: str, bands: list[str], reference: ArrayLike | None, said: _Said, file: str
) -> BandUncertainty:
    kinds = {"standard_uncertainty", "expanded_uncertainty"}
    if not isinstance(effect, dict) or not kinds & set(effect) or "units" not in effect:
        raise ValueError(
            f'{file}: an effect needs "standard_uncertainty", one number per band, and "units", which is "1" '
            'for reflectance or "%" for per cent of it.'
        )
    unknown = ", ".join(sorted(set(effect) - _KEYS))
    if unknown:
        raise ValueError(f"{file} has {unknown}, which is not known; known are {', '.join(sorted(_KEYS))}.")
    typed(effect, _Effect, f"an effect in {file}")
    pixels = _between_pixels(effect.get("between_pixels"), said.between_pixels, file)
    asked = said.between_scenes if pixels == "systematic" else None  # of several effects, those it can be of
    scenes = _agreed("between_scenes", effect.get("between_scenes"), asked, file) or "independent"
    name = effect.get("name")
    return BandUncertainty.of(
        bands,
        _standard_of(effect, file),
        band_correlation(effect.get("correlation", "random"), len(bands), file),
        units=effect["units"],
        between_pixels=pixels,
        between_scenes=check_between_scenes(scenes, pixels, file),
        reference=reference,
        effect=said.name_of(None if name is None else str(name), title, scenes, file),
        coverage_factor=np.full(len(bands), effect["k"]) if "expanded_uncertainty" in effect else None,
        name=file,
    )


def _standard_of(effect: Mapping[str, Any], file: str) -> ArrayLike:
    """Standard uncertainties of an effect; expanded ones over their coverage factor."""
    if "expanded_uncertainty" in effect and "standard_uncertainty" in effect:
        raise ValueError(
            f"{file} has a standard and an expanded uncertainty of one effect; give one of them."
        )
    if "standard_uncertainty" in effect:
        if effect.get("k", 1) != 1:
            raise ValueError(
                f'{file} has k = {effect["k"]} beside "standard_uncertainty", whose k is 1; name it '
                '"expanded_uncertainty", or leave k out.'
            )
        numbers: ArrayLike = effect["standard_uncertainty"]
        return numbers
    k = effect.get("k")
    if not isinstance(k, int | float) or not k >= 1:
        raise ValueError(
            f'{file}: "expanded_uncertainty" needs its coverage factor "k", 1 or more (got {k}); usually 2.'
        )
    return np.asarray(effect["expanded_uncertainty"], np.float64) / k


def band_correlation(correlation: Any, n_bands: int, name: str) -> ArrayLike:
    """A matrix, or the word for one: "random" (no correlation), "systematic" (full correlation)."""
    if isinstance(correlation, str):
        if correlation not in ("random", "systematic"):
            raise ValueError(
                f'{name}: correlation is {correlation!r}; give a matrix, "random" (none between bands) or '
                '"systematic" (full).'
            )
        return np.eye(n_bands) if correlation == "random" else np.ones((n_bands, n_bands))
    matrix: ArrayLike = correlation
    return matrix


def _agreed(what: str, stated: Any, said: str | None, name: str) -> Any:
    """Return the statement of the file, else that of the caller; they must not differ."""
    if stated is not None and said is not None and stated != said:
        raise ValueError(f"{name} states {what}={stated!r}; {said!r} was asked for.")
    return said if stated is None else stated


def _between_pixels(stated: Any, said: BetweenPixels | None, name: str) -> BetweenPixels:
    """Return what is stated of two pixels; nothing is guessed."""
    word = _agreed("between_pixels", stated, said, name)
    if word is None:
        raise ValueError(
            f"{name} does not say whether errors are independent between pixels; give --between-pixels "
            "random, or systematic where all pixels of a scene share one error."
        )
    return check_between_pixels(word, name)


def _correlation(
    given: str | Path | ArrayLike | None, offered: Sequence[str], wanted: Sequence[str], places: list[int]
) -> ArrayLike | None:
    if given is None:
        return None
    if isinstance(given, str | Path):
        return read_correlation_table(given, [canonical_band(band) for band in wanted])
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.shape != (len(offered),) * 2:
        raise ValueError(
            f"a correlation matrix of shape {matrix.shape} came with {len(offered)} bands; it needs one row "
            "and one column per band of the file."
        )
    return matrix[np.ix_(places, places)]


def _rows(file: Path) -> list[list[str]]:
    with open(file, newline="", encoding="utf-8-sig") as stream:
        try:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if any(row)]
        except (UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{file.name} is not a CSV table: {error}.") from error
    if not rows:
        raise ValueError(f"{file.name} is empty.")
    return rows


def _number(text: str, file: Path, band: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{file.name}: {text!r} in the row of {band} is not a number.") from None
