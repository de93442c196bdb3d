"""Posteriors from an agreement and its submissions: `infer`, `infer_batch` and, for comparison, `infer_exact`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference import baselines, engine
from equipoise.inference.diagnostics import Diagnostics, independent, superchains_of
from equipoise.inference.engine import Problem, Sampled, Settings
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.posterior import Posterior
from equipoise.inference.problem import (
    exact_observations,
    noises_of,
    observations_of,
    problem_of,
    scenario_arrays,
)
from equipoise.inference.processes import processes_for
from equipoise.inference.processes import run as run_in_processes
from equipoise.inference.progress import Meter, Tick, phase_of
from equipoise.inference.regression.batch import Asked, ReleasedSums, repair_sums, sample_batch
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import Sample
from equipoise.inference.runtime import double_precision, on_accelerator
from equipoise.inference.scenario import (
    DRAWS,
    Method,
    Rule,
    Scenario,
    UnitNoise,
    check_method,
    check_rule,
    check_unit_noise,
    check_whole,
)
from equipoise.models.base import Model
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission

Statistics = Mapping[str, tuple[int, Sequence[float]]]
Finished = Callable[[int, Posterior], None]

FEW = 256  # scenarios, whose unit noise is stated also where none is added: one compiled program serves both
CHAINS = 64
GIBBS_CHAINS = 16  # which have long ways to go, each by itself
ACCELERATOR_CHAINS = 128
LABEL = "sampling (the first run also compiles)"


def infer(
    agreement: Agreement | str | Path,
    submissions: Sequence[Submission],
    *,
    coalition: Sequence[str] | None = None,
    kappa: float = 1.0,
    tau: Mapping[str, float] | None = None,
    method: Method = "auto",
    rule: Rule | None = None,
    draws: int = DRAWS,
    chains: int | None = None,
    seed: int = 0,
    noise_seed: UnitNoise = 0,
    progress: bool | None = None,
) -> Posterior:
    """Sample the noise-aware posterior of one scenario.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    submissions : sequence of Submission
        What they released.
    coalition : sequence of str, optional
        The parties to learn from; by default all that submitted.
    kappa : float
        Tempering factor of their joint likelihood, from 0 (the prior) to 1.
    tau : mapping of str to float, optional
        Noise to add to parties' statistics: 1/ε′ − 1/ε makes a release at ε one at ε′.
    method : {"auto", "collapsed", "moments", "gibbs", "naive", "prior"}
        "auto" picks "moments" for regressions, which integrates the moments of the features out, and "collapsed" for
        all else, which integrates statistics out with compiled programs. Linear regressions with the conjugate prior
        know "gibbs" too, the paper's Algorithm 1: what "moments" is checked against. "naive" (which ignores the noise)
        and "prior" are baselines.
    rule : {"power", "scaled"}, optional
        Tempering rule, see `docs/inference.md`; by default the method's own.
    draws : int
        Draws to make. Whole rounds are drawn, so a few more are returned, up to 5,120 where fewer would not have
        converged (fewer than asked for if chains had to be dropped).
    chains : int, optional
        Chains of "collapsed" and "gibbs", 4 or more; by default 64, or 128 on an accelerator. Those of a multiple of
        8, from 32 on, are compared by nested R-hat.
    seed : int
        The same seed gives the same draws.
    noise_seed : int or str
        Which noise `tau` scales: a number, or a secret of 32 hexadecimal digits. With 64 digits every release has a
        Brownian path, so that with more `tau` it has more of the same noise (`equipoise.inference.brownian`).
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    Posterior
        It may not have converged: `converged` says so.

    Raises
    ------
    InferenceError
        The options do not fit each other or the model, or there are no submissions.
    SubmissionError
        A submission is forged, or does not belong to the agreement.

    Examples
    --------
    >>> posterior = eq.infer("agreement.toml", submissions, coalition=["north", "south"])  # doctest: +SKIP
    >>> posterior.converged, posterior.mean("weights")  # doctest: +SKIP
    """
    scenario = Scenario(coalition, kappa, tau or {})
    return infer_batch(
        agreement,
        submissions,
        [scenario],
        method=method,
        rule=rule,
        draws=draws,
        chains=chains,
        seed=seed,
        noise_seed=noise_seed,
        progress=progress,
    )[0]


@double_precision
def infer_batch(
    agreement: Agreement | str | Path,
    submissions: Sequence[Submission],
    scenarios: Sequence[Scenario],
    *,
    method: Method = "auto",
    rule: Rule | None = None,
    draws: int | Sequence[int] = DRAWS,
    chains: int | None = None,
    seed: int | Sequence[int] = 0,
    noise_seed: UnitNoise | list[UnitNoise] = 0,
    processes: int | None = None,
    progress: bool | Meter | None = None,
    label: str = LABEL,
    finished: Finished | None = None,
    believed: Agreement | None = None,
) -> list[Posterior]:
    """Sample many scenarios at once.

    Parameters
    ----------
    agreement, submissions, method, rule, chains, progress
        As in `infer`.
    scenarios : sequence of Scenario
        What to sample.
    draws : int or sequence of int
        As in `infer`, for all scenarios or for each.
    seed : int or sequence of int
        One for all scenarios gives them common random numbers, which suits differences between them; a list, one for
        each, makes them independent.
    noise_seed : int or str, or a list of these
        As in `infer`, one for all scenarios or one for each.
    processes : int, optional
        Processes to spread scenarios over; by default all cores if there are many scenarios, or as an active
        `joblib.parallel_config` says (for example on a Dask cluster).
    label : str
        What the progress bar says.
    finished : callable, optional
        Called with the place and posterior of every scenario as soon as it is there, in any order; nothing is then kept
        or returned.
    believed : Agreement, optional
        An agreement with other priors than the one that submissions were made under, and different in nothing else.

    Returns
    -------
    list of Posterior
        In the order of the scenarios; empty if `finished` took them.

    Raises
    ------
    InferenceError
        The options do not fit each other or the model, or there are no submissions.
    SubmissionError
        A submission is forged, or does not belong to the agreement.

    Examples
    --------
    >>> scenarios = [eq.Scenario(["north"]), eq.Scenario(["north"], kappa=0.5)]  # doctest: +SKIP
    >>> whole, half = eq.infer_batch("agreement.toml", submissions, scenarios)  # doctest: +SKIP
    """
    agreement = Agreement.of(agreement)
    chosen = check_method(method, agreement.model)
    if chosen == "naive" and any(any(scenario.tau.values()) for scenario in scenarios):
        raise InferenceError('method "naive" knows of no noise, so tau means nothing to it; leave tau out')
    rule = check_rule(rule, chosen, scenarios)
    seeds = [seed] * len(scenarios) if isinstance(seed, int | np.integer) else list(seed)
    numbers = list(draws) if isinstance(draws, Sequence) else [draws] * len(scenarios)
    if len(numbers) != len(scenarios):
        raise InferenceError(f"{len(numbers)} numbers of draws for {len(scenarios)} scenarios; give one, or one each")
    for one_number in set(numbers) or {DRAWS}:
        _check_sizes(scenarios, seeds, one_number, chains)
    _check_seeds(scenarios, seeds)
    noise_seeds: list[UnitNoise] = list(noise_seed) if isinstance(noise_seed, list) else [noise_seed] * len(scenarios)
    _check_seeds(scenarios, noise_seeds)
    for one in noise_seeds:
        check_unit_noise(one)
    if processes is not None:
        check_whole("processes", processes, 1)
        if processes > 1 and on_accelerator():
            raise InferenceError(
                "processes are for CPUs; an accelerator takes the whole batch at once, so leave them out"
            )
    if not submissions:
        raise InferenceError("there are no submissions; a posterior needs at least one party's")
    present = tuple(submission.party for submission in submissions)
    arrays = scenario_arrays(agreement, present, scenarios)
    observations = observations_of(agreement, submissions)
    # Of many parties and coalitions, zeros would fill the memory, and moments do without them.
    if np.any(arrays.tau) or (chosen != "moments" and len(scenarios) <= FEW):
        arrays = arrays._replace(noise=noises_of(agreement, submissions, arrays.tau, noise_seeds))
    scenarios = [scenario.resolved(present) for scenario in scenarios]
    settings = [replace(engine_settings(chosen, chains, number), rule=rule) for number in numbers]
    agreement = believed or agreement
    batch = _Batch(agreement, observations, scenarios, arrays, chosen, settings, seeds, noise_seeds, finished)
    return _sample(batch, processes=processes, progress=progress, label=label)


@double_precision
def infer_exact(
    agreement: Agreement | str | Path,
    statistics: Statistics,
    *,
    coalition: Sequence[str] | None = None,
    kappa: float = 1.0,
    draws: int = DRAWS,
    chains: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Posterior:
    """Sample the posterior given *exact* statistics, to see what noise costs.

    Models with a conjugate prior are sampled directly. Logistic regression, and linear regression with a standardised
    prior, are sampled as always, but without noise.

    Parameters
    ----------
    agreement : Agreement or path
        What the parties agreed to.
    statistics : mapping of str to (int, sequence of float)
        Rows and entries of each party's statistic, as `Submission.values` has them.
    coalition, kappa, draws, chains, seed, progress
        As in `infer`.

    Returns
    -------
    Posterior

    Raises
    ------
    InferenceError
        The options, or the statistics, do not fit the model.

    Examples
    --------
    >>> posterior = eq.infer_exact("agreement.toml", {"north": (500, sums)})  # doctest: +SKIP
    """
    agreement, scenario = Agreement.of(agreement), Scenario(coalition, kappa)
    _check_sizes([scenario], [seed], draws, chains)
    observations = exact_observations(agreement, statistics)
    present = tuple(statistics)
    arrays = scenario_arrays(agreement, present, [scenario])
    settings = Settings(draws=draws, chains=chains or _default_chains())
    resolved = [scenario.resolved(present)]
    batch = _Batch(agreement, observations, resolved, arrays, "exact", [settings], [seed])
    return _sample(batch, processes=1, progress=progress, label=LABEL)[0]


@dataclass
class _Batch:
    """Scenarios to sample and how; posteriors are handed to `finished`, or kept."""

    agreement: Agreement
    observations: Observations
    scenarios: Sequence[Scenario]
    arrays: Scenarios
    method: str
    settings: Sequence[Settings]
    seeds: Sequence[int]
    noise_seeds: Sequence[UnitNoise] | None = None
    finished: Finished | None = None
    results: dict[int, Posterior] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether statistics are taken to be exact."""
        return self.method in ("naive", "exact")

    def planned(self, place: int) -> float:
        """Rounds of one scenario, as progress is measured."""
        return float(engine.planned_rounds(self.settings[place]))

    def keep(self, place: int, draws: dict[str, Floats], diagnostics: Diagnostics, chains: int, **more: Any) -> None:
        """Make a posterior of the draws of a scenario."""
        noise_seed = 0 if self.noise_seeds is None else self.noise_seeds[place]
        scenario, rule, seed = self.scenarios[place], self.settings[place].rule, int(self.seeds[place])
        found = Posterior(draws, diagnostics, scenario, self.method, rule, seed, noise_seed, chains, **more)
        (self.finished or self.results.__setitem__)(place, found)

    def keep_sample(self, place: int, sample: Sample) -> None:
        """Make a posterior of coordinates of the model's own parameters."""
        draws, divergence = self.agreement.model.at_coordinates(sample.coordinates), sample.divergence
        chains, coordinates = sample.superchains, sample.coordinates
        self.keep(place, draws, sample.diagnostics, chains, coordinates=coordinates, divergence=divergence)


def _sample(batch: _Batch, *, processes: int | None, progress: bool | Meter | None, label: str) -> list[Posterior]:
    """Sample a batch by whatever its method is for its model."""
    agreed, places = batch.agreement.model, range(len(batch.scenarios))
    if batch.method == "prior":
        for place in places:
            batch.keep_sample(place, _draw_from_prior(agreed, batch.settings[place].draws, int(batch.seeds[place])))
    elif batch.is_exact and agreed.is_conjugate:
        problem = problem_of(batch.agreement, batch.observations)
        for place in places:
            _draw_conjugate(batch, problem, place)
    else:
        rounds = float(np.mean([batch.planned(place) for place in places]))
        with phase_of(progress, label, len(places), rounds) as tick:
            if isinstance(agreed, Regression) and (batch.is_exact or batch.method == "moments"):
                _sample_from_moments(batch, agreed, processes, tick)
            else:
                _run_programs(batch, processes, tick)
    return [batch.results[place] for place in sorted(batch.results)]


def _draw_from_prior(agreed: Model, draws: int, seed: int) -> Sample:
    """Draw independently from the prior, in the coordinates in which it is N(0, I)."""
    coordinates = np.random.default_rng(seed).normal(size=(draws, len(agreed.coordinate_names())))
    return Sample(coordinates, independent(draws, coordinates.shape[1]))


def _draw_conjugate(batch: _Batch, problem: Problem, place: int) -> None:
    """Draw independently from the conjugate posterior of statistics that are taken to be exact."""
    member, kappa = np.asarray(batch.arrays.member[place]), float(batch.arrays.kappa[place])
    rng, draws = np.random.default_rng(batch.seeds[place]), batch.settings[place].draws
    drawn = baselines.conjugate_draws(rng, problem, member, kappa, draws, repair=batch.method == "naive")
    size = sum(int(np.prod(values.shape[1:])) for values in drawn.values())
    batch.keep(place, drawn, independent(draws, size), 1)


def _sample_from_moments(batch: _Batch, agreed: Regression, threads: int | None, tick: Tick | None) -> None:
    """Sample regressions in NumPy, without programs to compile."""
    member, kappa, tau = (np.asarray(part) for part in batch.arrays[:3])
    noise = None if batch.arrays.noise is None else np.asarray(batch.arrays.noise)
    asked = [
        Asked(
            member[place],
            float(kappa[place]),
            tau[place],
            None if noise is None else noise[place],
            batch.settings[place].draws,
            int(batch.seeds[place]),
        )
        for place in range(len(member))
    ]

    def keep(place: int, sample: Sample) -> None:
        batch.keep_sample(place, sample)
        if tick:
            tick(batch.planned(place))

    model, sums = RegressionModel.of(agreed), ReleasedSums.of(batch.observations, is_exact=batch.is_exact)
    if batch.method == "naive":
        sums = repair_sums(model.moments, sums)
    sample_batch(model, sums, asked, batch.settings[0].rule, keep, threads=threads)


def _run_programs(batch: _Batch, processes: int | None, tick: Tick | None) -> None:
    """Sample by compiled programs, here or in processes."""
    problem = problem_of(batch.agreement, batch.observations)
    # A superchain's chains are told as one: R-hat of whoever has the draws then compares what it should.
    settings = batch.settings
    together = settings[0].chains // superchains_of(settings[0].chains) if settings[0].sampler == "collapsed" else 1

    def keep(places: NDArray[np.intp], index: int, sampled: Sampled) -> None:
        chains, length = next(iter(sampled.parameters.values())).shape[:2]
        flat = {name: part.reshape(chains * length, *part.shape[2:]) for name, part in sampled.parameters.items()}
        coordinates, scores = sampled.positions, sampled.scores
        if coordinates is not None:
            coordinates = coordinates[..., : problem.model.focus].reshape(chains * length, -1)
        if scores is not None:
            scores = scores.reshape(chains * length, *scores.shape[2:])
        number = max(1, chains // together)
        batch.keep(int(places[index]), flat, sampled.diagnostics, number, coordinates=coordinates, scores=scores)

    # As NumPy's arrays, since JAX would compile programs for every number of scenarios.
    data: Any = np.stack([np.asarray(jax.random.key_data(jax.random.key(seed))) for seed in batch.seeds])
    arrays = jax.tree.map(np.asarray, batch.arrays)
    processes = processes_for(len(settings)) if processes is None else processes
    for places in _alike(settings) if processes == 1 else [np.arange(len(settings))]:
        chosen: Scenarios = jax.tree.map(lambda part, places=places: part[places], arrays)
        keys, kept = jax.random.wrap_key_data(data[places]), partial(keep, places)
        if processes == 1:
            engine.run(keys, problem, chosen, settings[places[0]], tick, kept)
        else:
            run_in_processes(keys, problem, chosen, settings, tick, kept, processes=processes)


def _alike(settings: Sequence[Settings]) -> list[NDArray[np.intp]]:
    """Places of equal settings."""
    return [np.array([k for k, one in enumerate(settings) if one == kind]) for kind in dict.fromkeys(settings)]


def prior_posterior(agreement: Agreement, draws: int = DRAWS, seed: int = 0) -> Posterior:
    """Draw independently from the agreed prior, before anybody has submitted."""
    drawn = _draw_from_prior(agreement.model, draws, seed)
    scenario = Scenario(agreement.party_names, kappa=0.0)
    parameters = agreement.model.at_coordinates(drawn.coordinates)
    return Posterior(parameters, drawn.diagnostics, scenario, "prior", "power", seed, 0, 1, drawn.coordinates)


def engine_settings(method: str = "auto", chains: int | None = None, draws: int = DRAWS) -> Settings:
    """What the engine is told to do for a posterior, by a method's own rule."""
    return Settings(
        draws=draws,
        chains=chains or (GIBBS_CHAINS if method == "gibbs" else _default_chains()),
        sampler="gibbs" if method == "gibbs" else "collapsed",
    )


def _default_chains() -> int:
    """Chains of a scenario when nobody says how many."""
    return ACCELERATOR_CHAINS if on_accelerator() else CHAINS


def _check_sizes(scenarios: Sequence[Scenario], seeds: Sequence[int], draws: int, chains: int | None) -> None:
    if not scenarios:
        raise InferenceError("there are no scenarios; give at least one")
    for seed in seeds:
        check_whole("seed", seed, 0)
    check_whole("draws", draws, 1)
    if chains is not None:
        check_whole("chains", chains, 4)  # fewer cannot be compared with each other


def _check_seeds(scenarios: Sequence[Scenario], seeds: Sequence[UnitNoise]) -> None:
    if len(seeds) != len(scenarios):
        raise InferenceError(f"{len(seeds)} seeds for {len(scenarios)} scenarios; give one seed, or one for each")
