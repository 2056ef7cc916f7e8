"""Quality of a classification: scores, calibration, accuracy and area with their uncertainty. Arrays."""

from uncover.lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
