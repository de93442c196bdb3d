"""Posteriors from an agreement and its submissions: `infer`, `infer_batch` and, for comparison, `infer_exact`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference.batch import Approximator, Asked, releases_of, sample_batch
from equipoise.inference.diagnostics import Diagnostics, independent
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.base import Released
from equipoise.inference.pooling import ReleasedSums, Releases, add_up, weights_by_noise
from equipoise.inference.posterior import Posterior
from equipoise.inference.progress import Meter, Tick, phase_of
from equipoise.inference.regression.repair import repair_sums
from equipoise.inference.released import Members, exact_sums, members_of, noises_of, released_sums, sampler_of
from equipoise.inference.sampling import Sample, sample_prior
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
OnResult = Callable[[int, Posterior], None]

LABEL = "sampling"


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
    method : {"auto", "moments", "gibbs", "naive", "prior"}
        "auto" is "moments": exact statistics, and of regressions the moments of the features, are integrated out.
        Linear regressions with the conjugate prior know "gibbs" too, the paper's Algorithm 1: what "moments" is checked
        against. "naive" (which ignores the noise) and "prior" are baselines.
    rule : {"power", "scaled"}, optional
        Tempering rule, see `docs/inference.md`; by default the method's own.
    draws : int
        Draws to make. A few more are returned where fewer would not have converged (fewer than asked for if chains had
        to be dropped).
    chains : int, optional
        Chains of "gibbs", 4 or more; by default 16.
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
    on_result: OnResult | None = None,
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
        Worker processes to spread scenarios over; 1 samples one after the other. By default threads share the cores,
        unless an active `joblib.parallel_config` says otherwise (for example to use a Dask cluster).
    label : str
        What the progress bar says.
    on_result : callable, optional
        Called with the place and posterior of every scenario as soon as it is there, in any order; nothing is then kept
        or returned.
    believed : Agreement, optional
        An agreement with other priors than the one that submissions were made under, and different in nothing else.

    Returns
    -------
    list of Posterior
        In the order of the scenarios; empty if `on_result` took them.

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
    noise_seeds: list[UnitNoise] = list(noise_seed) if isinstance(noise_seed, list) else [noise_seed] * len(scenarios)
    _check_lists(scenarios, numbers, seeds, noise_seeds, chains)
    if chains is not None and chosen != "gibbs":
        raise InferenceError(f'chains are those of method "gibbs", and this is "{chosen}"; leave chains out')
    if processes is not None:
        check_whole("processes", processes, 1)
    if not submissions:
        raise InferenceError("there are no submissions; a posterior needs at least one party's")
    present = tuple(submission.party for submission in submissions)
    members = members_of(agreement, present, scenarios)
    sums = released_sums(agreement, submissions)
    noise = noises_of(agreement, submissions, members.tau, noise_seeds) if np.any(members.tau) else None
    batch = _Batch(
        agreement=believed or agreement,
        sums=sums,
        scenarios=[scenario.resolved(present) for scenario in scenarios],
        asked=_asked(scenarios, members, noise, numbers, seeds),
        method=chosen,
        rule=rule,
        chains=chains,
        noise_seeds=noise_seeds,
        on_result=on_result,
    )
    return _sample(batch, processes=processes, progress=progress, label=label)


def approximation_of(
    agreement: Agreement,
    submissions: Sequence[Submission],
    noise_seed: UnitNoise,
    *,
    believed: Agreement | None = None,
) -> Callable[[Scenario], float]:
    """Return a function from scenarios at κ = 1 to the approximate values of their posteriors, in nats.

    It takes a twentieth of the time that sampling does, and is off by an amount that changes slowly with τ.
    """
    sums = released_sums(agreement, submissions)
    approximator = Approximator(sampler_of((believed or agreement).model), sums)

    def value(scenario: Scenario) -> float:
        return approximator.divergence(_asked_once(agreement, submissions, scenario, noise_seed))

    return value


def add_up_releases(
    agreement: Agreement, submissions: Sequence[Submission], scenario: Scenario, noise_seed: UnitNoise
) -> Releases:
    """Add the releases of a scenario up to a single one, in the order of the agreed statistic, with τ's noise.

    Weights follow from the parties' own noise, not from τ, so that of two sums of one coalition along one path of noise
    the noisier one is the other plus independent noise.
    """
    sums = released_sums(agreement, submissions)
    asked = _asked_once(agreement, submissions, scenario, noise_seed)
    inside = asked.member > 0
    weights = weights_by_noise(sums.rows[inside], sums.variance[inside])
    return add_up(releases_of(sums, asked, slice(None)), weights)


def infer_exact(
    agreement: Agreement | str | Path,
    statistics: Statistics,
    *,
    coalition: Sequence[str] | None = None,
    kappa: float = 1.0,
    draws: int = DRAWS,
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
    coalition, kappa, draws, seed, progress
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
    _check_sizes([scenario], [seed], draws, None)
    sums, present = exact_sums(agreement, statistics), tuple(statistics)
    asked = _asked([scenario], members_of(agreement, present, [scenario]), None, [draws], [seed])
    batch = _Batch(agreement, sums, [scenario.resolved(present)], asked, "exact", "power")
    return _sample(batch, processes=1, progress=progress, label=LABEL)[0]


def _asked(
    scenarios: Sequence[Scenario],
    members: Members,
    noise: Floats | None,
    draws: Sequence[int],
    seeds: Sequence[int],
) -> list[Asked]:
    """Arrange a batch of scenarios as one request each."""
    return [
        Asked(inside, float(scenario.kappa), tau, None if noise is None else noise[index], int(number), int(seed))
        for index, (scenario, inside, tau, number, seed) in enumerate(
            zip(scenarios, *members, draws, seeds, strict=True)
        )
    ]


def _asked_once(
    agreement: Agreement, submissions: Sequence[Submission], scenario: Scenario, noise_seed: UnitNoise
) -> Asked:
    """Arrange a single scenario of which no draws are needed."""
    members = members_of(agreement, tuple(submission.party for submission in submissions), [scenario])
    noise = noises_of(agreement, submissions, members.tau, [noise_seed]) if np.any(members.tau) else None
    return _asked([scenario], members, noise, [0], [0])[0]


@dataclass
class _Batch:
    """Scenarios to sample and the options; posteriors are passed to `on_result`, or collected in `results`."""

    agreement: Agreement
    sums: ReleasedSums
    scenarios: Sequence[Scenario]
    asked: Sequence[Asked]
    method: str
    rule: Rule
    chains: int | None = None
    noise_seeds: Sequence[UnitNoise] | None = None
    on_result: OnResult | None = None
    results: dict[int, Posterior] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """True if statistics are taken to be exact."""
        return self.method in ("naive", "exact")

    def keep(self, index: int, draws: dict[str, Floats], diagnostics: Diagnostics, chains: int, **more: Any) -> None:
        """Make a posterior of a scenario's draws, and pass it on."""
        noise_seed = 0 if self.noise_seeds is None else self.noise_seeds[index]
        scenario, seed = self.scenarios[index], self.asked[index].seed
        posterior = Posterior(draws, diagnostics, scenario, self.method, self.rule, seed, noise_seed, chains, **more)
        (self.on_result or self.results.__setitem__)(index, posterior)

    def keep_sample(self, index: int, sample: Sample) -> None:
        """Make a posterior of coordinates of the model's own parameters, and pass it on."""
        draws, divergence = self.agreement.model.at_coordinates(sample.coordinates), sample.divergence
        chains, coordinates = sample.superchains, sample.coordinates
        self.keep(index, draws, sample.diagnostics, chains, coordinates=coordinates, divergence=divergence)


def _sample(batch: _Batch, *, processes: int | None, progress: bool | Meter | None, label: str) -> list[Posterior]:
    """Sample a batch with the sampler that its method means for its model."""
    agreed = batch.agreement.model
    draws = float(np.mean([asked.draws for asked in batch.asked]))
    with phase_of(progress, label, len(batch.asked), draws) as tick:
        if batch.method == "prior":
            for index, asked in enumerate(batch.asked):
                rng = np.random.default_rng(asked.seed)
                drawn = sample_prior(len(agreed.coordinate_names()), rng, asked.draws)
                # Without the known divergence, so that estimators can be tried on these draws.
                batch.keep_sample(index, drawn._replace(divergence=None))
        elif batch.is_exact and agreed.is_conjugate:
            _draw_conjugate(batch)
        elif batch.method == "gibbs":
            _sample_by_gibbs(batch, tick)
        else:
            _sample_from_moments(batch, processes, tick)
    return [batch.results[index] for index in sorted(batch.results)]


def _draw_conjugate(batch: _Batch) -> None:
    """Draw independently from conjugate posteriors of statistics that are taken to be exact.

    Those of method "naive" were perturbed and may be no statistic of any rows, so they are repaired first: matrices of
    second moments are made positive semi-definite and scaled back to the public row count, counts and sums clipped to
    their possible range. Such posteriors are overconfident, since they ignore the noise; they serve for comparison.
    """
    model = conjugate_of(batch.agreement.model)
    for index, asked in enumerate(batch.asked):
        inside = asked.member > 0
        statistic, rows = batch.sums.statistic[inside], batch.sums.rows[inside]
        released = Released(statistic, rows, inside, asked.kappa, batch.method == "naive")
        drawn = model.conjugate_draws(np.random.default_rng(asked.seed), released, asked.draws)
        size = sum(int(np.prod(values.shape[1:])) for values in drawn.values())
        batch.keep(index, drawn, independent(asked.draws, size), 1)


def _sample_from_moments(batch: _Batch, processes: int | None, tick: Tick | None) -> None:
    """Sample posteriors in which exact statistics, and moments of features, are integrated out."""

    def keep(index: int, sample: Sample) -> None:
        batch.keep_sample(index, sample)
        if tick:
            tick(batch.asked[index].draws)

    sampler, sums, agreed = sampler_of(batch.agreement.model), batch.sums, batch.agreement.model
    if batch.is_exact and isinstance(agreed, Regression):
        sums = sums.as_exact
        if batch.method == "naive":
            sums = repair_sums(sampler.model.moments, sums)  # type: ignore[attr-defined]
    sample_batch(sampler, sums, batch.asked, batch.rule, keep, processes=processes)


def _sample_by_gibbs(batch: _Batch, tick: Tick | None) -> None:
    """Sample by the paper's algorithm, which `equipoise-paper` registers."""
    registered = entry_points(group="equipoise.samplers", name="gibbs")
    if not registered:
        raise InferenceError('method "gibbs" comes with equipoise-paper; install it with `pip install equipoise-paper`')
    sample_by_gibbs = next(iter(registered)).load()

    model = conjugate_of(batch.agreement.model)
    for index, asked in enumerate(batch.asked):
        result = sample_by_gibbs(model, batch.sums, asked, batch.chains)
        chains, length = result.parameters["variance"].shape
        flat = {name: part.reshape(chains * length, *part.shape[2:]) for name, part in result.parameters.items()}
        batch.keep(index, flat, result.diagnostics, chains)
        if tick:
            tick(asked.draws)


def _check_lists(
    scenarios: Sequence[Scenario],
    numbers: Sequence[int],
    seeds: Sequence[int],
    noise_seeds: Sequence[UnitNoise],
    chains: int | None,
) -> None:
    """Refuse numbers of draws, seeds and noise seeds that are invalid, or not one for each scenario."""
    if len(numbers) != len(scenarios):
        raise InferenceError(f"{len(numbers)} numbers of draws for {len(scenarios)} scenarios; give one, or one each")
    # Without scenarios there are no numbers to check, and the check of sizes says so.
    for number in set(numbers) or {DRAWS}:
        _check_sizes(scenarios, seeds, number, chains)
    _check_seeds(scenarios, seeds)
    _check_seeds(scenarios, noise_seeds)
    for unit_noise in noise_seeds:
        check_unit_noise(unit_noise)


def _check_sizes(scenarios: Sequence[Scenario], seeds: Sequence[int], draws: int, chains: int | None) -> None:
    if not scenarios:
        raise InferenceError("there are no scenarios; give at least one")
    for seed in seeds:
        check_whole("seed", seed, 0)
    check_whole("draws", draws, 1)
    if chains is not None:
        # R̂ needs at least four chains to compare.
        check_whole("chains", chains, 4)


def _check_seeds(scenarios: Sequence[Scenario], seeds: Sequence[UnitNoise]) -> None:
    if len(seeds) != len(scenarios):
        raise InferenceError(f"{len(seeds)} seeds for {len(scenarios)} scenarios; give one seed, or one for each")
