"""Do releases and prior contradict each other? Then the posterior is a compromise, and may be right by neither.

In coordinates where the prior is N(0, I), a posterior mean beyond 3 is what the prior expects once in 370 times. The
model's own parameters are looked at, and the features' standard deviations: a column that fills little of its bounds is
the conflict that is met most often.
"""

import numpy as np

from equipoise.agreement import Agreement
from equipoise.inference.posterior import Floats, Posterior
from equipoise.inference.problem import model_of
from equipoise.mediation.findings import Remark

FAR = 3.0  # standard deviations of the prior

_WIDEN = "state a prior that allows for it, or check bounds and units"
_COLUMN = "give the column tighter bounds or a `typical` range in the next agreement"


def prior_conflicts(agreement: Agreement, everybody: Posterior) -> list[Remark]:
    """What everybody's posterior believes that the prior did not expect."""
    model, prior = model_of(agreement)
    own = everybody.coordinates
    if own is None:
        own = model.own_of_draws(prior, everybody.draws)
    found = [] if own is None else _far(agreement.model.coordinate_names(), own.mean(axis=0), _WIDEN)
    columns = [f"the standard deviation of {column.name}" for column in agreement.model.columns[:-1]]
    if columns:
        deviations = np.sqrt(np.diagonal(everybody.draws["feature_covariance"], axis1=-2, axis2=-1))
        typical = np.exp(np.log(deviations).mean(axis=0)).reshape(-1, len(columns))
        coordinates = model.deviation_coordinates(prior, typical)
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
