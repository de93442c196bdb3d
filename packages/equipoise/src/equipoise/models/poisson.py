"""The model of counts: the rate of a Poisson distribution."""

from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.models.base import BOUNDS_COMMENT, Draws, Support, Template, scaled_values
from equipoise.models.columns import CountColumn
from equipoise.models.layout import UNIT, Entry, Layout, scaled
from equipoise.models.rate import Gamma, RateModel, refuse_impossible

LARGEST_COUNT = 2.0**62  # largest rate that NumPy simulates


class PoissonModel(RateModel):
    """A model of the rate of counts."""

    template = Template(
        "Emergency visits per day across hospitals",
        f"""\
[model]
kind = "poisson"
{BOUNDS_COMMENT}target = {{ name = "visits", bounds = [0, 60] }}

# Rate ~ Gamma(shape, rate), in the data's own units. Without `rate`, the prior mean is the middle of the bounds.
[model.prior]
shape = 1.0
""",
    )

    kind: Literal["poisson"]
    target: CountColumn
    prior: Gamma = Gamma()

    def _layout(self) -> Layout:
        """Build the sum of clipped counts, mapped to [−1, 1]: a row moves it by at most Δ = 2 (from bound to bound)."""
        column = scaled(self.target.name, self.target.bounds, whole_for=self.kind)
        return Layout((column,), (Entry(self.target.name, 0, None, 1),), sensitivity=2 * UNIT)

    @property
    def parameters(self) -> dict[str, Support]:
        return {"rate": Support((), 0.0, LARGEST_COUNT)}

    @property
    def prior_rate(self) -> float:
        return self.prior.shape / self.target_column.middle if self.prior.rate is None else self.prior.rate

    def sample_at(self, rate: Any, size: Any, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(rng.poisson(rate, size))

    def check_numbers(self, numbers: Floats) -> tuple[Floats, float]:
        # Called for its refusal of values that are not finite.
        scaled_values(self.target_column, numbers)
        refuse_impossible(numbers, (numbers < 0) | (numbers != np.floor(numbers)), "a count of 0 or more")
        return numbers, 1.0

    def log_density(self, draws: Draws, target: Floats) -> Floats:
        rate = draws["rate"]
        return np.asarray(scipy.special.xlogy(target, rate) - rate - scipy.special.gammaln(target + 1))

    def predictive_variance(self, draws: Draws, features: Floats | None) -> Floats:  # noqa: ARG002
        return np.asarray(draws["rate"].mean() + draws["rate"].var())

    @property
    def purpose(self) -> str:
        return f"the rate of the count {self.target.name}"

    @property
    def _unit(self) -> str:
        return "rows' mean count"


MODEL = PoissonModel
