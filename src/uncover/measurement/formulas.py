"""Features computed from bands: indices by their names and formulas, with their derivatives.

A formula is read by Python's own parser; numbers, names, ``+ - * / **`` and parentheses are all it takes.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uncover.bayes.covariances import Covariances
from uncover.measurement.bands import canonical_band, is_sentinel2

Values = NDArray[Any]
Slopes = dict[str, Any]  # derivative by each band; none where it is 0

#: Spectral indices of Sentinel-2 by their names, after Montero et al. (2023), Scientific Data 10, 197. NDWI
#: is that of McFeeters (1996), for open water; NDMI is that of Gao (1996), for the water of leaves.
INDICES = {
    "NDVI": "(B08-B04)/(B08+B04)",
    "NDWI": "(B03-B08)/(B03+B08)",
    "MNDWI": "(B03-B11)/(B03+B11)",
    "NDMI": "(B08-B11)/(B08+B11)",
    "NBR": "(B08-B12)/(B08+B12)",
    "NDBI": "(B11-B08)/(B11+B08)",
    "NDRE": "(B08-B05)/(B08+B05)",
    "BSI": "((B11+B04)-(B08+B02))/((B11+B04)+(B08+B02))",
    "EVI": "2.5*(B08-B04)/(B08+6*B04-7.5*B02+1)",
    "SAVI": "1.5*(B08-B04)/(B08+B04+0.5)",
}
#: Word for all bands in a list of features.
BANDS = "bands"
#: Operations in a formula, at most: real ones have ten.
_LONGEST = 200


@dataclass(frozen=True)
class Formula:
    """A feature of a scene: a band, an index, or a formula of bands.

    >>> ndvi = Formula("NDVI")
    >>> ndvi.bands, round(float(ndvi.values({"B04": np.array(0.1), "B08": np.array(0.3)})), 6)
    (('B04', 'B08'), 0.5)
    >>> value, slopes = ndvi.with_slopes({"B04": np.array(0.1), "B08": np.array(0.3)})
    >>> {band: round(float(slope), 6) for band, slope in slopes.items()}  # 2·B04/(B08 + B04)², for B08
    {'B08': 1.25, 'B04': -3.75}
    >>> Formula("B08 if B04 else 0")
    Traceback (most recent call last):
    ...
    ValueError: the feature 'B08 if B04 else 0' is no formula of bands: it takes + - * / ** ( ), numbers ...
    """

    name: str
    stored: bool = False  # a band of this name, whatever else it could mean

    def __post_init__(self) -> None:
        if self.is_band:
            return
        tree = self._tree
        steps = sum(isinstance(node, ast.BinOp | ast.UnaryOp) for node in ast.walk(tree))
        if steps > _LONGEST:
            raise ValueError(
                f"the feature {self.name[:40]!r}… has {steps} operations; {_LONGEST} are the most"
            )
        _check(tree, self.name)
        if not self.bands:
            raise ValueError(f"the feature {self.name!r} names no band: it would be the same everywhere")
        rng = np.random.default_rng(0)
        tried = {band: rng.uniform(0.05, 0.95, 8) for band in self.bands}
        if not np.isfinite(self.values(tried)).any():
            raise ValueError(
                f"the feature {self.name!r} divides by 0 whatever the bands are; mend the formula"
            )

    @property
    def is_band(self) -> bool:
        """True for a band as it is."""
        return self.stored or (self.name not in INDICES and self.name.isidentifier())

    @cached_property
    def _tree(self) -> ast.expr:
        text = INDICES.get(self.name, self.name)
        try:
            return ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(_no_formula(self.name)) from None

    @cached_property
    def bands(self) -> tuple[str, ...]:
        """Bands that it is made of, in the order of their names."""
        if self.is_band:
            return (canonical_band(self.name),)
        names = (node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name))
        return tuple(sorted({canonical_band(name) for name in names}))

    def values(self, bands: Mapping[str, Values]) -> Values:
        """Values from those of the bands, NaN where a division by 0 leaves none."""
        return self.with_slopes(bands, slopes=False)[0]

    def with_slopes(self, bands: Mapping[str, Values], *, slopes: bool = True) -> tuple[Values, Slopes]:
        """Values, and their derivative by each band that counts."""
        if self.is_band:
            band = self.bands[0]
            return bands[band], {band: np.ones_like(bands[band])}
        with np.errstate(all="ignore"):
            found, by_band = _evaluate(self._tree, bands, slopes)
        values = np.asarray(found)
        return np.where(np.isfinite(values), values, np.nan), by_band


def _no_formula(name: str) -> str:
    return (
        f"the feature {name!r} is no formula of bands: it takes + - * / ** ( ), numbers and the names of "
        f"bands, or is one of {', '.join(INDICES)}"
    )


def _check(node: ast.expr, name: str) -> None:
    """Refuse all but numbers, names and arithmetic."""
    if isinstance(node, ast.Name):
        return
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check(node.operand, name)
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        _check(node.left, name)
        _check(node.right, name)
        return
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        if _number(node.right) is None:
            raise ValueError(
                f"the feature {name!r} has an exponent that is no number; write one, as in B08**2"
            )
        _check(node.left, name)
        return
    raise ValueError(_no_formula(name))


def _number(node: ast.expr) -> float | None:
    """A number with its sign; None where it is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _number(node.operand)
        return None if found is None else -found
    known = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return float(node.value) if known else None  # type: ignore[attr-defined]


def _evaluate(node: ast.expr, bands: Mapping[str, Values], slopes: bool) -> tuple[Any, Slopes]:
    """Value of a checked formula, and its derivatives by the rules of sum, product, quotient and power."""
    if isinstance(node, ast.Constant):
        return np.float64(node.value), {}  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        values = np.asarray(bands[canonical_band(node.id)], np.float64)
        return values, {canonical_band(node.id): np.ones_like(values)} if slopes else {}
    if isinstance(node, ast.UnaryOp):
        value, by = _evaluate(node.operand, bands, slopes)
        return (value, by) if isinstance(node.op, ast.UAdd) else (-value, _times(by, -1.0))
    assert isinstance(node, ast.BinOp)
    a, by_a = _evaluate(node.left, bands, slopes)
    if isinstance(node.op, ast.Pow):
        power = _number(node.right)
        assert power is not None
        return a**power, _times(by_a, power * a ** (power - 1)) if slopes else {}
    b, by_b = _evaluate(node.right, bands, slopes)
    if isinstance(node.op, ast.Add | ast.Sub):
        sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
        return a + sign * b, _sum(by_a, _times(by_b, sign))
    if isinstance(node.op, ast.Mult):
        return a * b, _sum(_times(by_a, b), _times(by_b, a)) if slopes else {}
    return a / b, _sum(_times(by_a, 1 / b), _times(by_b, -a / b**2)) if slopes else {}


def _times(slopes: Slopes, factor: Any) -> Slopes:
    return {band: slope * factor for band, slope in slopes.items()}


def _sum(one: Slopes, other: Slopes) -> Slopes:
    return {**one, **{band: one[band] + slope if band in one else slope for band, slope in other.items()}}


def read_formulas(text: str | Sequence[str], offered: Sequence[str], where: str) -> tuple[Formula, ...]:
    """Features of a list, or of a text with commas, for a scene that offers some bands.

    A name that the scene offers is a band, whatever else it could be. `where` names the scene.

    >>> [each.name for each in read_formulas("bands, ndvi, B08 / B04", ["B04", "B08"], "scene.tif")]
    ['B04', 'B08', 'NDVI', 'B08/B04']
    >>> read_formulas("nir/red", ["B04", "B08"], "scene.tif")
    Traceback (most recent call last):
    ...
    ValueError: the feature 'nir/red' needs the band nir, red, and scene.tif has B04, B08; name ...
    """
    names = text.split(",") if isinstance(text, str) else text
    found: list[Formula] = []
    for name in (canonical_band(str(each)) for each in names):
        if name in offered:
            found.append(Formula(name, stored=True))
        elif name == BANDS:
            found += [Formula(band, stored=True) for band in offered]
        elif name:
            found.append(Formula(name.upper() if name.upper() in INDICES else "".join(name.split())))
    twice = sorted({each.name for each in found if found.count(each) > 1})
    if twice or not found:
        what = f"has {', '.join(twice)} twice" if twice else "names no feature"
        raise ValueError(f"--features {what}; name each feature once, such as bands,NDVI")
    for formula in found:
        lost = [band for band in formula.bands if band not in offered and not is_sentinel2(band)]
        if lost:
            raise ValueError(
                f"the feature {formula.name!r} needs the band {', '.join(lost)}, and {where} has "
                f"{', '.join(offered)}; name others (--features)"
            )
    return tuple(found)


def bands_needed(formulas: Sequence[Formula]) -> tuple[str, ...]:
    """Bands that features are made of, each once, in the order in which they are met."""
    return tuple(dict.fromkeys(band for formula in formulas for band in formula.bands))


def jacobian(formulas: Sequence[Formula], bands: Mapping[str, Values], order: Sequence[str]) -> Values:
    """Derivatives of features by bands at some values of these: (..., feature, band)."""
    some = np.asarray(next(iter(bands.values())))
    out = np.zeros((*some.shape, len(formulas), len(order)))
    for i, formula in enumerate(formulas):
        for band, slope in formula.with_slopes(bands)[1].items():
            out[..., i, order.index(band)] = slope
    return np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0)


def propagated(covariances: Covariances, slopes: Values) -> Covariances:
    """Covariances J Σ Jᵀ of features, to first order (JCGM 102:2011, 6.2); J (sample, feature, band).

    >>> error = Covariances(np.diag([1.0, 4.0]), None, None)
    >>> propagated(error, np.array([[[1.0, 1.0]]])).matrices()
    array([[[5.]]])
    """
    matrices = slopes @ covariances.of_each(len(slopes)) @ np.swapaxes(slopes, -1, -2)
    return Covariances(None, None, matrices)
