"""Small data for tests of the studies."""

import numpy as np
import pandas as pd

from uncover.studies.synthetic import SyntheticScale

CLASSES = ("cropland", "forest", "grassland", "settlements")
BANDS = ("B02", "B03", "B04", "B08")

#: A synthetic study of seconds, with all its dimensions.
TINY = SyntheticScale(
    dict.fromkeys((2, 10, 50), 1), (0.2, 1.0), (1.0,), points=200, realisations=2, costly_up_to=2
)


def pixel_table(pixels=240, realisations=2, years=(2020, 2021), seed=0):
    """A sample table: a pixel is one row in each year and realisation; classes are far apart."""
    rng = np.random.default_rng(seed)
    codes = np.sort(rng.choice(4, pixels, p=[0.4, 0.3, 0.2, 0.1]))
    mean = rng.random((4, len(BANDS)))
    parts = []
    for year in years:
        truth = mean[codes] + 0.1 * rng.normal(size=(pixels, len(BANDS)))
        for r in range(realisations):
            seen = truth + 0.02 * rng.normal(size=(1, len(BANDS)))
            part = pd.DataFrame(seen, columns=BANDS)
            part["sample"], part["date"], part["realisation"] = np.arange(pixels), year, r
            part["class"] = np.array(CLASSES)[codes]
            parts.append(part)
    return pd.concat(parts, ignore_index=True)
