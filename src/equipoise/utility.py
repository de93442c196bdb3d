"""How well a reward predicts: mean negative log probability of test rows (paper App. H.2). Lower is better.

Regression approximates the predictive distribution by a normal one with its mean and variance; classification averages
probabilities over draws. Test rows are public or the caller's own; they are never part of a settlement's inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.inference.posterior import Posterior
from equipoise.models import ScaledColumn, layout_of
from equipoise.schema import LinearModel, LogisticModel

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class Rows:
    """Rows of a test set in scaled units: features with a last column of ones, and targets (labels as ±1)."""

    features: Floats
    target: Floats
    unit: float  # of the target, in its own units, for one scaled unit


def scaled_rows(agreement: Agreement, features: ArrayLike, target: Sequence[object] | ArrayLike) -> Rows:
    """Check and scale test rows: features [rows, columns] in the order of the agreement, and their targets."""
    model = agreement.model
    if not isinstance(model, LinearModel | LogisticModel):
        raise MediationError(f"a test set is for regression and classification, and this agreement is {model.kind}")
    try:
        table, answers = np.asarray(features, float), np.asarray(target)
        if isinstance(model, LinearModel):
            answers = answers.astype(float)
    except (TypeError, ValueError) as error:
        raise MediationError(f"test rows must be numbers, as many in each row: {error}") from error
    if table.ndim != 2 or table.shape[1] != len(model.features) or not len(table):
        raise MediationError(
            f"test features have the shape {table.shape}; give one row or more of {len(model.features)} columns: "
            + ", ".join(column.name for column in model.features)
        )
    if answers.shape != (len(table),):
        raise MediationError(f"{len(table)} test rows have targets of shape {answers.shape}; give one target each")
    *columns, last = layout_of(agreement).columns
    scaled = [_scaled(column, values) for column, values in zip(columns, table.T, strict=True)]
    together = np.column_stack([*scaled, np.ones(len(table))])
    if isinstance(model, LinearModel):
        assert isinstance(last, ScaledColumn)
        return Rows(together, _scaled(last, np.asarray(answers, float)), last.half_width)
    negative, positive = model.target.labels
    strange = [label for label in answers.tolist() if label not in (negative, positive)]
    if strange:
        raise MediationError(f"the test target {strange[0]!r} is neither {negative!r} nor {positive!r}")
    return Rows(together, np.where(answers == positive, 1.0, -1.0), 1.0)


def _scaled(column: object, values: Floats) -> Floats:
    """To units where the agreed bounds are ±1. Predictions are not clipped, so neither are test rows."""
    assert isinstance(column, ScaledColumn)
    if not np.all(np.isfinite(values)):
        raise MediationError(f"the test column {column.name!r} has values that are not finite numbers; leave them out")
    return np.asarray((values - column.middle) / column.half_width)


def mean_negative_log_probability(posterior: Posterior, rows: Rows) -> float:
    """Of the test rows under the posterior's predictive distribution; for regression, per unit of the target."""
    weights = posterior.draws["weights"]
    total = 0.0
    for start in range(0, len(rows.target), ROWS_AT_ONCE):
        predicted = rows.features[start : start + ROWS_AT_ONCE] @ weights.T
        target = rows.target[start : start + ROWS_AT_ONCE]
        if "variance" in posterior.draws:
            variance = posterior.draws["variance"].mean() + predicted.var(axis=1)
            square = (predicted.mean(axis=1) - target) ** 2
            terms = 0.5 * (np.log(2 * math.pi * variance) + square / variance) + math.log(rows.unit)
        else:
            log_probability = special.log_expit(target[:, None] * predicted)
            terms = math.log(predicted.shape[1]) - special.logsumexp(log_probability, axis=1)
        total += float(np.sum(terms))
    return total / len(rows.target)
