"""Fast and device implementations of what `models` and `bayes` compute."""
