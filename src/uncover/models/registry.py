"""The class models, for estimators, model files, ``uncover fit --model`` and contract tests."""

from uncover.models.class_model import ClassModel
from uncover.models.linear import Linear
from uncover.models.naive import Naive
from uncover.models.quadratic import Quadratic

#: Class models by the name that ``uncover fit --model`` takes.
CLASS_MODELS: dict[str, ClassModel] = {
    model.name: model
    for model in (
        Quadratic(),
        Linear(),
        Naive(),
    )
}


def of_estimator(name: str) -> ClassModel | None:
    """The class model of an estimator by its name; None where there is none.

    >>> of_estimator("BayesianLDA").name
    'lda'
    """
    return next((model for model in CLASS_MODELS.values() if model.estimator == name), None)
