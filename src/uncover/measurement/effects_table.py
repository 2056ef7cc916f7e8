"""Digital effects tables: uncertainty in the variables of a dataset, as obsarray and CoMet keep it.

A measured variable names its uncertainty components in the attribute `unc_comps`; each component is a
variable with `units`, and for every dimension, or group of dimensions, `err_corr_<i>_dim`,
`err_corr_<i>_form`, `err_corr_<i>_params` and `err_corr_<i>_units` say how its errors are correlated.
Datasets are whatever looks like xarray's: `variables`, each with `dims`, `shape`, `attrs` and indexing by
slices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.band_uncertainty import BetweenPixels, block_covariances, check_between_pixels
from uncover.measurement.bands import canonical_band, places_of
from uncover.measurement.effects_attributes import (
    AttributeReader,
    TableEffect,
    find_band_dim,
    find_band_names,
    find_components,
    find_observed,
    sizes_of,
    words,
)

Array = NDArray[np.float64]
Slices = Mapping[str, slice]

#: Pixels whose covariances are summed at a time.
BLOCK = 1 << 18


@dataclass(frozen=True, eq=False)
class EffectsTable:
    """What a digital effects table says about the errors of one measured variable.

    The table holds no pixels: its methods take the dataset, and slices along its pixel dimensions, so that
    covariances are built block by block. The error correlation along the band dimension gives the covariance
    between bands. A component that is random along every pixel dimension adds to the covariance of each
    pixel; a systematic one to the matrix that the scene shares; anything between (random from line to line,
    correlated within a distance) is counted as `structured` says.

    Examples
    --------
    >>> import xarray
    >>> dims = ("band", "y", "x")
    >>> noise = {"units": "%", "err_corr_1_dim": ["band", "y", "x"], "err_corr_1_form": "random"}
    >>> gain = {"units": "%", "err_corr_1_dim": ["band", "y", "x"], "err_corr_1_form": "systematic"}
    >>> dataset = xarray.Dataset(
    ...     {
    ...         "reflectance": (dims, np.full((2, 4, 5), 0.2), {"units": "1", "unc_comps": ["u_n", "u_g"]}),
    ...         "u_n": (dims, np.full((2, 4, 5), 5.0), noise),
    ...         "u_g": (dims, np.full((2, 4, 5), 2.0), gain),
    ...     },
    ...     coords={"band": ["B02", "B03"]},
    ... )
    >>> table = EffectsTable.read(dataset)
    >>> table.random(dataset, {"y": slice(0, 2)}).variances().round(8)
    array([[0.0001, 0.0001]])
    >>> table.systematic(dataset).round(8)
    array([[1.6e-05, 1.6e-05],
           [1.6e-05, 1.6e-05]])
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
        """Read the attributes of a dataset.

        Parameters
        ----------
        dataset : like xarray.Dataset
        bands : sequence of str, optional
            The bands that are needed, in their order, found by name; all of them by default.
        variable : str, optional
            The measured variable, where several have uncertainty components.
        band_names : sequence of str, optional
            Names of the bands in the dataset's order, where its coordinate has none (wavelengths).
        units : {"1", "%"}, optional
            Units of components that have none.
        structured : {"systematic", "random"}
            What components count as that are neither random nor systematic along the pixel dimensions.
        name : str
            What to call the dataset in messages.
        """
        variables = dataset.variables
        observed = find_observed(variables, variable, name)
        band_dim = find_band_dim(variables, observed, name)
        offered = find_band_names(variables, observed, band_dim, band_names, name)
        wanted = tuple(canonical_band(band) for band in (offered if bands is None else bands))
        places = tuple(places_of(wanted, offered, name))
        reader = AttributeReader(variables, observed, band_dim, places, units, name)
        return cls(
            variable=observed,
            band_dim=band_dim,
            pixel_dims=reader.pixel_dims,
            bands=wanted,
            places=places,
            effects=tuple(
                reader.effect(component) for component in find_components(variables, observed, name)
            ),
            structured=check_between_pixels(structured, name),
        )

    def random_effects(self) -> tuple[TableEffect, ...]:
        """The components that belong to each pixel alone."""
        return tuple(effect for effect in self.effects if self._kind(effect) == "random")

    def systematic_effects(self) -> tuple[TableEffect, ...]:
        """The components that a scene shares."""
        return tuple(effect for effect in self.effects if self._kind(effect) == "systematic")

    def _kind(self, effect: TableEffect) -> str:
        return self.structured if effect.between_pixels == "structured" else effect.between_pixels

    def standard(self, dataset: Any, effect: TableEffect, at: Slices | None = None) -> Array:
        """Standard uncertainty of a block in the units of the measured variable, NaN where there is none.

        (pixel, band), pixels in C order of the pixel dimensions; (1, band) where all pixels are alike.
        """
        at = at or {}
        if not effect.relative:
            return self.values(dataset, effect.name, at)
        return self.values(dataset, effect.name, at) / 100 * np.abs(self.values(dataset, self.variable, at))

    def values(self, dataset: Any, name: str, at: Slices) -> Array:
        """A variable's values as (pixel, band), or (1, band) where it has no pixel dimension."""
        variable = dataset.variables[name]
        dims = tuple(str(dim) for dim in variable.dims)
        values = np.asarray(variable[tuple(at.get(dim, slice(None)) for dim in dims)], dtype=np.float64)
        order = [dim for dim in (*self.pixel_dims, self.band_dim) if dim in dims]
        values = values.transpose([dims.index(dim) for dim in order])
        if self.band_dim in dims:
            values = values[..., list(self.places)]
        else:
            values = np.broadcast_to(values[..., None], (*values.shape, len(self.places)))
        if not set(dims) & set(self.pixel_dims):
            return values.reshape(1, -1)
        missing = tuple(i for i, dim in enumerate(self.pixel_dims) if dim not in dims)
        shape = (*self._shape(dataset, at), len(self.places))
        return np.broadcast_to(np.expand_dims(values, missing), shape).reshape(-1, len(self.places))

    def _shape(self, dataset: Any, at: Slices) -> tuple[int, ...]:
        sizes = sizes_of(dataset.variables[self.variable])
        return tuple(len(range(*at.get(dim, slice(None)).indices(sizes[dim]))) for dim in self.pixel_dims)

    def random(
        self, dataset: Any, at: Slices | None = None, where: NDArray[np.bool_] | None = None
    ) -> Covariances | None:
        """Covariances of the errors of each pixel of a block alone; None if the table has no such component.

        `where` chooses pixels of the block, row by row; the chosen ones need an uncertainty in every band.
        """
        effects = self.random_effects()
        if not effects:
            return None
        keep = slice(None) if where is None else np.flatnonzero(where)
        parts = []
        for effect in effects:
            u = self.standard(dataset, effect, at)
            parts.append((_checked(u if len(u) == 1 else u[keep], effect.name), effect.correlation))
        count = int(np.prod(self._shape(dataset, at or {}))) if where is None else int(np.sum(where))
        return block_covariances(parts, count)

    def systematic(self, dataset: Any, block: int = BLOCK) -> Array | None:
        """Covariance of the error that the pixels share: the mean of their covariances, one matrix, or None.

        Pixels without an uncertainty are left out. At most `block` pixels are held at a time, unless one
        step along the first pixel dimension has more.
        """
        effects = self.systematic_effects()
        if not effects:
            return None
        total, count = np.zeros((len(self.bands),) * 2), 0
        for at in self._blocks(dataset, block):
            parts = [(self.standard(dataset, effect, at), effect.correlation) for effect in effects]
            added, number = sum_of_covariances(parts)
            total, count = total + added, count + number
        if count == 0:
            raise ValueError(f"no pixel has an uncertainty in {', '.join(e.name for e in effects)}.")
        return total / count

    def _blocks(self, dataset: Any, block: int) -> Iterator[dict[str, slice]]:
        if not self.pixel_dims:
            yield {}
            return
        sizes = sizes_of(dataset.variables[self.variable])
        first, *others = self.pixel_dims
        step = max(1, block // max(1, int(np.prod([sizes[dim] for dim in others]))))
        for start in range(0, sizes[first], step):
            yield {first: slice(start, start + step)}

    def flagged(self, dataset: Any, meanings: Sequence[str], at: Slices | None = None) -> NDArray[np.bool_]:
        """Pixels of a block for which one of the flags is set in any flag variable, in the block's shape.

        Flags are CF's: `flag_meanings` and `flag_masks` of an integer variable along pixel dimensions.

        >>> import xarray
        >>> flags = {"flag_meanings": "cloud glint", "flag_masks": "1, 2"}
        >>> dataset = xarray.Dataset({"quality": (("y",), np.array([0, 1, 2, 3], np.uint8), flags),
        ...     "r": (("y", "band"), np.ones((4, 1)), {"units": "1", "unc_comps": "u"}),
        ...     "u": (("y", "band"), np.ones((4, 1)), {"units": "1"})}, coords={"band": ["B02"]})
        >>> EffectsTable.read(dataset).flagged(dataset, ["glint"])
        array([False, False,  True,  True])
        """
        at = at or {}
        out = np.zeros(self._shape(dataset, at), np.bool_)
        for name, bits in self.flag_bits(dataset, meanings).items():
            values = self.values(dataset, name, at).astype(np.int64)
            out |= (values & bits != 0).any(axis=1).reshape(out.shape)
        return out

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


def sum_of_covariances(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, int]:
    """Sum of D R D over the pixels that have an uncertainty in every effect and band, and their number.

    `parts` are pairs of standard uncertainties (pixel, band), or (1, band), and correlations (band, band).

    >>> total, number = sum_of_covariances([(np.array([[1.0, 2.0], [np.nan, 1.0]]), np.eye(2))])
    >>> total.tolist(), number
    ([[1.0, 0.0], [0.0, 4.0]], 1)
    """
    valid = np.ones(max(len(u) for u, _ in parts), np.bool_)
    for u, _ in parts:
        valid &= np.isfinite(u).all(axis=1)
    number = int(valid.sum())
    total = np.zeros_like(parts[0][1])
    for u, R in parts:
        chosen = u[valid] if len(u) > 1 else u
        squares = chosen.T @ chosen * (1 if len(u) == len(valid) else number)
        total += R * (squares if number else 0.0)
    return total, number


def _flag_masks(attrs: Mapping[str, Any]) -> dict[str, int]:
    """Meaning and mask of each flag; obsarray writes masks as a string."""
    meanings, masks = words(attrs.get("flag_meanings")), words(attrs.get("flag_masks"))
    return {meaning: int(mask) for meaning, mask in zip(meanings, masks, strict=False)}


def _checked(u: Array, name: str) -> Array:
    if not np.all(np.isfinite(u)):
        raise ValueError(
            f"{name} has no value for some of the pixels; choose pixels that have one with where=."
        )
    if np.any(u < 0):
        raise ValueError(f"{name} has the standard uncertainty {u.min():.6g}; it must be 0 or more.")
    return u
