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
from equipoise.models.priors import (
    NormalInverseGamma,
    NormalInverseWishart,
    ScaledCorrelation,
    StandardisedEffects,
    StandardisedFeatures,
    StandardisedLogOdds,
)
from equipoise.models.schema import (
    BernoulliModel,
    CategoricalModel,
    ExponentialModel,
    GaussianModel,
    LinearModel,
    LogisticModel,
    PoissonModel,
    RegressionColumn,
)
from equipoise.protocol.submission import Submission, one_of_each

Floats = NDArray[np.float64]
BIAS_PRECISION = 0.1  # unless agreed otherwise
TYPICAL_DEVIATION = 0.25  # of a column, in half the width of its bounds
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


def _linear(agreed: LinearModel, slots: int, layout: Layout) -> tuple[LinearRegression, Any]:
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    if isinstance(prior, StandardisedEffects):
        assert isinstance(data, StandardisedFeatures)
        target = _typical(agreed.target, layout.columns[-1], data)
        return StandardisedLinear(width, slots, data.scope == "shared"), standardised_prior(
            _typical_features(agreed, layout, data),
            effect=effect_of(agreed),
            concentration=data.concentration,
            mean_spread=data.mean_spread,
            target_middle=target.middle,
            target_spread=data.mean_spread * target.deviation,
            residual=(min(prior.residual * target.deviation, LARGEST_DEVIATION), prior.residual_spread),
        )
    assert isinstance(data, NormalInverseWishart)
    degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
    model = LinearRegression(width, slots, data.scope == "shared")
    spread = _matrix(data.covariance, width)
    return model, linear_prior(
        shape=prior.shape,
        scale=prior.scale,
        weight_mean=_vector(prior.weight_mean, width + 1),
        weight_precision=weight_precision(agreed),
        feature_mean=_vector(data.mean, width),
        mean_strength=data.mean_strength,
        scatter=spread * (degrees - width - 1),  # E[Σ] = Ψ/(ν − w − 1)
        degrees_of_freedom=degrees,
    )


def effect_of(agreed: LinearModel) -> float:
    """Standard deviation of an effect in units of σ, as agreed or as usual: together they explain about half."""
    assert isinstance(agreed.prior, StandardisedEffects)
    return math.sqrt(2 / len(agreed.features)) if agreed.prior.effect is None else agreed.prior.effect


def weight_precision(agreed: LinearModel) -> Floats:
    """Precision of the coefficients of a conjugate prior in units of 1/σ², as agreed or as usual [w + 1, w + 1]."""
    prior, data, width = agreed.prior, agreed.data_prior, len(agreed.features)
    assert isinstance(prior, NormalInverseGamma)
    assert isinstance(data, NormalInverseWishart)
    if prior.weight_precision is not None:
        return _matrix(prior.weight_precision, width + 1)
    # Features together explain as much as they leave, in expectation.
    return np.diag([float(np.trace(_matrix(data.covariance, width)))] * width + [BIAS_PRECISION])


def _logistic(agreed: LogisticModel, slots: int, layout: Layout) -> tuple[LogisticRegression, Any]:
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    if isinstance(prior, StandardisedLogOdds):
        assert isinstance(data, StandardisedFeatures)
        return StandardisedLogistic(width, slots, data.scope == "shared"), standardised_prior(
            _typical_features(agreed, layout, data),
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


def _typical(agreed: RegressionColumn, column: Any, data: StandardisedFeatures) -> Typical:
    """What is believed of a column in scaled units; unless agreed, that the middle half of its bounds holds 95 %."""
    assert isinstance(column, ScaledColumn)
    if agreed.typical is None:
        return Typical(0.0, TYPICAL_DEVIATION, data.sd_spread)
    low, high = ((end - column.middle) / column.half_width for end in agreed.typical)
    return Typical((low + high) / 2, (high - low) / 4, data.stated_spread)


def _typical_features(agreed: LinearModel | LogisticModel, layout: Layout, data: StandardisedFeatures) -> list[Typical]:
    return [_typical(one, column, data) for one, column in zip(agreed.features, layout.columns, strict=False)]


def _vector(values: Sequence[float] | None, length: int) -> Floats:
    return np.zeros(length) if values is None else np.asarray(values, dtype=float)


def _matrix(value: float | Sequence[float] | Sequence[Sequence[float]], width: int) -> Floats:
    array = np.asarray(value, dtype=float)
    return array if array.ndim == 2 else np.diag(np.broadcast_to(array, width))


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
