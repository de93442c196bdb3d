"""Sampling a collapsed posterior: log p(position) + Σ weight · log p(o_party | position), for a batch of scenarios.

Any model will do that has the few methods below. `begin` and `advance` are compiled once for each model and batch
shape; masks, κ, τ, priors and observations are ordinary arguments.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference import hmc
from equipoise.inference.laplace import Approximation, laplace
from equipoise.inference.observations import Observations, Observed, Scenarios, observe
from equipoise.inference.programs import CachedProgram
from equipoise.inference.runtime import ONE_AT_A_TIME, compiler_options, double_precision
from equipoise.inference.scenario import Rule

# The structure of what programs return.
_NUMBER: Any = 0
_ENSEMBLE = hmc.Ensemble(hmc.State(_NUMBER, _NUMBER, _NUMBER), hmc.Geometry(_NUMBER, _NUMBER), _NUMBER)
_APPROXIMATION = Approximation(_NUMBER, _NUMBER, _NUMBER)
_ROUND = (_ENSEMBLE, hmc.Draws(_NUMBER, _NUMBER, _NUMBER), hmc.Record(_NUMBER, _NUMBER, _NUMBER, _NUMBER))


AT_ONCE = 640  # positions


class CollapsedModel(Protocol):
    """Static, hashable description of a model whose statistics are integrated out."""

    @property
    def slots(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    @property
    def focus(self) -> int: ...

    @property
    def offset(self) -> float:
        """Where the search for the mode starts, in each of the first `focus` coordinates."""

    def prepare(self, observed: Observed) -> Any:
        """Arrange one scenario's view once, before any sampling."""

    def log_likelihood(self, prior: Any, evidence: Any, position: Array) -> Array:
        """Log density of each party's statistic [slots]."""

    def information(self, prior: Any, evidence: Any, position: Array) -> Array:
        """Fisher information of the mean statistics [d, d]."""

    def parameters(self, prior: Any, position: Array) -> dict[str, Array]:
        """Named parameters at a position."""


def _log_likelihood(model: CollapsedModel, prior: Any, evidence: Any, position: Array) -> Array:
    return jnp.vdot(evidence.weight, model.log_likelihood(prior, evidence, position))


def log_density(model: CollapsedModel, prior: Any, evidence: Any, position: Array) -> Array:
    """Log posterior density at a position, up to a constant."""
    return _log_likelihood(model, prior, evidence, position) - 0.5 * position @ position


def approximate(
    model: CollapsedModel, rule: Rule, prior: Any, observations: Observations, scenario: Scenarios
) -> Approximation:
    """Laplace approximation of one scenario's posterior."""
    evidence = model.prepare(observe(observations, scenario, rule))
    return laplace(
        partial(_log_likelihood, model, prior, evidence),
        partial(model.information, prior, evidence),
        jnp.zeros(model.dimension).at[: model.focus].set(model.offset),
    )


@partial(CachedProgram, static=(0,), effort=0, like=_APPROXIMATION)
@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def approximations(
    model: CollapsedModel, prior: Any, observations: Observations, scenarios: Scenarios
) -> Approximation:
    """Laplace approximations of a batch of scenarios."""
    return jax.vmap(partial(approximate, model, "power", prior, observations))(scenarios)


class PartyNormals(NamedTuple):
    """Each party's log likelihood near one position: slopes [slots, d] and Fisher informations [slots, d, d]."""

    position: Array
    slopes: Array
    informations: Array


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def party_normals(model: CollapsedModel, prior: Any, observations: Observations, scenario: Scenarios) -> PartyNormals:
    """Normal approximations of all likelihoods at the mode of one scenario's posterior; 0 for parties that are out."""
    position = approximate(model, "power", prior, observations, scenario).centre
    evidence = model.prepare(observe(observations, scenario, "power"))
    slopes = jax.jacrev(lambda at: model.log_likelihood(prior, evidence, at))(position)

    def one(weight: Array) -> Array:
        return model.information(prior, evidence._replace(weight=weight), position)

    member = scenario.member
    return PartyNormals(position, member[:, None] * slopes, jax.lax.map(one, jnp.diag(member)))


@partial(CachedProgram, static=(1, 2, 3), effort=0, like=_ENSEMBLE)
@partial(jax.jit, static_argnames=("model", "rule", "chains"), compiler_options=compiler_options(0))
def begin(
    keys: Array,
    model: CollapsedModel,
    rule: Rule,
    chains: int,
    prior: Any,
    observations: Observations,
    scenarios: Scenarios,
) -> hmc.Ensemble:
    """Start all chains of all scenarios [scenarios, chains, …]."""

    def one(key: Array, scenario: Scenarios) -> hmc.Ensemble:
        approximation = approximate(model, rule, prior, observations, scenario)
        evidence = model.prepare(observe(observations, scenario, rule))
        return hmc.begin(key, partial(log_density, model, prior, evidence), approximation, chains)

    return jax.vmap(one)(keys, scenarios)


@partial(CachedProgram, static=(1, 2), effort=1, like=_ROUND)
@partial(
    jax.jit,
    static_argnames=("model", "rule"),
    donate_argnames=("ensembles",),
    compiler_options=compiler_options(1),
)
def advance(
    keys: Array,
    model: CollapsedModel,
    rule: Rule,
    prior: Any,
    observations: Observations,
    scenarios: Scenarios,
    ensembles: hmc.Ensemble,
    adapt: Array,
) -> tuple[hmc.Ensemble, hmc.Draws, hmc.Record]:
    """One round of all chains of all scenarios: draws [scenarios, chains, draws, …] and how it went."""

    def one(key: Array, scenario: Scenarios, ensemble: hmc.Ensemble) -> tuple[hmc.Ensemble, hmc.Draws, hmc.Record]:
        evidence = model.prepare(observe(observations, scenario, rule))
        density = partial(log_density, model, prior, evidence)
        return hmc.advance(key, density, ensemble, adapt, model.focus)

    return jax.vmap(one)(keys, scenarios, ensembles)


def _at(function: Callable[[Floats], Any], positions: Floats) -> Any:
    """A function of positions [n, d] at [chains, draws, d], so many at a time: one program for any number of draws."""
    flat = positions.reshape(-1, positions.shape[2])
    padded = np.resize(flat, (-(-len(flat) // AT_ONCE) * AT_ONCE, flat.shape[1]))
    parts = [function(padded[first : first + AT_ONCE]) for first in range(0, len(padded), AT_ONCE)]

    def whole(*pieces: Array) -> Floats:
        joined = np.concatenate([np.asarray(piece) for piece in pieces])[: len(flat)]
        return joined.reshape(*positions.shape[:2], *joined.shape[1:])

    return jax.tree.map(whole, *parts)


@double_precision
def parameters(model: CollapsedModel, prior: Any, positions: Floats | Array) -> dict[str, Floats]:
    """Named parameters at positions [chains, draws, d]."""
    found: dict[str, Floats] = _at(partial(_parameters, model, prior), np.asarray(positions))
    return found


@partial(CachedProgram, static=(0,), effort=0)
@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _parameters(model: CollapsedModel, prior: Any, positions: Array) -> dict[str, Array]:
    return jax.vmap(partial(model.parameters, prior))(positions)


@double_precision
def row_moments(
    model: Any, prior: Any, draws: Mapping[str, Floats], coordinates: Floats | None, party: int
) -> tuple[Floats, Floats]:
    """Mean [draws, entries] and covariance [draws, entries, entries] of one row of a party.

    `coordinates` are the model's own parameters where the prior is N(0, I).
    """
    with ONE_AT_A_TIME:
        found = model.moments_of_draws(prior, draws, coordinates, party)
        return np.asarray(found.mean), np.asarray(found.covariance)
