"""Whether colours of classes can be told apart, also by readers who confuse some of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

#: Matrices of Machado, Oliveira and Fernandes (2009, doi:10.1109/TVCG.2009.113), full severity, linear RGB.
VISIONS = {
    "normal sight": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

#: Differences of colour (CIE 1976) below it are hard to see in small patches.
TOO_NEAR = 12.0


def look_alikes(colours: Sequence[str]) -> list[tuple[int, int, str]]:
    """Pairs of colours that are too near to each other, and to whose eyes.

    >>> look_alikes(["#0072B2", "#E69F00", "#009E73"])
    []
    >>> [(i, j) for i, j, _ in look_alikes(["#AA0000", "#336600", "#0000FF"])]
    [(0, 1)]
    """
    rgb = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours]).reshape(-1, 3)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    found = []
    for i, j in combinations(range(len(colours)), 2):
        for name, matrix in VISIONS.items():
            seen = _lab(np.clip(linear[[i, j]] @ matrix.T, 0, 1))
            if float(np.linalg.norm(seen[0] - seen[1])) < TOO_NEAR:
                found.append((i, j, name))
                break
    return found


def _lab(linear: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIE L*a*b* (D65) of linear sRGB."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    ratio = linear @ to_xyz.T / np.array([0.95047, 1.0, 1.08883])
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = f.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours (WCAG 2), from 1 to 21.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    bright = sorted((_luminance(first), _luminance(second)))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def _luminance(colour: str) -> float:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
