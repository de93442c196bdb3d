"""Posteriors from an agreement and its submissions: `infer`, `infer_batch` and, for comparison, `infer_exact`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference import baselines, collapsed, engine
from equipoise.inference.collapsed import own_coordinates
from equipoise.inference.diagnostics import independent, superchains_of
from equipoise.inference.engine import Problem, Sampled, Settings
from equipoise.inference.observations import Observations, Scenarios, taken_by_kind
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
from equipoise.inference.progress import Meter, phase_of
from equipoise.inference.regression.batch import Asked, ReleasedSums, sample_batch
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import Sample
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, on_accelerator, use_compilation_cache
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
        "collapsed" integrates statistics out, and is what "auto" picks. "moments" is for regressions: it
        integrates the features' moments out as well, compiles nothing, and needs a few seconds
        at most for up to a dozen parameters; its draws have the model's own parameters only. "gibbs" is the paper's
        Algorithm 1, for linear regression with the conjugate prior only; "naive" (which ignores the noise) and "prior"
        are baselines.
    rule : {"power", "scaled"}, optional
        Tempering rule, see `docs/inference.md`; by default the method's own.
    draws : int
        Draws to make. Whole rounds are drawn, so a few more are returned, up to 5,120 where fewer would not have
        converged (fewer than asked for if chains had to be dropped).
    chains : int, optional
        Chains, 4 or more; by default 64, or 128 on an accelerator. Those of a multiple of 8, from 32 on, are
        compared by nested R-hat.
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
    """Sample many scenarios with one compiled program.

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
    chosen = check_method(method, agreement.model.gibbs_refusal)
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
    if np.any(arrays.tau) or len(scenarios) <= FEW:  # of many parties and coalitions, zeros would fill the memory
        arrays = arrays._replace(noise=noises_of(agreement, submissions, arrays.tau, noise_seeds))
    scenarios = [scenario.resolved(present) for scenario in scenarios]
    if chosen == "moments":
        with phase_of(progress, label, len(scenarios), 1.0) as tick:
            return _from_moments(
                believed or agreement,
                observations,
                arrays,
                scenarios,
                rule,
                numbers,
                seeds,
                noise_seeds,
                processes,
                tick,
                finished,
            )
    problem = problem_of(believed or agreement, observations)
    settings = [replace(engine_settings(chosen, chains, number), rule=rule) for number in numbers]
    return _posteriors(
        problem,
        scenarios,
        arrays,
        chosen,
        settings,
        seeds,
        noise_seeds=noise_seeds,
        processes=processes,
        progress=progress,
        label=label,
        finished=finished,
    )


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
    prior, use their collapsed posterior with no noise.

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
    problem = problem_of(agreement, observations)
    settings = Settings(draws=draws, chains=chains or _default_chains())
    return _posteriors(
        problem, [scenario.resolved(present)], arrays, "exact", [settings], [seed], processes=1, progress=progress
    )[0]


def _posteriors(
    problem: Problem,
    scenarios: Sequence[Scenario],
    arrays: Scenarios,
    method: str,
    settings: Sequence[Settings],
    seeds: Sequence[int],
    *,
    noise_seeds: Sequence[UnitNoise] | None = None,
    processes: int | None,
    progress: bool | Meter | None,
    label: str = LABEL,
    finished: Finished | None = None,
) -> list[Posterior]:
    results: dict[int, Posterior] = {}
    # A superchain's chains are told as one: R-hat of whoever has the draws then compares what it should.
    chains_each, rule = settings[0].chains, settings[0].rule
    together = chains_each // superchains_of(chains_each) if settings[0].sampler == "collapsed" else 1

    def keep(index: int, sampled: Sampled) -> None:
        found = posterior(index, sampled)
        if finished:
            finished(index, found)
        else:
            results[index] = found

    def keep_one(places: NDArray[np.intp], index: int, sampled: Sampled) -> None:
        keep(int(places[index]), sampled)

    def posterior(index: int, sampled: Sampled) -> Posterior:
        chains, length = next(iter(sampled.parameters.values())).shape[:2]
        flat = {name: part.reshape(chains * length, *part.shape[2:]) for name, part in sampled.parameters.items()}
        coordinates = sampled.positions
        if coordinates is not None:
            coordinates = own_coordinates(problem.model, problem.prior, coordinates).reshape(chains * length, -1)
        return Posterior(
            flat,
            sampled.diagnostics,
            scenarios[index],
            method,
            rule,
            int(seeds[index]),
            0 if noise_seeds is None else noise_seeds[index],
            max(1, chains // together),
            coordinates,
            None if sampled.scores is None else sampled.scores.reshape(chains * length, *sampled.scores.shape[2:]),
        )

    noiseless = method in ("naive", "exact")  # statistics are taken to be exact
    if method == "prior":
        for index, seed in enumerate(seeds):
            keep(index, _prior(problem, settings[index].draws, seed))
    elif noiseless and problem.model.conjugate:
        for index, seed in enumerate(seeds):
            member, kappa = np.asarray(arrays.member[index]), float(arrays.kappa[index])
            rng = np.random.default_rng(seed)
            draws = settings[index].draws
            drawn = baselines.conjugate_draws(rng, problem, member, kappa, draws, repair=method == "naive")
            keep(index, _independent(drawn, draws))
    else:
        if noiseless:
            problem = baselines.without_noise(problem, repair=method == "naive")
        # As NumPy's arrays, since JAX would compile programs for every number of scenarios.
        data: Any = np.stack([np.asarray(jax.random.key_data(jax.random.key(seed))) for seed in seeds])
        arrays = jax.tree.map(np.asarray, arrays)
        rounds = float(np.mean([engine.planned_rounds(one) for one in settings]))
        with phase_of(progress, label, len(scenarios), rounds) as tick:
            processes = processes_for(len(scenarios)) if processes is None else processes
            for seen, some in _by_kind(problem, arrays, exact=noiseless, sampler=settings[0].sampler):
                own = [settings[place] for place in some]
                for places in [some[alike] for alike in _alike(own)] if processes == 1 else [some]:
                    chosen: Scenarios = jax.tree.map(lambda part, places=places: part[places], arrays)
                    keys, kept = jax.random.wrap_key_data(data[places]), partial(keep_one, places)
                    if processes == 1:
                        engine.run(keys, seen, chosen, settings[places[0]], tick, kept)
                    else:
                        run_in_processes(keys, seen, chosen, own, tick, kept, processes=processes)
    return [results[index] for index in sorted(results)]


def _from_moments(
    agreement: Agreement,
    observations: Observations,
    arrays: Scenarios,
    scenarios: Sequence[Scenario],
    rule: Rule,
    numbers: Sequence[int],
    seeds: Sequence[int],
    noise_seeds: Sequence[UnitNoise],
    threads: int | None,
    tick: Callable[[float], None] | None,
    finished: Finished | None,
) -> list[Posterior]:
    """Sample regressions from moments, without programs to compile."""
    agreed = agreement.model
    if not isinstance(agreed, Regression):
        raise InferenceError(
            f'method "moments" is for linear and logistic regression, and this agreement is {agreed.kind}; use "auto"'
        )
    model = RegressionModel.of(agreed)
    sums = ReleasedSums(*(np.asarray(part) for part in (observations[0], observations[1], *observations[2:4])))
    member, kappa, tau = (np.asarray(part) for part in arrays[:3])
    noise = None if arrays.noise is None else np.asarray(arrays.noise)
    batch = [
        Asked(member[k], float(kappa[k]), tau[k], None if noise is None else noise[k], numbers[k], int(seeds[k]))
        for k in range(len(scenarios))
    ]
    results: dict[int, Posterior] = {}

    def keep(index: int, sample: Sample) -> None:
        posterior = Posterior(
            agreed.at_coordinates(sample.coordinates),
            sample.diagnostics,
            scenarios[index],
            "moments",
            rule,
            int(seeds[index]),
            noise_seeds[index],
            sample.superchains,
            sample.coordinates,
            divergence=sample.divergence,
        )
        (finished or results.__setitem__)(index, posterior)
        if tick:
            tick(1.0)

    sample_batch(model, sums, batch, rule, keep, threads=threads)
    return [results[index] for index in sorted(results)]


def _by_kind(
    problem: Problem, arrays: Scenarios, *, exact: bool, sampler: str
) -> list[tuple[Problem, NDArray[np.intp]]]:
    """Places of scenarios, with the problem as they see it: without added noise, equal releases share a slot.

    Each scenario by itself, so that its draws do not depend on what else is in a batch.
    """
    added = np.any(np.asarray(arrays.tau) > 0, axis=1)
    kinds = problem.observations
    if not exact and sampler == "collapsed" and problem.model.takes_kinds:
        kinds = taken_by_kind(kinds)
    if kinds.alike is None:
        return [(problem, np.arange(len(added)))]
    parts = [(replace(problem, observations=kinds), ~added), (problem, added)]
    return [(seen, np.flatnonzero(chosen)) for seen, chosen in parts if chosen.any()]


def _alike(settings: Sequence[Settings]) -> list[NDArray[np.intp]]:
    """Places of equal settings."""
    return [np.array([k for k, one in enumerate(settings) if one == kind]) for kind in dict.fromkeys(settings)]


@double_precision
def prior_posterior(agreement: Agreement, draws: int = DRAWS, seed: int = 0) -> Posterior:
    """Independent draws of the agreed prior, before anybody has submitted."""
    problem = problem_of(agreement, observations_of(agreement, []))
    names = agreement.party_names
    scenario = Scenario(names, kappa=0.0)
    arrays = scenario_arrays(agreement, names, [scenario])
    settings = [engine_settings(draws=draws)]
    return _posteriors(problem, [scenario], arrays, "prior", settings, [seed], processes=1, progress=False)[0]


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


def _prior(problem: Problem, draws: int, seed: int) -> Sampled:
    """Independent draws from the prior."""
    use_compilation_cache()
    with ONE_AT_A_TIME:
        positions = np.asarray(jax.random.normal(jax.random.key(seed), (1, draws, problem.model.dimension)))
        parameters = collapsed.parameters(problem.model, problem.prior, positions)
    return Sampled(parameters, positions, independent(draws, problem.model.dimension))


def _independent(drawn: dict[str, Floats], draws: int) -> Sampled:
    size = sum(int(np.prod(values.shape[1:])) for values in drawn.values())
    return Sampled({name: values[None] for name, values in drawn.items()}, None, independent(draws, size))


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
