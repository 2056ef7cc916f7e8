"""Digital effects tables: uncertainty in the variables of a dataset, as obsarray and CoMet keep it.

A measured variable names its uncertainty components in the attribute `unc_comps`; each component is a
variable with `units`, and for every dimension, or group of dimensions, `err_corr_<i>_dim`,
`err_corr_<i>_form`, `err_corr_<i>_params` and `err_corr_<i>_units` say how its errors are correlated. The
draft of the Uncertainty metadata Naming Conventions (UNC) calls them `err_corr_dim<i>_name`, `_form`,
`_params` and `_units`; there, a component without units is fractional.
Datasets are whatever looks like xarray's: `variables`, each with `dims`, `shape`, `attrs` and indexing by
slices.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from uncover.measurement.band_uncertainty import BetweenPixels, check_between_pixels
from uncover.measurement.bands import canonical_band, places_of
from uncover.measurement.correlation import read_correlation

Array = NDArray[np.float64]

#: Other names of the forms "random", "systematic" and "err_corr_matrix"; older tables say "custom".
_MATRIX_FORMS = ("err_corr_matrix", "custom")
_DIMENSIONLESS = ("1", "", "-", "dimensionless", "unitless")
_OBSARRAY, _UNC = re.compile(r"err_corr_(\d+)_\w+"), re.compile(r"err_corr_dim(\d+)_\w+")
_BAND_DIMS = ("band", "bands", "channel", "channels", "wavelength")


@dataclass(frozen=True, eq=False)
class TableEffect:
    """One component of a table: its variable, and how its errors are correlated.

    `between_pixels` is "structured" where it is neither random nor systematic along all pixel dimensions.
    """

    name: str
    correlation: Array  # (band, band)
    between_pixels: Literal["random", "systematic", "structured"]
    #: What its numbers are multiplied by to be shares of the measured variable; None: they are in its units.
    share: float | None = None

    @property
    def relative(self) -> bool:
        """True where its numbers are relative to the measured variable."""
        return self.share is not None


def _find_observed(variables: Any, asked: str | None, name: str) -> str:
    """The variable that has uncertainty components."""
    offered = [str(key) for key, variable in variables.items() if _words(variable.attrs.get("unc_comps"))]
    if not offered:
        raise ValueError(
            f"{name} is no digital effects table: no variable has the attribute unc_comps, which names the "
            "variables of its uncertainty components."
        )
    if asked is not None and asked not in offered:
        raise ValueError(f"{name}: {asked} has no unc_comps; {', '.join(offered)} have. Choose among them.")
    if asked is None and len(offered) > 1:
        raise ValueError(
            f"{name} has uncertainties of {', '.join(offered)}; say of which with --uncertainty-variable."
        )
    return asked or offered[0]


def _find_components(variables: Any, observed: str, name: str) -> list[str]:
    """The uncertainty components of a variable."""
    found = _words(variables[observed].attrs["unc_comps"])
    missing = [component for component in found if component not in variables]
    if missing:
        raise ValueError(
            f"{name}: unc_comps of {observed} names {', '.join(missing)}; there is no such variable."
        )
    return found


def _find_band_dim(variables: Any, observed: str, name: str) -> str:
    """The dimension that counts the bands: the one with names as its coordinate, or with a usual name."""
    dims = [str(dim) for dim in variables[observed].dims]
    named = [dim for dim in dims if dim in variables and np.asarray(variables[dim]).dtype.kind in "USO"]
    usual = [dim for dim in dims if dim.lower() in _BAND_DIMS]
    for found in (named, usual):
        if len(found) == 1:
            return found[0]
    raise ValueError(
        f"{name}: {observed} has the dimensions {', '.join(dims) or 'none'}; one of them has to count the "
        "bands, with their names as its coordinate, or be called band."
    )


def _find_band_names(
    variables: Any, observed: str, band_dim: str, given: Sequence[str] | None, name: str
) -> list[str]:
    """Names of the bands: those that are given, else the coordinate's."""
    size = _sizes_of(variables[observed])[band_dim]
    if given is not None:
        if len(given) != size:
            raise ValueError(f"{name} has {size} bands; {len(given)} names were given.")
        return list(given)
    labels = np.asarray(variables[band_dim]) if band_dim in variables else np.empty(0)
    if labels.dtype.kind not in "USO":
        raise ValueError(
            f"{name}: the {size} bands along {band_dim} have no names; give them in their "
            "order with --uncertainty-bands."
        )
    return [label.decode() if isinstance(label, bytes) else str(label) for label in labels]


@dataclass(frozen=True)
class _Entry:
    """One group of dimensions with one form of error correlation."""

    dims: tuple[str, ...]
    form: str
    params: tuple[Any, ...]


@dataclass(frozen=True)
class _AttributeReader:
    """Makes effects from the attributes of their variables."""

    variables: Any
    observed: str
    band_dim: str
    places: tuple[int, ...]
    units: str | None
    name: str

    @property
    def pixel_dims(self) -> tuple[str, ...]:
        """All dimensions of the measured variable but that of the bands."""
        return tuple(str(d) for d in self.variables[self.observed].dims if str(d) != self.band_dim)

    def effect(self, component: str) -> TableEffect:
        """One component, from its attributes."""
        variable = self.variables[component]
        dims = tuple(str(dim) for dim in variable.dims)
        allowed = (self.band_dim, *self.pixel_dims)
        if set(dims) - set(allowed):
            raise ValueError(
                f"{self.name}: {component} has the dimensions {', '.join(dims)}; those of {self.observed} "
                f"are {', '.join(allowed)}, and it can have no others."
            )
        forms = self._forms(component, variable.attrs, dims)
        return TableEffect(
            name=component,
            share=self._share(component, variable.attrs),
            correlation=self._correlation(component, forms[self.band_dim]),
            between_pixels=self._between_pixels(forms),
        )

    def _forms(self, component: str, attrs: Mapping[str, Any], dims: tuple[str, ...]) -> dict[str, _Entry]:
        """The entry of each dimension; a dimension of the variable that none names is random."""
        forms: dict[str, _Entry] = {}
        for entry in _entries(attrs, f"{self.name}: {component}"):
            for dim in entry.dims:
                if dim in forms:
                    raise ValueError(f"{self.name}: {component} has two error correlations along {dim}.")
                forms[dim] = entry
        sizes = _sizes_of(self.variables[self.observed])
        for dim in (self.band_dim, *self.pixel_dims):
            if dim in forms:
                continue
            if dim not in dims and sizes[dim] > 1:
                raise ValueError(
                    f"{self.name}: {component} is one number for all of {dim} and does not say how errors "
                    f'are correlated along it; add err_corr_<i>_dim = "{dim}" and its form.'
                )
            forms[dim] = _Entry((dim,), "random", ())
        return forms

    def _share(self, component: str, attrs: Mapping[str, Any]) -> float | None:
        """Factor of relative numbers: of per cent, or 1 of fractions; None for absolute ones."""
        of_value = self.variables[self.observed].attrs.get("units")
        found = attrs.get("units", self.units)
        where = f"{self.name}: {component}"
        if found is None and self._in_unc_names:
            return 1.0
        if found is None:
            raise ValueError(
                f'{where} has no units; give it those of {self.observed}, or "%" for per cent of it, '
                "or say them with --uncertainty-units."
            )
        if str(found).strip() == "%":
            if of_value is not None and str(of_value).strip() == "%":
                raise ValueError(
                    f'{where} and {self.observed} both have the units "%": per cent of the value, or of '
                    'reflectance? Store both with units "1".'
                )
            return 0.01
        if _plain(found) != _plain("1" if of_value is None else of_value):
            raise ValueError(
                f"{where} has the units {found!r}, {self.observed} has {of_value!r}; they must be the same, "
                'or "%" for per cent of the value.'
            )
        return None

    @property
    def _in_unc_names(self) -> bool:
        """True where any component has its error correlations in the names of the UNC."""
        components = _find_components(self.variables, self.observed, self.name)
        return any(_UNC.fullmatch(str(key)) for each in components for key in self.variables[each].attrs)

    def _correlation(self, component: str, entry: _Entry) -> Array:
        """The error correlation between the bands that are needed."""
        p, where = len(self.places), f"{self.name}: {component}"
        form = _simplified(entry)
        if form == "random":
            return np.eye(p)
        if form == "systematic":
            return np.ones((p, p))
        sizes = _sizes_of(self.variables[self.observed])
        others = [dim for dim in entry.dims if dim != self.band_dim and sizes.get(dim, 1) > 1]
        if others:
            raise ValueError(
                f"{where} has one correlation of form {entry.form!r} for {', '.join(entry.dims)} together; "
                f"the dimension {self.band_dim} needs one of its own, for a matrix over pixels and bands is "
                "never built."
            )
        if form not in _MATRIX_FORMS:
            raise ValueError(
                f"{where} has the error correlation {entry.form!r} along {self.band_dim}; known there are "
                "random, systematic and err_corr_matrix. Store it as a matrix."
            )
        return self._matrix(where, entry)

    def _matrix(self, where: str, entry: _Entry) -> Array:
        stored = str(entry.params[0]) if entry.params else ""
        if stored not in self.variables:
            raise ValueError(
                f"{where}: err_corr_<i>_params has to name the variable of the matrix along {self.band_dim}; "
                f"it is {stored or 'empty'}, and there is no such variable."
            )
        matrix = np.asarray(self.variables[stored], dtype=np.float64)
        size = _sizes_of(self.variables[self.observed])[self.band_dim]
        if matrix.shape != (size, size):
            raise ValueError(f"{where}: {stored} has shape {matrix.shape}; it needs ({size}, {size}).")
        return read_correlation(matrix[np.ix_(self.places, self.places)], f"{self.name}: {stored}")

    def _between_pixels(self, forms: Mapping[str, _Entry]) -> Literal["random", "systematic", "structured"]:
        sizes = _sizes_of(self.variables[self.observed])
        found = {_simplified(forms[dim]) for dim in self.pixel_dims if sizes[dim] > 1}
        if found <= {"random"}:
            return "random"
        return "systematic" if found == {"systematic"} else "structured"


def _entries(attrs: Mapping[str, Any], where: str) -> list[_Entry]:
    names = {key: m for key in attrs if (m := (_OBSARRAY.fullmatch(str(key)) or _UNC.fullmatch(str(key))))}
    unc = {key for key, m in names.items() if m.re is _UNC}
    if unc and unc != set(names):  # both say the same, of which one is read
        names = {key: m for key, m in names.items() if key in unc}
    first, last = ("err_corr_dim", "name") if unc else ("err_corr_", "dim")
    entries = []
    for i in sorted({m.group(1) for m in names.values()}, key=int):
        dims, form = _words(attrs.get(f"{first}{i}_{last}")), attrs.get(f"{first}{i}_form")
        if not dims or not isinstance(form, str):
            raise ValueError(f"{where}: error correlation {i} needs {first}{i}_{last} and {first}{i}_form.")
        params = np.atleast_1d(attrs.get(f"{first}{i}_params", ())).tolist()
        entries.append(_Entry(tuple(dims), form.strip(), tuple(params)))
    return entries


def _simplified(entry: _Entry) -> str:
    """The form; a rectangle without end is systematic (FIDUCEO writes systematic effects so)."""
    if entry.form == "rectangle_absolute" and entry.params:
        try:
            endless = all(np.isinf(float(value)) for value in entry.params)
        except (TypeError, ValueError):
            endless = False
        if endless:
            return "systematic"
    return entry.form


def _words(value: Any) -> list[str]:
    """A list of names: a list, an array, or one string with commas or spaces."""
    if value is None:
        return []
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str):
        return [word for word in re.split(r"[,\s]+", value) if word]
    return [str(word) for word in np.atleast_1d(np.asarray(value, dtype=object)).tolist()]


def is_dimensionless(units: Any) -> bool:
    """True for units that are one of the spellings of none."""
    return str(units).strip().lower() in _DIMENSIONLESS


def _plain(units: Any) -> str:
    return "1" if is_dimensionless(units) else str(units).strip()


def _sizes_of(variable: Any) -> dict[str, int]:
    """Length of each dimension of a variable."""
    return {str(dim): int(size) for dim, size in zip(variable.dims, variable.shape, strict=True)}


@dataclass(frozen=True, eq=False)
class EffectsTable:
    """Effects on one measured variable, as a digital effects table states them.

    It holds no pixels: `uncover.raster` reads them window by window. The error correlation along the band
    dimension gives the covariance between bands. A component that is random along every pixel dimension adds
    to the covariance of each pixel; a systematic one to the matrix that the scene shares; anything between
    (random from line to line, correlated within a distance) is counted as `structured` says.
    """

    variable: str
    band_dim: str
    pixel_dims: tuple[str, ...]
    bands: tuple[str, ...]
    places: tuple[int, ...]  # of the bands on their dimension
    effects: tuple[TableEffect, ...]
    structured: BetweenPixels = "systematic"

    @classmethod
    def read(
        cls,
        dataset: Any,
        bands: Sequence[str] | None = None,
        *,
        variable: str | None = None,
        band_names: Sequence[str] | None = None,
        units: str | None = None,
        structured: BetweenPixels = "systematic",
        name: str = "the table",
    ) -> Self:
        """Read the attributes of a dataset like xarray's; `name` is for messages.

        `bands` are those needed, in their order (all by default); `variable` the measured one, where several
        have components; `band_names` name the bands, where the coordinate does not; `units` are those of
        components that have none.
        """
        variables = dataset.variables
        observed = _find_observed(variables, variable, name)
        band_dim = _find_band_dim(variables, observed, name)
        offered = _find_band_names(variables, observed, band_dim, band_names, name)
        wanted = tuple(canonical_band(band) for band in (offered if bands is None else bands))
        places = tuple(places_of(wanted, offered, name))
        reader = _AttributeReader(variables, observed, band_dim, places, units, name)
        return cls(
            variable=observed,
            band_dim=band_dim,
            pixel_dims=reader.pixel_dims,
            bands=wanted,
            places=places,
            effects=tuple(
                reader.effect(component) for component in _find_components(variables, observed, name)
            ),
            structured=check_between_pixels(structured, name),
        )

    def kind(self, effect: TableEffect) -> BetweenPixels:
        """Random or systematic between pixels, structured effects as asked for."""
        return self.structured if effect.between_pixels == "structured" else effect.between_pixels

    def constants(self, dataset: Any, name: str) -> Array:
        """Numbers (band,) of a variable without a pixel dimension."""
        values = np.asarray(dataset.variables[name][...], dtype=np.float64).reshape(-1)
        along_bands = self.band_dim in map(str, dataset.variables[name].dims)
        return values[list(self.places)] if along_bands else np.broadcast_to(values, len(self.places))

    def flag_bits(self, dataset: Any, meanings: Sequence[str]) -> dict[str, int]:
        """The bits that stand for some flags, for each variable that has one of them."""
        found = {
            str(name): masks
            for name, variable in dataset.variables.items()
            if set(map(str, variable.dims)) & set(self.pixel_dims) and (masks := _flag_masks(variable.attrs))
        }
        known = {word for masks in found.values() for word in masks}
        if set(meanings) - known:
            raise ValueError(
                f"no flag is called {', '.join(sorted(set(meanings) - known))}; "
                f"there are {', '.join(sorted(known)) or 'none'}."
            )
        bits = {name: sum(masks.get(word, 0) for word in meanings) for name, masks in found.items()}
        return {name: mask for name, mask in bits.items() if mask}


def _flag_masks(attrs: Mapping[str, Any]) -> dict[str, int]:
    """Meaning and mask of each flag; obsarray writes masks as a string."""
    meanings, masks = _words(attrs.get("flag_meanings")), _words(attrs.get("flag_masks"))
    return {meaning: int(mask) for meaning, mask in zip(meanings, masks, strict=False)}
