"""Uncertainty of bands as a few numbers: standard uncertainties, their correlation, and what pixels share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.bands import canonical_band, places_of
from uncover.measurement.correlation import read_correlation
from uncover.measurement.measured import Measured

Array = NDArray[np.float64]

#: How errors of different pixels of a scene hang together: not at all, or they are one error.
BetweenPixels = Literal["random", "systematic"]

#: Whether each scene has a systematic error of its own, or all scenes share it (a sensor's gain).
BetweenScenes = Literal["independent", "common"]

#: Standard uncertainties that agree with multiples of one spectrum to this tolerance are treated as such.
_PROPORTIONAL = 1e-12


@dataclass(frozen=True, eq=False)
class BandEffect:
    """One source of error: its standard uncertainty in each band, and how errors are correlated.

    An error that is common to all scenes cancels between a model and a map that both have it.
    """

    standard: Array  # (band,), k = 1, in the units of the values or as a fraction of them
    correlation: Array  # (band, band), between the errors of two bands
    relative: bool = False  # `standard` is a fraction of the value (0.05 is five per cent)
    between_pixels: BetweenPixels = "random"
    between_scenes: BetweenScenes = "independent"  # of a systematic effect
    name: str = ""  # of the effect in records; a common effect is known by it
    coverage_factor: Array | None = None  # (band,), where the uncertainty was stated as an expanded one

    def covariance(self) -> Array:
        """u uᵀ ∘ R; relative where `standard` is."""
        return self.correlation * (self.standard[:, None] * self.standard)

    def select(self, places: Sequence[int]) -> Self:
        """Those bands, in that order."""
        at = np.asarray(places)
        k = None if self.coverage_factor is None else self.coverage_factor[at]
        matrix = self.correlation[np.ix_(at, at)]
        return replace(self, standard=self.standard[at], correlation=matrix, coverage_factor=k)

    def at(self, values: Array) -> Array:
        """Standard uncertainty in the units of the values: (1, band), or (pixel, band) where relative."""
        return np.abs(values) * self.standard if self.relative else self.standard[None]


@dataclass(frozen=True, eq=False)
class BandUncertainty:
    """Uncertainty of the bands of a scene, from one or several independent effects.

    For a pixel of values ρ an effect contributes D R D, with D = diag(u) where its standard uncertainty is
    absolute and D = diag(u ∘ |ρ|) where it is relative. Random effects add up to the covariance of each
    pixel, systematic ones to one matrix for the scene.

    >>> noise = BandUncertainty.of(["B02", "B03"], [0.01, 0.02], [[1.0, 0.5], [0.5, 1.0]])
    >>> noise.random(np.full((1000, 2), 0.1)).matrices()  # one matrix for all pixels
    array([[[0.0001, 0.0001],
            [0.0001, 0.0004]]])
    >>> relative = BandUncertainty.of(["B02", "B03"], [5.0, 5.0], units="%", between_pixels="systematic")
    >>> print(relative.random(np.full((1000, 2), 0.1)))
    None
    >>> relative.systematic([0.1, 0.2]).round(8).tolist()
    [[2.5e-05, 0.0], [0.0, 0.0001]]
    """

    bands: tuple[str, ...]  # in the order of the values
    effects: tuple[BandEffect, ...]  # independent of each other
    reference: Array | None = None  # (band,), where relative systematic effects are taken if nowhere else

    @classmethod
    def of(
        cls,
        bands: Sequence[str],
        standard: ArrayLike,
        correlation: ArrayLike | None = None,
        *,
        units: str = "1",
        between_pixels: BetweenPixels = "random",
        between_scenes: BetweenScenes = "independent",
        reference: ArrayLike | None = None,
        effect: str = "",
        coverage_factor: ArrayLike | None = None,
        name: str = "the uncertainty",
    ) -> Self:
        """One effect, checked: `units` is "1" for the units of the values, "%" for per cent of them.

        `effect` is what the effect is called in records, `name` the file or whatever messages speak of.
        `coverage_factor` is kept for the record of an uncertainty that was stated as an expanded one.
        """
        names = tuple(canonical_band(band) for band in bands)
        places_of(names, names, name)
        u = _vector(standard, names, f"{name}: standard uncertainty")
        if np.any(u < 0):
            i = int(np.argmin(u))
            raise ValueError(
                f"{name} has a standard uncertainty of {u[i]:.6g} in band {names[i]}; it must be 0 or more."
            )
        relative = is_relative(units, name)
        check_between_pixels(between_pixels, name)
        check_between_scenes(between_scenes, between_pixels, name)
        check_effect_name(effect, between_scenes, name)
        matrix = np.eye(len(names))
        if correlation is not None:
            matrix = read_correlation(correlation, f"{name}: the correlation matrix")
        if matrix.shape != (len(names),) * 2:
            raise ValueError(
                f"{name} has a correlation matrix of shape {matrix.shape} for {len(names)} bands; it needs "
                "one row and one column per band."
            )
        values = None if reference is None else _vector(reference, names, f"{name}: reference")
        if relative and values is not None and np.any(values < 0):
            i = int(np.argmin(values))
            raise ValueError(
                f"{name} is in per cent of a negative reflectance ({values[i]:.6g} in band {names[i]}); give "
                "the uncertainty in reflectance, or a reference above 0."
            )
        u = u / 100 if relative else u
        k = None if coverage_factor is None else _vector(coverage_factor, names, f"{name}: k")
        one = BandEffect(u, matrix, relative, between_pixels, between_scenes, effect, k)
        return cls(names, (one,), values)

    def __add__(self, other: Self) -> Self:
        """Both together: effects that are independent of each other, over the same bands."""
        other = other.select(self.bands)
        reference = self.reference if self.reference is not None else other.reference
        return type(self)(self.bands, (*self.effects, *other.effects), reference)

    def select(self, bands: Sequence[str], name: str = "the uncertainty") -> Self:
        """Some of the bands by name, in that order; B2 and B02 are the same."""
        places = places_of(list(bands), self.bands, name)
        reference = None if self.reference is None else self.reference[places]
        names = tuple(self.bands[place] for place in places)
        return type(self)(names, tuple(effect.select(places) for effect in self.effects), reference)

    def random(self, values: ArrayLike) -> Covariances | None:
        """Covariances of the errors of each pixel alone, for values (…, band) read in C order; None if none.

        Absolute effects give one matrix for all pixels. Relative ones give one for each: variances where no
        bands are correlated, multiples of one matrix where all spectra are multiples of one, else matrices,
        pixels · bands² numbers: give the values block by block.
        """
        rows = self._rows(values)
        parts = [(e.at(rows), e.correlation) for e in self.effects if e.between_pixels == "random"]
        return block_covariances(parts, len(rows)) if parts else None

    def systematic(self, values: ArrayLike | None = None) -> Array | None:
        """Covariance of the error that the scene's pixels have in common, one matrix; None if there is none.

        Relative effects depend on the value: the matrix is the mean over the pixels of `values`, (…, band),
        or is taken at `reference`. Effects that all scenes have in common are not in it; see `common`.
        """
        own = self._shared("independent", values)
        return np.sum([matrix for _, matrix in own], axis=0) if own else None

    def common(self, values: ArrayLike | None = None) -> dict[str, Array]:
        """Covariances of systematic effects that all scenes have in common, by name; as in `systematic`."""
        found: dict[str, Array] = {}
        for name, matrix in self._shared("common", values):
            found[name] = found[name] + matrix if name in found else matrix
        return found

    def _shared(self, scenes: BetweenScenes, values: ArrayLike | None) -> list[tuple[str, Array]]:
        """Name and covariance of each systematic effect of one kind."""
        chosen = [e for e in self.effects if e.between_pixels == "systematic" and e.between_scenes == scenes]
        return [(e.name, e.covariance() * (self._mean_square(values) if e.relative else 1.0)) for e in chosen]

    def _mean_square(self, values: ArrayLike | None) -> Array:
        """Mean over pixels of |ρ| |ρ|ᵀ, (band, band)."""
        given = self.reference if values is None else values
        if given is None:
            raise ValueError(
                "a relative systematic uncertainty needs values to be taken at; give those of the scene, or "
                "a reference spectrum."
            )
        rows = np.abs(self._rows(given))
        return rows.T @ rows / len(rows)

    def measured(self, values: ArrayLike) -> Measured:
        """Values with both parts, ready for `fit` and `predict_proba`."""
        rows = self._rows(values)
        return Measured(rows, self.random(rows), self.systematic(rows))

    def _rows(self, values: ArrayLike) -> Array:
        array = np.asarray(values, dtype=np.float64)
        p = len(self.bands)
        if array.ndim == 0 or array.shape[-1] != p:
            raise ValueError(
                f"values of shape {array.shape} came; the last axis needs the {p} bands "
                f"{', '.join(self.bands)}."
            )
        return array.reshape(-1, p)


def block_covariances(parts: Sequence[tuple[Array, Array]], n_pixels: int) -> Covariances:
    """Σ_i = Σ_e D_ie R_e D_ie of a block of pixels, in the most compact form that holds it.

    The parts are, for each effect, standard uncertainties (pixel, band), or (1, band) where all pixels are
    alike, and the correlation of its errors between bands, (band, band).
    """
    if n_pixels == 0:
        return Covariances(np.zeros_like(parts[0][1]), None, None)
    if all(len(u) == 1 for u, _ in parts):
        return Covariances(_sum(parts, slice(0, 1))[0], None, None)
    squares = _common_factor([u for u, _ in parts])
    if squares is not None:
        largest = int(np.argmax(squares))
        base = _sum(parts, slice(largest, largest + 1))[0] / squares[largest]
        return Covariances(base, None if np.all(squares == 1) else squares, None)
    if all(not np.any(R * (1 - np.eye(len(R)))) for _, R in parts):
        shape = (n_pixels, parts[0][0].shape[1])
        return Covariances(None, None, sum((u**2 for u, _ in parts), start=np.zeros(shape)))
    return Covariances(None, None, _sum(parts, slice(None)))


def _sum(parts: Sequence[tuple[Array, Array]], pixels: slice) -> Array:
    """The covariances of some pixels, (pixel, band, band), in one array that is added to in place."""
    total: Array | None = None
    for u, R in parts:
        chosen = u if len(u) == 1 else u[pixels]
        own = np.einsum("ia,ab,ib->iab", chosen, R, chosen)
        if total is None or len(total) < len(own):
            own += 0.0 if total is None else total
            total = own
        else:
            total += own
    assert total is not None
    return total


def _common_factor(standards: list[Array]) -> Array | None:
    """Factors f_i² with u_ie = f_i · u_1e for every effect e, if there are any; the first positive is 1."""
    if any(len(u) == 1 for u in standards):
        return None
    every = standards[0] if len(standards) == 1 else np.concatenate(standards, axis=1)
    size = every.sum(1)
    largest = int(np.argmax(size))
    if size[largest] <= 0:
        return np.ones(len(every))
    factor = size / size[largest]
    difference = np.abs(every - factor[:, None] * every[largest])
    if np.any(difference > _PROPORTIONAL * every.max()):
        return None
    first = factor[np.argmax(factor > 0)]
    return (factor / first) ** 2


def is_relative(units: str, name: str) -> bool:
    """True where units are per cent; those of the values are "1"."""
    if units == "%":
        return True
    if units == "1":
        return False
    raise ValueError(f'{name} has the units {units!r}; use "1" for reflectance or "%" for per cent of it.')


def check_between_pixels(word: object, name: str) -> BetweenPixels:
    """Refuse any word but the two that are known."""
    if word not in get_args(BetweenPixels):
        raise ValueError(
            f"{name}: between_pixels (--between-pixels) is {word!r}; use random where errors of two pixels "
            "are independent, systematic where a scene shares one error."
        )
    return cast(BetweenPixels, word)


def check_between_scenes(word: object, between_pixels: str, name: str) -> BetweenScenes:
    """Refuse any word but the two that are known, and a random error that all scenes would share."""
    if word not in get_args(BetweenScenes):
        raise ValueError(
            f"{name}: between_scenes (--between-scenes) is {word!r}; use independent where each scene has "
            "its own error, common where all scenes share one."
        )
    if word == "common" and between_pixels == "random":
        raise ValueError(
            f"{name}: a random effect has another error in each pixel; common between scenes "
            "(--between-scenes) needs systematic between pixels (--between-pixels)."
        )
    return cast(BetweenScenes, word)


def check_effect_name(effect: str, between_scenes: str, name: str) -> None:
    """Refuse an effect that all scenes share and that has no name to be known by."""
    if between_scenes == "common" and not effect:
        raise ValueError(
            f"{name}: an effect common to all scenes is known by its name, and none is stated; add a column "
            "or key `name`, or give --effect-name NAME, the same in fit and map."
        )


def _vector(numbers: ArrayLike, bands: tuple[str, ...], name: str) -> Array:
    array = np.asarray(numbers, dtype=np.float64)
    if array.shape != (len(bands),):
        raise ValueError(
            f"{name} has shape {array.shape}; it needs one number for each of {len(bands)} bands."
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} has NaN or infinity in band {bands[int(np.argmin(np.isfinite(array)))]}.")
    return array
