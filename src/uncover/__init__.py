"""Bayesian classification that takes the uncertainty of the measurement into account."""

from uncover.lazy import lazy_names

__version__ = "0.1.0.dev0"

# Imported when first used: scikit-learn alone takes longer to import than everything else here.
_names, __getattr__, __dir__ = lazy_names(__name__, __file__)
__all__ = ["__version__", *_names]
