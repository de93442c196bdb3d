"""A whole round on the paper's Syn setting: ours against the paper's protocol, in one run on one machine.

ours    `eq.mediate`: 7 coalitions, more draws until targets have standard errors of 0.05 nats, the tempering curve,
        verified rewards, similarity, audit; files included
paper   for each of 7 coalitions and 10 valuations per party for root-finding: 16 chains × 40,000 Gibbs steps thinned
        by 16 (our own Gibbs sampler), then the paper's nearest-neighbour estimate from 40,000 posterior and as many
        prior draws. A fraction of the steps is timed, for coalitions of one, two and three parties, and scaled.

Gibbs sampling needs JAX, which comes with `equipoise-paper`; its compiling is not timed.

    python benchmarks/settlement.py [--fraction 0.05]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import equipoise as eq
from equipoise.inference.batch import Asked
from equipoise.inference.diagnostics import Diagnostics
from equipoise.inference.infer import infer
from equipoise.inference.models.linear import ConjugateRegression
from equipoise.inference.released import released_sums
from equipoise.models.linear import LinearModel
from equipoise.party.release import release
from equipoise.valuation.surprise import surprise
from equipoise_paper.gibbs import GibbsSettings, sample_by_gibbs

Floats = NDArray[np.float64]

PAPER_EPSILONS = (0.2, 0.1, 0.2)
NAMES = ("one", "two", "three")
STEPS, CHAINS, THIN = 40_000, 16, 16
ROOT_VALUATIONS = 10  # for each party


def syn_rows(rng: np.random.Generator) -> tuple[list[Floats], list[Floats]]:
    """Features and targets of Syn (paper App. H.1): 100, 200 and 400 rows, features distributed by party."""
    variance = 0.1 / rng.gamma(5.0)
    weights = rng.normal(size=3) * np.sqrt(variance / 0.025)
    features = []
    for rows in (100, 200, 400):
        normal = rng.normal(size=(50, 2))
        covariance = np.linalg.inv(normal.T @ normal)  # W⁻¹(I, 50)
        mean = rng.multivariate_normal(np.zeros(2), covariance)
        features.append(rng.multivariate_normal(mean, covariance, size=rows))
    noises = [rng.normal(scale=np.sqrt(variance), size=len(x)) for x in features]
    return features, [x @ weights[:-1] + weights[-1] + noise for x, noise in zip(features, noises, strict=True)]


def syn_round(folder: Path, seed: int) -> tuple[eq.Agreement, list[eq.Submission]]:
    """Agreement and releases of Syn. Priors are the paper's, in units where every column spans ±1."""
    features, targets = syn_rows(np.random.default_rng(seed))
    bounds = np.max([np.abs(x).max(axis=0) for x in features], axis=0)
    bound = max(float(np.abs(y).max()) for y in targets)
    agreement = eq.Agreement.parse(
        f"""
format = 1
[model]
kind = "linear"
features = [
  {{ name = "x1", bounds = [{-bounds[0]}, {bounds[0]}] }},
  {{ name = "x2", bounds = [{-bounds[1]}, {bounds[1]}] }},
]
target = {{ name = "y", bounds = [{-bound}, {bound}] }}
[model.prior]
shape = 5.0
scale = {0.1 / bound**2}
weight_precision = [{0.025 / bounds[0] ** 2}, {0.025 / bounds[1] ** 2}, 0.025]
[model.data_prior]
scope = "per-party"
mean_strength = 1.0
degrees_of_freedom = 50.0
covariance = [[{1 / bounds[0] ** 2 / 47}, 0.0], [0.0, {1 / bounds[1] ** 2 / 47}]]
[privacy]
order = 2
max_epsilon = 1.0
"""
        + "".join(f'[[parties]]\nname = "{name}"\n' for name in NAMES)
    )
    sent = [
        release(
            agreement,
            {"x1": x[:, 0], "x2": x[:, 1], "y": y},
            party=name,
            epsilon=epsilon,
            ledger=folder / f"{name}.ledger",
        )
        for name, x, y, epsilon in zip(NAMES, features, targets, PAPER_EPSILONS, strict=True)
    ]
    return agreement, sent


def paper_seconds(agreement: eq.Agreement, sent: list[eq.Submission], fraction: float) -> tuple[float, float, float]:
    """Seconds of all valuations, of one by Gibbs sampling and of one nearest-neighbour estimate."""
    assert isinstance(agreement.model, LinearModel)
    model, sums = ConjugateRegression(agreement.model), released_sums(agreement, sent)

    def sample(size: int, draws: int) -> Diagnostics:
        # No further thinning: the protocol's steps and no more, whether or not chains agree by then.
        settings = GibbsSettings(draws, CHAINS, THIN, warm_up=0, max_thinning=1)
        member = (np.arange(len(NAMES)) < size).astype(float)
        asked = Asked(member, 1.0, np.zeros(len(NAMES)), None, draws, seed=0)
        return sample_by_gibbs(model, sums, asked, settings).diagnostics

    sample(1, 1)  # compiles
    by_size = []
    for size in (1, 2, 3):
        start = time.perf_counter()
        found = sample(size, round(fraction * STEPS / THIN) * CHAINS)
        by_size.append((time.perf_counter() - start) * STEPS * CHAINS / (found.draws * THIN))
    prior = infer(agreement, sent, method="prior", draws=STEPS // THIN * CHAINS, progress=False)
    start = time.perf_counter()
    surprise(agreement, prior, estimator="knn")
    neighbours = time.perf_counter() - start
    coalitions = 3 * by_size[0] + 3 * by_size[1] + by_size[2]
    roots = ROOT_VALUATIONS * len(NAMES) * by_size[2]
    valuations = 2 ** len(NAMES) - 1 + ROOT_VALUATIONS * len(NAMES)
    return coalitions + roots + valuations * neighbours, by_size[2], neighbours


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description="A settled round, ours against the paper's protocol.")
    parser.add_argument("--fraction", type=float, default=0.05, help="of the paper's Gibbs steps that is timed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        agreement, sent = syn_round(folder, options.seed)
        start = time.perf_counter()
        settlement = eq.mediate(agreement, sent, seed=options.seed, folder=folder / "out", progress=False)
        ours = time.perf_counter() - start
        theirs, one, neighbours = paper_seconds(agreement, sent, options.fraction)
    draws = sum(coalition.draws for coalition in settlement.coalitions)
    print(
        f"ours   {ours:8.1f} s   {draws:,} draws of coalitions, largest standard error {settlement.precision:.3f} nats"
    )
    print(f"paper  {theirs:8.1f} s   one posterior {one:.1f} s, one estimate {neighbours:.1f} s")
    print(f"ratio  {theirs / ours:8.1f}")
    print()
    print(f"{'party':8} {'alone':>16} {'Shapley':>16} {'target':>16} {'attained':>16} {'kappa':>8}")
    for party, award in settlement.awards.items():
        print(
            f"{party:8} {award.alone!s:>16} {settlement.shapley[party]!s:>16} {award.target!s:>16} "
            f"{award.attained!s:>16} {award.kappa:>8.4f}"
        )
    print()
    for finding in settlement.audit:
        print(f"{finding.code}  {finding.verdict}")


if __name__ == "__main__":
    main()
