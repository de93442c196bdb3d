"""Algorithm 1 of the paper written the obvious way, as the reference that `auto_against_gibbs.py` compares with.

It builds the dense p × p covariance of every party's statistic and draws the exact statistic from the product of two
normal densities with LAPACK's Cholesky factorisation, then makes the conjugate updates. It shares no code of a sweep
with `equipoise.inference.gibbs`, but the same rule for a draw that is nobody's statistic: unless Λ_n and Ψ_n are
positive definite and b_n ≥ b₀, the old one stays. All parties are in and nothing is tempered.

Run as a script it checks that both samplers, and the collapsed one, agree on the Syn posterior:

    python benchmarks/textbook_gibbs.py [--sweeps 20000] [--draws 8000] [--epsilon 1]
"""

import argparse
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference import collapsed, engine
from equipoise.inference.diagnostics import ess_bulk, rhat
from equipoise.inference.engine import Problem
from equipoise.inference.models.linear import LinearPrior, LinearRegression
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision
from settings import syn

Floats = NDArray[np.float64]

CHUNK = 500  # sweeps in one call


class State(NamedTuple):
    """One chain: exact statistics [parties, p], weights, variance, feature means and covariances [groups, …]."""

    statistic: Array
    given: "Conjugate"
    weights: Array
    variance: Array
    mean: Array
    covariance: Array


class Conjugate(NamedTuple):
    """Hyper-parameters given exact statistics."""

    weight_mean: Array
    precision_root: Array
    scale: Array
    mean: Array
    scatter_root: Array
    valid: Array


class Randomness(NamedTuple):
    """Random numbers of a sweep. Drawn for a whole chunk at once, which is faster than inside the loop."""

    statistic: Array
    weights: Array
    gamma: Array
    chi: Array
    below: Array
    mean: Array


def pairs(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The two factors of each entry of the statistic, as places in v = (x, 1, y)."""
    columns = np.array([*range(width), width + 1])
    first, second = np.triu_indices(width + 1)
    bias = np.full(width + 1, width)
    return np.concatenate([columns, columns[first]]), np.concatenate([bias, columns[second]])


def dense_moments(moment: Array, width: int) -> tuple[Array, Array]:
    """Mean [p] and covariance [p, p] of one row's statistic, from M = E[v vᵀ]."""
    i, j = pairs(width)
    mean = moment[:, width]
    both = mean[i] * mean[j]
    covariance = moment[i[:, None], i] * moment[j[:, None], j] + moment[i[:, None], j] * moment[j[:, None], i]
    return moment[i, j], covariance - 2 * jnp.outer(both, both)


def row_moment(weights: Array, variance: Array, mean: Array, covariance: Array) -> Array:
    """E[v vᵀ] of a row v = (x, 1, y)."""
    width = len(mean)
    # v = lift · (x, 1) + (0, 0, noise)
    lift = jnp.concatenate([jnp.eye(width + 1), weights[None]])
    inner = jnp.block([[covariance + jnp.outer(mean, mean), mean[:, None]], [mean[None], jnp.ones((1, 1))]])
    return (lift @ inner @ lift.T).at[-1, -1].add(variance)


def draw_statistic(moment: Array, count: Array, observed: Array, noise: Array, normal: Array, width: int) -> Array:
    """Draw s from N(s; c·mean, c·covariance) N(o; s, noise)."""
    mean, covariance = dense_moments(moment, width)
    root = jnp.linalg.cholesky(count * covariance)
    precision = jax.scipy.linalg.cho_solve((root, True), jnp.eye(len(mean)))
    pull = precision @ (count * mean) + observed / noise
    root = jnp.linalg.cholesky(precision + jnp.diag(1 / noise))
    centre = jax.scipy.linalg.cho_solve((root, True), pull)
    return centre + jax.scipy.linalg.solve_triangular(root, normal, lower=True, trans="T")


def conjugate(model: LinearRegression, prior: LinearPrior, rows: Array, statistic: Array) -> Conjugate:
    """Normal-inverse-gamma and normal-inverse-Wishart updates from exact statistics [parties, p]."""
    width = model.width
    i, j = pairs(width)

    def square(entries: Array, count: Array) -> Array:
        upper = jnp.zeros((width + 2, width + 2)).at[i, j].set(entries).at[j, i].set(entries)
        return upper.at[width, width].set(count)

    matrices = jax.vmap(square)(statistic, rows)
    total = jnp.sum(matrices, axis=0)
    precision = prior.weight_precision + total[:-1, :-1]
    precision_root = jnp.linalg.cholesky(precision)
    pull = prior.weight_precision @ prior.weight_mean
    weight_mean = jax.scipy.linalg.cho_solve((precision_root, True), pull + total[:-1, -1])
    square_sum = total[-1, -1] + prior.weight_mean @ pull - weight_mean @ precision @ weight_mean
    scale = prior.scale + 0.5 * square_sum

    def features(group: Array) -> tuple[Array, Array]:
        count = group[width, width]
        strength = prior.mean_strength + count
        mean = (prior.mean_strength * prior.feature_mean + group[:width, width]) / strength
        scatter = prior.scatter + group[:width, :width] - strength * jnp.outer(mean, mean)
        scatter += prior.mean_strength * jnp.outer(prior.feature_mean, prior.feature_mean)
        return mean, jnp.linalg.cholesky(scatter)

    mean, scatter_root = jax.vmap(features)(total[None] if model.shared else matrices)
    roots_exist = jnp.all(jnp.isfinite(precision_root)) & jnp.all(jnp.isfinite(scatter_root))
    return Conjugate(weight_mean, precision_root, scale, mean, scatter_root, roots_exist & (scale >= prior.scale))


def sweep(
    model: LinearRegression, prior: LinearPrior, observations: Observations, state: State, random: Randomness
) -> tuple[State, Array]:
    """Statistics given the rest, then everything else given the statistics; also whether the statistics were usable."""
    moments = jax.vmap(row_moment, in_axes=(None, None, 0, 0))(
        state.weights, state.variance, state.mean, state.covariance
    )
    moments = jnp.broadcast_to(moments, (model.slots, *moments.shape[1:]))
    proposal = jax.vmap(partial(draw_statistic, width=model.width))(
        moments, observations.rows, observations.statistic, observations.variance, random.statistic
    )
    proposed = conjugate(model, prior, observations.rows, proposal)
    usable = proposed.valid
    statistic, given = jax.tree.map(
        lambda new, old: jnp.where(usable, new, old), (proposal, proposed), (state.statistic, state.given)
    )

    variance = given.scale / random.gamma
    spread = jax.scipy.linalg.solve_triangular(given.precision_root, random.weights, lower=True, trans="T")
    weights = given.weight_mean + jnp.sqrt(variance) * spread

    def features(
        mean: Array, scatter_root: Array, count: Array, chi: Array, below: Array, normal: Array
    ) -> tuple[Array, Array]:
        bartlett = jnp.tril(below, -1) + jnp.diag(chi)
        root = jax.scipy.linalg.solve_triangular(bartlett, scatter_root.T, lower=True).T  # L A⁻ᵀ
        return mean + root @ normal / jnp.sqrt(prior.mean_strength + count), root @ root.T

    mean, covariance = jax.vmap(features)(
        given.mean, given.scatter_root, group_rows(model, observations), random.chi, random.below, random.mean
    )
    return State(statistic, given, weights, variance, mean, covariance), usable


def group_rows(model: LinearRegression, observations: Observations) -> Array:
    """Rows behind each feature distribution."""
    return jnp.sum(observations.rows, keepdims=True) if model.shared else observations.rows


@partial(jax.jit, static_argnames=("model", "chains"))
def start(
    key: Array,
    model: LinearRegression,
    chains: int,
    prior: LinearPrior,
    observations: Observations,
    scenarios: Scenarios,
) -> State:
    """Chains at s = c·E[statistic] for parameters from a normal approximation of the posterior: a kind start."""
    everybody = jax.tree.map(lambda part: part[0], scenarios)
    near = collapsed.approximate(model, "power", prior, observations, everybody)
    i, j = pairs(model.width)

    def one(normal: Array) -> State:
        position = near.centre + near.root @ normal
        named = model.parameters(prior, position)
        means, roots = model.features(prior, position)
        covariances = roots @ roots.mT
        moments = jax.vmap(row_moment, in_axes=(None, None, 0, 0))(
            named["weights"], named["variance"], means, covariances
        )
        statistic = observations.rows[:, None] * moments[:, i, j]
        given = conjugate(model, prior, observations.rows, statistic)
        return State(statistic, given, named["weights"], named["variance"], means, covariances)

    return jax.vmap(one)(jax.random.normal(key, (chains, model.dimension)))


@partial(jax.jit, static_argnames=("model", "sweeps"), donate_argnames=("states",))
def advance(
    key: Array, model: LinearRegression, sweeps: int, prior: LinearPrior, observations: Observations, states: State
) -> tuple[State, Array, Array]:
    """Sweep all chains; the model's parameters after every sweep [chains, sweeps, w + 2] and the share of usable s."""
    width, slots = model.width, model.slots
    shape = (sweeps, states.variance.shape[0])
    rows = group_rows(model, observations)
    keys = iter(jax.random.split(key, 6))
    degrees = prior.degrees_of_freedom + rows[:, None] - jnp.arange(width)
    random = Randomness(
        statistic=jax.random.normal(next(keys), (*shape, slots, model.entries)),
        weights=jax.random.normal(next(keys), (*shape, width + 1)),
        gamma=jax.random.gamma(next(keys), prior.shape + 0.5 * jnp.sum(observations.rows), shape),
        chi=jnp.sqrt(2 * jax.random.gamma(next(keys), degrees / 2, (*shape, *degrees.shape))),
        below=jax.random.normal(next(keys), (*shape, len(rows), width, width)),
        mean=jax.random.normal(next(keys), (*shape, len(rows), width)),
    )

    def step(states: State, random: Randomness) -> tuple[State, tuple[Array, Array]]:
        states, usable = jax.vmap(partial(sweep, model, prior, observations))(states, random)
        return states, (jnp.column_stack([states.weights, jnp.log(states.variance)]), usable)

    states, (draws, usable) = jax.lax.scan(step, states, random)
    return states, jnp.swapaxes(draws, 0, 1), jnp.mean(usable)


class Sampler:
    """All chains of one problem with everybody in."""

    def __init__(self, key: Array, problem: Problem, scenarios: Scenarios, chains: int) -> None:
        self._key, self._problem, self._calls = key, problem, 0
        self._states = start(key, problem.model, chains, problem.prior, problem.observations, scenarios)

    def sample(self, sweeps: int) -> tuple[Floats, float]:
        """Weights and log variance after each sweep [chains, sweeps, w + 2], and the share of usable statistics.

        Sweeps are rounded up to whole chunks.
        """
        draws, usable = [], []
        for _ in range(-(-sweeps // CHUNK)):
            self._calls += 1
            key = jax.random.fold_in(self._key, self._calls)
            problem = self._problem
            self._states, chunk, share = advance(
                key, problem.model, CHUNK, problem.prior, problem.observations, self._states
            )
            draws.append(np.asarray(chunk))
            usable.append(float(share))
        return np.concatenate(draws, axis=1), float(np.mean(usable))


def model_coordinates(parameters: dict[str, Floats]) -> Floats:
    """Weights and log variance [chains, draws, w + 2] of an engine's draws."""
    return np.concatenate([parameters["weights"], np.log(parameters["variance"])[..., None]], axis=-1)


@double_precision
def main() -> None:
    """Compare means and standard deviations on Syn, in Monte Carlo standard errors."""
    parser = argparse.ArgumentParser(description="Do three samplers agree on Syn?")
    parser.add_argument("--sweeps", type=int, default=20_000, help="of each chain; a quarter more is burnt")
    parser.add_argument("--draws", type=int, default=8_000, help="kept by the engine, over all chains")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--epsilon", type=float, help="for all parties; the paper's unless given")
    options = parser.parse_args()
    problem, scenarios = syn() if options.epsilon is None else syn([options.epsilon] * 3)
    sampler = Sampler(jax.random.key(0), problem, scenarios, options.chains)
    sampler.sample(options.sweeps // 4)
    textbook, usable = sampler.sample(options.sweeps)
    sets = {"textbook Gibbs": textbook}
    samplers: tuple[engine.Sampler, ...] = ("gibbs", "collapsed")
    for name in samplers:
        settings = engine.Settings(options.draws, options.chains, sampler=name)
        sampled = engine.run(jax.random.split(jax.random.key(1), 1), problem, scenarios, settings)[0]
        sets[f"engine {name}"] = model_coordinates(sampled.parameters)
    print(f"Syn, {options.chains} chains, {usable:.1%} of the textbook's statistics usable")
    print(f"{'':16} {'R-hat':>6} {'ESS':>7}   mean (standard deviation) of the weights, the bias and log variance")
    for title, draws in sets.items():
        flat = draws.reshape(-1, draws.shape[-1])
        cells = [f"{m:8.4f} ({s:.4f})" for m, s in zip(flat.mean(axis=0), flat.std(axis=0), strict=True)]
        print(f"{title:16} {rhat(draws).max():6.3f} {ess_bulk(draws).min():7,.0f}  {'  '.join(cells)}")
    for title in ("engine gibbs", "engine collapsed"):
        print(f"{title} against textbook: largest difference of means {_largest_z(textbook, sets[title]):.2f} s.e.")


def _largest_z(first: Floats, second: Floats) -> float:
    squares = [draws.var(axis=(0, 1)) / ess_bulk(draws) for draws in (first, second)]
    difference = np.abs(first.mean(axis=(0, 1)) - second.mean(axis=(0, 1)))
    return float(np.max(difference / np.sqrt(squares[0] + squares[1])))


if __name__ == "__main__":
    main()
