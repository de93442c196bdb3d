"""Sample a batch of scenarios from what was released, side by side."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import one_core_each, usable_cores
from equipoise.inference.approximation import Expansion, divergence_at
from equipoise.inference.mode import Mode, Problem
from equipoise.inference.pooling import ReleasedSums, Releases
from equipoise.inference.processes import is_configured, spread
from equipoise.inference.sampling import Sample
from equipoise.inference.scenario import Rule


class Asked(NamedTuple):
    """One scenario: members, κ, τ by party, the unit noise that τ scales, and how many draws to make by which seed."""

    member: Floats
    kappa: float
    tau: Floats
    noise: Floats | None
    draws: int
    seed: int


class Sampler(Protocol):
    """Samples posteriors of an agreed model, whose entries it takes in an order of its own."""

    @property
    def order(self) -> "slice | NDArray[np.intp]":
        """Return the place of each entry of this order in the statistic."""

    @property
    def most_weighted(self) -> int:
        """Coordinates, beyond which importance weights are not tried."""

    def sample(
        self, releases: Releases, rng: np.random.Generator, draws: int, *, power: float = 1.0, sampling: float = 1.0
    ) -> Sample:
        """Sample the posterior given releases; `power` and `sampling` temper it by the two rules."""

    def build_problem(self, releases: Releases, *, start: Floats | None = None) -> tuple[Problem, Mode]:
        """Find the mode of the posterior, perhaps from a start near it, and its density around there."""

    def expand(self, releases: Releases) -> Expansion:
        """Prepare approximations of the posteriors of all coalitions of these releases."""


def releases_of(sums: ReleasedSums, asked: Asked, order: "slice | NDArray[np.intp]") -> Releases:
    """Take a scenario's releases, with the noise that it adds; its shape is the same for all parties."""
    inside = asked.member > 0
    tau = asked.tau[inside][:, None]
    statistic, added = sums.statistic[inside], sums.added[inside]
    if asked.noise is not None:
        statistic = statistic + np.sqrt(tau) * added * asked.noise[inside]
    variance = (sums.variance[inside] + tau * added**2)[:, order]
    return Releases(statistic[:, order], sums.rows[inside], variance[:, 0] / variance[0, 0], variance[0])


def sample_batch(
    sampler: Sampler,
    sums: ReleasedSums,
    batch: Sequence[Asked],
    rule: Rule,
    finished: Callable[[int, Sample], None],
    *,
    processes: int | None = None,
) -> None:
    """Sample every scenario of a batch, and hand each over as soon as it is there.

    By default threads share the work. `processes` are used if a number is given, or if `joblib.parallel_config` is set.
    """
    if (processes is None and is_configured()) or (processes is not None and processes > 1 and len(batch) > 1):
        for place, sample in spread(sample_one, [(sampler, sums, asked, rule) for asked in batch], processes):
            finished(place, sample)
        return
    # Matrices are small: threads of BLAS would wait for each other, so each scenario keeps to one core.
    number = min(processes or usable_cores(), len(batch))
    with one_core_each(), ThreadPoolExecutor(number) as pool:
        for place, sample in enumerate(pool.map(lambda asked: sample_one(sampler, sums, asked, rule), batch)):
            finished(place, sample)


class Approximator:
    """Approximates what scenarios much like each other are worth, beginning at the mode of the one before."""

    def __init__(self, sampler: Sampler, sums: ReleasedSums) -> None:
        self._sampler, self._sums = sampler, sums
        self._centre: Floats | None = None

    @one_core_each()
    def divergence(self, asked: Asked) -> float:
        """Divergence from the prior of the normal distribution at the mode; NaN where there is no such mode."""
        releases = releases_of(self._sums, asked, self._sampler.order)
        try:
            _, mode = self._sampler.build_problem(releases, start=self._centre)
        except np.linalg.LinAlgError:
            return math.nan
        self._centre = mode.centre
        return divergence_at(mode)


def sample_one(sampler: Sampler, sums: ReleasedSums, asked: Asked, rule: Rule) -> Sample:
    """Sample one scenario."""
    scaled = rule == "scaled"
    return sampler.sample(
        releases_of(sums, asked, sampler.order),
        np.random.default_rng(asked.seed),
        asked.draws,
        power=1.0 if scaled else asked.kappa,
        sampling=1 / asked.kappa if scaled else 1.0,
    )
