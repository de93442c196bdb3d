"""How well a reward predicts: mean negative log probability of test rows (paper App. H.2). Lower is better.

Regression approximates the predictive distribution by a normal one with its mean and variance; all other models average
the probability, or the density per unit of the target, over draws. Test rows are public or the caller's own; they are
never part of a settlement's inputs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from equipoise._util.text import first_few
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.inference.posterior import Posterior
from equipoise.models import ScaledColumn, layout_of
from equipoise.models.schema import CategoryColumn, LabelColumn, LinearModel, LogisticModel

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 2_000


@dataclass(frozen=True)
class Rows:
    """Rows of a test set, checked.

    Features are in scaled units, with a last column of ones; a family without features has none. Targets are in scaled
    units for linear and gaussian models and in their own for rates; labels are ±1 for logistic models and otherwise
    positions among the agreed ones.
    """

    features: Floats | None
    target: Floats
    unit: float  # of the target, in its own units, for one scaled unit
    kind: str


def scaled_rows(agreement: Agreement, features: ArrayLike | None, target: Sequence[object] | ArrayLike) -> Rows:
    """Check and scale test rows: features [rows, columns] in the order of the agreement, and their targets.

    Families without features have None there.
    """
    model = agreement.model
    answers = np.asarray(target)
    together = None
    if isinstance(model, LinearModel | LogisticModel):
        together = _scaled_features(agreement, features)
        if answers.shape != (len(together),):
            raise MediationError(
                f"{len(together)} test rows have targets of shape {answers.shape}; give one target each"
            )
    elif features is not None:
        raise MediationError(f"a {model.kind} model has no features; give None in their place")
    elif answers.ndim != 1 or not len(answers):
        raise MediationError(f"test targets have the shape {answers.shape}; give a list of one or more")
    column = layout_of(agreement).columns[-1]
    if isinstance(model.target, LabelColumn | CategoryColumn):
        positions = _positions(model.target.values, answers)
        coded = 2 * positions - 1 if isinstance(model, LogisticModel) else positions
        return Rows(together, coded, 1.0, model.kind)
    assert isinstance(column, ScaledColumn)
    try:
        numbers = answers.astype(float)
    except (TypeError, ValueError) as error:
        raise MediationError(f"test targets must be numbers: {error}") from error
    scaled = _scaled(column, numbers)
    if model.kind not in ("poisson", "exponential"):
        return Rows(together, scaled, column.half_width, model.kind)
    impossible = (numbers < 0) | ((numbers != np.floor(numbers)) & (model.kind == "poisson"))
    if impossible.any():
        what = "a count of 0 or more" if model.kind == "poisson" else "0 or more"
        raise MediationError(f"the test target {numbers[impossible][0]:g} is impossible: it must be {what}")
    return Rows(together, numbers, 1.0, model.kind)


def scaled_features(agreement: Agreement, table: Floats) -> Floats:
    """Features [rows, columns] in units where the agreed bounds are ±1, and a last column of ones for the bias."""
    columns = layout_of(agreement).columns[:-1]
    scaled = [_scaled(column, values) for column, values in zip(columns, table.T, strict=True)]
    return np.column_stack([*scaled, np.ones(len(table))])


def _scaled_features(agreement: Agreement, features: ArrayLike | None) -> Floats:
    names = [column.name for column in agreement.columns[:-1]]
    try:
        table = np.asarray(features, float)
    except (TypeError, ValueError) as error:
        raise MediationError(f"test rows must be numbers, as many in each row: {error}") from error
    if table.ndim != 2 or table.shape[1] != len(names) or not len(table):
        raise MediationError(
            f"test features have the shape {table.shape}; give one row or more of {len(names)} columns: "
            + ", ".join(names)
        )
    return scaled_features(agreement, table)


def _scaled(column: object, values: Floats) -> Floats:
    """To units where the agreed bounds are ±1. Predictions are not clipped, so neither are test rows."""
    assert isinstance(column, ScaledColumn)
    if not np.all(np.isfinite(values)):
        raise MediationError(f"the test column {column.name!r} has values that are not finite numbers; leave them out")
    return np.asarray((values - column.middle) / column.half_width)


def _positions(labels: tuple[int | str, ...], answers: NDArray[np.generic]) -> Floats:
    """Place of each answer among the agreed labels."""
    places = {label: float(place) for place, label in enumerate(labels)}
    found = [places.get(answer) for answer in answers.tolist()]
    if None in found:
        strange = answers.tolist()[found.index(None)]
        agreed = f"neither {labels[0]!r} nor {labels[1]!r}" if len(labels) == 2 else f"none of {first_few(labels)}"
        raise MediationError(f"the test target {strange!r} is {agreed}; give targets as they are agreed")
    return np.array(found, float)


def mean_negative_log_probability(posterior: Posterior, rows: Rows) -> float:
    """Of the test rows under the posterior's predictive distribution; for numbers, per unit of the target."""
    return loss_on(rows, posterior.draws).value


def loss_on(rows: Rows, draws: Mapping[str, Floats]) -> Estimate:
    """As `mean_negative_log_probability`, from draws of the model's parameters.

    The standard error is that of which rows are in the test set; it does not cover the draws, which matter far less.
    """
    found = []
    for start in range(0, len(rows.target), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        features = None if rows.features is None else rows.features[part]
        found.append(_log_probability(draws, features, rows.target[part], rows.kind))
    terms = math.log(rows.unit) - np.concatenate(found)
    error = np.std(terms, ddof=1) / math.sqrt(len(terms)) if len(terms) > 1 else 0.0
    return Estimate(float(np.mean(terms)), float(error))


def _log_probability(draws: Mapping[str, Floats], features: Floats | None, target: Floats, kind: str) -> Floats:
    """Log probability, or log density in the units of `Rows`, of each target."""
    if features is None:
        return _averaged(_family_log_probability(draws, target[:, None], kind))
    predicted = features @ draws["weights"].T
    if kind == "logistic":
        return _averaged(special.log_expit(target[:, None] * predicted))
    variance = draws["variance"].mean() + predicted.var(axis=1)
    return _normal(target, predicted.mean(axis=1), variance)


def _family_log_probability(draws: Mapping[str, Floats], target: Floats, kind: str) -> Floats:
    """Of targets [rows, 1] at every draw [rows, draws]."""
    if kind == "gaussian":
        return _normal(target, draws["mean"], draws["variance"])
    if kind == "poisson":
        return np.asarray(special.xlogy(target, draws["rate"]) - draws["rate"] - special.gammaln(target + 1))
    if kind == "exponential":
        return np.asarray(np.log(draws["rate"]) - draws["rate"] * target)
    with np.errstate(divide="ignore"):  # a draw may rule a label out
        if kind == "bernoulli":
            return np.where(target == 1, np.log(draws["probability"]), np.log1p(-draws["probability"]))
        return np.asarray(np.log(draws["probabilities"]).T[target[:, 0].astype(int)])


def _normal(target: Floats, mean: Floats, variance: Floats) -> Floats:
    return np.asarray(-0.5 * (np.log(2 * math.pi * variance) + (mean - target) ** 2 / variance))


def _averaged(log_probability: Floats) -> Floats:
    """Logarithm of the mean over draws [rows, draws]."""
    return np.asarray(special.logsumexp(log_probability, axis=1) - math.log(log_probability.shape[1]))
