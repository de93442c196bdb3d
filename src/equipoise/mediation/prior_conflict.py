"""Do releases and prior contradict each other? Then the posterior is a compromise, and may be right by neither.

In coordinates where the prior is N(0, I), a posterior mean beyond 3 is what the prior expects once in 370 times. The
model's own parameters are looked at, and the features' standard deviations: a column that fills little of its bounds is
the conflict that is met most often.
"""

import math

import numpy as np
from scipy import special

from equipoise.agreement import Agreement
from equipoise.inference.linear import LinearPrior, LinearRegression, regression_coordinates
from equipoise.inference.logistic import LogisticPrior
from equipoise.inference.posterior import Floats, Posterior
from equipoise.inference.problem import model_of
from equipoise.inference.quantile_maps import GRID, Table
from equipoise.inference.standardised import StandardisedPrior
from equipoise.mediation.plausibility import Remark

FAR = 3.0  # standard deviations of the prior

_WIDEN = "state a prior that allows for it, or check bounds and units"
_COLUMN = "give the column tighter bounds or a `typical` range in the next agreement"


def prior_conflicts(agreement: Agreement, everybody: Posterior) -> list[Remark]:
    """What everybody's posterior believes that the prior did not expect."""
    model, prior = model_of(agreement)
    own = everybody.coordinates
    if own is None and isinstance(model, LinearRegression):
        own = regression_coordinates(prior, everybody.draws["weights"], everybody.draws["variance"])
    found = [] if own is None else _far(agreement.model.coordinate_names(), own.mean(axis=0), _WIDEN)
    columns = [f"the standard deviation of {column.name}" for column in agreement.model.columns[:-1]]
    if columns:
        deviations = np.sqrt(np.diagonal(everybody.draws["feature_covariance"], axis1=-2, axis2=-1))
        coordinates = _deviation_coordinates(prior, np.exp(np.log(deviations).mean(axis=0)).reshape(-1, len(columns)))
        furthest = coordinates[np.argmax(np.abs(coordinates), axis=0), np.arange(len(columns))]
        found += _far(columns, furthest, _COLUMN)
    return found


def _far(names: list[str], coordinates: Floats, remedy: str) -> list[Remark]:
    return [
        Remark(
            "prior conflict",
            (),
            f"what was released puts {name} {abs(coordinate):.1f} standard deviations of the prior "
            f"{'above' if coordinate > 0 else 'below'} its middle: values and rewards lean on a belief that the data "
            f"contradict; {remedy}",
        )
        for name, coordinate in zip(names, coordinates, strict=True)
        if abs(coordinate) > FAR
    ]


def _deviation_coordinates(prior: LinearPrior | LogisticPrior | StandardisedPrior, deviations: Floats) -> Floats:
    """Normal coordinates, under the prior, of the features' standard deviations [distributions, features]."""
    if isinstance(prior, LinearPrior):
        # Σ ~ W⁻¹(Ψ, ν) has Σⱼⱼ ~ InvGamma((ν − w + 1)/2, Ψⱼⱼ/2).
        shape = (float(prior.degrees_of_freedom) - deviations.shape[1] + 1) / 2
        precision = np.diag(np.asarray(prior.scatter)) / 2 / deviations**2
        lower, upper = special.gammainc(shape, precision), special.gammaincc(shape, precision)
        nearer = np.where(lower < upper, -1.0, 1.0)  # the nearer tail, which keeps its digits
        return np.asarray(-nearer * special.ndtri(np.maximum(np.minimum(lower, upper), _TINY)))
    if isinstance(prior, LogisticPrior):
        fraction = np.clip(deviations / float(prior.largest_deviation), 1e-12, 1 - 1e-12)
        return _inverse(prior.deviation, special.logit(fraction))
    tables = [Table(*(part[k] for part in prior.log_deviation)) for k in range(deviations.shape[1])]
    return np.stack([_inverse(table, np.log(deviations[:, k])) for k, table in enumerate(tables)], axis=1)


_TINY = math.exp(-700)


def _inverse(table: Table, values: Floats) -> Floats:
    return np.asarray(np.interp(values, np.asarray(table.values), GRID))
