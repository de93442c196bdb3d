"""Run a batch of scenarios: warm up, sample until the chains agree, diagnose. Arrays in, arrays out.

Two compiled programs, `begin` and `advance`, serve any number of scenarios. On an accelerator a group of scenarios goes
through them at once. On a CPU a group is one scenario: its chains already keep a core busy, and scenarios that need few
leaps do not wait for those that need many. Only one thread at a time runs programs on a CPU: XLA's CPU runtime was seen
to deadlock when two did (jaxlib 0.10.2, two cores).

Draws are kept at the requested number. When the chains do not agree yet, they go on for as long again and every other
draw is kept, and so on up to `MOST_THINNING`: more work gives better draws, never more of them.
"""

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference import collapsed, gibbs, hmc
from equipoise.inference.diagnostics import Diagnostics, diagnose
from equipoise.inference.runtime import double_precision, on_accelerator, use_compilation_cache
from equipoise.inference.scenario import Observations, Rule, Scenarios

Floats = NDArray[np.float64]
Sampler = Literal["collapsed", "gibbs"]
Progress = Callable[[float], None]  # called with the share of a group's planned rounds that each one is

WARM_UP_ROUNDS = 5
GIBBS_WARM_UP_ROUNDS = 2
MOST_THINNING = 8
GROUP = 1  # scenarios in one call on a CPU
WIDE_GROUP = 64  # at most, on an accelerator
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Problem:
    """A model, its prior and everybody's observations."""

    model: Any
    prior: Any
    observations: Observations


@dataclass(frozen=True)
class Settings:
    """How much to sample. Chains start near the posterior and adapt together, so a few dozen short ones do."""

    draws: int = 4_000
    chains: int = 16
    sampler: Sampler = "collapsed"
    rule: Rule = "power"
    max_thinning: int = MOST_THINNING


@dataclass(frozen=True)
class Sampled:
    """One scenario's draws of the kept chains [chains, draws, …]; `positions` are the collapsed model's coordinates."""

    parameters: dict[str, Floats]
    positions: Floats | None
    diagnostics: Diagnostics


@double_precision
def run(
    keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings, progress: Progress | None = None
) -> list[Sampled]:
    """Sample every scenario; `keys` has one random key for each."""
    use_compilation_cache()
    number = len(scenarios.kappa)
    size = _group_size(number)
    groups = [np.arange(first, min(first + size, number)) for first in range(0, number, size)]

    def one_group(members: NDArray[np.intp]) -> list[Sampled]:
        padded = np.resize(members, size)  # a short last group repeats its scenarios
        chosen = Scenarios(*(jnp.asarray(part)[padded] for part in scenarios))
        chains = _GibbsChains if settings.sampler == "gibbs" else _CollapsedChains
        results = _sample_group(chains(keys[padded], problem, chosen, settings), settings, progress, len(members))
        return results[: len(members)]

    with _ONE_AT_A_TIME:
        return [sampled for group in groups for sampled in one_group(group)]


def _group_size(number: int) -> int:
    """Scenarios in one call: a power of two, so that batches of any length share a few programs."""
    return min(WIDE_GROUP, 2 ** math.ceil(math.log2(number))) if on_accelerator() else GROUP


def planned_rounds(settings: Settings) -> int:
    """Rounds a scenario takes if its chains agree at once."""
    warm_up = GIBBS_WARM_UP_ROUNDS if settings.sampler == "gibbs" else WARM_UP_ROUNDS
    return warm_up + _rounds(settings)


def _rounds(settings: Settings) -> int:
    return max(1, -(-settings.draws // (settings.chains * hmc.ROUND)))


def _sample_group(
    chains: "_CollapsedChains | _GibbsChains", settings: Settings, progress: Progress | None, members: int
) -> list[Sampled]:
    def tick() -> None:
        if progress:
            progress(members)

    for _ in chains.warm_up():
        tick()
    thin, wanted = 1, _rounds(settings)
    while True:
        while chains.kept_rounds < wanted:
            for _ in range(thin):
                chains.advance()
                tick()
            chains.keep(thin)
        sampled = chains.report(thin)
        thin *= 2
        if thin > settings.max_thinning or all(one.diagnostics.converged for one in sampled):
            return sampled
        chains.thin_out()


class _CollapsedChains:
    """All chains of a group of scenarios, sampled by Hamiltonian Monte Carlo."""

    def __init__(self, keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> None:
        self._keys, self._problem, self._scenarios, self._settings = keys, problem, scenarios, settings
        self._round = 0
        self._fresh: list[hmc.Trace] = []
        self._traces: list[hmc.Trace] = []
        self._positions: list[Floats] = []
        self._ensembles = collapsed.begin(
            self._next_keys(),
            problem.model,
            settings.rule,
            settings.chains,
            problem.prior,
            problem.observations,
            scenarios,
        )

    def _next_keys(self) -> Array:
        self._round += 1
        return jax.vmap(jax.random.fold_in, in_axes=(0, None))(self._keys, self._round)

    def _step(self, *, adapt: bool) -> hmc.Trace:
        self._ensembles, trace = collapsed.advance(
            self._next_keys(),
            self._problem.model,
            self._settings.rule,
            self._problem.prior,
            self._problem.observations,
            self._scenarios,
            self._ensembles,
            jnp.asarray(adapt),
        )
        fetched: hmc.Trace = jax.tree.map(np.asarray, trace)
        return fetched

    def warm_up(self) -> Iterator[None]:
        for _ in range(WARM_UP_ROUNDS):
            self._step(adapt=True)
            yield

    def advance(self) -> None:
        self._fresh.append(self._step(adapt=False))

    @property
    def kept_rounds(self) -> float:
        return float(sum(part.shape[2] for part in self._positions)) / hmc.ROUND

    def keep(self, thin: int) -> None:
        """Keep every `thin`-th draw of the latest rounds."""
        positions = np.concatenate([trace.positions for trace in self._fresh], axis=2)
        latest = np.concatenate([*self._positions, positions[:, :, thin - 1 :: thin]], axis=2)
        self._positions = [latest[:, :, -_rounds(self._settings) * hmc.ROUND :]]
        nothing = jnp.zeros(0)  # positions are kept apart, thinned
        self._traces += [trace._replace(positions=nothing) for trace in self._fresh]
        self._fresh = []

    def thin_out(self) -> None:
        self._positions = [np.concatenate(self._positions, axis=2)[:, :, 1::2]]

    def report(self, thin: int) -> list[Sampled]:
        positions = np.concatenate(self._positions, axis=2)

        def joined(name: str) -> Floats:
            return np.concatenate([getattr(trace, name) for trace in self._traces], axis=2)

        energy, divergent, acceptance = joined("energy"), joined("divergent"), joined("acceptance")
        steps = np.sum([trace.steps.sum(axis=1) for trace in self._traces], axis=0)

        def check(index: int) -> tuple[Diagnostics, NDArray[np.intp]]:
            return diagnose(
                positions[index],
                energy=energy[index],
                divergent=divergent[index],
                acceptance=float(acceptance[index].mean()),
                thin=thin,
                gradients=int(steps[index]) * self._settings.chains,
            )

        # On an accelerator, sorting the draws takes longer than drawing them did.
        with ThreadPoolExecutor(_usable_cores()) as pool:
            checked = list(pool.map(check, range(len(positions))))
        results = []
        for one, (diagnostics, keep) in zip(positions, checked, strict=True):
            parameters = collapsed.parameters(self._problem.model, self._problem.prior, one[keep])
            results.append(Sampled(jax.tree.map(np.asarray, parameters), one[keep], diagnostics))
        return results


class _GibbsChains:
    """All chains of a group of scenarios, sampled by Algorithm 1 of the paper."""

    def __init__(self, keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> None:
        self._keys, self._problem, self._scenarios, self._settings = keys, problem, scenarios, settings
        self._round = 0
        self._fresh: list[tuple[gibbs.Draw, Floats]] = []
        self._draws: list[gibbs.Draw] = []
        self._accepted: list[Floats] = []
        self._states = gibbs.begin(
            self._next_keys(), problem.model, settings.chains, problem.prior, problem.observations, scenarios
        )

    def _next_keys(self) -> Array:
        self._round += 1
        return jax.vmap(jax.random.fold_in, in_axes=(0, None))(self._keys, self._round)

    def _step(self) -> tuple[gibbs.Draw, Floats]:
        problem = self._problem
        self._states, draws, accepted = gibbs.advance(
            self._next_keys(), problem.model, problem.prior, problem.observations, self._scenarios, self._states
        )
        fetched: tuple[gibbs.Draw, Floats] = jax.tree.map(np.asarray, (draws, accepted))
        return fetched

    def warm_up(self) -> Iterator[None]:
        for _ in range(GIBBS_WARM_UP_ROUNDS):
            self._step()
            yield

    def advance(self) -> None:
        self._fresh.append(self._step())

    @property
    def kept_rounds(self) -> float:
        return float(sum(part.variance.shape[2] for part in self._draws)) / gibbs.ROUND

    def keep(self, thin: int) -> None:
        """Keep every `thin`-th draw of the latest rounds."""
        whole = _join([draws for draws, _ in self._fresh])
        fresh: gibbs.Draw = jax.tree.map(lambda part: part[:, :, thin - 1 :: thin], whole)
        limit = _rounds(self._settings) * gibbs.ROUND
        self._draws = [jax.tree.map(lambda part: part[:, :, -limit:], _join([*self._draws, fresh]))]
        self._accepted += [accepted for _, accepted in self._fresh]
        self._fresh = []

    def thin_out(self) -> None:
        self._draws = [jax.tree.map(lambda part: part[:, :, 1::2], _join(self._draws))]

    def report(self, thin: int) -> list[Sampled]:
        draws = _join(self._draws)
        acceptance = np.concatenate(self._accepted, axis=2)
        model = self._problem.model
        results = []
        for index in range(len(acceptance)):
            one: gibbs.Draw = jax.tree.map(lambda part, index=index: part[index], draws)
            diagnostics, keep = diagnose(_flat(one), acceptance=float(acceptance[index].mean()), thin=thin * gibbs.THIN)
            parameters = {name: part[keep] for name, part in one._asdict().items()}
            if model.shared:
                for name in ("feature_mean", "feature_covariance"):
                    parameters[name] = parameters[name][:, :, 0]
            results.append(Sampled(parameters, None, diagnostics))
        return results


def _join(draws: list[gibbs.Draw]) -> gibbs.Draw:
    joined: gibbs.Draw = jax.tree.map(lambda *parts: np.concatenate(parts, axis=2), *draws)
    return joined


def _flat(draw: gibbs.Draw) -> Floats:
    """Every free parameter as one coordinate [chains, draws, coordinates]; variances as logarithms."""
    chains, draws, width = (*draw.variance.shape, draw.feature_mean.shape[-1])
    rows, columns = np.tril_indices(width)
    parts: list[Floats] = [
        np.asarray(draw.weights),
        np.log(np.asarray(draw.variance))[..., None],
        np.asarray(draw.feature_mean).reshape(chains, draws, -1),
        np.asarray(draw.feature_covariance)[..., rows, columns].reshape(chains, draws, -1),
    ]
    return np.concatenate(parts, axis=-1)


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
