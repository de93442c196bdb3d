"""Moments of a row of a statistic that a party might have sent, given draws of the parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.inference.models.base import EngineModel, Floats
from equipoise.inference.posterior import Posterior
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision


@double_precision
def row_moments(
    model: EngineModel, prior: Any, draws: Mapping[str, Floats], coordinates: Floats | None, party: int
) -> tuple[Floats, Floats]:
    """Mean [draws, entries] and covariance [draws, entries, entries] of one row of a party.

    `coordinates` are the model's own parameters where the prior is N(0, I); regressions do without.
    """
    with ONE_AT_A_TIME:
        found = model.moments_of_draws(prior, draws, coordinates, party)
        return np.asarray(found.mean), np.asarray(found.covariance)


def rows_of_posterior(
    model: Any, prior: Any, posterior: Posterior, party: int, chosen: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """As `row_moments`, at chosen draws of a posterior."""
    coordinates = None if posterior.coordinates is None else posterior.coordinates[chosen]
    return row_moments(
        model, prior, {name: values[chosen] for name, values in posterior.draws.items()}, coordinates, party
    )
