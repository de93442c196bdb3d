r"""Many short Hamiltonian chains per scenario, which learn the shape of the posterior together.

The target is whitened: position = centre + root · y, with (centre, root) from a Laplace approximation and then from all
chains' draws. There it is close to N(0, I), and the integrator takes the harmonic motion of N(0, I) exactly (a rotation
of position and momentum) and kicks only for the difference. A near-normal posterior then needs one to three gradients
for a nearly independent draw, in any dimension, where leapfrog needs a step that shrinks with the dimension.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from equipoise.inference.diagnostics import superchains_of
from equipoise.inference.laplace import Approximation
from equipoise.inference.runtime import on_accelerator

LogDensity = Callable[[Array], Array]

ROUND = 640  # transitions of all chains between two looks at them
SHORTEST_ROUND = 10  # iterations
CANDIDATES = 8  # starting points each chain chooses from
TARGET_ACCEPTANCE = 0.85
QUARTER_TURN = jnp.pi / 2  # after which a normal target's position is independent of where it began
MAX_STEPS = 64
NARROW, FEW_CHAINS = 128, 16  # coordinates of problems, beyond which so many chains at a time fit into caches
DIVERGENT = 1000.0  # energy error that only a broken trajectory has


class Geometry(NamedTuple):
    """The whitening map: position = centre + root · y."""

    centre: Array
    root: Array


class State(NamedTuple):
    """Chains in whitened coordinates: position [chains, d], log density [chains], its gradient [chains, d]."""

    position: Array
    log_density: Array
    gradient: Array


class Ensemble(NamedTuple):
    """All chains of one scenario in whitened coordinates, and what they have learnt together."""

    state: State
    geometry: Geometry
    log_step: Array


class Draws(NamedTuple):
    """Positions [chains, iterations, d]; whitened ones and their scores along what own parameters see [..., own].

    Of whitened draws y with scores s, in orthonormal directions, s and y sᵀ + I have mean 0 (Stein's identity), which
    makes them control variates (`equipoise.valuation.control_variates`).
    """

    position: Array
    along: Array
    score: Array


class Record(NamedTuple):
    """How one round went [chains, iterations], and the steps of each iteration [iterations]."""

    acceptance: Array
    divergent: Array
    energy: Array
    steps: Array


def _leap(
    value_and_gradient: Callable[[Array], tuple[Array, Array]], state: State, momentum: Array, angle: Array
) -> tuple[State, Array]:
    """One step of the splitting H = (|y|² + |p|²)/2 + (−log density − |y|²/2): kick, rotate, kick."""
    momentum = momentum + 0.5 * angle * (state.gradient + state.position)
    cosine, sine = jnp.cos(angle), jnp.sin(angle)
    position = cosine * state.position + sine * momentum
    momentum = cosine * momentum - sine * state.position
    value, gradient = value_and_gradient(position)
    momentum = momentum + 0.5 * angle * (gradient + position)
    return State(position, value, gradient), momentum


def round_length(chains: int) -> int:
    """Iterations of a round."""
    return max(SHORTEST_ROUND, ROUND // chains)


def begin(key: Array, log_density: LogDensity, approximation: Approximation, chains: int) -> Ensemble:
    """Start the chains: each superchain picks one of its own candidates by importance, and all its chains start there.

    Half of the candidates come from the normal approximation and half from the prior N(0, I). Where noise is large the
    posterior can have several modes, of which the approximation sees one; where it is small the prior's are hopeless.
    """
    centre, root, inverse_root = approximation
    dimension, starts = len(centre), superchains_of(chains)
    normal_key, pick_key = jax.random.split(key)
    log_scale = -jnp.sum(jnp.log(jnp.diagonal(inverse_root)))  # triangular

    def candidate(inputs: tuple[Array, Array]) -> tuple[Array, State]:
        key, near = inputs
        normal = jax.random.normal(key, (starts, dimension))
        positions = jnp.where(near, centre + normal @ root.T, normal)
        ys = jnp.where(near, normal, (positions - centre) @ inverse_root.T)
        log_prior = -0.5 * jnp.sum(positions**2, axis=1)
        log_mixture = jnp.logaddexp(-0.5 * jnp.sum(ys**2, axis=1) - log_scale, log_prior)
        values, gradients = jax.vmap(jax.value_and_grad(log_density))(positions)
        score = jnp.where(jnp.isfinite(values), values - log_mixture, -jnp.inf)
        return score, State(ys, values, gradients @ root)

    near = jnp.arange(CANDIDATES) % 2 == 0
    scores, states = jax.lax.map(candidate, (jax.random.split(normal_key, CANDIDATES), near))
    chosen = jnp.argmax(scores + jax.random.gumbel(pick_key, scores.shape), axis=0)
    together = jnp.repeat(jnp.arange(starts), chains // starts)
    states = jax.tree.map(lambda part: part[chosen[together], together], states)
    return Ensemble(states, Geometry(centre, root), jnp.full((), math.log(0.5), dtype=float))


def advance(
    key: Array, log_density: LogDensity, ensemble: Ensemble, adapt: Array, focus: int | None = None
) -> tuple[Ensemble, Draws, Record]:
    """Run one round and return its draws [chains, iterations, …].

    While `adapt`, also tune the step and, at the end, the geometry. Scores are for means of the first `focus`
    coordinates, all by default.
    """
    chains, dimension = ensemble.state.position.shape
    geometry = ensemble.geometry
    directions = jnp.linalg.qr(geometry.root[:focus].T)[0]  # [d, focus], orthonormal

    value_and_gradient = _each(jax.value_and_grad(log_density), chains, dimension)

    def whitened(y: Array) -> tuple[Array, Array]:
        values, gradients = value_and_gradient(geometry.centre + y @ geometry.root.T)
        return values, gradients @ geometry.root

    def iteration(
        carry: tuple[State, Array], inputs: _Randomness
    ) -> tuple[tuple[State, Array], tuple[Array, Array, Record, Array]]:
        state, log_step = carry
        steps = jnp.clip(jnp.ceil(inputs.turn / jnp.exp(log_step)), 1, MAX_STEPS).astype(jnp.int32)
        leap = partial(_leap, whitened, angle=inputs.turn / steps)
        proposal, momentum = jax.lax.fori_loop(0, steps, lambda _, at: leap(*at), (state, inputs.momentum))

        energy = _energy(state, inputs.momentum)
        error = _energy(proposal, momentum) - energy
        error = jnp.where(jnp.isnan(error), jnp.inf, error)
        accepted = inputs.log_uniform < -error
        state = jax.tree.map(lambda new, old: jnp.where(_column(accepted, new), new, old), proposal, state)
        acceptance = jnp.exp(jnp.minimum(0.0, -error))

        gain = jnp.where(adapt, 2 / jnp.sqrt(inputs.time + 4.0), 0.0)
        log_step = log_step + gain * (jnp.mean(acceptance) - TARGET_ACCEPTANCE)
        log_step = jnp.minimum(log_step, jnp.log(1.2 * QUARTER_TURN))
        record = Record(acceptance, error > DIVERGENT, energy, steps)
        return (state, log_step), (state.position, state.gradient @ directions, record, log_step)

    length = round_length(chains)
    randomness = _draw_randomness(key, length, chains, dimension)
    start = (ensemble.state, ensemble.log_step)
    (state, log_step), (ys, scores, by_iteration, log_steps) = jax.lax.scan(iteration, start, randomness)
    positions = jnp.swapaxes(geometry.centre + ys @ geometry.root.T, 0, 1)
    draws = Draws(positions, jnp.swapaxes(ys @ directions, 0, 1), jnp.swapaxes(scores, 0, 1))
    record: Record = jax.tree.map(lambda part: jnp.swapaxes(part, 0, 1) if part.ndim > 1 else part, by_iteration)

    def learn() -> Ensemble:
        healthy = _replace_stuck(randomness.log_uniform[0], state, jnp.mean(by_iteration.acceptance, axis=0))
        return Ensemble(*_whiten(healthy, geometry, ys.reshape(-1, dimension)), jnp.mean(log_steps[length // 2 :]))

    return jax.lax.cond(adapt, learn, lambda: Ensemble(state, geometry, log_step)), draws, record


def _each(function: Callable[[Array], Any], chains: int, dimension: int) -> Callable[[Array], Any]:
    """A function of one position for all chains at once; on a CPU for as many as its caches hold."""
    if on_accelerator() or dimension <= NARROW or chains <= FEW_CHAINS:
        return jax.vmap(function)
    return partial(jax.lax.map, function, batch_size=FEW_CHAINS)


class _Randomness(NamedTuple):
    """All random numbers of a round, drawn at once and outside its loop."""

    momentum: Array
    log_uniform: Array
    turn: Array
    time: Array


def _draw_randomness(key: Array, length: int, chains: int, dimension: int) -> _Randomness:
    normal_key, uniform_key = jax.random.split(key)
    uniform = jax.random.uniform(uniform_key, (length, chains + 1))
    return _Randomness(
        jax.random.normal(normal_key, (length, chains, dimension)),
        jnp.log(uniform[:, 1:]),
        QUARTER_TURN * (0.8 + 0.4 * uniform[:, 0]),
        jnp.arange(length),
    )


def _energy(state: State, momentum: Array) -> Array:
    return 0.5 * jnp.sum(momentum**2, axis=1) - state.log_density


def _column(flags: Array, like: Array) -> Array:
    return flags.reshape(-1, *(1,) * (like.ndim - 1))


def _replace_stuck(luck: Array, state: State, acceptance: Array) -> State:
    """Put chains that hardly ever move where another chain, taken in turn from the luckiest, is; only in warm-up."""
    stuck = acceptance < 0.1
    healthy_first = jnp.argsort(luck - jnp.where(stuck, jnp.inf, 0.0), descending=True)
    turn = jnp.cumsum(stuck) - 1
    source = jnp.where(stuck, healthy_first[turn], jnp.arange(len(stuck)))
    moved: State = jax.tree.map(lambda part: part[source], state)
    return moved


def _whiten(state: State, geometry: Geometry, ys: Array) -> tuple[State, Geometry]:
    """Move centre and root to the draws' mean and covariance, shrunk towards what they were.

    The mean is James and Stein's (its positive part), the covariance's shrinkage the oracle-approximating one (Chen et
    al. 2010): with few draws for the dimension both keep the Laplace approximation, with many they follow the draws.
    """
    number, dimension = ys.shape
    mean = jnp.mean(ys, axis=0)
    covariance = (ys - mean).T @ (ys - mean) / number
    size, square = jnp.trace(covariance), jnp.sum(covariance**2)
    effective = number / 2  # draws of one chain are a little alike
    mean *= jnp.maximum(0.0, 1 - size / (effective * jnp.maximum(mean @ mean, 1e-12)))
    shrink = ((1 - 2 / dimension) * square + size**2) / (
        (effective + 1 - 2 / dimension) * jnp.maximum(square - size**2 / dimension, 1e-12)
    )
    shrink = jnp.clip(shrink, 0.01, 1)
    lower = jnp.linalg.cholesky((1 - shrink) * covariance + shrink * size / dimension * jnp.eye(dimension))
    position = jax.scipy.linalg.solve_triangular(lower, (state.position - mean).T, lower=True).T
    return State(position, state.log_density, state.gradient @ lower), Geometry(
        geometry.centre + geometry.root @ mean, geometry.root @ lower
    )
