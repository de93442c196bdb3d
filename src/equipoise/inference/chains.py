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
from equipoise.inference.diagnostics import Diagnostics, diagnose, settled, superchains_of
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import on_accelerator
from equipoise.inference.scenario import Rule

Sampler = Literal["collapsed", "gibbs"]
Result = TypeVar("Result")

MAX_THINNING = 8
WIDE = 256  # coordinates, that take one more round to learn the shape of
ACCELERATOR_ROUNDS, ACCELERATOR_WIDE = range(4, 9), 512  # the same on an accelerator, where rounds are twice as long
LEAST_WARM_UP, NARROW = 3, 128  # rounds, and coordinates that take one more at least
SETTLED_ACCEPTANCE = 0.7


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
    chains: int = 64
    sampler: Sampler = "collapsed"
    rule: Rule = "power"
    max_thinning: int = MAX_THINNING
    warm_up: int | None = None
    sweeps: int = gibbs.THIN


@dataclass(frozen=True)
class Sampled:
    """One scenario's draws of the kept chains [chains, draws, …]; `positions` are the collapsed model's coordinates.

    `scores` are what control variates follow from (`hmc.Draws`): whitened positions and scores [chains, draws, 2, own].
    """

    parameters: dict[str, Floats]
    positions: Floats | None
    diagnostics: Diagnostics
    scores: Floats | None = None


class Chains(ABC):
    """Chains of a group of scenarios.

    Draws are trees of arrays [scenarios, chains, draws, …]. What a round says about itself, its record, is kept for
    every round, thinned or not.
    """

    warm_up_rounds: int
    round_length: Callable[[int], int]  # draws of each of so many chains in a round

    def __init__(self, keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> None:
        self._keys, self._problem, self._scenarios, self._settings = keys, problem, scenarios, settings
        self._rounds, self._length = 0, self.round_length(settings.chains)
        self._draws: list[Any] = []
        self._records: list[Any] = []
        self._begin(self._next_keys())

    @staticmethod  # noqa: B027  (only some samplers take long to compile)
    def compile_ahead(problem: Problem, settings: Settings, keys: Array, scenarios: Scenarios) -> None:
        """Begin to compile what chains of such a group will run, where that takes long."""

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
        """Run the warm-up, a round at a time, until all scenarios have settled; rounds left out by then count as run.

        If a number of rounds was asked for, it is that many.
        """
        dimension = getattr(self._problem.model, "dimension", 0)
        least = LEAST_WARM_UP + dimension // NARROW if self._settings.warm_up is None else self._settings.warm_up
        before, arrived = None, False
        for number in range(1, 1 + warm_up_rounds(self._settings, dimension)):
            keys = self._next_keys()  # of rounds left out, too: scenarios with one seed keep common random numbers
            if not arrived:
                latest = self._advance(keys, adapt=True)
                arrived = number >= least and before is not None and self._settled(before, latest)
                before = latest
            yield

    def _settled(self, before: Any, latest: Any) -> bool:  # noqa: ARG002  (some samplers have a few rounds only)
        """Whether two rounds, draws and records, look as if chains had arrived and learnt all."""
        return False

    def sample(self, rounds: int, thin: int) -> Iterator[None]:
        """Run until the draws of so many rounds are kept, every `thin`-th of them, a round at a time."""
        while self._kept() < rounds * self._length:
            fresh = []
            for _ in range(thin):
                draws, record = self._advance(self._next_keys(), adapt=False)
                fresh.append(draws)
                self._records.append(record)
                yield
            self._draws.append(_every(thin, _join(fresh)))
        self._draws = [jax.tree.map(lambda part: part[:, :, -rounds * self._length :], _join(self._draws))]

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
        keys: Array = _of_round(self._keys, self._rounds)
        return keys


class CollapsedChains(Chains):
    """Chains of a collapsed model, by Hamiltonian Monte Carlo."""

    warm_up_rounds = 8
    round_length = staticmethod(hmc.round_length)
    _ensembles: hmc.Ensemble

    @staticmethod
    def compile_ahead(problem: Problem, settings: Settings, keys: Array, scenarios: Scenarios) -> None:
        """Begin to compile both programs of the sampler."""
        static, arrays = (problem.model, settings.rule), (problem.prior, problem.observations, scenarios)
        ensembles = collapsed.begin.compile_ahead(keys, *static, settings.chains, *arrays)
        collapsed.advance.compile_ahead(keys, *static, *arrays, ensembles, jnp.asarray(True))

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

    def _advance(self, keys: Array, *, adapt: bool) -> tuple[hmc.Draws, hmc.Record]:
        problem = self._problem
        self._ensembles, draws, record = collapsed.advance(
            keys,
            problem.model,
            self._settings.rule,
            problem.prior,
            problem.observations,
            self._scenarios,
            self._ensembles,
            jnp.asarray(adapt),
        )
        fetched: tuple[hmc.Draws, hmc.Record] = jax.tree.map(np.asarray, (draws, record))
        return fetched

    def _settled(self, before: tuple[hmc.Draws, hmc.Record], latest: tuple[hmc.Draws, hmc.Record]) -> bool:
        if on_accelerator():  # where a scenario's draws must not depend on others of its group
            return False
        if np.mean(latest[1].acceptance, axis=(1, 2)).min() < SETTLED_ACCEPTANCE:
            return False
        first, second = (
            np.concatenate([draws.position, np.asarray(record.energy)[..., None]], axis=3)
            for draws, record in (before, latest)
        )
        return all(settled(*pair, superchains_of(self._settings.chains)) for pair in zip(first, second, strict=True))

    def shorten_steps(self, scenarios: NDArray[np.bool_]) -> None:
        """Halve the steps from here on, in these scenarios."""
        log_step = self._ensembles.log_step - np.log(2) * jnp.asarray(scenarios)
        self._ensembles = self._ensembles._replace(log_step=log_step)

    def _report(self, draws: hmc.Draws, records: list[hmc.Record], thin: int) -> list[Sampled]:
        acceptance, divergent, energy = (
            np.concatenate([getattr(record, name) for record in records], axis=2)
            for name in ("acceptance", "divergent", "energy")
        )
        positions, scores = np.asarray(draws.position), np.stack([draws.along, draws.score], axis=3)
        gradients = np.sum([record.steps for record in records], axis=(0, 2)) * self._settings.chains

        def check(index: int) -> tuple[Diagnostics, NDArray[np.intp]]:
            return diagnose(
                positions[index],
                energy=energy[index],
                divergent=divergent[index],
                acceptance=float(acceptance[index].mean()),
                thin=thin,
                gradients=int(gradients[index]),
                superchains=superchains_of(self._settings.chains),
            )

        results = []
        for index, (diagnostics, keep) in enumerate(_for_each(check, len(positions))):
            parameters = collapsed.parameters(self._problem.model, self._problem.prior, positions[index])
            kept = {name: part[keep] for name, part in parameters.items()}
            results.append(Sampled(kept, positions[index][keep], diagnostics, scores[index][keep]))
        return results


class GibbsChains(Chains):
    """Chains of Algorithm 1 of the paper."""

    warm_up_rounds = 2
    round_length = staticmethod(lambda chains: gibbs.ROUND)  # noqa: ARG005
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


def warm_up_rounds(settings: Settings, dimension: int = 0) -> int:
    """Rounds before draws are kept; Hamiltonian chains need more to learn the shape of a wide posterior."""
    if settings.warm_up is not None:
        return settings.warm_up
    if settings.sampler == "gibbs":
        return GibbsChains.warm_up_rounds
    if on_accelerator() and settings.chains * hmc.round_length(settings.chains) > hmc.ROUND:
        return min(ACCELERATOR_ROUNDS.start + dimension // ACCELERATOR_WIDE, ACCELERATOR_ROUNDS[-1])
    return CollapsedChains.warm_up_rounds + dimension // WIDE


@jax.jit
def _of_round(keys: Array, number: int) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


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
