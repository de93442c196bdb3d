r"""The paper's Gibbs sampler for linear regression (Algorithm 1, after Bernstein & Sheldon 2019), for any width.

One sweep draws, given the rest, every party's exact statistic, then the feature distribution, then the model:

    s | θ, ω, o      normal; drawn as s₀ + cK C⁻¹(o − s₀ − z₀), C = cK + noise, with s₀ and z₀ from the model itself
                     (Matheron's rule)
    ω | s            normal-inverse-Wishart,      θ | s    normal-inverse-gamma

A normal draw of s need not be the statistic of any rows. It is kept only if the conjugate updates can read it as one:
Λ_n and Ψ_n positive definite and the residual sum of squares not negative (b_n ≥ b₀); otherwise the old s stays. That
is an exact Metropolis step for the normal restricted to such statistics. Tempering is the paper's `scaled` rule.

Chains start at s = c·M for parameters near the posterior that the method of moments estimates. That s is a valid
statistic close to the data. The sampler serves to reproduce the paper, and as a reference for other samplers.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference.batch import Asked, releases_of
from equipoise.inference.diagnostics import Diagnostics, diagnose
from equipoise.inference.models.linear import ConjugateRegression, LinearPrior, matrix_places
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import find_start
from equipoise_paper.runtime import ONE_AT_A_TIME, compiler_options, double_precision, use_compilation_cache

# Draws of each chain between two checks of the chains.
ROUND = 40
# Sweeps per draw, as in the paper, because successive sweeps are highly correlated.
THIN = 16
# A `LinearPrior` of JAX arrays.
Hyper = Any
# Few and long chains, because each of them mixes slowly.
CHAINS = 16


@dataclass(frozen=True)
class GibbsSettings:
    """Effort of sampling: `warm_up` rounds of `ROUND` draws, then `draws` in all, each after `sweeps` sweeps.

    While the chains do not agree, sampling continues until its length has doubled, and draws are thinned accordingly,
    up to a factor of `max_thinning`.
    """

    draws: int = 4_000
    chains: int = CHAINS
    sweeps: int = THIN
    warm_up: int = 2
    max_thinning: int = 8


@dataclass(frozen=True)
class Sizes:
    """Static sizes of the compiled program: features, parties, and if these share a distribution of features."""

    width: int
    slots: int
    shared: bool

    @property
    def entries(self) -> int:
        """Length of a statistic: sums of x and y, then the upper triangle of their products."""
        return (self.width + 1) + (self.width + 1) * (self.width + 2) // 2

    @property
    def places_of_entries(self) -> tuple[Any, Any]:
        """Row and column, in the n × n matrix, of every entry of the statistic."""
        rows, columns = np.triu_indices(self.width + 2)
        order = np.argsort(matrix_places(self.width)[rows, columns])[1:]  # the count, −1, comes first
        return rows[order], columns[order]

    def matrices(self, statistic: Array, count: Array) -> Array:
        """Arrange statistics [..., entries] and counts [...] as matrices Σ v vᵀ [..., n, n], v = (x, 1, y)."""
        return jnp.concatenate([statistic, count[..., None]], axis=-1)[..., matrix_places(self.width)]

    def covariance_of_row(self, moment: Array) -> Array:
        """Return the covariance [entries, entries] of v vᵀ for normal v with M = E[v vᵀ], by Isserlis' theorem."""
        i, j = self.places_of_entries
        mean = moment[:, self.width]
        products = jnp.outer(mean[i] * mean[j], mean[i] * mean[j])
        return moment[i][:, i] * moment[j][:, j] + moment[i][:, j] * moment[j][:, i] - 2 * products


def second_moments(means: Array, roots: Array, weights: Array, variance: Array) -> Array:
    """Return E[v vᵀ] of v = (x, 1, y) for distributions N(mean, root rootᵀ) of features: [distributions, n, n]."""
    return jax.vmap(_second_moment, in_axes=(0, 0, None, None))(means, roots @ roots.mT, weights, variance)


def _second_moment(mean: Array, covariance: Array, weights: Array, variance: Array) -> Array:
    width = mean.shape[0]
    cross = covariance @ weights[:width]
    centred = jnp.zeros((width + 2, width + 2))
    centred = centred.at[:width, :width].set(covariance)
    centred = centred.at[:width, -1].set(cross).at[-1, :width].set(cross)
    centred = centred.at[-1, -1].set(weights[:width] @ cross + variance)
    whole = jnp.concatenate([mean, jnp.ones(1), (weights[:width] @ mean + weights[width])[None]])
    return centred + jnp.outer(whole, whole)


def _inverse_lower(lower: Array) -> Array:
    """Invert lower triangular matrices [..., n, n]."""
    eye = jnp.broadcast_to(jnp.eye(lower.shape[-1]), lower.shape)
    return jax.scipy.linalg.solve_triangular(lower, eye, lower=True)


class Evidence(NamedTuple):
    """A scenario's statistics [slots, entries], counts and noise variances after `scaled` tempering.

    Parties outside the scenario have `member` 0 and contribute nothing.
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
    """The state of a chain: exact statistics [slots, n, n], model, feature means and covariance roots [1 or slots, …].

    It includes the conjugate updates from the statistics, because a sweep that rejects new statistics needs them again.
    """

    statistic: Array
    updates: _Conjugate
    weights: Array
    variance: Array
    feature_mean: Array
    feature_root: Array


class Info(NamedTuple):
    """Diagnostics of a sweep: True if the new draw of the statistics was accepted."""

    accepted: Array


class Draw(NamedTuple):
    """The parameters that are kept of each draw."""

    weights: Array
    variance: Array
    feature_mean: Array
    feature_covariance: Array


class _Randomness(NamedTuple):
    """Random numbers of one sweep. Their distributions do not depend on the state, so they are drawn in bulk."""

    sampling_mean: Array
    sampling_square: Array
    noise: Array
    weights: Array
    gamma: Array
    chi: Array
    bartlett: Array
    feature_mean: Array


def temper(sums: ReleasedSums, asked: Asked) -> Evidence:
    """Temper by the paper's rule: statistic and count times κ, noise variance times κ² (App. E.3)."""
    # Parties outside the scenario get fixed numbers. With κ = 0 no party is in it; κ = 1 then keeps all numbers finite.
    inside, kappa = asked.member[:, None] > 0, asked.kappa if asked.kappa > 0 else 1.0
    tau, added = asked.tau[:, None], np.where(inside, sums.added, 0.0)
    noise = 0.0 if asked.noise is None else np.sqrt(tau) * added * asked.noise
    return Evidence(
        jnp.asarray(kappa * np.where(inside, sums.statistic, 0.0) + kappa * noise),
        jnp.asarray(kappa * np.where(inside[:, 0], sums.rows, 1.0)),
        jnp.asarray(kappa**2 * np.where(inside, sums.variance, 1.0) + kappa**2 * tau * added**2),
        jnp.asarray(asked.member * (asked.kappa > 0)),
    )


def _start(
    sizes: Sizes,
    prior: Hyper,
    evidence: Evidence,
    weights: Array,
    variance: Array,
    means: Array,
    roots: Array,
) -> State:
    """Construct a valid state at given parameters."""
    statistic = evidence.rows[:, None, None] * second_moments(means, roots, weights, variance)
    return State(statistic, _conjugate(sizes, prior, evidence, statistic), weights, variance, means, roots)


def step(sizes: Sizes, prior: Hyper, evidence: Evidence, state: State, random: _Randomness) -> tuple[State, Info]:
    """Run one sweep, which draws every parameter given all others."""
    proposal = _draw_statistics(sizes, evidence, state, random)
    proposed = _conjugate(sizes, prior, evidence, proposal)
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
    roots = update.scatter_root @ _inverse_lower(bartlett).mT
    strength = prior.mean_strength + _rows(sizes, evidence)
    means = update.feature_mean + jnp.einsum("gij,gj->gi", roots, random.feature_mean) / jnp.sqrt(strength)[:, None]
    return State(statistic, update, weights, variance, means, roots), Info(accepted)


def _rows(sizes: Sizes, evidence: Evidence) -> Array:
    """Count the rows behind each feature distribution [1 or slots]."""
    rows = evidence.member * evidence.rows
    return jnp.sum(rows, keepdims=True) if sizes.shared else rows


def _draw_statistics(sizes: Sizes, evidence: Evidence, state: State, random: _Randomness) -> Array:
    """Draw s | θ, ω, o for all parties [slots, n, n]."""
    rows, columns = sizes.places_of_entries
    moments = second_moments(state.feature_mean, state.feature_root, state.weights, state.variance)

    def parties_of(
        moment: Array, root: Array, count: Array, observed: Array, noise: Array, rest: tuple[Array, ...]
    ) -> Array:
        """Draw for the parties that share one feature distribution."""
        normal_mean, normal_square, unit_noise = rest
        mean = moment[:, sizes.width]
        # L Lᵀ = V, the covariance of v = (x, 1, y).
        factor = jnp.zeros((sizes.width + 2, sizes.width + 1)).at[: sizes.width, : sizes.width].set(root)
        factor = factor.at[-1].set(jnp.concatenate([state.weights[:-1] @ root, jnp.sqrt(state.variance)[None]]))
        # s₀ = cM + √c (m δᵀ + δ mᵀ + L G Lᵀ), with G symmetric, of variance 2 on the diagonal and 1 off it.
        shift = normal_mean @ factor.T
        cross = mean[:, None] * shift[:, None, :]
        square = factor @ ((normal_square + normal_square.mT) / jnp.sqrt(2.0)) @ factor.T
        root_count = jnp.sqrt(count)[:, None, None]
        fresh = count[:, None, None] * moment + root_count * (cross + cross.mT + square)
        entries = fresh[:, rows, columns]
        sampling = count[:, None, None] * sizes.covariance_of_row(moment)
        root = jnp.linalg.cholesky(sampling + jax.vmap(jnp.diag)(noise))
        # z₀ is drawn like the noise that the parties added.
        residual = observed - entries - jnp.sqrt(noise) * unit_noise
        solved = jax.vmap(lambda lower, right: jax.scipy.linalg.cho_solve((lower, True), right))(root, residual)
        return sizes.matrices(entries + jnp.einsum("pij,pj->pi", sampling, solved), count)

    parts = (evidence.rows, evidence.statistic, evidence.noise)
    rest = (random.sampling_mean, random.sampling_square, random.noise)
    if sizes.shared:
        return parties_of(moments[0], state.feature_root[0], *parts, rest)
    alone = jax.tree.map(lambda part: part[:, None], (*parts, rest))
    return jax.vmap(parties_of)(moments, state.feature_root, *alone)[:, 0]


def _conjugate(sizes: Sizes, prior: Hyper, evidence: Evidence, statistic: Array) -> _Conjugate:
    """Compute the conjugate updates from exact statistics; `valid` says that the statistics admit them."""
    width = sizes.width
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
    groups = total[None] if sizes.shared else members
    strength = prior.mean_strength + _rows(sizes, evidence)
    feature_mean = (prior.mean_strength * prior.feature_mean + groups[:, :width, width]) / strength[:, None]
    outer = feature_mean[:, :, None] * feature_mean[:, None, :]
    scatter = prior.scatter + groups[:, :width, :width]
    scatter += prior.mean_strength * jnp.outer(prior.feature_mean, prior.feature_mean)
    scatter_root = jnp.linalg.cholesky(scatter - strength[:, None, None] * outer)
    # The Cholesky root of a matrix that is not positive definite is NaN.
    finite = jnp.all(jnp.isfinite(precision_root)) & jnp.all(jnp.isfinite(scatter_root))
    return _Conjugate(weight_mean, precision_root, scale, feature_mean, scatter_root, finite & (scale >= prior.scale))


def _randomness(key: Array, sizes: Sizes, prior: Hyper, evidence: Evidence, batch: tuple[int, ...]) -> _Randomness:
    """Draw random numbers for many sweeps; the shape parameters of gamma and χ² variates are constants of the chain."""
    width, slots = sizes.width, sizes.slots
    groups = 1 if sizes.shared else slots
    keys = iter(jax.random.split(key, 8))
    rows = _rows(sizes, evidence)
    degrees = prior.degrees_of_freedom + rows[:, None] - jnp.arange(width)

    def normal(*tail: int) -> Array:
        return jax.random.normal(next(keys), (*batch, *tail))

    return _Randomness(
        normal(slots, width + 1),
        normal(slots, width + 1, width + 1),
        normal(slots, sizes.entries),
        normal(width + 1),
        jax.random.gamma(next(keys), prior.shape + 0.5 * jnp.sum(evidence.member * evidence.rows), batch),
        jnp.sqrt(2 * jax.random.gamma(next(keys), degrees / 2, (*batch, groups, width))),
        normal(groups, width, width),
        normal(groups, width),
    )


@partial(jax.jit, static_argnames=("sizes",), compiler_options=compiler_options())
def _begin(
    sizes: Sizes, prior: Hyper, evidence: Evidence, weights: Array, variance: Array, means: Array, roots: Array
) -> State:
    """Start all chains [chains, …]."""
    start = partial(_start, sizes, prior, evidence)
    return jax.vmap(start, in_axes=(0, 0, None, None))(weights, variance, means, roots)


@partial(jax.jit, static_argnames=("sizes", "sweeps"), compiler_options=compiler_options())
def _advance(
    key: Array, sizes: Sizes, sweeps: int, prior: Hyper, evidence: Evidence, states: State
) -> tuple[State, Draw, Array]:
    """Make `ROUND` draws of all chains, each after `sweeps` sweeps; return also the share of accepted statistics."""
    chains = states.variance.shape[0]

    def keep(states: State, key: Array) -> tuple[State, tuple[Draw, Array]]:
        random = _randomness(key, sizes, prior, evidence, (sweeps, chains))
        sweep = jax.vmap(partial(step, sizes, prior, evidence))
        states, info = jax.lax.scan(sweep, states, random)
        covariance = states.feature_root @ states.feature_root.mT
        draw = Draw(states.weights, states.variance, states.feature_mean, covariance)
        return states, (draw, jnp.mean(info.accepted, axis=0))

    states, (draws, accepted) = jax.lax.scan(keep, states, jax.random.split(key, ROUND))
    by_chain = jax.tree.map(lambda part: jnp.swapaxes(part, 0, 1), (draws, accepted))
    return states, *by_chain


class GibbsSample(NamedTuple):
    """Draws of the kept chains [chains, draws, …] by parameter, and diagnostics of the chains' agreement."""

    parameters: dict[str, Floats]
    diagnostics: Diagnostics


@double_precision
def sample_scenario(model: ConjugateRegression, sums: ReleasedSums, asked: Asked, chains: int | None) -> GibbsSample:
    """Sample a scenario with the number of draws asked for. `equipoise.infer` calls this as an entry point."""
    return sample_by_gibbs(model, sums, asked, GibbsSettings(asked.draws, chains or CHAINS))


def sample_by_gibbs(
    model: ConjugateRegression, sums: ReleasedSums, asked: Asked, settings: GibbsSettings
) -> GibbsSample:
    """Sample a scenario by the paper's algorithm, for longer while the chains do not agree."""
    use_compilation_cache()
    sizes, evidence = Sizes(model.width, len(sums.rows), model.shared), temper(sums, asked)
    prior: Hyper = LinearPrior(*map(jnp.asarray, model.prior))  # type: ignore[arg-type]
    keys = jax.random.key(asked.seed)
    with ONE_AT_A_TIME:
        states = _begin(sizes, prior, evidence, *_near_posterior(model, sums, asked, settings.chains))
        kept: list[Draw] = []
        acceptance: list[Floats] = []
        wanted = -(-settings.draws // (settings.chains * ROUND))
        thin = 1
        for number in range(settings.warm_up + settings.max_thinning * wanted):
            key = jax.random.fold_in(keys, number)
            states, draws, accepted = _advance(key, sizes, settings.sweeps, prior, evidence, states)
            if number < settings.warm_up:
                continue
            kept.append(jax.tree.map(np.asarray, draws))
            acceptance.append(np.asarray(accepted))
            if len(kept) < thin * wanted:
                continue
            sample = _report(sizes, kept, float(np.mean(acceptance)), thin, settings.sweeps)
            if sample.diagnostics.mixed or 2 * thin > settings.max_thinning:
                break
            thin *= 2
    return sample


def _near_posterior(
    model: ConjugateRegression, sums: ReleasedSums, asked: Asked, chains: int
) -> tuple[Array, Array, Array, Array]:
    """Draw starting parameters of every chain, with feature means and covariance roots, near the moment estimates."""
    prior, width, number = model.prior, model.width, len(sums.rows)
    groups = 1 if model.shared else number
    means = np.broadcast_to(prior.feature_mean, (groups, width)).copy()
    expected = prior.scatter / (prior.degrees_of_freedom - width - 1)
    roots = np.broadcast_to(np.linalg.cholesky(expected), (groups, width, width)).copy()
    rng = np.random.default_rng(asked.seed)
    regression = RegressionModel.of(model.agreed)
    centre, root = np.zeros(regression.dimension), np.eye(regression.dimension)
    if asked.kappa > 0:
        releases = releases_of(sums, asked, regression.moments.order)
        mode, features = find_start(regression, releases, sampling=1 / asked.kappa)
        centre, root = mode.centre, mode.root
        inside = np.array([0]) if model.shared else np.flatnonzero(asked.member)
        for group, (mean, covariance) in zip(inside, features, strict=True):
            means[group], roots[group] = mean, np.linalg.cholesky(covariance)
    parameters = regression.parameters(centre + rng.normal(size=(chains, len(centre))) @ root.T)
    return tuple(map(jnp.asarray, (parameters.weights, parameters.variance, means, roots)))  # type: ignore[return-value]


def _report(sizes: Sizes, rounds: list[Draw], acceptance: float, thin: int, sweeps: int) -> GibbsSample:
    whole: Draw = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[:, thin - 1 :: thin], *rounds)
    diagnostics, keep = diagnose(_coordinates(whole), acceptance=acceptance, thin=thin * sweeps)
    parameters = {name: np.asarray(part)[keep] for name, part in whole._asdict().items()}
    if sizes.shared:
        for name in ("feature_mean", "feature_covariance"):
            parameters[name] = parameters[name][:, :, 0]
    return GibbsSample(parameters, diagnostics)


def _coordinates(draw: Draw) -> Floats:
    """Return every free parameter as a coordinate [chains, draws, coordinates], with the logarithm of the variance."""
    chains, draws, width = (*draw.variance.shape, draw.feature_mean.shape[-1])
    rows, columns = np.tril_indices(width)
    parts: list[Floats] = [
        np.asarray(draw.weights),
        np.log(np.asarray(draw.variance))[..., None],
        np.asarray(draw.feature_mean).reshape(chains, draws, -1),
        np.asarray(draw.feature_covariance)[..., rows, columns].reshape(chains, draws, -1),
    ]
    return np.concatenate(parts, axis=-1)
