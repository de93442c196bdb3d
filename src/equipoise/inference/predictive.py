"""Moments of a row of a statistic that a party might have sent, given draws of the parameters."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference.linear import LinearRegression, second_moment
from equipoise.inference.logistic import LogisticRegression
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.posterior import Posterior
from equipoise.inference.runtime import ONE_AT_A_TIME, compiler_options, double_precision

Floats = NDArray[np.float64]


@double_precision
def row_moments(
    model: Any, prior: Any, draws: Mapping[str, Floats], coordinates: Floats | None, party: int
) -> tuple[Floats, Floats]:
    """Mean [draws, entries] and covariance [draws, entries, entries] of one row of a party.

    `coordinates` are the model's own parameters where the prior is N(0, I); regressions do without.
    """
    with ONE_AT_A_TIME:
        if isinstance(model, LinearRegression | LogisticRegression):
            mean, covariance = (
                draws[name] if model.shared else draws[name][:, party]
                for name in ("feature_mean", "feature_covariance")
            )
            if isinstance(model, LinearRegression):
                found = _linear(model, draws["weights"], draws["variance"], mean, covariance)
            else:
                found = _logistic(model, draws["weights"], mean, covariance)
        else:
            assert coordinates is not None
            found = _family(model, prior, coordinates)
        return np.asarray(found.mean), np.asarray(found.covariance)


def rows_of_posterior(
    model: Any, prior: Any, posterior: Posterior, party: int, chosen: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """As `row_moments`, at chosen draws of a posterior."""
    coordinates = None if posterior.coordinates is None else posterior.coordinates[chosen]
    return row_moments(
        model, prior, {name: values[chosen] for name, values in posterior.draws.items()}, coordinates, party
    )


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _linear(model: LinearRegression, weights: Array, variance: Array, mean: Array, covariance: Array) -> RowMoments:
    first, second = model.places_of_entries

    def one(weights: Array, variance: Array, mean: Array, covariance: Array) -> RowMoments:
        moment = second_moment(mean, jnp.linalg.cholesky(covariance), weights, variance)
        centre = moment[:, model.width]
        products = centre[first] * centre[second]
        spread = moment[first][:, first] * moment[second][:, second]
        spread += moment[first][:, second] * moment[second][:, first] - 2 * jnp.outer(products, products)
        return RowMoments(moment[first, second], spread)

    return jax.vmap(one)(weights, variance, mean, covariance)


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _logistic(model: LogisticRegression, weights: Array, mean: Array, covariance: Array) -> RowMoments:
    return jax.vmap(model.moments_of_row)(weights, mean, covariance)


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _family(model: Any, prior: Any, positions: Array) -> RowMoments:
    found = jax.vmap(partial(model.row_moments, prior))(positions)
    return RowMoments(found.mean[:, 0], found.covariance[:, 0])
