"""Labels for training: class schemes, their translation, criteria of trust, the training set. Arrays only."""

from typing import TYPE_CHECKING

from uncover.lazy import lazy_names

if TYPE_CHECKING:
    from uncover.labels.criteria import Criteria as Criteria
    from uncover.labels.criteria import Report as Report
    from uncover.labels.criteria import Screened as Screened
    from uncover.labels.criteria import confident as confident
    from uncover.labels.criteria import interior as interior
    from uncover.labels.criteria import purity as purity
    from uncover.labels.criteria import screen as screen
    from uncover.labels.criteria import spaced as spaced
    from uncover.labels.criteria import stable as stable
    from uncover.labels.scheme import LandClass as LandClass
    from uncover.labels.scheme import Rule as Rule
    from uncover.labels.scheme import Scheme as Scheme
    from uncover.labels.scheme import Translation as Translation
    from uncover.labels.scheme import load_scheme as load_scheme
    from uncover.labels.scheme import load_translation as load_translation
    from uncover.labels.scheme import scheme_names as scheme_names
    from uncover.labels.scheme import translation_names as translation_names
    from uncover.labels.training import Draw as Draw
    from uncover.labels.training import autocorrelation_length as autocorrelation_length
    from uncover.labels.training import draw as draw
    from uncover.labels.training import split as split
    from uncover.labels.training import within as within

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "uncover.labels.criteria": "Criteria Report Screened confident interior purity screen spaced stable",
        "uncover.labels.scheme": "LandClass Rule Scheme Translation load_scheme load_translation "
        "scheme_names translation_names",
        "uncover.labels.training": "Draw autocorrelation_length draw split within",
    },
)
