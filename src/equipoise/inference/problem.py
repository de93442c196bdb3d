"""From an agreement and what its parties sent to the arrays the engine works on.

Everything that can be wrong with a request is found here, before anything is compiled.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference import families
from equipoise.inference.engine import Problem
from equipoise.inference.linear import LinearRegression, linear_prior
from equipoise.inference.logistic import LogisticRegression, logistic_prior
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision
from equipoise.inference.scenario import Scenario, UnitNoise, is_number
from equipoise.inference.standardised import (
    LARGEST_DEVIATION,
    StandardisedLinear,
    StandardisedLogistic,
    Typical,
    standardised_prior,
)
from equipoise.models import Layout, ScaledColumn, layout_of
from equipoise.models.bernoulli import BernoulliModel
from equipoise.models.categorical import CategoricalModel
from equipoise.models.exponential import ExponentialModel
from equipoise.models.gaussian import GaussianModel
from equipoise.models.linear import LinearModel, NormalInverseWishart, StandardisedEffects
from equipoise.models.logistic import LogisticModel, ScaledCorrelation, StandardisedLogOdds
from equipoise.models.poisson import PoissonModel
from equipoise.models.regression import StandardisedFeatures
from equipoise.protocol.submission import Submission, one_of_each

Floats = NDArray[np.float64]
_UNIT_NOISE_STREAM = 0x7A75  # keeps the noise that τ scales apart from the samplers' random numbers


def observations_of(agreement: Agreement, submissions: Sequence[Submission], *, seed: UnitNoise) -> Observations:
    """Check and stack submissions, one slot for every party of the agreement, in its order.

    Slots of parties that did not submit hold fixed numbers, so leaving a party out of a scenario and never having
    heard of it are the same computation.
    """
    names = agreement.party_names
    layout = layout_of(agreement)
    slots, entries = len(names), len(layout)
    statistic, count = np.zeros((slots, entries)), np.ones(slots)
    variance, added = np.ones((slots, entries)), np.zeros((slots, entries))
    for submission in one_of_each(agreement, submissions):
        slot = names.index(submission.party)
        statistic[slot], count[slot] = submission.values(agreement), submission.count
        guarantee = submission.stated
        variance[slot] = np.square(layout.noise_deviations(guarantee))
        added[slot] = np.sqrt(guarantee.epsilon * variance[slot])  # ½ λ Δ² = ε · ½ (λ/ε) Δ²
    return Observations(
        jnp.asarray(statistic),
        jnp.asarray(count),
        jnp.asarray(variance),
        jnp.asarray(added),
        _unit_noise(seed, (slots, entries)),
    )


def _unit_noise(seed: UnitNoise, shape: tuple[int, int]) -> jax.Array:
    """Standard normal numbers; of a secret every one of its 128 bits counts, where JAX's keys have 64."""
    if isinstance(seed, str):
        return jnp.asarray(np.random.Generator(np.random.Philox(key=int(seed, 16))).standard_normal(shape))
    return jax.random.normal(jax.random.fold_in(jax.random.key(seed), _UNIT_NOISE_STREAM), shape)


def exact_observations(agreement: Agreement, statistics: Mapping[str, tuple[int, Sequence[float]]]) -> Observations:
    """Stack exact statistics {party: (row count, entries)}; for baselines only, since nothing protects them."""
    if not statistics:
        raise InferenceError("there are no statistics; a posterior needs at least one party's")
    names = agreement.party_names
    layout = layout_of(agreement)
    slots, entries = len(names), len(layout)
    statistic, count = np.zeros((slots, entries)), np.ones(slots)
    for party, (rows, values) in statistics.items():
        agreement.party(party)
        if not is_number(rows) or not 0 < rows < math.inf or rows != int(rows):
            raise InferenceError(f"{party!r} has a row count of {rows!r}; it must be a positive whole number")
        numbers = np.asarray(values, dtype=float)
        if numbers.shape != (entries,):
            raise InferenceError(f"{party!r} has {numbers.size} statistics; this agreement needs {entries}")
        if not np.all(np.isfinite(numbers)):
            place = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise InferenceError(
                f"{party!r} has {numbers[place]!r} for {layout.entries[place].name!r}; every statistic must be finite"
            )
        slot = names.index(party)
        statistic[slot], count[slot] = numbers, rows
    nothing = jnp.zeros((slots, entries))
    return Observations(jnp.asarray(statistic), jnp.asarray(count), nothing, nothing, nothing)


def scenario_arrays(agreement: Agreement, present: Sequence[str], scenarios: Sequence[Scenario]) -> Scenarios:
    """A batch of scenarios as arrays, in the order of the agreement's parties."""
    names = agreement.party_names
    member, tau = np.zeros((len(scenarios), len(names))), np.zeros((len(scenarios), len(names)))
    for index, scenario in enumerate(scenarios):
        for party in scenario.coalition if scenario.coalition is not None else present:
            agreement.party(party)
            if party not in present:
                raise InferenceError(f"{party!r} has not submitted; submissions came from {', '.join(present)}")
            member[index, names.index(party)] = 1
        for party, amount in scenario.tau.items():
            agreement.party(party)
            tau[index, names.index(party)] = amount
    kappa = np.array([scenario.kappa for scenario in scenarios], dtype=float)
    return Scenarios(jnp.asarray(member), jnp.asarray(kappa), jnp.asarray(tau))


def problem_of(agreement: Agreement, observations: Observations) -> Problem:
    """The agreed model and prior, with observations."""
    return Problem(*model_of(agreement), observations)


@double_precision
def model_of(agreement: Agreement) -> tuple[Any, Any]:
    """The agreed model and prior."""
    return _BUILDERS[type(agreement.model)](agreement.model, len(agreement.parties), layout_of(agreement))


def _linear(agreed: LinearModel, slots: int, _layout: Layout) -> tuple[LinearRegression, Any]:
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    if isinstance(prior, StandardisedEffects):
        assert isinstance(data, StandardisedFeatures)
        target = Typical(*agreed.typical(agreed.target, agreed.target_column))
        return StandardisedLinear(width, slots, data.scope == "shared"), standardised_prior(
            [Typical(*one) for one in agreed.typical_features()],
            effect=agreed.effect,
            concentration=data.concentration,
            mean_spread=data.mean_spread,
            target_middle=target.middle,
            target_spread=data.mean_spread * target.deviation,
            residual=(min(prior.residual * target.deviation, LARGEST_DEVIATION), prior.residual_spread),
        )
    assert isinstance(data, NormalInverseWishart)
    degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
    model = LinearRegression(width, slots, data.scope == "shared")
    return model, linear_prior(
        shape=prior.shape,
        scale=prior.scale,
        weight_mean=_vector(prior.weight_mean, width + 1),
        weight_precision=agreed.weight_precision,
        feature_mean=_vector(data.mean, width),
        mean_strength=data.mean_strength,
        scatter=agreed.feature_covariance * (degrees - width - 1),  # E[Σ] = Ψ/(ν − w − 1)
        degrees_of_freedom=degrees,
    )


def _logistic(agreed: LogisticModel, slots: int, _layout: Layout) -> tuple[LogisticRegression, Any]:
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    if isinstance(prior, StandardisedLogOdds):
        assert isinstance(data, StandardisedFeatures)
        return StandardisedLogistic(width, slots, data.scope == "shared"), standardised_prior(
            [Typical(*one) for one in agreed.typical_features()],
            effect=prior.effect,
            concentration=data.concentration,
            mean_spread=data.mean_spread,
            target_middle=0.0,
            target_spread=prior.bias_spread,
        )
    assert isinstance(data, ScaledCorrelation)
    model = LogisticRegression(width, slots, data.scope == "shared", centred=data.mean_spread == 0)
    return model, logistic_prior(
        width=width,
        degrees_of_freedom=float(width) if prior.degrees_of_freedom is None else prior.degrees_of_freedom,
        max_squared_norm=prior.max_squared_norm,
        weight_scale=prior.weight_scale,
        bias_scale=prior.bias_scale,
        mean_spread=data.mean_spread,
        concentration=data.concentration,
        sd_mean=data.sd_mean,
        sd_spread=data.sd_spread,
        sd_max=data.sd_max,
    )


def _vector(values: Sequence[float] | None, length: int) -> Floats:
    return np.zeros(length) if values is None else np.asarray(values, dtype=float)


def _bernoulli(agreed: BernoulliModel, slots: int, _layout: Layout) -> tuple[Any, Any]:
    return families.Bernoulli(slots), families.bernoulli_prior(agreed.prior.positive, agreed.prior.negative)


def _categorical(agreed: CategoricalModel, slots: int, _layout: Layout) -> tuple[Any, Any]:
    size = len(agreed.target.categories)
    concentrations = np.broadcast_to(np.asarray(agreed.prior.concentration, dtype=float), size)
    return families.Categorical(slots, size), families.categorical_prior(concentrations.tolist())


def _poisson(agreed: PoissonModel, slots: int, layout: Layout) -> tuple[Any, Any]:
    lower, upper = agreed.target.bounds
    # Without a rate, the prior mean of the count is the middle of its bounds.
    rate = agreed.prior.shape / _middle(layout) if agreed.prior.rate is None else agreed.prior.rate
    return families.Poisson(slots, int(lower), int(upper)), families.rate_prior(agreed.prior.shape, rate, lower, upper)


def _exponential(agreed: ExponentialModel, slots: int, layout: Layout) -> tuple[Any, Any]:
    lower, upper = agreed.target.bounds
    # Without a rate, a waiting time at the prior mean of its rate is the middle of its bounds on average.
    rate = agreed.prior.shape * _middle(layout) if agreed.prior.rate is None else agreed.prior.rate
    return families.Exponential(slots), families.rate_prior(agreed.prior.shape, rate, lower, upper)


def _gaussian(agreed: GaussianModel, slots: int, _layout: Layout) -> tuple[Any, Any]:
    prior = agreed.prior
    return families.Gaussian(slots), families.gaussian_prior(prior.shape, prior.scale, prior.mean, prior.mean_strength)


def _middle(layout: Layout) -> float:
    column = layout.columns[0]
    assert isinstance(column, ScaledColumn)
    return column.middle


_BUILDERS: dict[type, Callable[[Any, int, Layout], tuple[Any, Any]]] = {
    LinearModel: _linear,
    LogisticModel: _logistic,
    BernoulliModel: _bernoulli,
    CategoricalModel: _categorical,
    PoissonModel: _poisson,
    ExponentialModel: _exponential,
    GaussianModel: _gaussian,
}
