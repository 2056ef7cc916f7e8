"""Whether the random uncertainty that is stated of training pixels can be true of them."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import chdtr

from uncover.pipeline.training_sources import Batch
from uncover.raster.uncertainty import UncertaintyWarning

#: Probability of a warning where the pixels of all classes have no spread but the stated noise.
_LEVEL = 1e-3
#: Bands that a warning names.
_NAMED = 3


def warn_of_too_much_noise(samples: Batch, bands: tuple[str, ...]) -> None:
    """Warn where stated noise is larger than the spread of the pixels of a class, of which it is a part.

    If a class of n pixels had no spread but Gaussian noise of the stated variance σ², then (n − 1) s²/σ²
    would be χ² of n − 1 degrees of freedom. Classes with a spread of their own have a larger s².

    >>> X = np.random.default_rng(0).normal(0.3, 0.02, (500, 1))
    >>> from uncover.bayes.covariances import Covariances
    >>> noise = Covariances(np.array([[0.05**2]]), None, None)
    >>> with warnings.catch_warnings(record=True, action="always") as said:
    ...     warn_of_too_much_noise(Batch(X, np.full(500, "forest"), covariances=noise), ("B02",))
    >>> str(said[0].message).split(": ")[1].split(". ")[0]
    'B02 0.05, and forest 0.0203 (500 pixels)'
    """
    if samples.covariances is None or samples.values.ndim != 2:
        return
    stated = np.broadcast_to(samples.covariances.variances(), samples.values.shape)
    names = np.unique(samples.classes)
    found: dict[str, tuple[float, str]] = {}  # ratio of variances and words, by band
    for name in names:
        mine = samples.classes == name
        n = int(mine.sum())
        if n < 3:
            continue
        own, noise = samples.values[mine].astype(np.float64).var(axis=0, ddof=1), stated[mine].mean(axis=0)
        for band, seen, said in zip(bands, own, noise, strict=True):
            level = _LEVEL / (len(names) * len(bands))
            if said <= 0 or chdtr(n - 1, (n - 1) * seen / said) >= level:
                continue
            words = f"{band} {np.sqrt(said):.3g}, and {name} {np.sqrt(seen):.3g} ({n:,} pixels)"
            found[band] = min(found.get(band, (np.inf, "")), (seen / said, words))
    if found:
        _warn([words for _, words in found.values()])


def _warn(bands: list[str]) -> None:
    more = f" and {len(bands) - _NAMED} more bands" if len(bands) > _NAMED else ""
    warnings.warn(
        "the stated random uncertainty is larger than the spread of pixels that it is part of: "
        f"{'; '.join(bands[:_NAMED])}{more}. State less, or --between-pixels systematic if pixels share it",
        UncertaintyWarning,
        stacklevel=5,
    )
