"""The mathematics: arrays in, arrays out. NumPy and SciPy only, no files and no scikit-learn."""
