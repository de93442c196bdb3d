"""Simulated rounds of regressions: rows are drawn from the agreed priors and added up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.mediation.advice.imagined import Engine, Truth
from equipoise.mediation.advice.population import Population, draw_population
from equipoise.models.base import Rows
from equipoise.models.regression import Regression

# Rows to simulate for one party at most. If it has more, each simulated row counts for several.
MOST_ROWS = 20_000
# Attempts to draw a truth whose targets lie within the bounds, judged by this number of rows. A typical range holds
# about 95 % of targets, so 5 % may lie outside.
TRIES = 100
TRIED_ROWS = 500
MOST_BEYOND = 0.05


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
        """Estimate the share of targets that lie outside the agreed bounds."""
        return float(np.mean(np.abs(self.draw_rows(TRIED_ROWS, rng).target) > 1))


@dataclass(frozen=True)
class RegressionEngine(Engine):
    """Simulator of rounds of a regression."""

    def draw_truths(self, number: int, rng: np.random.Generator) -> Sequence[Truth]:
        """Draw truths from the prior; redraw each until few targets are clipped, or keep the try with the fewest."""
        return [self._draw_truth(rng) for _ in range(number)]

    def _draw_truth(self, rng: np.random.Generator) -> Truth:
        model = self.model
        assert isinstance(model, Regression)
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
