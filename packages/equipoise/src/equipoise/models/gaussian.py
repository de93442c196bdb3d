"""The model of numbers: mean and variance of a normal distribution."""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import log_gamma_quantile
from equipoise.models.base import (
    BOUNDS_COMMENT,
    LARGEST,
    POSITIVE,
    Axis,
    Draws,
    Family,
    Likelihood,
    Readable,
    Rows,
    Support,
    Template,
    log_normal_density,
)
from equipoise.models.columns import NumberColumn
from equipoise.models.layout import BASE_WEIGHT, UNIT, Entry, Layout, scaled
from equipoise.models.section import Finite, Positive, Section


class MeanAndVariance(Section):
    """Gaussian family: σ² ~ InvGamma(shape, scale), mean | σ² ~ N(mean, σ² / mean_strength), in scaled units."""

    shape: Positive = 3.0
    scale: Positive = 0.5
    mean: Finite = 0.0
    mean_strength: Positive = 0.25


class GaussianModel(Family):
    """A model of a number's mean and variance."""

    template = Template(
        "Systolic blood pressure across practices",
        f"""\
[model]
kind = "gaussian"
{BOUNDS_COMMENT}target = {{ name = "pressure", bounds = [70, 220] }}

# Beliefs in units where the column spans [-1, 1]; these are the defaults.
[model.prior]
shape = 3.0              # variance ~ InverseGamma(shape, scale)
scale = 0.5
mean = 0.0
mean_strength = 0.25     # how many rows the belief about the mean is worth
""",
    )

    kind: Literal["gaussian"]
    target: NumberColumn
    prior: MeanAndVariance = MeanAndVariance()

    def _layout(self) -> Layout:
        """Build the sums of x and a·x², x clipped and mapped to [−1, 1].

        With d = |x − x′| and s = |x + x′| ≤ 2 − d, one row changes (x, a x²) by d²(1 + a²s²) ≤ d²(1 + a²(2−d)²) in
        square. At d = 2 this is 4. It never exceeds 4 iff a² ≤ (2+d)/(d²(2−d)) for all d in (0, 2), whose minimum, at d
        = √5 − 1, is (11 + 5√5)/8 ≈ 2.77. So Δ = 2, reached by x = −x′ = 1, and a = 13/8 is free.
        """
        target = self.target
        entries = (
            Entry(target.name, 0, None, BASE_WEIGHT),
            Entry(f"{target.name} × {target.name}", 0, 0, 13),
        )
        return Layout((scaled(target.name, target.bounds),), entries, sensitivity=2 * BASE_WEIGHT * UNIT)

    @property
    def parameters(self) -> dict[str, Support]:
        return {"mean": Support((), -LARGEST, LARGEST), "variance": POSITIVE}

    def own_units(self, draws: Draws) -> dict[str, Floats]:
        target = self.target_column
        return {
            "mean": target.middle + target.half_width * draws["mean"],
            "sd": target.half_width * np.sqrt(draws["variance"]),
        }

    def coordinate_names(self) -> list[str]:
        return [f"the precision of {self.target.name}", f"the mean of {self.target.name}"]

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        prior = self.prior
        log_variance = math.log(prior.scale) - log_gamma_quantile(coordinates[:, 0], prior.shape)
        variance = np.exp(np.minimum(log_variance, math.log(LARGEST)))
        return {"mean": prior.mean + np.sqrt(variance / prior.mean_strength) * coordinates[:, 1], "variance": variance}

    def widened_prior(self, width: float) -> dict[str, Any]:
        return {"mean_strength": self.prior.mean_strength / width**2}

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws:
        prior = self.prior
        variance = prior.scale / rng.gamma(prior.shape, size=number)
        return {
            "mean": prior.mean + np.sqrt(variance / prior.mean_strength) * rng.normal(size=number),
            "variance": variance,
        }

    def sample(self, draws: Draws, size: int, rng: np.random.Generator) -> NDArray[Any]:
        own = self.own_units(draws)
        mean, deviation = own["mean"][:, None], own["sd"][:, None]
        return np.asarray(mean + deviation * rng.normal(size=(len(mean), size)))

    def imagine(self, truth: Draws, number: int, rng: np.random.Generator) -> Rows:
        target = truth["mean"][0] + np.sqrt(truth["variance"][0]) * rng.normal(size=number)
        return Rows(None, target, self.target_column.half_width, self)

    def log_density(self, draws: Draws, target: Floats) -> Floats:
        return log_normal_density(target, draws["mean"], draws["variance"])

    def likelihood_of(self, rows: Rows) -> Likelihood:
        number, mean, squares = len(rows.target), rows.target.mean(), len(rows.target) * rows.target.var()

        def at(draws: Draws) -> Floats:
            variance = draws["variance"]
            about = squares + number * (mean - draws["mean"]) ** 2
            return np.asarray(-0.5 * (number * np.log(2 * math.pi * variance) + about / variance))

        return at

    def predictive_variance(self, draws: Draws, features: Floats | None) -> Floats:  # noqa: ARG002
        return np.asarray(draws["variance"].mean() + draws["mean"].var())

    @property
    def purpose(self) -> str:
        return f"the mean and variance of {self.target.name}"

    def axes(self) -> list[Axis]:
        name = self.target.name
        unit = f"in units of {name}"
        return [
            Axis(unit, (Readable(f"mean of {name}", "mean"),)),
            Axis(unit, (Readable(f"standard deviation of {name}", "sd"),)),
        ]


MODEL = GaussianModel
