"""scikit-learn estimators: one log-joint each, every ``predict*`` derived from it in the base class."""
