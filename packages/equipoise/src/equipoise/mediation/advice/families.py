"""Simulated rounds of models without features: statistics are drawn from the distribution that inference assumes.

A statistic of n rows is normal with n times the mean and covariance of one row, so expectations are those of the model
that will value the real releases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.released import family_of
from equipoise.mediation.advice.imagined import Engine, Truth
from equipoise.models.base import Family, Rows

# Attempts to draw truths that rows within the bounds can have.
TRIES = 100


@dataclass(frozen=True)
class FamilyTruth(Truth):
    """Parameters of a family, with mean and covariance of the statistic of one row."""

    model: Family
    mean: Floats
    covariance: Floats

    def draw_rows(self, number: int, rng: np.random.Generator) -> Rows:
        return self.model.imagine(self.draws, number, rng)

    def add_up(self, number: int, rng: np.random.Generator) -> Floats:
        return rng.multivariate_normal(number * self.mean, number * self.covariance, method="eigh")


@dataclass(frozen=True)
class FamilyEngine(Engine):
    """Simulator of rounds of a model without features."""

    def draw_truths(self, number: int, rng: np.random.Generator) -> Sequence[Truth]:
        """Draw truths from the prior, and redraw those whose means are outside the bounds, where no row can be.

        A prior of means has tails there. With thousands of rows, approximations would be wrong by hundreds of nats.
        """
        model = self.model
        assert isinstance(model, Family)
        positions = rng.normal(size=(number, self.dimension))
        for attempt in range(TRIES):
            draws = model.at_coordinates(positions)
            means, covariances = family_of(model).row_moments(draws)
            impossible = np.abs(means).max(axis=1) > 1  # in scaled units
            if not impossible.any() or attempt == TRIES - 1:
                break
            positions[impossible] = rng.normal(size=(int(impossible.sum()), self.dimension))
        return [
            FamilyTruth({name: values[[k]] for name, values in draws.items()}, model, means[k], covariances[k])
            for k in range(number)
        ]
