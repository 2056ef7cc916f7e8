"""The two studies of the paper, the embedded scene (`landscape`), and the demonstration on it (`demo`).

A study (`synthetic`, `landcover` with its `landcover_data`) is a grid of cells that are computed in a folder
(`cells`); a cell fits, asks and times some of the `models` (`protocol`). Results become `tables`, which are
judged claim by claim (`claims`, `claims_synthetic`, `claims_landcover`).
"""
