"""All chains of a group of scenarios while they run: their state, the draws kept so far, and what they report."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import usable_cores
from equipoise.inference import collapsed, gibbs, hmc
from equipoise.inference.diagnostics import Diagnostics, diagnose
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.scenario import Rule

Sampler = Literal["collapsed", "gibbs"]
Result = TypeVar("Result")

MAX_THINNING = 8


@dataclass(frozen=True)
class Problem:
    """A model, its prior and everybody's observations."""

    model: Any
    prior: Any
    observations: Observations


@dataclass(frozen=True)
class Settings:
    """How much to sample. Chains start near the posterior and adapt together, so a few dozen short ones do.

    `warm_up` is the number of rounds before draws are kept, by default the sampler's own; `sweeps` of the Gibbs sampler
    lead to each draw.
    """

    draws: int = 4_000
    chains: int = 16
    sampler: Sampler = "collapsed"
    rule: Rule = "power"
    max_thinning: int = MAX_THINNING
    warm_up: int | None = None
    sweeps: int = gibbs.THIN


@dataclass(frozen=True)
class Sampled:
    """One scenario's draws of the kept chains [chains, draws, …]; `positions` are the collapsed model's coordinates."""

    parameters: dict[str, Floats]
    positions: Floats | None
    diagnostics: Diagnostics


class Chains(ABC):
    """Chains of a group of scenarios.

    Draws are trees of arrays [scenarios, chains, draws, …]. What a round says about itself, its record, is kept for
    every round, thinned or not.
    """

    warm_up_rounds: int
    draws_of_a_round: int

    def __init__(self, keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> None:
        self._keys, self._problem, self._scenarios, self._settings = keys, problem, scenarios, settings
        self._rounds = 0
        self._draws: list[Any] = []
        self._records: list[Any] = []
        self._begin(self._next_keys())

    @abstractmethod
    def _begin(self, keys: Array) -> None:
        """Start all chains."""

    @abstractmethod
    def _advance(self, keys: Array, *, adapt: bool) -> tuple[Any, Any]:
        """Run one round; return its draws and its record."""

    @abstractmethod
    def _report(self, draws: Any, records: list[Any], thin: int) -> list[Sampled]:
        """Diagnose draws, scenario by scenario."""

    def shorten_steps(self, scenarios: NDArray[np.bool_]) -> None:  # noqa: B027  (only some samplers have steps)
        """Take shorter steps from here on, in these scenarios."""

    def warm_up(self) -> Iterator[None]:
        """Run the warm-up, a round at a time."""
        for _ in range(warm_up_rounds(self._settings)):
            self._advance(self._next_keys(), adapt=True)
            yield

    def sample(self, rounds: int, thin: int) -> Iterator[None]:
        """Run until the draws of so many rounds are kept, every `thin`-th of them, a round at a time."""
        while self._kept() < rounds * self.draws_of_a_round:
            fresh = []
            for _ in range(thin):
                draws, record = self._advance(self._next_keys(), adapt=False)
                fresh.append(draws)
                self._records.append(record)
                yield
            self._draws.append(_every(thin, _join(fresh)))
        self._draws = [jax.tree.map(lambda part: part[:, :, -rounds * self.draws_of_a_round :], _join(self._draws))]

    def halve(self) -> None:
        """Forget every other draw, as if thinned twice as much from the beginning."""
        self._draws = [_every(2, _join(self._draws))]

    def forget(self) -> None:
        """Forget every draw and record so far."""
        self._draws, self._records = [], []

    def report(self, thin: int) -> list[Sampled]:
        """Diagnose the draws kept, scenario by scenario."""
        return self._report(_join(self._draws), self._records, thin)

    def _kept(self) -> int:
        return sum(jax.tree.leaves(part)[0].shape[2] for part in self._draws)

    def _next_keys(self) -> Array:
        self._rounds += 1
        return jax.vmap(jax.random.fold_in, in_axes=(0, None))(self._keys, self._rounds)


class CollapsedChains(Chains):
    """Chains of a collapsed model, by Hamiltonian Monte Carlo."""

    warm_up_rounds = 5
    draws_of_a_round = hmc.ROUND
    _ensembles: hmc.Ensemble

    def _begin(self, keys: Array) -> None:
        problem, settings = self._problem, self._settings
        self._ensembles = collapsed.begin(
            keys,
            problem.model,
            settings.rule,
            settings.chains,
            problem.prior,
            problem.observations,
            self._scenarios,
        )

    def _advance(self, keys: Array, *, adapt: bool) -> tuple[Floats, hmc.Record]:
        problem = self._problem
        self._ensembles, positions, record = collapsed.advance(
            keys,
            problem.model,
            self._settings.rule,
            problem.prior,
            problem.observations,
            self._scenarios,
            self._ensembles,
            jnp.asarray(adapt),
        )
        fetched: tuple[Floats, hmc.Record] = jax.tree.map(np.asarray, (positions, record))
        return fetched

    def shorten_steps(self, scenarios: NDArray[np.bool_]) -> None:
        """Halve the steps from here on, in these scenarios."""
        log_step = self._ensembles.log_step - np.log(2) * jnp.asarray(scenarios)
        self._ensembles = self._ensembles._replace(log_step=log_step)

    def _report(self, draws: Floats, records: list[hmc.Record], thin: int) -> list[Sampled]:
        acceptance, divergent, energy = (
            np.concatenate([getattr(record, name) for record in records], axis=2)
            for name in ("acceptance", "divergent", "energy")
        )
        gradients = np.sum([record.steps for record in records], axis=(0, 2)) * self._settings.chains

        def check(index: int) -> tuple[Diagnostics, NDArray[np.intp]]:
            return diagnose(
                draws[index],
                energy=energy[index],
                divergent=divergent[index],
                acceptance=float(acceptance[index].mean()),
                thin=thin,
                gradients=int(gradients[index]),
            )

        results = []
        for positions, (diagnostics, keep) in zip(draws, _for_each(check, len(draws)), strict=True):
            parameters = collapsed.parameters(self._problem.model, self._problem.prior, positions)
            kept = {name: np.asarray(part)[keep] for name, part in parameters.items()}
            results.append(Sampled(kept, positions[keep], diagnostics))
        return results


class GibbsChains(Chains):
    """Chains of Algorithm 1 of the paper."""

    warm_up_rounds = 2
    draws_of_a_round = gibbs.ROUND
    _states: gibbs.State

    def _begin(self, keys: Array) -> None:
        problem = self._problem
        self._states = gibbs.begin(
            keys, problem.model, self._settings.chains, problem.prior, problem.observations, self._scenarios
        )

    def _advance(self, keys: Array, *, adapt: bool) -> tuple[gibbs.Draw, Floats]:  # noqa: ARG002  (nothing to tune)
        problem = self._problem
        self._states, draws, accepted = gibbs.advance(
            keys,
            problem.model,
            self._settings.sweeps,
            problem.prior,
            problem.observations,
            self._scenarios,
            self._states,
        )
        fetched: tuple[gibbs.Draw, Floats] = jax.tree.map(np.asarray, (draws, accepted))
        return fetched

    def _report(self, draws: gibbs.Draw, records: list[Floats], thin: int) -> list[Sampled]:
        acceptance = np.concatenate(records, axis=2)

        def check(index: int) -> Sampled:
            one: gibbs.Draw = jax.tree.map(lambda part: part[index], draws)
            diagnostics, keep = diagnose(
                _coordinates(one), acceptance=float(acceptance[index].mean()), thin=thin * self._settings.sweeps
            )
            parameters = {name: part[keep] for name, part in one._asdict().items()}
            if self._problem.model.shared:
                for name in ("feature_mean", "feature_covariance"):
                    parameters[name] = parameters[name][:, :, 0]
            return Sampled(parameters, None, diagnostics)

        return _for_each(check, len(acceptance))


def chains_of(settings: Settings) -> type[Chains]:
    """The chains that run a sampler."""
    return GibbsChains if settings.sampler == "gibbs" else CollapsedChains


def warm_up_rounds(settings: Settings) -> int:
    """Rounds before draws are kept."""
    return chains_of(settings).warm_up_rounds if settings.warm_up is None else settings.warm_up


def _for_each(check: Callable[[int], Result], number: int) -> list[Result]:
    """For all scenarios: on an accelerator, sorting their draws takes longer than drawing them did."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(check, range(number)))


def _join(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else jax.tree.map(lambda *each: np.concatenate(each, axis=2), *parts)


def _every(thin: int, draws: Any) -> Any:
    return jax.tree.map(lambda part: part[:, :, thin - 1 :: thin], draws)


def _coordinates(draw: gibbs.Draw) -> Floats:
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
