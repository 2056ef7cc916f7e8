"""Labels for training: class schemes, their translation, criteria of trust, the training set. Arrays only."""

from uncover.labels.criteria import (
    Criteria,
    Report,
    Screened,
    confident,
    interior,
    purity,
    screen,
    spaced,
    stable,
)
from uncover.labels.scheme import (
    LandClass,
    Rule,
    Scheme,
    Translation,
    load_scheme,
    load_translation,
    scheme_names,
    translation_names,
)
from uncover.labels.training import Draw, autocorrelation_length, draw, split, within
