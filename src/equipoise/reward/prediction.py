"""What a posterior predicts: averages over draws, and intervals that know about noise and doubt alike.

Arithmetic is in scaled units, where columns far from zero lose no digits; what goes in and comes out is in the
columns' own. Draws are what a sampler left; all functions of them here are deterministic.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.inference.posterior import Posterior
from equipoise.models.columns import LabelColumn
from equipoise.reward.features import feature_matrix

if TYPE_CHECKING:
    from sklearn.utils import Tags


_STREAM = 0xE90


def sklearn_tags(agreement: Agreement) -> "Tags":
    """What scikit-learn's tools ask of an estimator."""
    from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

    kind = agreement.model.estimator_type
    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=False),
        classifier_tags=ClassifierTags(multi_class=False) if kind == "classifier" else None,
        regressor_tags=RegressorTags() if kind == "regressor" else None,
    )


def expected_target(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Predictive mean of the target in its own units [rows]."""
    return agreement.model.expected_target(posterior.draws, feature_matrix(agreement, rows))


def target_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Central predictive interval of the target [rows, 2]: doubt about the parameters, and the residual noise."""
    tails = _tails(share)
    return agreement.model.target_interval(posterior.draws, feature_matrix(agreement, rows), tails)


def class_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Probability of each label [rows, 2], averaged over draws, in the order of `Model.class_labels`."""
    positive = np.concatenate([part.mean(axis=1) for part in _positive_probabilities(agreement, posterior, rows)])
    both = np.column_stack([1 - positive, positive])
    target = agreement.model.target
    assert isinstance(target, LabelColumn)
    return both if agreement.model.class_labels()[1] == target.labels[1] else both[:, ::-1]


def probability_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Central credible interval of the probability of the positive label [rows, 2]."""
    tails = _tails(share)
    found = [np.quantile(part, tails, axis=1).T for part in _positive_probabilities(agreement, posterior, rows)]
    return np.concatenate(found)


def simulated(agreement: Agreement, posterior: Posterior, rows: Any, size: int | None, seed: int) -> NDArray[Any]:
    """One new observation for each draw and row [draws, rows]; a family without features makes `size` of them."""
    rng = np.random.default_rng([_STREAM, seed])
    model, table = agreement.model, None
    if len(model.columns) > 1:
        if rows is None or size is not None:
            raise MediationError(f"a {model.noun} predicts from features: give rows, and no size")
        table = feature_matrix(agreement, rows)
    elif rows is not None:
        raise MediationError(f"a {model.noun} has no features to predict from; leave the rows out, or give a size")
    if size is not None and size < 1:
        raise MediationError(f"size = {size} is no number of observations; give 1 or more")
    return model.simulate(posterior.draws, table, size or 1, rng)


def _positive_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Iterator[Floats]:
    model = agreement.model
    if model.estimator_type == "regressor":
        raise MediationError(f"a {model.noun} predicts numbers, not probabilities; use predict(X, return_interval=0.9)")
    return model.positive_probabilities(posterior.draws, feature_matrix(agreement, rows))


def _tails(share: float) -> list[float]:
    if not 0 < share < 1:
        raise MediationError(f"return_interval = {share!r} is not a probability between 0 and 1; give 0.9 for 90 %")
    return [(1 - float(share)) / 2, (1 + float(share)) / 2]
