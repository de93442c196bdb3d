"""What a posterior predicts: averages over draws, and intervals that know about noise and doubt alike.

Arithmetic is in scaled units, where columns far from zero lose no digits; what goes in and comes out is in the
columns' own. Draws are what a sampler left; all functions of them here are deterministic.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.inference.posterior import Posterior
from equipoise.models import ScaledColumn, layout_of
from equipoise.models.schema import CategoricalModel, LabelColumn, LinearModel, LogisticModel
from equipoise.reward.features import feature_matrix
from equipoise.reward.scoring import scaled_features
from equipoise.reward.units import own_units

if TYPE_CHECKING:
    from sklearn.utils import Tags

Floats = NDArray[np.float64]

CELLS_AT_ONCE = 4_000_000  # rows × draws held in memory
_STREAM = 0xE90


def classes(agreement: Agreement) -> NDArray[Any]:
    """The agreed labels of a classifier in NumPy's order, which scikit-learn's metrics go by."""
    model = agreement.model
    if not isinstance(model, LogisticModel):
        raise AttributeError(f"only a logistic model has classes; this one is {model.kind}")
    return np.unique(np.array(model.target.labels))


def sklearn_tags(agreement: Agreement) -> "Tags":
    """What scikit-learn's tools ask of an estimator."""
    from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

    required = TargetTags(required=False)
    if isinstance(agreement.model, LinearModel):
        return Tags(estimator_type="regressor", target_tags=required, regressor_tags=RegressorTags())
    if isinstance(agreement.model, LogisticModel):
        two = ClassifierTags(multi_class=False)
        return Tags(estimator_type="classifier", target_tags=required, classifier_tags=two)
    return Tags(estimator_type="density_estimator", target_tags=required)


def expected_target(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Predictive mean of the target in its own units [rows]."""
    features, target = scaled_features(agreement, feature_matrix(agreement, rows)), _target(agreement)
    return np.asarray(target.middle + target.half_width * (features @ posterior.mean("weights")))


def target_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Central predictive interval of the target [rows, 2]: doubt about the parameters, and the residual noise.

    One observation is simulated for each draw. Its noise is the same for all rows, so that a row's interval does not
    depend on its company, and is spread evenly over the normal distribution, so that luck plays a smaller part.
    """
    tails = _tails(share)
    features, target = scaled_features(agreement, feature_matrix(agreement, rows)), _target(agreement)
    weights, deviation = posterior.draws["weights"], np.sqrt(posterior.draws["variance"])
    number = len(deviation)
    places = np.random.default_rng(_STREAM).permutation(number)
    noise = deviation * special.ndtri((places + 0.5) / number)
    found = [np.quantile(part @ weights.T + noise, tails, axis=1).T for part in _in_parts(features, number)]
    return np.asarray(target.middle + target.half_width * np.concatenate(found))


def class_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Probability of each label [rows, 2], averaged over draws, in the order of `classes`."""
    positive = np.concatenate([part.mean(axis=1) for part in _positive_probabilities(agreement, posterior, rows)])
    both = np.column_stack([1 - positive, positive])
    return both if classes(agreement)[1] == _positive_label(agreement) else both[:, ::-1]


def probability_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Central credible interval of the probability of the positive label [rows, 2]."""
    tails = _tails(share)
    found = [np.quantile(part, tails, axis=1).T for part in _positive_probabilities(agreement, posterior, rows)]
    return np.concatenate(found)


def simulated(agreement: Agreement, posterior: Posterior, rows: Any, size: int | None, seed: int) -> NDArray[Any]:
    """One new observation for each draw and row [draws, rows]; a family without features makes `size` of them."""
    rng = np.random.default_rng([_STREAM, seed])
    kind = agreement.model.kind
    if isinstance(agreement.model, LinearModel | LogisticModel):
        if rows is None or size is not None:
            raise MediationError(f"a {kind} model predicts from features: give rows, and no size")
        return _simulated_targets(agreement, posterior, feature_matrix(agreement, rows), rng)
    if rows is not None:
        raise MediationError(f"a {kind} model has no features to predict from; leave the rows out, or give a size")
    if size is not None and size < 1:
        raise MediationError(f"size = {size} is no number of observations; give 1 or more")
    return _simulated_family(agreement, posterior, (len(posterior), size or 1), rng)


def _simulated_targets(
    agreement: Agreement, posterior: Posterior, table: Floats, rng: np.random.Generator
) -> NDArray[Any]:
    predicted = posterior.draws["weights"] @ scaled_features(agreement, table).T
    if isinstance(agreement.model, LogisticModel):
        return _labelled(agreement, rng.uniform(size=predicted.shape) < special.expit(predicted))
    target = _target(agreement)
    noise = np.sqrt(posterior.draws["variance"])[:, None] * rng.normal(size=predicted.shape)
    return np.asarray(target.middle + target.half_width * (predicted + noise))


def _simulated_family(
    agreement: Agreement, posterior: Posterior, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[Any]:
    model = agreement.model
    own = {name: values[:, None] for name, values in own_units(agreement, posterior.draws).items()}
    if model.kind == "gaussian":
        return np.asarray(own["mean"] + own["sd"] * rng.normal(size=shape))
    if model.kind == "poisson":
        return np.asarray(rng.poisson(own["rate"], size=shape))
    if model.kind == "exponential":
        return np.asarray(rng.exponential(1 / own["rate"], size=shape))
    if isinstance(model, CategoricalModel):
        below = np.cumsum(posterior.draws["probabilities"], axis=1)[:, None, :-1]  # the last gets what is left
        place = np.sum(rng.uniform(size=shape)[:, :, None] >= below, axis=2)
        return np.asarray(np.take(model.target.categories, place))
    return _labelled(agreement, rng.uniform(size=shape) < own["probability"])


def _positive_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Iterator[Floats]:
    """Probability of the positive label at every draw [some rows, draws], a few rows at a time."""
    if agreement.model.kind == "linear":
        raise MediationError("a linear model predicts numbers, not probabilities; use predict(X, return_interval=0.9)")
    features = scaled_features(agreement, feature_matrix(agreement, rows))
    weights = posterior.draws["weights"]
    for part in _in_parts(features, len(weights)):
        yield np.asarray(special.expit(part @ weights.T))


def _in_parts(features: Floats, draws: int) -> Iterator[Floats]:
    step = max(1, CELLS_AT_ONCE // draws)
    for start in range(0, len(features), step):
        yield features[start : start + step]


def _tails(share: float) -> list[float]:
    if not 0 < share < 1:
        raise MediationError(f"return_interval = {share!r} is not a probability between 0 and 1; give 0.9 for 90 %")
    return [(1 - float(share)) / 2, (1 + float(share)) / 2]


def _labelled(agreement: Agreement, positive: NDArray[np.bool_]) -> NDArray[Any]:
    target = agreement.model.target
    assert isinstance(target, LabelColumn)
    return np.asarray(np.take(target.labels, positive.astype(int)))


def _positive_label(agreement: Agreement) -> int | str:
    model = agreement.model
    assert isinstance(model, LogisticModel)
    return model.target.labels[1]


def _target(agreement: Agreement) -> ScaledColumn:
    column = layout_of(agreement).columns[-1]
    assert isinstance(column, ScaledColumn)
    return column
