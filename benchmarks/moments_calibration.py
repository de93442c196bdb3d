"""Coverage of 90 % intervals by method "moments", with rows from a generator that shares no code with the model.

Rows come from correlated normal variables, cut into levels, or made skewed and clipped to the bounds; labels and
targets from weights that are drawn from the agreed prior, as long as the target of 99 % of rows lies within its bounds.
Sums are perturbed as a release at this ε is, of Rényi order 2.

    python benchmarks/moments_calibration.py linear numbers --rounds 100 [--skewness 0.3]
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray

import equipoise as eq
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import Releases
from equipoise.inference.regression.posterior import sample_posterior

Floats = NDArray[np.float64]

SETS = {
    "numbers": [0, 0, 0, 0, 0],
    "levels": [2, 5, 3, 0, 0],  # 30 combinations; 0 is a number
}
ROWS, EPSILONS = (50, 300, 3_000, 30_000), (0.1, 1.0, 4.0)
CORRELATION = 0.3
DRAWS = 4_000


def agree(kind: str, columns: list[int]) -> eq.Agreement:
    """Write an agreement with these columns."""
    features = []
    for place, levels in enumerate(columns):
        if not levels:
            features.append(f'{{ name = "x{place}", bounds = [-1, 1], typical = [-0.98, 0.98] }}')
        else:
            names = ", ".join(f'"{level}"' for level in "abcde"[:levels])
            key, word = ("binary", "labels") if levels == 2 else ("category", "levels")
            features.append(f'{{ name = "x{place}", kind = "{key}", {word} = [{names}] }}')
    target = "bounds = [-1, 1] }" if kind == "linear" else 'labels = ["no", "yes"] }'
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{", ".join(features)}]\ntarget = {{ name = "y", {target}\n'
        '[privacy]\norder = 2\nmax_epsilon = 4.0\n[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
    )


def draw_rows(columns: list[int], number: int, skewness: float, rng: np.random.Generator) -> Floats:
    """Draw rows of terms, the constant last."""
    size = len(columns)
    covariance = np.full((size, size), CORRELATION) + (1 - CORRELATION) * np.eye(size)
    normal = rng.normal(size=(number, size)) @ np.linalg.cholesky(covariance).T
    parts = []
    for place, levels in enumerate(columns):
        values = normal[:, place]
        if levels:
            cuts = np.linspace(-0.9, 1.1, levels - 1) + 0.1 * place if levels > 2 else np.array([0.2])
            parts.append(np.searchsorted(cuts, values)[:, None] == np.arange(1, levels))
        else:
            parts.append(np.clip((values + skewness / 6 * (values**2 - 1)) / 2, -1, 1)[:, None])
    return np.column_stack([*parts, np.ones(number)]).astype(float)


def run(kind: str, columns: list[int], number: int, epsilon: float, skewness: float, rounds: int, seed: int) -> str:
    """Measure one setting."""
    agreed = agree(kind, columns)
    model = RegressionModel.of(agreed.model)  # type: ignore[arg-type]
    layout, moments = agreed.layout, model.moments
    deviations = moments.ordered(layout.noise_deviations(agreed.guarantee(epsilon=epsilon)))
    i, j = moments.pairs.T
    rng = np.random.default_rng([seed, number])
    covered, converged, effective, values = [], [], [], []
    started = time.process_time()
    for _ in range(rounds):
        while True:
            truth = model.parameters(rng.normal(size=(1, model.dimension)))
            rows = draw_rows(columns, number, skewness, rng)
            eta = rows @ truth.weights[0]
            if kind == "logistic":
                y = np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
                break
            y = eta + np.sqrt(truth.variance[0]) * rng.normal(size=number)
            if np.mean(np.abs(y) < 1) >= 0.99:
                break
        whole = np.column_stack([rows, y])
        sums = (whole[:, i] * whole[:, j]).sum(axis=0) + deviations * rng.normal(size=len(deviations))
        releases = Releases(sums[None], np.array([float(number)]), np.ones(1), deviations**2)
        sample = sample_posterior(model, releases, rng, DRAWS)
        low, high = np.quantile(model.parameters(sample.coordinates).weights, [0.05, 0.95], axis=0)
        covered.append((low < truth.weights[0]) & (truth.weights[0] < high))
        converged.append(sample.diagnostics.converged)
        effective.append(sample.diagnostics.ess_bulk[0])
        if sample.divergence is not None:
            values.append(sample.divergence.value)
    seconds = (time.process_time() - started) / rounds
    return (
        f"| {number:,} | {epsilon:g} | {np.mean(covered):.2f} | {np.mean(converged):.2f} | {np.median(effective):,.0f} "
        f"| {np.mean(values):.1f} | {seconds:.2f} |"
    )


def main() -> None:
    """Print a row of a table for every number of rows and ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["linear", "logistic"])
    parser.add_argument("columns", choices=list(SETS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--skewness", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("| rows | ε | coverage | converged | effective draws | value, nats | CPU s |\n|---|---|---|---|---|---|---|")
    for number in ROWS:
        for epsilon in EPSILONS:
            columns = SETS[asked.columns]
            row = run(asked.kind, columns, number, epsilon, asked.skewness, asked.rounds, asked.seed)
            print(row, flush=True)


if __name__ == "__main__":
    main()
