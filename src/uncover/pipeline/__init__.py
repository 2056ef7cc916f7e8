"""The commands as functions with small frozen options, for the command line, the studies and users."""

from uncover.lazy import lazy_names

# Imported when first used: collecting labels needs no scikit-learn, and fitting a table no rasterio.
__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
