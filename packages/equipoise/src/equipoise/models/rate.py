"""The common part of counts and waiting times: a rate with a gamma prior, in the data's own units."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import log_gamma_quantile
from equipoise.errors import MediationError
from equipoise.models.base import POSITIVE, Axis, Draws, Family, Readable, Rows, Support
from equipoise.models.section import Positive, Section


class Gamma(Section):
    """Rate ~ Gamma(shape, rate). `rate` defaults so that the prior mean puts the data at the middle of its bounds."""

    shape: Positive = 1.0
    rate: Positive | None = None


class RateModel(Family):
    """A model whose only parameter is a rate."""

    @abstractmethod
    def sample_at(self, rate: Any, size: Any, rng: np.random.Generator) -> NDArray[Any]:
        """Simulate observations at given rates."""

    @property
    def parameters(self) -> dict[str, Support]:
        return {"rate": POSITIVE}

    def coordinate_names(self) -> list[str]:
        return [f"the rate of {self.target.name}"]

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        assert isinstance(self.prior, Gamma)
        return {"rate": np.exp(log_gamma_quantile(coordinates[:, 0], self.prior.shape)) / self.prior_rate}

    def widened_prior(self, width: float) -> dict[str, Any]:
        prior = self.prior
        assert isinstance(prior, Gamma)
        return {"shape": prior.shape / width, "rate": None if prior.rate is None else prior.rate / width}

    @property
    @abstractmethod
    def prior_rate(self) -> float:
        """The rate of the gamma prior; by default it puts the data at the middle of their bounds."""

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws:
        assert isinstance(self.prior, Gamma)
        return {"rate": rng.gamma(self.prior.shape, size=number) / self.prior_rate}

    def sample(self, draws: Draws, size: int, rng: np.random.Generator) -> NDArray[Any]:
        rate = draws["rate"][:, None]
        return np.asarray(self.sample_at(rate, (len(rate), size), rng))

    def imagine(self, truth: Draws, number: int, rng: np.random.Generator) -> Rows:
        return Rows(None, self.sample_at(truth["rate"][0], number, rng).astype(float), 1.0, self)

    def axes(self) -> list[Axis]:
        return [Axis(self._unit, (Readable(f"rate of {self.target.name}", "rate"),))]

    @property
    @abstractmethod
    def _unit(self) -> str:
        """The unit of the rate, in words."""


def refuse_impossible(numbers: Floats, impossible: NDArray[np.bool_], what: str) -> None:
    """Refuse the first marked target."""
    if impossible.any():
        raise MediationError(f"the test target {numbers[impossible][0]:g} is impossible: it must be {what}")
