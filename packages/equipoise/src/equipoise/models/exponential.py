"""The model of waiting times: the rate of an exponential distribution."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.models.base import BOUNDS_COMMENT, Draws, Likelihood, Rows, Template, scaled_values
from equipoise.models.columns import DurationColumn
from equipoise.models.layout import UNIT, Entry, Layout, scaled
from equipoise.models.rate import Gamma, RateModel, refuse_impossible


class ExponentialModel(RateModel):
    """A model of the rate of waiting times."""

    template = Template(
        "Days between failures across plants",
        f"""\
[model]
kind = "exponential"
{BOUNDS_COMMENT}target = {{ name = "days", bounds = [0, 90] }}

# Rate ~ Gamma(shape, rate), in the data's own units. Without `rate`, the prior mean puts a typical
# waiting time at the middle of the bounds.
[model.prior]
shape = 1.0
""",
    )

    kind: Literal["exponential"]
    target: DurationColumn
    prior: Gamma = Gamma()

    def _layout(self) -> Layout:
        """Build the sum of the clipped waiting times, mapped to [−1, 1]: Δ = 2, from bound to bound."""
        column = scaled(self.target.name, self.target.bounds)
        return Layout((column,), (Entry(self.target.name, 0, None, 1),), sensitivity=2 * UNIT)

    @property
    def prior_rate(self) -> float:
        return self.prior.shape * self.target_column.middle if self.prior.rate is None else self.prior.rate

    def sample_at(self, rate: Any, size: Any, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(rng.exponential(1 / rate, size))

    def check_numbers(self, numbers: Floats) -> tuple[Floats, float]:
        # Called for its refusal of values that are not finite.
        scaled_values(self.target_column, numbers)
        refuse_impossible(numbers, numbers < 0, "0 or more")
        return numbers, 1.0

    def log_density(self, draws: Draws, target: Floats) -> Floats:
        return np.asarray(np.log(draws["rate"]) - draws["rate"] * target)

    def likelihood_of(self, rows: Rows) -> Likelihood:
        number, total = len(rows.target), rows.target.sum()
        return lambda draws: number * np.log(draws["rate"]) - draws["rate"] * total

    def predictive_variance(self, draws: Draws, features: Floats | None) -> Floats:  # noqa: ARG002
        times = 1 / draws["rate"]
        return np.asarray(np.mean(times**2) + times.var())

    @property
    def purpose(self) -> str:
        return f"the rate of the waiting time {self.target.name}"

    @property
    def _unit(self) -> str:
        return f"events per unit of {self.target.name}"


MODEL = ExponentialModel
