"""The model of two labels: the probability of the second."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import beta_quantile
from equipoise.models.base import PROBABILITY, Axis, Draws, Family, Readable, Rows, Support, Template
from equipoise.models.columns import LabelColumn
from equipoise.models.layout import UNIT, CodedColumn, Entry, Layout
from equipoise.models.section import Positive, Section


class Beta(Section):
    """Probability of the second label ~ Beta(positive, negative), the pseudo-counts of second and first label."""

    positive: Positive = 1.0
    negative: Positive = 1.0


class BernoulliModel(Family):
    """A model of the probability of the second of two labels."""

    template = Template(
        "Share of defaulting loans across banks",
        """\
[model]
kind = "bernoulli"
# The two values of the column exactly as the tables have them: [negative, positive].
target = { name = "defaulted", labels = [0, 1] }

# Share of the positive label ~ Beta(positive, negative).
[model.prior]
positive = 1.0
negative = 1.0
""",
    )

    kind: Literal["bernoulli"]
    target: LabelColumn
    prior: Beta = Beta()

    def _layout(self) -> Layout:
        """Build the count of rows with the second label. A row changes it by at most Δ = 1, and can."""
        target = self.target
        column = CodedColumn(target.name, target.labels, (0, 1))
        return Layout((column,), (Entry(f"{target.name} = {target.labels[1]}", 0, None, 1),), sensitivity=UNIT)

    @property
    def parameters(self) -> dict[str, Support]:
        return {"probability": PROBABILITY}

    def coordinate_names(self) -> list[str]:
        return [f"the share of {self.target.name}"]

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        share = beta_quantile(coordinates[:, 0], self.prior.positive, self.prior.negative)
        return {"probability": np.exp(share.log_share)}

    def widened_prior(self, width: float) -> dict[str, Any]:
        return {"positive": self.prior.positive / width, "negative": self.prior.negative / width}

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws:
        return {"probability": rng.beta(self.prior.positive, self.prior.negative, number)}

    def sample(self, draws: Draws, size: int, rng: np.random.Generator) -> NDArray[Any]:
        probability = draws["probability"][:, None]
        positive = rng.uniform(size=(len(probability), size)) < probability
        return np.asarray(np.take(self.target.labels, positive.astype(int)))

    def imagine(self, truth: Draws, number: int, rng: np.random.Generator) -> Rows:
        return Rows(None, np.asarray(rng.uniform(size=number) < truth["probability"][0], float), 1.0, self)

    def log_density(self, draws: Draws, target: Floats) -> Floats:
        probability = draws["probability"]
        # A draw may give a label the probability 0.
        with np.errstate(divide="ignore"):
            return np.where(target == 1, np.log(probability), np.log1p(-probability))

    @property
    def purpose(self) -> str:
        return f"the share of rows whose {self.target.name} is {self.target.labels[1]!r}"

    def axes(self) -> list[Axis]:
        name = f"share of rows whose {self.target.name} is {self.target.labels[1]}"
        return [Axis("probability", (Readable(name, "probability"),))]


MODEL = BernoulliModel
