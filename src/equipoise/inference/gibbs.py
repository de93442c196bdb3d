r"""The paper's Gibbs sampler for linear regression (Algorithm 1, after Bernstein & Sheldon 2019), for any width.

One sweep draws, given the rest, every party's exact statistic, then the feature distribution, then the model:

    s | θ, ω, o      normal; drawn as s₀ + cK C⁻¹(o − s₀ − z₀), C = cK + noise, with s₀ and z₀ from the model itself
                     (Matheron's rule)
    ω | s            normal-inverse-Wishart,      θ | s    normal-inverse-gamma

A normal draw of s need not be the statistic of any rows. It is kept only if the conjugate updates can read it as one:
Λ_n and Ψ_n positive definite and the residual sum of squares not negative (b_n ≥ b₀); otherwise the old s stays. That
is an exact Metropolis step for the normal restricted to such statistics. Tempering is the paper's `scaled` rule.

Chains start at s = c·M for parameters near the collapsed posterior: a valid statistic close to the data.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from equipoise.inference.collapsed import approximate
from equipoise.inference.laplace import inverse_lower
from equipoise.inference.models.linear import LinearPrior, LinearRegression, second_moments
from equipoise.inference.observations import Observations, Scenarios, with_added_noise
from equipoise.inference.runtime import compiler_options

ROUND = 40  # draws kept between two looks at the chains
THIN = 16  # sweeps for each draw kept, as in the paper: successive sweeps are much alike


class Evidence(NamedTuple):
    """A scenario's statistics [slots, entries], counts and noise variances after `scaled` tempering.

    Parties that are out count nothing.
    """

    statistic: Array
    rows: Array
    noise: Array
    member: Array


class _Conjugate(NamedTuple):
    """Posterior hyper-parameters given exact statistics."""

    weight_mean: Array
    precision_root: Array
    scale: Array
    feature_mean: Array
    scatter_root: Array
    valid: Array


class State(NamedTuple):
    """One chain: exact statistics [slots, n, n], the model, feature means and covariance roots [1 or slots, …].

    The conjugate updates from the statistics stay with them: a sweep that rejects new ones needs the old ones' again.
    """

    statistic: Array
    updates: _Conjugate
    weights: Array
    variance: Array
    feature_mean: Array
    feature_root: Array


class Info(NamedTuple):
    """Whether the last draw of the statistics could be used."""

    accepted: Array


class Draw(NamedTuple):
    """Parameters kept for each draw."""

    weights: Array
    variance: Array
    feature_mean: Array
    feature_covariance: Array


class _Randomness(NamedTuple):
    """Random numbers of one sweep; those whose distribution does not depend on the state are drawn in bulk."""

    sampling_mean: Array
    sampling_square: Array
    noise: Array
    weights: Array
    gamma: Array
    chi: Array
    bartlett: Array
    feature_mean: Array


def temper(observations: Observations, scenario: Scenarios) -> Evidence:
    """The paper's rule: statistic and count times κ, noise variance times κ² (App. E.3)."""
    seen = with_added_noise(observations, scenario)
    # κ = 0 means nobody is in; any positive number keeps the arithmetic finite.
    kappa = jnp.where(scenario.kappa > 0, scenario.kappa, 1.0)
    count = kappa * seen.rows
    member = scenario.member * (scenario.kappa > 0)
    return Evidence(kappa * seen.statistic, count, kappa**2 * seen.variance, member)


def start(model: LinearRegression, prior: LinearPrior, evidence: Evidence, position: Array) -> State:
    """A valid state at a position of the collapsed model."""
    weights, variance = model.regression(prior, position)
    means, roots = model.features(prior, position)
    moments = second_moments(means, roots, weights, variance)
    statistic = evidence.rows[:, None, None] * moments
    return State(statistic, _conjugate(model, prior, evidence, statistic), weights, variance, means, roots)


def step(
    model: LinearRegression, prior: LinearPrior, evidence: Evidence, state: State, random: _Randomness
) -> tuple[State, Info]:
    """One sweep: every parameter is drawn given all others."""
    proposal = _draw_statistics(model, evidence, state, random)
    proposed = _conjugate(model, prior, evidence, proposal)
    accepted = proposed.valid
    statistic, update = jax.tree.map(
        lambda new, old: jnp.where(accepted, new, old), (proposal, proposed), (state.statistic, state.updates)
    )

    # σ² | s ~ InvGamma(a_n, b_n), weights | σ², s ~ N(mean_n, σ² Λ_n⁻¹)
    variance = update.scale / random.gamma
    spread = jax.scipy.linalg.solve_triangular(update.precision_root, random.weights, lower=True, trans="T")
    weights = update.weight_mean + jnp.sqrt(variance) * spread
    # Σ | s ~ W⁻¹(Ψ_n, ν_n) as L_Ψ A⁻ᵀ A⁻¹ L_Ψᵀ with A Bartlett's factor, μ | Σ, s ~ N(μ_n, Σ/k_n)
    bartlett = jnp.tril(random.bartlett, -1) + jax.vmap(jnp.diag)(random.chi)
    roots = update.scatter_root @ inverse_lower(bartlett).mT
    strength = prior.mean_strength + _rows(model, evidence)
    means = update.feature_mean + jnp.einsum("gij,gj->gi", roots, random.feature_mean) / jnp.sqrt(strength)[:, None]
    return State(statistic, update, weights, variance, means, roots), Info(accepted)


def _rows(model: LinearRegression, evidence: Evidence) -> Array:
    """Rows behind each feature distribution [1 or slots]."""
    rows = evidence.member * evidence.rows
    return jnp.sum(rows, keepdims=True) if model.shared else rows


def _draw_statistics(model: LinearRegression, evidence: Evidence, state: State, random: _Randomness) -> Array:
    """Draw s | θ, ω, o for all parties [slots, n, n]."""
    rows, columns = model.places_of_entries
    moments = second_moments(state.feature_mean, state.feature_root, state.weights, state.variance)

    def parties_of(
        moment: Array, root: Array, count: Array, observed: Array, noise: Array, rest: tuple[Array, ...]
    ) -> Array:
        """Draw for the parties that share one feature distribution."""
        normal_mean, normal_square, unit_noise = rest
        mean = moment[:, model.width]
        # L Lᵀ = V, the covariance of v = (x, 1, y)
        factor = jnp.zeros((model.width + 2, model.width + 1)).at[: model.width, : model.width].set(root)
        factor = factor.at[-1].set(jnp.concatenate([state.weights[:-1] @ root, jnp.sqrt(state.variance)[None]]))
        # s₀ = cM + √c (m δᵀ + δ mᵀ + L G Lᵀ), G symmetric with variance 2 on the diagonal and 1 off it
        shift = normal_mean @ factor.T
        cross = mean[:, None] * shift[:, None, :]
        square = factor @ ((normal_square + normal_square.mT) / jnp.sqrt(2.0)) @ factor.T
        root_count = jnp.sqrt(count)[:, None, None]
        fresh = count[:, None, None] * moment + root_count * (cross + cross.mT + square)
        entries = fresh[:, rows, columns]
        sampling = count[:, None, None] * model.covariance_of_row(moment)
        root = jnp.linalg.cholesky(sampling + jax.vmap(jnp.diag)(noise))
        # z₀: the noise the parties added
        residual = observed - entries - jnp.sqrt(noise) * unit_noise
        solved = jax.vmap(lambda lower, one: jax.scipy.linalg.cho_solve((lower, True), one))(root, residual)
        return model.matrices(entries + jnp.einsum("pij,pj->pi", sampling, solved), count)

    parts = (evidence.rows, evidence.statistic, evidence.noise)
    rest = (random.sampling_mean, random.sampling_square, random.noise)
    if model.shared:
        return parties_of(moments[0], state.feature_root[0], *parts, rest)
    alone = jax.tree.map(lambda part: part[:, None], (*parts, rest))
    return jax.vmap(parties_of)(moments, state.feature_root, *alone)[:, 0]


def _conjugate(model: LinearRegression, prior: LinearPrior, evidence: Evidence, statistic: Array) -> _Conjugate:
    """Conjugate updates from exact statistics, and whether the statistics admit them."""
    width = model.width
    members = evidence.member[:, None, None] * statistic
    total = jnp.sum(members, axis=0)
    # Λ_n = Λ₀ + ΣX̃ᵀX̃, mean_n = Λ_n⁻¹(Λ₀ mean₀ + ΣX̃ᵀy), b_n = b₀ + ½(Σy² + mean₀ᵀΛ₀ mean₀ − mean_nᵀ Λ_n mean_n)
    precision = prior.weight_precision + total[:-1, :-1]
    precision_root = jnp.linalg.cholesky(precision)
    pull = prior.weight_precision @ prior.weight_mean
    weight_mean = jax.scipy.linalg.cho_solve((precision_root, True), pull + total[:-1, -1])
    explained = weight_mean @ precision @ weight_mean - prior.weight_mean @ pull
    scale = prior.scale + 0.5 * (total[-1, -1] - explained)
    # Ψ_n = Ψ₀ + Σxxᵀ + k₀μ₀μ₀ᵀ − k_n μ_nμ_nᵀ, μ_n = (k₀μ₀ + Σx)/k_n
    groups = total[None] if model.shared else members
    strength = prior.mean_strength + _rows(model, evidence)
    feature_mean = (prior.mean_strength * prior.feature_mean + groups[:, :width, width]) / strength[:, None]
    outer = feature_mean[:, :, None] * feature_mean[:, None, :]
    scatter = prior.scatter + groups[:, :width, :width]
    scatter += prior.mean_strength * jnp.outer(prior.feature_mean, prior.feature_mean)
    scatter_root = jnp.linalg.cholesky(scatter - strength[:, None, None] * outer)
    finite = jnp.all(jnp.isfinite(precision_root)) & jnp.all(jnp.isfinite(scatter_root))  # a failed root is NaN
    return _Conjugate(weight_mean, precision_root, scale, feature_mean, scatter_root, finite & (scale >= prior.scale))


def _randomness(
    key: Array, model: LinearRegression, prior: LinearPrior, evidence: Evidence, shape: tuple[int, ...]
) -> _Randomness:
    """Random numbers for many sweeps; the shapes of gamma and χ² variates do not depend on the state."""
    width, slots = model.width, model.slots
    groups = 1 if model.shared else slots
    keys = iter(jax.random.split(key, 8))
    rows = _rows(model, evidence)
    degrees = prior.degrees_of_freedom + rows[:, None] - jnp.arange(width)

    def normal(*tail: int) -> Array:
        return jax.random.normal(next(keys), (*shape, *tail))

    return _Randomness(
        normal(slots, width + 1),
        normal(slots, width + 1, width + 1),
        normal(slots, model.entries),
        normal(width + 1),
        jax.random.gamma(next(keys), prior.shape + 0.5 * jnp.sum(evidence.member * evidence.rows), shape),
        jnp.sqrt(2 * jax.random.gamma(next(keys), degrees / 2, (*shape, groups, width))),
        normal(groups, width, width),
        normal(groups, width),
    )


@partial(jax.jit, static_argnames=("model", "chains"), compiler_options=compiler_options(0))
def begin(
    keys: Array,
    model: LinearRegression,
    chains: int,
    prior: LinearPrior,
    observations: Observations,
    scenarios: Scenarios,
) -> State:
    """Start all chains of all scenarios [scenarios, chains, …]."""

    def one(key: Array, scenario: Scenarios) -> State:
        near = approximate(model, "power", prior, observations, scenario)
        positions = near.centre + jax.random.normal(key, (chains, model.dimension)) @ near.root.T
        evidence = temper(observations, scenario)
        return jax.vmap(partial(start, model, prior, evidence))(positions)

    return jax.vmap(one)(keys, scenarios)


@partial(
    jax.jit, static_argnames=("model", "sweeps"), donate_argnames=("states",), compiler_options=compiler_options(1)
)
def advance(
    keys: Array,
    model: LinearRegression,
    sweeps: int,
    prior: LinearPrior,
    observations: Observations,
    scenarios: Scenarios,
    states: State,
) -> tuple[State, Draw, Array]:
    """`ROUND` draws, each after so many sweeps, of all chains; also the share of statistics accepted, by draw."""

    def one(key: Array, scenario: Scenarios, states: State) -> tuple[State, Draw, Array]:
        evidence = temper(observations, scenario)
        chains = states.variance.shape[0]

        def keep(states: State, key: Array) -> tuple[State, tuple[Draw, Array]]:
            random = _randomness(key, model, prior, evidence, (sweeps, chains))
            sweep = jax.vmap(partial(step, model, prior, evidence))
            states, info = jax.lax.scan(sweep, states, random)
            covariance = states.feature_root @ states.feature_root.mT
            draw = Draw(states.weights, states.variance, states.feature_mean, covariance)
            return states, (draw, jnp.mean(info.accepted, axis=0))

        states, (draws, accepted) = jax.lax.scan(keep, states, jax.random.split(key, ROUND))
        by_chain = jax.tree.map(lambda part: jnp.swapaxes(part, 0, 1), (draws, accepted))
        return states, *by_chain

    return jax.vmap(one)(keys, scenarios, states)
