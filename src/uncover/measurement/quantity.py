"""A quantity that a whole scene shares, such as its aerosol optical depth, and draws of it: one per world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from uncover.bayes.noise import sobol_places
from uncover.bayes.streams import stream
from uncover.measurement.radiometry import SATELLITE_FACTORS, SCENE_FACTORS

Array = npt.NDArray[Any]
Impossible = Literal["truncate", "clip", "gamma", "refuse"]
Method = Literal["mc", "quantile", "quadrature"]


@dataclass(frozen=True)
class Draws:
    """Values of a quantity, one per world, and the weight of each.

    >>> draws = Draws(values=np.array([0.1, 0.3]), weights=np.array([0.5, 0.5]))
    >>> float(draws.mean)
    0.2
    """

    values: Array  # (realisation,)
    weights: Array  # (realisation,), summing to one
    quantity: Quantity | None = None  # what they are draws of
    scores: Array | None = None  # (realisation,), standard Gaussian: how far each world is off

    @classmethod
    def joined(cls, blocks: Sequence[Draws]) -> Draws:
        """Blocks of draws of one quantity, one after the other."""
        if len(blocks) == 1:
            return blocks[0]
        scores = [block.scores for block in blocks if block.scores is not None]
        return cls(
            np.concatenate([block.values for block in blocks]),
            np.concatenate([block.weights for block in blocks]) / len(blocks),
            blocks[0].quantity,
            np.concatenate(scores) if scores else None,
        )

    @property
    def mean(self) -> float:
        """Weighted mean of the draws."""
        return float(self.weights @ self.values)

    def around(self, estimate: float) -> Array:
        """The same worlds where another value was estimated: its own draws by the same rule, (realisation,).

        Far from the bounds every draw is shifted by the same amount; near them the rule holds here too.
        """
        if self.quantity is None or self.scores is None:
            raise ValueError("these draws do not say what they are of; make them by Quantity.draw")
        moved = min(max(estimate, self.quantity.lowest), self.quantity.highest)
        if self.quantity.impossible == "gamma" and moved == self.quantity.lowest:
            return np.full(len(self.scores), moved)  # all of its probability is there
        return replace(self.quantity, estimate=moved).values(self.scores)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the draws, over n − 1; of nodes of a quadrature by their weights."""
        n = len(self.values)
        freedom = (n - 1) / n if n > 1 and np.ptp(self.weights) <= 1e-9 * self.weights.max() else 1.0
        return float(np.sqrt(self.weights @ (self.values - self.mean) ** 2 / freedom))


@dataclass(frozen=True)
class Quantity:
    """An estimate with a Gaussian standard uncertainty, and bounds that it cannot pass.

    A systematic effect: one draw is shared by all bands and pixels of a scene. Realisation r is one *world*,
    whose draw depends on the seed, the scene, the name and r alone. ``impossible`` says what becomes of the
    Gaussian beyond the bounds:

    - ``"truncate"``: it is cut off and scaled up. This is the posterior for a flat prior within the bounds;
      its mean moves away from the bound, and its standard deviation shrinks.
    - ``"clip"``: draws beyond a bound are set to it, a lump of probability there. Moves the mean less.
    - ``"gamma"``: a gamma distribution with the same mean and standard deviation, cut off at an upper bound.
      It needs an estimate above zero, and gives much weight to values near zero where u > mean.
    - ``"refuse"``: an error if a draw is beyond the bounds.

    >>> water = Quantity("water vapour", estimate=2.0, standard_uncertainty=0.4)
    >>> water.draw(4, scene="GS2A_20210908T042701_032448_N03.01", seed=0, method="quantile").mean
    2.0...
    >>> Quantity("aod", 0.1, 0.1, impossible="refuse").draw(25, scene="s", seed=0, method="quantile")
    Traceback (most recent call last):
    ...
    ValueError: 4 of 25 draws of aod are beyond 0 to inf; choose impossible="truncate", "clip" or "gamma"
    """

    name: str
    estimate: float
    standard_uncertainty: float
    lowest: float = 0.0
    highest: float = np.inf
    impossible: Impossible = "truncate"

    def __post_init__(self) -> None:
        if not np.isfinite(self.estimate):
            raise ValueError(f"{self.name} is missing (got {self.estimate}); give its estimate")
        if not self.lowest <= self.estimate <= self.highest:
            raise ValueError(
                f"{self.name} is {self.estimate:g}; it must be from {self.lowest:g} to {self.highest:g}"
            )
        if not (np.isfinite(self.standard_uncertainty) and self.standard_uncertainty >= 0):
            raise ValueError(
                f"the standard uncertainty of {self.name} is {self.standard_uncertainty:g}; give 0 or more"
            )
        if self.impossible not in _RULES:
            raise ValueError(
                f"impossible is {self.impossible!r}; choose one of {', '.join(map(repr, _RULES))}"
            )

    def record(self) -> dict[str, Any]:
        """The quantity as stated, and the distribution that is drawn from: what bounds do to it."""
        scores, _ = _quantiles(20_000, (0, self.name, "record"))
        rule: Impossible = "truncate" if self.impossible == "refuse" else self.impossible
        values = replace(self, impossible=rule).values(scores)
        names = {"truncate": "truncated", "clip": "clipped", "refuse": "truncated"}
        bounds = f"Gaussian, {names.get(self.impossible)} at {self.lowest:g} and {self.highest:g}"
        bounds = bounds if np.isfinite([self.lowest, self.highest]).any() else "Gaussian"
        return {
            "name": self.name,
            "estimate": self.estimate,
            "standard_uncertainty": self.standard_uncertainty,
            "distribution": "gamma" if self.impossible == "gamma" else bounds,
            "distribution_mean": round(float(values.mean()), 6) + 0.0,
            "distribution_standard_deviation": round(float(values.std()), 6),
        }

    def draw(self, n: int, *, scene: str, seed: int, method: Method = "mc") -> Draws:
        """Draw n worlds.

        ``"mc"``: independent Gaussian draws. ``"quantile"``: the midpoints of n intervals of equal
        probability, in a random order of the worlds. ``"quadrature"``: Gauss-Hermite nodes with their
        (unequal) weights. Draws of more worlds by ``"mc"`` begin with those of fewer.
        """
        if n < 1:
            raise ValueError(f"the number of draws is {n}; give 1 or more")
        if method not in _SCORES:
            raise ValueError(f"method is {method!r}; choose one of {', '.join(map(repr, _SCORES))}")
        scores, weights = _SCORES[method](n, (seed, self.name, scene))
        return Draws(self.values(scores), weights, self, scores)

    def values(self, scores: Array) -> Array:
        """Values at standard Gaussian scores, by the rule for what is impossible."""
        if self.standard_uncertainty == 0:
            return np.full(len(scores), float(self.estimate))
        return _RULES[self.impossible](self, scores)


@dataclass(frozen=True)
class Choice(Quantity):
    """One of several kinds, all equally probable: a draw is the number of one of them.

    >>> kinds = Choice.of("aerosol_model", {"continental": 0, "desert": 3})
    >>> kinds.draw(4, scene="s", seed=0, method="quantile").values.astype(int).tolist()
    [3, 0, 3, 0]
    """

    kinds: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, kinds: Mapping[str, int]) -> Choice:
        """Of kinds with their numbers, the first of which is the estimate."""
        first = float(next(iter(kinds.values())))
        return cls(name, first, float(len(kinds) > 1), kinds=dict(kinds))

    def values(self, scores: Array) -> Array:
        """Numbers of kinds at standard Gaussian scores."""
        numbers = np.array(list(self.kinds.values()), float)
        return np.asarray(numbers[np.floor(special.ndtr(scores) * len(numbers)).astype(int)])

    def record(self) -> dict[str, Any]:
        """The kinds, and that they are equally probable."""
        found = {"name": self.name, "estimate": next(iter(self.kinds))}
        if len(self.kinds) == 1:
            return {**found, "distribution": "stated, without uncertainty"}
        return {**found, "distribution": f"equal probabilities of {', '.join(self.kinds)}"}


#: Effects that a scene's worlds may have, with the quantities that are drawn. In this order they are the
#: dimensions of the design of several, which stay theirs whatever else is drawn: add at the end.
EFFECTS: dict[str, tuple[str, ...]] = {
    "aod": ("aod",),
    "water-vapour": ("water_vapour",),
    "ozone": ("ozone",),
    "altitude": ("height",),
    "radiometry": (*SCENE_FACTORS, *SATELLITE_FACTORS),
    "aerosol-model": ("aerosol_model",),
    "geolocation": (),  # errors of single pixels alone: nothing is drawn
}
DIMENSIONS = tuple(name for names in EFFECTS.values() for name in names)
#: Dimensions of the sequence that the design is made of. More would change every world that was ever drawn:
#: effects after the first of these have an order of their own.
_SEQUENCE = 8


def effects_of(worlds: Mapping[str, Any]) -> tuple[str, ...]:
    """Effects that differ between worlds, by the names of their draws; those of a date are followed by it.

    >>> effects_of({"aod 2020-06": [0.1, 0.2], "ozone 2020-06": [330.0, 330.0], "content": "2cf24d"})
    ('aod',)
    """
    drawn = {name.split()[0] for name, values in worlds.items() if len(set(values)) > 1}
    return tuple(effect for effect, names in EFFECTS.items() if drawn & set(names))


def named_effects(worlds: Mapping[str, Any]) -> str:
    """The effects that differ between worlds, in words; the optical depth where none does."""
    words = {"aod": "aerosol optical depth"}
    return ", ".join(words.get(effect, effect.replace("-", " ")) for effect in effects_of(worlds) or ("aod",))


def draw_together(
    quantities: Sequence[Quantity], n: int, *, scene: str, seed: int, method: Method = "quantile"
) -> dict[str, Draws]:
    """Draw n worlds of several quantities, by name; a draw does not depend on which others are drawn.

    ``"mc"``: independent draws of each. ``"quantile"``: each has the midpoints of n intervals of equal
    probability, and Sobol's sequence (Joe and Kuo 2008), scrambled, says which of them meet in a world: one
    dimension a quantity. ``"quadrature"`` is for one quantity that is uncertain.

    >>> two = [Quantity("aod", 0.12, 0.03), Quantity("ozone", 330.0, 10.0)]
    >>> both = draw_together(two, 16, scene="s", seed=0)
    >>> alone = two[0].draw(16, scene="s", seed=0, method="quantile")
    >>> bool((both["aod"].values == alone.values).all())
    True
    """
    uncertain = [each.name for each in quantities if each.standard_uncertainty > 0]
    if method == "quadrature" and len(uncertain) > 1:
        raise ValueError(
            f'method is "quadrature", and {len(uncertain)} quantities are uncertain '
            f'({", ".join(uncertain)}); its nodes are those of one: choose "quantile" or "mc"'
        )
    drawn = {each.name: each.draw(n, scene=scene, seed=seed, method=method) for each in quantities}
    if method != "quantile":
        return drawn
    ranks = dict(zip(DIMENSIONS[:_SEQUENCE], _design(n, seed, scene).T, strict=True))
    scores = special.ndtri((np.arange(n) + 0.5) / n)
    for each in quantities:
        if each.name in ranks:
            mine = scores[ranks[each.name]]
            drawn[each.name] = replace(drawn[each.name], values=each.values(mine), scores=mine)
    return drawn


def _design(n: int, seed: int, scene: str) -> Array:
    """Ranks of the worlds in each dimension, (world, dimension); those of the first are those of it alone."""
    ranks = sobol_places(n, _SEQUENCE, stream(seed, "design", scene)).argsort(0).argsort(0)
    alone = stream(seed, DIMENSIONS[0], scene, "order").permutation(n)
    return np.asarray(ranks[np.argsort(ranks[:, 0])[alone]])


def _monte_carlo(n: int, names: tuple[int, str, str]) -> tuple[Array, Array]:
    scores = [stream(*names, r).standard_normal() for r in range(n)]
    return np.array(scores), np.full(n, 1 / n)


def _quantiles(n: int, names: tuple[int, str, str]) -> tuple[Array, Array]:
    """In a random order, so that the worlds of two quantities, or of two scenes, are not tied together."""
    scores = special.ndtri((np.arange(n) + 0.5) / n)
    return np.asarray(stream(*names, "order").permutation(scores)), np.full(n, 1 / n)


def _quadrature(n: int, names: tuple[int, str, str]) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


def _truncate(quantity: Quantity, scores: Array) -> Array:
    """The quantile function of the truncated Gaussian, in the tail that keeps its digits."""
    bounds = np.array([quantity.lowest, quantity.highest])
    low, high = (bounds - quantity.estimate) / quantity.standard_uncertainty
    below = special.ndtri(special.ndtr(low) + special.ndtr(scores) * (special.ndtr(high) - special.ndtr(low)))
    above = -special.ndtri(
        special.ndtr(-high) + special.ndtr(-scores) * (special.ndtr(-low) - special.ndtr(-high))
    )
    inside = quantity.estimate + quantity.standard_uncertainty * np.where(scores < 0, below, above)
    return np.clip(inside, *bounds)


def _clip(quantity: Quantity, scores: Array) -> Array:
    return np.clip(
        quantity.estimate + quantity.standard_uncertainty * scores, quantity.lowest, quantity.highest
    )


def _gamma(quantity: Quantity, scores: Array) -> Array:
    """Gamma with the mean and standard deviation of the quantity, from the lowest value to the highest."""
    mean = quantity.estimate - quantity.lowest
    if mean <= 0:
        raise ValueError(
            f'impossible="gamma" needs {quantity.name} above {quantity.lowest:g}, got {quantity.estimate:g}; '
            'use "truncate" or "clip"'
        )
    scale = quantity.standard_uncertainty**2 / mean
    shape, end = mean / scale, (quantity.highest - quantity.lowest) / scale
    inside, beyond = special.gammainc(shape, end), special.gammaincc(shape, end)
    below = special.gammaincinv(shape, inside * special.ndtr(scores))
    above = special.gammainccinv(shape, beyond + inside * special.ndtr(-scores))
    return np.asarray(quantity.lowest + scale * np.where(scores < 0, below, above))


def _refuse(quantity: Quantity, scores: Array) -> Array:
    values = quantity.estimate + quantity.standard_uncertainty * scores
    beyond = int(((values < quantity.lowest) | (values > quantity.highest)).sum())
    if beyond:
        raise ValueError(
            f"{beyond} of {len(values)} draws of {quantity.name} are beyond {quantity.lowest:g} to "
            f'{quantity.highest:g}; choose impossible="truncate", "clip" or "gamma"'
        )
    return np.asarray(values)


_RULES: dict[str, Callable[[Quantity, Array], Array]] = {
    "truncate": _truncate,
    "clip": _clip,
    "gamma": _gamma,
    "refuse": _refuse,
}
_SCORES: dict[str, Callable[[int, tuple[int, str, str]], tuple[Array, Array]]] = {
    "mc": _monte_carlo,
    "quantile": _quantiles,
    "quadrature": _quadrature,
}


def cams_uncertainty(aod: npt.ArrayLike) -> Array:
    """Standard uncertainty of the CAMS forecast: u = (0.1τ+0.03) + |−0.46τ+0.09|.

    The requirement on the product plus the offset found in its validation (Sentinel-2 L2A data quality
    report, OMPC.CS.DQR.002.12-2022; the same as in Bilson, McCrory and Pustogvar 2025).

    >>> float(cams_uncertainty(0.1).round(3))
    0.084
    """
    return _requirement(aod) + np.abs(-0.46 * np.asarray(aod, dtype=float) + 0.09)


def dark_vegetation_uncertainty(aod: npt.ArrayLike) -> Array:
    """Standard uncertainty of Sen2Cor's dark vegetation retrieval: u = (0.1τ+0.03) + |−0.56τ+0.07|.

    As in the public uncertainty tool of the L2A product (S2-L2A-RUT, Gorroño).

    >>> float(dark_vegetation_uncertainty(0.1).round(3))
    0.054
    """
    return _requirement(aod) + np.abs(-0.56 * np.asarray(aod, dtype=float) + 0.07)


def _requirement(aod: npt.ArrayLike) -> Array:
    return np.asarray(0.1 * np.asarray(aod, dtype=float) + 0.03)


# The values of AOT_RETRIEVAL_METHOD in L2A metadata. DEFAULT (a start visibility) has no validation of its
# own; the uncertainty tool treats it as dark vegetation.
RETRIEVAL_METHODS = {
    "CAMS": cams_uncertainty,
    "SEN2COR_DDV": dark_vegetation_uncertainty,
    "DEFAULT": dark_vegetation_uncertainty,
}


def water_vapour_uncertainty(column: npt.ArrayLike) -> Array:
    """Standard uncertainty of Sen2Cor's water vapour column w in cm: u = (0.1w+0.2) + |−0.1w+0.03|.

    The requirement on the product plus the offset found in its validation, as in S2-L2A-RUT.

    >>> float(water_vapour_uncertainty(2.0).round(3))
    0.57
    """
    column = np.asarray(column, dtype=float)
    return np.asarray(0.1 * column + 0.2 + np.abs(-0.1 * column + 0.03))


def aerosol_optical_depth(
    aod: float | None,
    *,
    retrieval: str = "CAMS",
    standard_uncertainty: float | None = None,
    highest: float = np.inf,
    impossible: Impossible = "truncate",
) -> Quantity:
    """The optical depth of a scene as a quantity with uncertainty, ready to draw worlds from.

    Parameters
    ----------
    aod : float
        The estimate at 550 nm.
    retrieval : str
        AOT_RETRIEVAL_METHOD of the metadata: CAMS, SEN2COR_DDV or DEFAULT.
    standard_uncertainty : float, optional
        Your own, instead of the one that follows from the retrieval.
    highest : float
        The largest value that can be corrected for, such as the last node of the look-up table.
    impossible : str
        What becomes of draws below zero; see :class:`Quantity`.

    Examples
    --------
    >>> aod = aerosol_optical_depth(0.12)
    >>> round(aod.standard_uncertainty, 4)
    0.0768
    >>> aod.draw(25, scene="my-scene", seed=0).values.shape
    (25,)
    >>> aerosol_optical_depth(None)
    Traceback (most recent call last):
    ...
    ValueError: the aerosol optical depth is missing; give --aod, as the metadata have none
    """
    if aod is None or np.isnan(aod):
        raise ValueError("the aerosol optical depth is missing; give --aod, as the metadata have none")
    if retrieval not in RETRIEVAL_METHODS:
        known = ", ".join(RETRIEVAL_METHODS)
        raise ValueError(
            f"retrieval method {retrieval!r} has no known uncertainty; it is one of {known}, or give u"
        )
    u = float(RETRIEVAL_METHODS[retrieval](aod)) if standard_uncertainty is None else standard_uncertainty
    return Quantity("aod", float(aod), u, highest=highest, impossible=impossible)
