"""Fitted models as frozen values: no scikit-learn, no files, no rasters."""
