"""Imagined rounds of regressions: rows simulated from agreed beliefs and added up, posteriors from their moments."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.cores import single_threaded_blas, usable_cores
from equipoise.inference.regression import importance
from equipoise.inference.regression.batch import Asked, releases_of
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import Releases
from equipoise.inference.regression.posterior import MOST_WEIGHTED, build_problem, sample_posterior
from equipoise.mediation.advice.imagined import Coalition, Engine, ImaginedRound, Normal, Truth
from equipoise.mediation.advice.population import Population, draw_population
from equipoise.models.base import Rows
from equipoise.models.regression import Regression
from equipoise.valuation.divergence import divergence

MOST_ROWS = 20_000  # that are simulated for one party; of more, each stands for several
TRIES = 100  # for a truth whose targets lie within the bounds
TRIED_ROWS = 500
MOST_BEYOND = 0.05  # of targets: a typical range holds about 95 % of them
POINTS = 4_096  # with weights, to sample a posterior
EVEN = 0.1  # effective share of them, which is a fifth of what draws of a posterior need
FEWEST_EFFECTIVE = 100.0
SAMPLED_DRAWS = 1_600  # by chains


@dataclass(frozen=True)
class RegressionTruth(Truth):
    """Parameters of a regression, and the population that features come from."""

    model: Regression
    population: Population

    def draw_rows(self, number: int, rng: np.random.Generator) -> Rows:
        return self.model.imagine(self.draws, self.population.draw(number, rng), rng)

    def add_up(self, number: int, rng: np.random.Generator) -> Floats:
        """Add up rows, clipped as they would be before a release."""
        rows = self.draw_rows(min(number, MOST_ROWS), rng)
        assert rows.features is not None
        simulated = len(rows.target)
        times = np.ones(simulated)
        if number > simulated:
            times = rng.multinomial(number, np.full(simulated, 1 / simulated)).astype(float)
        table = np.column_stack([rows.features[:, :-1], np.clip(rows.target, -1.0, 1.0), np.ones(simulated)])
        products = (table * times[:, None]).T @ table
        entries = self.model.layout.entries
        second = [-1 if entry.second is None else entry.second for entry in entries]
        return np.asarray(products[[entry.first for entry in entries], second])

    def share_beyond(self, rng: np.random.Generator) -> float:
        """Share of targets that lie beyond the agreed bounds."""
        return float(np.mean(np.abs(self.draw_rows(TRIED_ROWS, rng).target) > 1))


@dataclass(frozen=True)
class RegressionEngine(Engine):
    """Imagines rounds of a regression, whose posteriors are found from moments with NumPy alone."""

    @cached_property
    def prepared(self) -> RegressionModel:
        """The agreed regression as its sampler sees it."""
        assert isinstance(self.model, Regression)
        return RegressionModel.of(self.model)

    def draw_truths(self, number: int, rng: np.random.Generator) -> Sequence[Truth]:
        """Draw truths anew until hardly any target is clipped; of many that are, the one with fewest is taken."""
        return [self._draw_truth(rng) for _ in range(number)]

    def _draw_truth(self, rng: np.random.Generator) -> Truth:
        model = self.prepared.agreed
        best, fewest = None, np.inf
        for _ in range(TRIES):
            draws, population = draw_population(model, rng)
            truth = RegressionTruth(draws, model, population)
            beyond = truth.share_beyond(rng)
            if beyond < fewest:
                best, fewest = truth, beyond
            if fewest <= MOST_BEYOND:
                break
        assert best is not None
        return best

    def approximate(self, one: ImaginedRound, asked: Sequence[Coalition]) -> list[Normal]:
        """Approximate by the normal distribution at the mode, sought from that of the same parties at another τ."""
        found, modes = [], dict[bytes, Floats]()
        for coalition in asked:
            members = coalition.member.tobytes()
            _, mode = build_problem(self.prepared, self._releases(one, coalition), start=modes.get(members))
            modes[members] = mode.centre
            inverse = np.linalg.inv(mode.root)
            found.append(Normal(mode.centre, inverse.T @ inverse - np.eye(self.dimension)))
        return found

    def sample(self, one: ImaginedRound, asked: Sequence[Coalition], seed: int) -> list[float]:
        rng = np.random.default_rng(seed)
        return [self._divergence(self._releases(one, coalition), rng) for coalition in asked]

    def _divergence(self, releases: Releases, rng: np.random.Generator) -> float:
        """Sample a posterior as closely as a mean of many needs it; wide ones, and uneven weights, need chains."""
        if self.dimension <= MOST_WEIGHTED:
            weighted = importance.sample(*build_problem(self.prepared, releases), rng, POINTS, even=EVEN)
            if weighted.effective >= FEWEST_EFFECTIVE:
                return weighted.divergence().value
        sample = sample_posterior(self.prepared, releases, rng, SAMPLED_DRAWS)
        if sample.divergence is not None:
            return sample.divergence.value
        return divergence(sample.coordinates.reshape(sample.superchains, -1, self.dimension)).value

    def spread(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Spread over threads, each of which keeps to one core."""
        with single_threaded_blas(), ThreadPoolExecutor(min(usable_cores(), len(tasks))) as pool:
            places = {pool.submit(function, *task): place for place, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()

    def _releases(self, one: ImaginedRound, coalition: Coalition) -> Releases:
        asked = Asked(coalition.member, 1.0, coalition.tau, one.noise, 0, 0)
        return releases_of(self.prepared.moments, one.sums, asked)
