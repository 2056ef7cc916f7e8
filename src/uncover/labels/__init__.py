"""Labels for training: class schemes, their translation, criteria of trust, the training set. Arrays only."""

from uncover.labels.criteria import confident, interior, purity, spaced, stable
from uncover.labels.scheme import LandClass, Scheme, load_scheme, scheme_names
from uncover.labels.screen import Criteria, Report, Screened, screen
from uncover.labels.training import Draw, autocorrelation_length, draw, split, within
from uncover.labels.translate import Rule, Translation, load_translation, translation_names

__all__ = [
    "Criteria",
    "Draw",
    "LandClass",
    "Report",
    "Rule",
    "Scheme",
    "Screened",
    "Translation",
    "autocorrelation_length",
    "confident",
    "draw",
    "interior",
    "load_scheme",
    "load_translation",
    "purity",
    "scheme_names",
    "screen",
    "spaced",
    "split",
    "stable",
    "translation_names",
    "within",
]
