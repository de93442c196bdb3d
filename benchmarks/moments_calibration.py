"""Coverage and ranks of posteriors from moments, with rows from a generator that shares no code with the model.

Rows come from correlated normal variables, cut into levels, or made skewed and clipped to the bounds; labels and
targets from weights that are drawn from the agreed prior, as long as the target of 99 % of rows lies within its bounds.
Sums are perturbed as a release at this ε is, of Rényi order 2. Settings take turns until time is up.

    python benchmarks/moments_calibration.py --sets numbers levels --seconds 600 --processes 2 [--skewness 0.3]
"""

import argparse
import itertools
import json
import math
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import equipoise as eq
from equipoise._util.cores import one_core_each
from equipoise.inference.pooling import Releases
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import sample_posterior

Floats = NDArray[np.float64]

SETS = {
    "numbers": [0] * 5,
    "levels": [2, 5, 3, 0, 0],  # 30 combinations; 0 is a number
    "720": [2, 2, 3, 3, 4, 5, *[0] * 6],
    "binaries": [2] * 20,
}
ROWS, EPSILONS = (50, 300, 3_000, 30_000), (0.1, 1.0, 4.0)
CORRELATION = 0.3
DRAWS = 2_000


class Setting(NamedTuple):
    """What is drawn and released."""

    kind: str
    columns: str
    rows: int
    epsilon: float


class Outcome(NamedTuple):
    """Ranks of the true weights among draws, from 0 to 1, whether the posterior converged, its value, and seconds."""

    ranks: list[float]
    converged: bool
    value: float
    seconds: float


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
            cuts = np.linspace(-0.9, 1.1, levels - 1) if levels > 2 else np.array([0.2])
            parts.append(np.searchsorted(cuts + 0.1 * (place % 5), values)[:, None] == np.arange(1, levels))
        else:
            parts.append(np.clip((values + skewness / 6 * (values**2 - 1)) / 2, -1, 1)[:, None])
    return np.column_stack([*parts, np.ones(number)]).astype(float)


def play(setting: Setting, skewness: float, seed: int) -> Outcome:
    """Draw a truth, rows and releases, and sample the posterior."""
    columns = SETS[setting.columns]
    agreed = agree(setting.kind, columns)
    model = RegressionModel.of(agreed.model)  # type: ignore[arg-type]
    moments = model.moments
    deviations = moments.ordered(agreed.layout.noise_deviations(agreed.guarantee(epsilon=setting.epsilon)))
    i, j = moments.pairs.T
    rng = np.random.default_rng([seed, setting.rows, round(10 * setting.epsilon)])
    while True:
        truth = model.parameters(rng.normal(size=(1, model.dimension)))
        rows = draw_rows(columns, setting.rows, skewness, rng)
        eta = rows @ truth.weights[0]
        if setting.kind == "logistic":
            y = np.where(rng.uniform(size=len(eta)) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
            break
        y = eta + np.sqrt(truth.variance[0]) * rng.normal(size=len(eta))
        if np.mean(np.abs(y) < 1) >= 0.99:
            break
    whole = np.column_stack([rows, y])
    second = whole.T @ whole  # and the constant is among the rows
    sums = second[i, j] + deviations * rng.normal(size=len(deviations))
    releases = Releases(sums[None], np.array([float(setting.rows)]), np.ones(1), deviations**2)
    started = time.process_time()
    with one_core_each():
        sample = sample_posterior(model, releases, rng, DRAWS)
    seconds = time.process_time() - started
    ranks = np.mean(model.parameters(sample.coordinates).weights < truth.weights[0], axis=0)
    value = math.nan if sample.divergence is None else sample.divergence.value
    return Outcome(ranks.tolist(), sample.diagnostics.converged, value, seconds)


def summarise(setting: Setting, outcomes: list[Outcome]) -> str:
    """Write a row of the table; the p-value is that of the least even weight's ranks, times their number."""
    ranks = np.array([one.ranks for one in outcomes])
    covered = np.mean((ranks > 0.05) & (ranks < 0.95))
    pvalues = [stats.kstest(column, "uniform").pvalue for column in ranks.T]
    name = f"| {setting.kind} | {setting.columns} | {setting.rows:,} | {setting.epsilon:g} "
    return (
        f"{name}| {len(outcomes)} | {covered:.2f} "
        f"| {min(1.0, min(pvalues) * len(pvalues)):.2g} | {np.mean([one.converged for one in outcomes]):.2f} "
        f"| {np.mean([one.seconds for one in outcomes]):.2f} |"
    )


def main() -> None:
    """Print a row of a table for every kind, set of columns, number of rows and ε."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=["linear", "logistic"], default=["linear", "logistic"])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--skewness", type=float, default=0.3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="keep all ranks here, as JSON")
    asked = parser.parse_args()
    settings = [Setting(*one) for one in itertools.product(asked.kinds, asked.sets, ROWS, EPSILONS)]
    found: dict[Setting, list[Outcome]] = defaultdict(list)
    pool = ProcessPoolExecutor(asked.processes)
    seeds = range(asked.first_seed, asked.first_seed + asked.rounds)
    waiting = {pool.submit(play, one, asked.skewness, seed): one for seed in seeds for one in settings}
    try:
        for future in as_completed(waiting, asked.seconds):
            found[waiting[future]].append(future.result())
    except TimeoutError:
        print(f"{len(waiting) - sum(map(len, found.values())):,} rounds were not finished in time")
    print("| model | columns | rows | ε | rounds | coverage | p | converged | CPU s |")
    print(f"|{9 * '---|'}")
    for setting in settings:
        if setting in found:
            print(summarise(setting, found[setting]), flush=True)
    if asked.output:
        kept = [{**setting._asdict(), "outcomes": outcomes} for setting, outcomes in found.items()]
        asked.output.write_text(json.dumps(kept))
    sys.stdout.flush()
    for process in multiprocessing.active_children():  # with rounds that are under way
        process.terminate()
    os._exit(0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
