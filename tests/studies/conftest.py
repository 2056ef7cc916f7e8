"""Studies small enough for tests: few trees, few rounds, few points."""

from dataclasses import replace

import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

from uncover.estimators.ensemble import RealisationEnsemble
from uncover.studies.models import MODELS, Pooled


@pytest.fixture(scope="session", autouse=True)
def small_models():
    """Forests of 5 trees and 3 rounds of boosting; only for cells that are computed in this process."""
    with pytest.MonkeyPatch.context() as patch:
        forest = replace(
            MODELS["RF"], make=lambda seed: RealisationEnsemble(RandomForestClassifier(5), random_state=seed)
        )
        boosting = replace(
            MODELS["GB pooled"],
            make=lambda seed: Pooled(HistGradientBoostingClassifier(max_iter=3, random_state=seed)),
        )
        patch.setitem(MODELS, "RF", forest)
        patch.setitem(MODELS, "GB pooled", boosting)
        yield
