"""The embedded table against Sen2Cor, on a window that both corrected. Needs rasterio and shared data."""

from pathlib import Path

import numpy as np

from uncover.atmosphere import Geometry, LookupTable, State

DATA = Path(__file__).parents[2] / "shared" / "data" / "toa_boa_pair"
# The bands that both files have, with their places in them.
TOA_BANDS = {"B1": 0, "B2": 1, "B3": 2, "B4": 3, "B5": 4, "B6": 5, "B7": 6, "B9": 8, "B11": 10, "B12": 11}
BOA_BANDS = {"B1": 0, "B2": 1, "B3": 2, "B4": 3, "B5": 4, "B6": 5, "B7": 6, "B9": 8, "B11": 9, "B12": 10}
# 2017-07-03, 10:20 UTC at 46.06 N 10.07 E; the view is not recorded, nor are the columns.
SUN = (26.5, 145.0)
ALTITUDE = 1.9
VEGETATION, BARE = 4, 5


def read(name):
    """One file of the pair."""
    import rasterio

    with rasterio.open(DATA / name) as file:
        return file.read()


def pair():
    """Reflectance (band, pixel) at the top of atmosphere and by Sen2Cor, where it saw plants or soil."""
    toa = read("S2A1C_20170703_022_Barbellino_TOA_10.tif")[list(TOA_BANDS.values())]
    boa = read("S2A2A_20170703_022_Barbellino_BOA_10.tif")[list(BOA_BANDS.values())]
    classes = read("S2A2A_20170703_022_Barbellino_SCL_10.tif")[0].repeat(2, 0).repeat(2, 1)
    good = np.isin(classes, (VEGETATION, BARE)) & (toa != 65535).all(0) & (boa != 65535).all(0)
    return toa[:, good] / 10000, boa[:, good] / 10000


def compare(aod=0.1, water_vapour=1.5, ozone=330.0, view_zenith=5.0, view_azimuth=290.0):
    """Per band: medians, the ratio of Sen2Cor to this table, and their correlation over the pixels.

    The last column is the correlation after each pixel was scaled by the median ratio of its *other* infrared
    bands: a slope towards or away from the sun changes all bands by nearly one factor.
    """
    toa, sen2cor = pair()
    geometry = Geometry.from_azimuths(SUN, (view_zenith, view_azimuth), ALTITUDE)
    table = LookupTable("S2A", list(TOA_BANDS))
    ours = table.correct(toa, State(aod, water_vapour, ozone), geometry, band_axis=0)
    rows, names = {}, list(TOA_BANDS)
    for i, band in enumerate(names):
        others = [names.index(b) for b in ("B6", "B7", "B11", "B12") if b != band]
        slope = np.median(sen2cor[others] / ours[others], axis=0)
        rows[band] = {
            "toa": np.median(toa[i]),
            "table": np.median(ours[i]),
            "sen2cor": np.median(sen2cor[i]),
            "ratio": np.median(sen2cor[i] / ours[i]),
            "correlation": np.corrcoef(ours[i], sen2cor[i])[0, 1],
            "correlation_level": np.corrcoef(ours[i] * slope, sen2cor[i])[0, 1],
        }
    return rows


if __name__ == "__main__":
    for aod in (0.05, 0.1, 0.2):
        print(f"AOD {aod}")
        for band, row in compare(aod).items():
            print(f"| {band} | " + " | ".join(f"{value:.3f}" for value in row.values()) + " |")
