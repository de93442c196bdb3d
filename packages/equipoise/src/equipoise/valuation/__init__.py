"""Values of posteriors: divergences, their estimators by name, and Shapley values."""

from typing import Literal, get_args

from equipoise.errors import InferenceError

Estimator = Literal["knn-entropy", "knn-copula", "knn-mixture", "knn", "gaussian-fit", "conjugate-fit", "classifier"]

ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)


def check_estimator(estimator: str) -> None:
    """Refuse an estimator that does not exist."""
    if estimator not in ESTIMATORS:
        raise InferenceError(f"there is no estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
