"""Estimators of KL(posterior ‖ prior) on posteriors whose divergence is known: bias, spread and cost of each.

Draws are independent, so that only the estimators differ. Problems: the exact posterior of a conjugate linear
regression with two and with six features, a Beta posterior, and a posterior of two modes, whose divergence is found by
quadrature. `--write` puts the table into a document.

    python benchmarks/estimators.py [--repeats 20] [--estimators knn-entropy …] [--write docs/estimators.md]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.inference.conjugate import dirichlet_divergence, gamma_divergence
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.base import Conjugate
from equipoise.valuation import ESTIMATORS
from equipoise.valuation.divergence import divergence
from equipoise.valuation.surprise import conjugate_fit

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[dict[str, Floats], Floats]]  # parameters, coordinates

CHAINS = 16

HEADER = """# Estimators of a value

A coalition's value is KL(posterior ‖ prior), estimated from draws. Measured by `{command}` on posteriors whose
divergence is known, {repeats} independent sets of draws each; all numbers are nats. *Bias* is the mean error ± its
own standard error, *spread* the standard deviation between sets, *stated* the standard error an estimate gives
itself.

`knn-copula` is for [many skewed coordinates](limits.md#values), `knn-mixture` for heavy tails and separated modes.

`knn-entropy` (the default) knows the prior's density and needs neighbours among posterior draws only; it is
corrected by its mean error on normal draws of the same number and dimension. `knn` is the paper's. `conjugate-fit`
and `gaussian-fit` fit a distribution, and are the best where it fits and wrong where it does not (two modes).
`classifier` is the paper's probabilistic classification; where posterior and prior hardly overlap, a classifier is
right about every draw whatever the divergence, and its log odds say how it was trained, not what the divergence is.
Trained to the end they grow without bound (the overconfidence the paper warns of); ours stops early, and falls short
instead, by most of the value. The more there is to be surprised by, the less it can be used.

"""


@dataclass(frozen=True)
class Case:
    """A posterior with a known divergence from its prior."""

    name: str
    truth: float
    model: Conjugate[Any] | None
    draw: Draw


def conjugate(model: str) -> Conjugate[Any]:
    """Inference's half of the model of an agreement of format 1."""
    text = f'format = 1\n[model]\n{model}[privacy]\nmax_epsilon = 1.0\n[[parties]]\nname = "a"\n'
    return conjugate_of(Agreement.parse(text).model)


def regression(width: int, rows: int) -> Case:
    """Conjugate linear regression on rendered rows, prior as in Syn."""
    rng = np.random.default_rng(width)
    size = width + 1
    precision, shape, scale = 0.025 * np.eye(size), 5.0, 0.1
    x = np.column_stack([rng.normal(size=(rows, width)) * 0.3, np.ones(rows)])
    y = x @ rng.normal(size=size) + 0.2 * rng.normal(size=rows)
    after = precision + x.T @ x
    mean = np.linalg.solve(after, x.T @ y)
    shape_after, scale_after = shape + rows / 2, scale + 0.5 * (y @ y - mean @ after @ mean)
    spread = np.linalg.inv(after)
    truth = gamma_divergence(shape_after, scale_after, shape, scale) + 0.5 * (
        np.trace(precision @ spread)
        - size
        + np.linalg.slogdet(after)[1]
        - np.linalg.slogdet(precision)[1]
        + shape_after / scale_after * (mean @ precision @ mean)
    )
    features = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1] }}' for k in range(width))
    model = conjugate(
        f'kind = "linear"\nfeatures = [{features}]\ntarget = {{ name = "y", bounds = [-1, 1] }}\n'
        f"[model.prior]\nshape = {shape}\nscale = {scale}\nweight_precision = {[0.025] * size}\n"
    )
    root = np.linalg.cholesky(spread)

    def draw(rng: np.random.Generator, number: int) -> tuple[dict[str, Floats], Floats]:
        variance = scale_after / rng.gamma(shape_after, size=number)
        weights = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(number, size)) @ root.T)
        parameters = {"weights": weights, "variance": variance}
        coordinates = model.own_of_draws(parameters)
        assert coordinates is not None
        return parameters, coordinates

    name = f"linear regression, {width} features, {rows:,} rows"
    return Case(name, float(truth), model, draw)


def share(ones: int, zeros: int) -> Case:
    """Share of ones, uniform prior."""
    model = conjugate('kind = "bernoulli"\ntarget = { name = "y", labels = [0, 1] }\n')

    def draw(rng: np.random.Generator, number: int) -> tuple[dict[str, Floats], Floats]:
        probability = rng.beta(1 + ones, 1 + zeros, number)
        return {"probability": probability}, stats.norm.ppf(probability)[:, None]

    truth = dirichlet_divergence(np.array([1.0 + ones, 1.0 + zeros]), np.ones(2))
    return Case(f"share, {ones} of {ones + zeros}", truth, model, draw)


def two_modes(dimension: int) -> Case:
    """Equal mixture of narrow normals at ±1.5 in one coordinate, normal in the others."""
    place, width = 1.5, 0.2

    def density(x: float) -> float:
        return float(0.5 * (stats.norm.pdf(x, -place, width) + stats.norm.pdf(x, place, width)))

    first = (
        2
        * integrate.quad(
            lambda x: density(x) * (np.log(density(x)) - stats.norm.logpdf(x)), 0, place + 12 * width, points=[place]
        )[0]
    )
    truth = first + (dimension - 1) * (0.5 * (width**2 - 1) - np.log(width))

    def draw(rng: np.random.Generator, number: int) -> tuple[dict[str, Floats], Floats]:
        points = width * rng.normal(size=(number, dimension))
        points[:, 0] += place * rng.choice([-1.0, 1.0], number)
        return {}, points

    return Case(f"two modes, {dimension} coordinates", float(truth), None, draw)


def estimate(case: Case, estimator: str, number: int, seed: int) -> tuple[Estimate, float]:
    """One estimate and the seconds it took."""
    parameters, coordinates = case.draw(np.random.default_rng(seed), number)
    by_chain = coordinates.reshape(CHAINS, -1, coordinates.shape[1])
    start = time.perf_counter()
    if estimator == "conjugate-fit":
        split = {name: part.reshape(CHAINS, -1, *part.shape[1:]) for name, part in parameters.items()}
        found = divergence(by_chain, "gaussian-fit") if case.model is None else conjugate_fit(case.model, split)
    else:
        found = divergence(by_chain, estimator, seed=seed)  # type: ignore[arg-type]
    return found, time.perf_counter() - start


def lines(cases: Sequence[Case], sizes: Sequence[int], estimators: Sequence[str], repeats: int) -> list[str]:
    """Rows of the table."""
    rows = [
        "| posterior | draws | truth | estimator | bias | spread | stated | ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        for number in sizes:
            for estimator in estimators:
                estimate(case, estimator, number, 0)  # calibrates, imports
                found, seconds = zip(
                    *(estimate(case, estimator, number, 1 + seed) for seed in range(repeats)), strict=True
                )
                errors = np.array([one.value for one in found]) - case.truth
                spread = errors.std(ddof=1)
                rows.append(
                    f"| {case.name} | {number:,} | {case.truth:.2f} | {estimator} | {errors.mean():+.3f} ± "
                    f"{spread / np.sqrt(repeats):.3f} | {spread:.3f} | {np.mean([one.error for one in found]):.3f} | "
                    f"{1000 * np.median(seconds):,.0f} |"
                )
                print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Print the table, and write it if asked to."""
    parser = argparse.ArgumentParser(description="Bias, spread and cost of KL estimators.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--estimators", choices=ESTIMATORS, nargs="+", default=ESTIMATORS)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    cases = [regression(2, 700), regression(6, 6_500), share(210, 90), two_modes(4)]
    rows = lines(cases, (1_024, 4_096), options.estimators, options.repeats)
    if options.write:
        command = f"python benchmarks/estimators.py --repeats {options.repeats}"
        text = HEADER.format(command=command, repeats=options.repeats) + "\n".join(rows) + "\n"
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
