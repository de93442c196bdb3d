"""CPU seconds and effective draws of posteriors from released moments, for models of many coordinates.

Every setting is sampled for one party, for all parties, and for all parties tempered to κ = 0.2. `--round` samples what
a round of mediation takes instead: every coalition, and four tempered posteriors for each party.

    OMP_NUM_THREADS=1 python benchmarks/wide_models.py [linear-50 logistic-30 …] [--round] [--draws 1280]
"""

import argparse
import itertools
import resource
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import equipoise as eq
from equipoise._util.cores import one_core_each
from equipoise.inference.pooling import Releases
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import sample_posterior

Floats = NDArray[np.float64]

CORRELATION = 0.3
DEVIATION = 0.3  # of numbers
BALL = 0.12  # bound of the squared norm, for each column
KAPPAS = (0.05, 0.2, 0.5, 0.8)


class Setting(NamedTuple):
    """Columns by their numbers of levels, of which 0 is a number; rows and ε of each party."""

    kind: str
    columns: Sequence[int]
    rows: Sequence[int]
    epsilons: Sequence[float]
    ball: bool = False


SETTINGS = {
    "linear-2": Setting("linear", [0] * 2, [400, 800], [1, 4]),
    "logistic-2": Setting("logistic", [0] * 2, [400, 800], [1, 4]),
    "linear-mixed": Setting("linear", [2, 5, 3, 0, 0], [400, 800], [1, 4]),
    "calih": Setting("linear", [0] * 6, [1316, 1974, 3291], [0.2, 0.1, 0.2]),
    "linear-24": Setting("linear", [0] * 24, [5_000] * 3, [1] * 3, ball=True),
    "linear-24-noisy": Setting("linear", [0] * 24, [1_000] * 3, [0.5] * 3),
    "linear-50": Setting("linear", [0] * 50, [5_000] * 3, [1] * 3, ball=True),
    "linear-50-clear": Setting("linear", [0] * 50, [50_000] * 3, [4] * 3, ball=True),
    "linear-100": Setting("linear", [0] * 100, [5_000] * 3, [1] * 3, ball=True),
    "logistic-30": Setting("logistic", [0] * 30, [5_000] * 3, [1] * 3, ball=True),
    "logistic-30-clear": Setting("logistic", [0] * 30, [50_000] * 3, [4] * 3, ball=True),
    "binaries-20": Setting("logistic", [2] * 20, [5_000] * 3, [1] * 3),
    "cells-720": Setting("logistic", [2, 5, 3, 2, 4, 3, 0, 0, 0, 0, 0, 0], [1_000] * 5, [1] * 5),
}


def agree(setting: Setting) -> eq.Agreement:
    """Write an agreement with these columns."""
    features = []
    for place, levels in enumerate(setting.columns):
        if not levels:
            features.append(f'{{ name = "x{place}", bounds = [-1, 1], typical = [-0.6, 0.6] }}')
        else:
            names = ", ".join(f'"{level}"' for level in "abcde"[:levels])
            key, word = ("binary", "labels") if levels == 2 else ("category", "levels")
            features.append(f'{{ name = "x{place}", kind = "{key}", {word} = [{names}] }}')
    target = "bounds = [-1, 1] }" if setting.kind == "linear" else 'labels = ["no", "yes"] }'
    norm = f"norm_bound = {np.sqrt(BALL * len(setting.columns))}\n" if setting.ball else ""
    parties = "".join(f'[[parties]]\nname = "party{place}"\n' for place in range(max(2, len(setting.rows))))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{setting.kind}"\n{norm}features = [{", ".join(features)}]\n'
        f'target = {{ name = "y", {target}\n[privacy]\norder = 2\nmax_epsilon = 4.0\n{parties}'
    )


def draw_rows(setting: Setting, number: int, rng: np.random.Generator) -> Floats:
    """Draw rows of terms, the constant last."""
    size = len(setting.columns)
    normal = np.sqrt(CORRELATION) * rng.normal(size=(number, 1))
    normal = normal + np.sqrt(1 - CORRELATION) * rng.normal(size=(number, size))
    parts = []
    for values, levels in zip(normal.T, setting.columns, strict=True):
        if levels:
            cuts = np.linspace(-0.9, 1.1, levels - 1) if levels > 2 else np.array([0.2])
            parts.append(np.searchsorted(cuts, values)[:, None] == np.arange(1, levels))
        else:
            parts.append(np.clip(DEVIATION * values, -1, 1)[:, None])
    rows = np.column_stack([*parts, np.ones(number)]).astype(float)
    if setting.ball:
        norms = np.linalg.norm(rows[:, :-1], axis=1, keepdims=True)
        rows[:, :-1] /= np.maximum(1.0, norms / np.sqrt(BALL * size))
    return rows


def release(setting: Setting, seed: int) -> tuple[RegressionModel, Releases]:
    """Draw the parties' rows, and perturb their sums."""
    agreed, rng = agree(setting), np.random.default_rng(seed)
    model = RegressionModel.of(agreed.model)  # type: ignore[arg-type]
    weights = rng.normal(size=model.moments.width + 1)
    predictor = draw_rows(setting, 10_000, rng) @ weights
    weights *= (0.25 if setting.kind == "linear" else 1.5) / predictor.std()
    weights[-1] -= predictor.mean() * (weights[-1] and 0.25 / predictor.std())
    i, j = model.moments.pairs.T
    sums, variances = [], []
    for number, epsilon in zip(setting.rows, setting.epsilons, strict=True):
        rows = draw_rows(setting, number, rng)
        eta = rows @ weights
        if setting.kind == "linear":
            y = np.clip(eta + 0.2 * rng.normal(size=number), -1, 1)
        else:
            y = np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)
        whole = np.column_stack([rows, y])
        deviations = model.moments.ordered(agreed.layout.noise_deviations(agreed.guarantee(epsilon=float(epsilon))))
        exact = (whole.T @ whole)[i, j]
        sums.append(exact + deviations * rng.normal(size=len(deviations)))
        variances.append(deviations**2)
    variance = np.array(variances)
    scale = variance[:, 0] / variance[0, 0]
    return model, Releases(np.array(sums), np.array(setting.rows, float), scale, variance[0])


def tasks_of(parties: int, *, whole: bool) -> list[tuple[tuple[int, ...], float]]:
    """Coalitions with their κ."""
    everybody = tuple(range(parties))
    if not whole:
        return [((0,), 1.0), (everybody, 1.0), (everybody, 0.2)]
    coalitions = [one for size in range(1, parties + 1) for one in itertools.combinations(everybody, size)]
    return [(one, 1.0) for one in coalitions] + [(everybody, kappa) for kappa in KAPPAS for _ in everybody]


def main() -> None:
    """Print a line for every posterior."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", default=list(SETTINGS))
    parser.add_argument("--round", action="store_true")
    parser.add_argument("--draws", type=int, default=1_280)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("| setting | coordinates | parties | κ | CPU s | draws | effective draws | a second | converged |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in asked.settings:
        model, releases = release(SETTINGS[name], asked.seed)
        total = 0.0
        for seed, (members, kappa) in enumerate(tasks_of(len(releases.rows), whole=asked.round)):
            chosen = list(members)
            own = releases._replace(
                statistic=releases.statistic[chosen], rows=releases.rows[chosen], scale=releases.scale[chosen]
            )
            started = time.process_time()
            with one_core_each():
                found = sample_posterior(model, own, np.random.default_rng(seed), asked.draws, power=kappa)
            seconds = time.process_time() - started
            total += seconds
            report = found.diagnostics
            effective = float(min(report.ess_bulk.min(), report.ess_tail.min()))
            print(
                f"| {name} | {model.dimension} | {len(chosen)} | {kappa:g} | {seconds:.2f} | {report.draws:,} "
                f"| {effective:,.0f} | {effective / seconds:,.0f} | {'yes' if report.converged else report.problems} |",
                flush=True,
            )
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"| {name} | all | | | {total:.2f} | | | | up to {memory:.2f} GB so far |", flush=True)


if __name__ == "__main__":
    main()
