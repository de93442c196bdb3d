"""A sampler of batches of scenarios, which run side by side."""

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
    """A scenario to sample: members, κ, τ by party, the unit noise that τ scales, the number of draws, the seed."""

    member: Floats
    kappa: float
    tau: Floats
    noise: Floats | None
    draws: int
    seed: int


class Sampler(Protocol):
    """A sampler of an agreed model's posteriors, which takes entries in an order of its own."""

    @property
    def order(self) -> "slice | NDArray[np.intp]":
        """The index in the statistic of each entry of this order."""

    @property
    def most_weighted(self) -> int:
        """The number of coordinates beyond which importance weights are not tried."""

    def sample(
        self, releases: Releases, rng: np.random.Generator, draws: int, *, power: float = 1.0, sampling: float = 1.0
    ) -> Sample:
        """Sample the posterior given releases; `power` and `sampling` temper it by the two rules."""

    def build_problem(self, releases: Releases, *, start: Floats | None = None) -> tuple[Problem, Mode]:
        """Return the density of the posterior around its mode, and the mode, perhaps searched from a start near it."""

    def expand(self, releases: Releases) -> Expansion:
        """Prepare approximations of the posteriors of all coalitions of these releases."""


def releases_of(sums: ReleasedSums, asked: Asked, order: "slice | NDArray[np.intp]") -> Releases:
    """Return a scenario's releases, with the noise that it adds; its shape is the same for all parties."""
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
    on_result: Callable[[int, Sample], None],
    *,
    processes: int | None = None,
) -> None:
    """Sample every scenario of a batch, and pass each sample to `on_result` as soon as it is ready.

    By default threads share the work. `processes` are used if a number is given, or if `joblib.parallel_config` is set.
    """
    if (processes is None and is_configured()) or (processes is not None and processes > 1 and len(batch) > 1):
        for index, sample in spread(sample_one, [(sampler, sums, asked, rule) for asked in batch], processes):
            on_result(index, sample)
        return
    # Matrices are small: threads of BLAS would wait for each other, so each scenario keeps to one core.
    number = min(processes or usable_cores(), len(batch))
    with one_core_each(), ThreadPoolExecutor(number) as pool:
        for index, sample in enumerate(pool.map(lambda asked: sample_one(sampler, sums, asked, rule), batch)):
            on_result(index, sample)


class Approximator:
    """An approximation of the values of similar scenarios, each search starting at the previous mode."""

    def __init__(self, sampler: Sampler, sums: ReleasedSums) -> None:
        self._sampler, self._sums = sampler, sums
        self._centre: Floats | None = None

    @one_core_each()
    def divergence(self, asked: Asked) -> float:
        """Return the divergence of the normal approximation at the mode; NaN if there is no such mode."""
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
