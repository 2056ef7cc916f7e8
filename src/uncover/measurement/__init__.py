"""Where uncertainty comes from: values with their covariances, and quantities that a scene shares."""

from uncover.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
