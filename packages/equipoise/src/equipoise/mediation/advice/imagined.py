"""Simulated rounds: a truth from the agreed prior, the releases that follow from it, and new rows to predict.

No real row is read. Kinds of models differ in how truths are drawn; the rest of this package knows only `Engine`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.cores import one_core_each, usable_cores
from equipoise.agreement import Agreement
from equipoise.inference import importance
from equipoise.inference.batch import Asked, Sampler, releases_of
from equipoise.inference.pooling import ReleasedSums, Releases
from equipoise.inference.released import sampler_of
from equipoise.models.base import Draws, Model, Rows
from equipoise.models.guarantee import Guarantee
from equipoise.valuation.divergence import divergence

# New rows to predict in each simulated round.
NEW_ROWS = 200
# Weighted points that stand for a posterior. Their effective share must be a fifth of what draws of a posterior need,
# because errors average out over rounds.
POINTS = 4_096
EVEN = 0.1
FEWEST_EFFECTIVE = 100.0
# Draws of Markov chains, if weighted points will not do.
SAMPLED_DRAWS = 1_600


@dataclass(frozen=True)
class Assumed:
    """Number of rows that a party is assumed to have, and the ε it is assumed to release with."""

    rows: int
    epsilon: float


@dataclass(frozen=True)
class Truth(ABC):
    """Parameters, a single draw of them, and rows that follow them."""

    draws: Draws

    @abstractmethod
    def draw_rows(self, number: int, rng: np.random.Generator) -> Rows:
        """Draw rows for training or prediction; their targets are not clipped."""

    @abstractmethod
    def add_up(self, number: int, rng: np.random.Generator) -> Floats:
        """Draw a party's rows, and return the sums that make its statistic."""


@dataclass(frozen=True)
class ImaginedRound:
    """Releases of all parties, the unit noise that τ scales, the truth behind them, and new rows of that truth."""

    sums: ReleasedSums
    noise: Floats
    truth: Truth
    new_rows: Rows


class Coalition(NamedTuple):
    """Membership of each party, 0 or 1 [parties], and its added noise τ [parties]."""

    member: Floats
    tau: Floats


@dataclass(frozen=True)
class Normal:
    """N(mean, (I + information)⁻¹): an approximate posterior where the prior is N(0, I)."""

    mean: Floats
    information: Floats


@dataclass(frozen=True)
class Engine(ABC):
    """Simulator of one agreement's rounds; its posteriors use coordinates in which the prior is N(0, I)."""

    agreement: Agreement

    @property
    def model(self) -> Model:
        """The agreed model."""
        return self.agreement.model

    @cached_property
    def sampler(self) -> Sampler:
        """Sampler of the model's posteriors."""
        return sampler_of(self.model)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.model.coordinate_names())

    @abstractmethod
    def draw_truths(self, number: int, rng: np.random.Generator) -> Sequence[Truth]:
        """Draw truths from the prior under which rows can lie within the agreed bounds."""

    def approximate(self, one: ImaginedRound, asked: Sequence[Coalition]) -> list[Normal]:
        """Approximate each coalition's posterior by the normal distribution at its mode.

        Each search for a mode starts from that of the same parties at another τ, if there is one.
        """
        found, modes = [], dict[bytes, Floats]()
        for coalition in asked:
            members = coalition.member.tobytes()
            _, mode = self.sampler.build_problem(self._releases(one, coalition), start=modes.get(members))
            modes[members] = mode.centre
            inverse = np.linalg.inv(mode.root)
            found.append(Normal(mode.centre, inverse.T @ inverse - np.eye(self.dimension)))
        return found

    def sample(self, one: ImaginedRound, asked: Sequence[Coalition], seed: int) -> list[float]:
        """Sample the posterior of each coalition, and return its divergences from the prior in nats."""
        rng = np.random.default_rng(seed)
        return [self._divergence(self._releases(one, coalition), rng) for coalition in asked]

    def _divergence(self, releases: Releases, rng: np.random.Generator) -> float:
        """Estimate a posterior's divergence for an average over rounds; use chains if weights are too uneven."""
        if self.dimension <= self.sampler.most_weighted:
            weighted = importance.sample(*self.sampler.build_problem(releases), rng, POINTS, even=EVEN)
            if weighted.effective >= FEWEST_EFFECTIVE:
                return weighted.divergence().value
        sample = self.sampler.sample(releases, rng, SAMPLED_DRAWS)
        if sample.divergence is not None:
            return sample.divergence.value
        return divergence(sample.coordinates.reshape(sample.superchains, -1, self.dimension)).value

    def spread(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Call a function with each task's arguments in single-core threads; yield (index, result) as they finish."""
        with one_core_each(), ThreadPoolExecutor(min(usable_cores(), len(tasks))) as pool:
            places = {pool.submit(function, *task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()

    def _releases(self, one: ImaginedRound, coalition: Coalition) -> Releases:
        asked = Asked(coalition.member, 1.0, coalition.tau, one.noise, 0, 0)
        return releases_of(one.sums, asked, self.sampler.order)


def imagine(engine: Engine, parties: Sequence[Assumed], number: int, rng: np.random.Generator) -> list[ImaginedRound]:
    """Draw independent rounds that the agreement, its prior and the parties' assumed sizes could lead to."""
    layout, order = engine.model.layout, engine.agreement.privacy.order
    deviations = np.array([layout.noise_deviations(Guarantee(order, party.epsilon)) for party in parties])
    rows = np.array([float(party.rows) for party in parties])
    epsilons = np.array([party.epsilon for party in parties])
    added = np.sqrt(epsilons[:, None]) * deviations  # what τ = 1 adds: see `observations_of`
    rounds = []
    for truth in engine.draw_truths(number, rng):
        exact = np.stack([truth.add_up(party.rows, rng) for party in parties])
        sums = ReleasedSums(exact + deviations * rng.normal(size=exact.shape), rows, deviations**2, added)
        rounds.append(ImaginedRound(sums, rng.normal(size=exact.shape), truth, truth.draw_rows(NEW_ROWS, rng)))
    return rounds
