"""Labels for training: class schemes, their translation, criteria of trust, the training set. Arrays only."""

from uncover.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
