"""Studies small enough for tests: few models, few trees, few iterations."""

from dataclasses import replace

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

from uncover.estimators.ensemble import RealisationEnsemble
from uncover.studies.models import MODELS


@pytest.fixture(scope="module")
def small_models():
    """Forests of 5 trees, networks of 20 iterations; only for cells that are computed in this process."""
    made = {
        "RF": lambda seed: RealisationEnsemble(RandomForestClassifier(5), seed),
        "NN": lambda seed: RealisationEnsemble(MLPClassifier((10,), solver="lbfgs", max_iter=20), seed),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, make in made.items():
            patch.setitem(MODELS, name, replace(MODELS[name], make=make))
        for name in ("GB pooled", "LR", "BQDA draws"):
            patch.delitem(MODELS, name)
        yield
