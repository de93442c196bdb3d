"""The model of several categories: the probability of each."""

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import beta_quantile
from equipoise.models.base import Axis, Draws, Family, Readable, Rows, Support, Template, check_length
from equipoise.models.columns import CategoryColumn
from equipoise.models.layout import UNIT, CodedColumn, Entry, Layout, ceil_sqrt
from equipoise.models.section import Positive, Section


class Dirichlet(Section):
    """Category probabilities ~ Dirichlet; one concentration for all categories, or one for each."""

    concentration: Positive | list[Positive] = 1.0


class CategoricalModel(Family):
    """A model of the probabilities of several categories."""

    template = Template(
        "Blood groups across clinics",
        """\
[model]
kind = "categorical"
# Every value the column may have; a value outside the list is an error.
target = { name = "blood_group", categories = ["0", "A", "B", "AB"] }

# Shares ~ Dirichlet; one concentration for all categories, or a list with one for each.
[model.prior]
concentration = 1.0
""",
    )

    kind: Literal["categorical"]
    target: CategoryColumn
    prior: Dirichlet = Dirichlet()

    @model_validator(mode="after")
    def _check_concentration(self) -> Self:
        if isinstance(self.prior.concentration, list):
            check_length("prior.concentration", self.prior.concentration, len(self.target.categories))
        return self

    def _layout(self) -> Layout:
        """Build the counts of rows in each category.

        Replacing a row lowers one count by 1 and raises another by 1, or changes nothing: Δ = √2, and it is reached.
        All counts are released although they sum to the public row count: leaving one out would not lower Δ, and the
        redundant one lets inference average some noise away.
        """
        target = self.target
        size = len(target.categories)
        columns = tuple(
            CodedColumn(target.name, target.categories, tuple(int(i == k) for i in range(size))) for k in range(size)
        )
        entries = tuple(Entry(f"{target.name} = {label}", k, None, 1) for k, label in enumerate(target.categories))
        return Layout(columns, entries, sensitivity=ceil_sqrt(2 * UNIT**2))

    @property
    def parameters(self) -> dict[str, Support]:
        return {"probabilities": Support((len(self.target.categories),), 0.0, 1.0)}

    def own_units(self, draws: Draws) -> dict[str, Floats]:
        return dict(zip(self.readable_names, draws["probabilities"].T, strict=True))

    def coordinate_names(self) -> list[str]:
        target = self.target.name
        first, *rest = self.target.categories[:-1]
        others = [f"the share of {label!r} in what the values before it leave of {target}" for label in rest]
        return [f"the share of {first!r} in {target}", *others]

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        """Map each coordinate to the share that a category takes of what earlier categories left."""
        concentration = np.broadcast_to(self.prior.concentration, len(self.target.categories))
        left = np.zeros(len(coordinates))
        logs = []
        for index, values in enumerate(coordinates.T):
            share = beta_quantile(values, float(concentration[index]), float(concentration[index + 1 :].sum()))
            logs.append(left + share.log_share)
            left = left + share.log_rest
        return {"probabilities": np.exp(np.column_stack([*logs, left]))}

    def widened_prior(self, width: float) -> dict[str, Any]:
        stated = self.prior.concentration
        return {"concentration": [number / width for number in stated] if isinstance(stated, list) else stated / width}

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws:
        stated, categories = self.prior.concentration, len(self.target.categories)
        return {"probabilities": rng.dirichlet(np.broadcast_to(stated, categories), number)}

    def sample(self, draws: Draws, size: int, rng: np.random.Generator) -> NDArray[Any]:
        # The last category gets the rest.
        below = np.cumsum(draws["probabilities"], axis=1)[:, None, :-1]
        chosen = np.sum(rng.uniform(size=(len(below), size))[:, :, None] >= below, axis=2)
        return np.asarray(np.take(self.target.categories, chosen))

    def imagine(self, truth: Draws, number: int, rng: np.random.Generator) -> Rows:
        # The last category gets the rest.
        below = np.cumsum(truth["probabilities"][0])[:-1]
        return Rows(None, np.sum(rng.uniform(size=(number, 1)) >= below, axis=1).astype(float), 1.0, self)

    def log_density(self, draws: Draws, target: Floats) -> Floats:
        # A draw may give a category the probability 0.
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(draws["probabilities"]).T[target[:, 0].astype(int)])

    @property
    def purpose(self) -> str:
        return f"the shares of the values of {self.target.name}"

    def axes(self) -> list[Axis]:
        each = (
            Readable(f"{self.target.name} is {category}", f"probability[{category}]")
            for category in self.target.categories
        )
        return [Axis("probability", tuple(each))]


MODEL = CategoricalModel
