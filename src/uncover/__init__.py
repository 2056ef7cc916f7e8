"""Bayesian classification that takes the uncertainty of the measurement into account."""

__version__ = "0.1.0.dev0"
