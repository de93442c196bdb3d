"""Scores of predictions: mean negative log probability of test rows (paper App. H.2). Lower is better.

Regression approximates the predictive distribution by a normal one with its mean and variance. All other models average
the probability, or the density per unit of the target, over draws. Test rows are public or the caller's own, and never
part of a settlement's inputs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.models.base import Draws, Model, Rows
from equipoise.reward.prediction import feature_matrix

ROWS_AT_ONCE = 2_000
# Simulated rows, and draws of the posterior, from which an expected error is computed.
LIKELY_ROWS, LIKELY_DRAWS = 500, 1_000
LIKELY_SEED = 0


def scaled_rows(agreement: Agreement, features: Any, target: Sequence[object] | ArrayLike) -> Rows:
    """Check and scale test rows: features by name, or [rows, columns] in the order of the agreement, and their targets.

    Models without features take None in their place.
    """
    model = agreement.model
    answers = np.asarray(target)
    together = None
    if len(model.columns) > 1:
        together = model.scaled_features(feature_matrix(agreement, features))
        if answers.shape != (len(together),):
            raise MediationError(
                f"{len(together)} test rows have targets of shape {answers.shape}; give one target each"
            )
    elif features is not None:
        raise MediationError(f"a {model.noun} has no features; give None in their place")
    elif answers.ndim != 1 or not len(answers):
        raise MediationError(f"test targets have the shape {answers.shape}; give a list of one or more")
    return Rows(together, *model.check_targets(answers), model)


def mean_negative_log_probability(posterior: Posterior, rows: Rows) -> float:
    """Return the mean negative log probability of test rows; for numeric targets, per unit of the target."""
    return loss_on(rows, posterior.draws).value


def loss_on(rows: Rows, draws: Mapping[str, Floats]) -> Estimate:
    """Return the mean negative log probability with its standard error, from draws of the model's parameters.

    The standard error covers the choice of test rows, but not the draws, which matter far less.
    """
    return mean_of_rows(losses_on(rows, draws))


def losses_on(rows: Rows, draws: Mapping[str, Floats]) -> Floats:
    """Return the negative log probability of each row; for numeric targets, per unit of the target."""
    log_probabilities = []
    for start in range(0, len(rows.target), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        features = None if rows.features is None else rows.features[part]
        log_probabilities.append(rows.model.log_probability(draws, features, rows.target[part]))
    return np.asarray(math.log(rows.unit) - np.concatenate(log_probabilities))


def mean_of_rows(terms: Floats, whose: NDArray[np.int64] | None = None) -> Estimate:
    """Average one number per row; the standard error is that of sampling rows.

    If several rows may belong to one individual, `whose` has the number of each row's individual, and the standard
    error is that of sampling individuals.
    """
    mean, rows = float(np.mean(terms)), len(terms)
    if whose is None:
        error = np.std(terms, ddof=1) / math.sqrt(rows) if rows > 1 else 0.0
        return Estimate(mean, float(error))
    sums_by_individual = np.bincount(whose, terms - mean)
    individuals = len(sums_by_individual)
    error = (
        math.sqrt(individuals / (individuals - 1) * float(sums_by_individual @ sums_by_individual)) / rows
        if individuals > 1
        else 0.0
    )
    return Estimate(mean, error)


def typical_errors(
    model: Model, posteriors: Mapping[str, Mapping[str, Floats]], rows: Rows | None, likely: Floats | None
) -> dict[str, float]:
    """Return the typical error of each of a party's posteriors, in the target's unit (see `Model.error_name`).

    If there are test rows, and the model predicts single rows, errors are measured on them. Otherwise the result has
    the errors to expect "alone" and with the "reward" if the reward is right, at `likely` rows: rows like those that
    the party's own release suggests it has. The party can compute these from its own files, so they tell nothing about
    the others' tables.
    """
    measured = {} if rows is None else {name: model.measured_error(draws, rows) for name, draws in posteriors.items()}
    if measured and None not in measured.values():
        return {name: error for name, error in measured.items() if error is not None}
    if "alone" not in posteriors:
        return {}
    truth = _thinned(posteriors["reward"])
    return {name: model.expected_error(posteriors[name], truth, likely) for name in ("alone", "reward")}


@dataclass(frozen=True)
class ErrorCurve:
    """Error of a party alone, and errors of its team's model held back to several values [(nats, error), …].

    All are measured alike: on test rows, or as the whole team's model expects at rows like the party's. Because of the
    latter, only the operator may see the curve.
    """

    alone: float
    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not np.all(np.isfinite([self.alone, *np.ravel(self.points)])) or np.shape(self.points)[1:] != (2,):
            raise ValueError("an error curve has no point, or holds what is no number")

    def at(self, value: float) -> float:
        """Return the error of a model worth `value` nats, interpolated between the two nearest points."""
        return float(np.interp(value, *np.transpose(self.points)))


def error_curve(
    model: Model,
    alone: Draws,
    held_back: Iterable[tuple[float, Draws]],
    whole: Draws,
    rows: Rows | None,
    likely: Floats | None,
) -> ErrorCurve:
    """Measure errors on test rows; without them, compute the errors to expect at `likely` rows if `whole` is right.

    Errors are also expected, not measured, if the model has no features. Held-back posteriors come with their values.
    """
    truth = _thinned(whole)

    def error(draws: Draws) -> float:
        measured = None if rows is None else model.measured_error(draws, rows)
        return model.expected_error(draws, truth, likely) if measured is None else measured

    return ErrorCurve(error(alone), tuple(sorted((value, error(draws)) for value, draws in held_back)))


def _thinned(draws: Draws) -> dict[str, Floats]:
    """Return about a thousand draws, evenly spaced."""
    number = len(next(iter(draws.values())))
    return {name: values[:: max(1, number // LIKELY_DRAWS)] for name, values in draws.items()}
