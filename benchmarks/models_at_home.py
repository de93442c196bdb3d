"""Models at home from own rows and the sum of the others' releases: against exact inference, and others who differ.

    python benchmarks/models_at_home.py --kinds linear --sets numbers --own 300 --others 1000 1000 --rounds 100

Truths come from the prior, rows from the generator of `moments_calibration.py`. The others release at ε, and a degraded
reward adds noise of `--tau` times theirs. "Exact" takes every release by itself, and knows that all rows follow one
law; "taken as alike" has their sum, and knows it too; "at home" is what `eq.combine` makes. Scores are log densities of
the true coordinates, by the normal distribution of the draws; gains are held-out nats a row over own rows. The others
follow

    same     the law of the own rows
    shifted  it, but for one of two, one of whose weights is off by its prior standard deviation
    made-up  it, but for one of two, whose targets are random
"""

import argparse
import itertools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from equipoise._util.cores import one_core_each, usable_cores
from equipoise.client.home.model import CLEARLY_DIFFERENT
from equipoise.inference.pooling import Releases, add_up, weights_by_noise
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import build_problem
from equipoise.models.base import Draws, Rows
from equipoise.reward.evidence import Evidence, Normal
from equipoise.reward.others import ExactEvidence, deviation_at
from equipoise.reward.slice_sampling import sample
from equipoise.reward.sums import OthersSums
from moments_calibration import SETS, agree, draw_rows

Floats = NDArray[np.float64]

DRAWS, HELD_OUT, SKEWNESS = 2_000, 4_000, 0.3
LAWS = ("same", "shifted", "made-up")
OWN, EXACT, ALIKE, HOME = "own rows", "exact", "taken as alike", "at home"
NOT_AT_ALL = -40.0  # coordinate of a deviation, where the others do not differ


class Setting(NamedTuple):
    """Rows and releases to draw."""

    kind: str
    columns: str
    own: int
    others: tuple[int, ...]
    epsilon: float
    tau: float
    law: str


class Outcome(NamedTuple):
    """Scores, held-out losses, share of weights in 90 % intervals, of each model, and how far the others differ."""

    scores: dict[str, float]
    losses: dict[str, float]
    covered: dict[str, float]
    heterogeneity: float
    converged: bool


def play(setting: Setting, seed: int) -> Outcome:
    """Draw a truth, rows and releases, and fit all models."""
    columns = SETS[setting.columns]
    agreed = agree(setting.kind, columns)
    model = RegressionModel.of(agreed.model)  # type: ignore[arg-type]
    rng = np.random.default_rng([seed, setting.own, *setting.others])
    is_linear = setting.kind == "linear"

    def rows_of(coordinates: Floats, number: int) -> tuple[Floats, Floats]:
        truth, features = model.parameters(coordinates[None]), draw_rows(columns, number, SKEWNESS, rng)
        eta = features @ truth.weights[0]
        if is_linear:
            return features, eta + np.sqrt(truth.variance[0]) * rng.normal(size=number)
        return features, np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)

    while True:
        truth = rng.normal(size=model.dimension)
        theirs = truth + np.eye(model.dimension)[rng.integers(model.dimension)] * (setting.law == "shifted")
        own, new = rows_of(truth, setting.own), rows_of(truth, HELD_OUT)
        groups = [rows_of(truth if place else theirs, number) for place, number in enumerate(setting.others)]
        if not is_linear or np.mean(np.abs(np.concatenate([own[1], *(y for _, y in groups)])) < 1) >= 0.99:
            break
    if setting.law == "made-up":
        features, target = groups[0]
        groups[0] = features, rng.uniform(-1, 1, len(target)) if is_linear else rng.choice([-1.0, 1.0], len(target))
    moments = model.moments
    i, j = moments.pairs.T
    deviations = moments.ordered(agreed.layout.noise_deviations(agreed.guarantee(epsilon=setting.epsilon)))
    whole = [np.column_stack([features, np.clip(target, -1, 1)]) for features, target in groups]
    noise = np.sqrt(1 + setting.tau) * deviations * rng.normal(size=(len(groups), len(deviations)))
    rows, scale = np.array(setting.others, float), np.full(len(groups), 1 + setting.tau)
    releases = Releases(np.stack([(one.T @ one)[i, j] for one in whole]) + noise, rows, scale, deviations**2)
    added = add_up(releases, weights_by_noise(rows, np.tile(deviations**2, (len(rows), 1))))
    back = np.argsort(moments.order)
    evidence = ExactEvidence(
        model.agreed,
        OthersSums.of(added._replace(statistic=added.statistic[:, back], shape=added.shape[back])),
    )
    problem, mode = build_problem(model, releases)
    likelihood = agreed.model.likelihood_of(Rows(own[0], np.clip(own[1], -1, 1), 1.0, agreed.model))

    def fit(density, parts: tuple[Normal, ...]) -> tuple[Floats, bool]:  # type: ignore[no-untyped-def]
        def log_density(points: Floats) -> Floats:
            own_points = points[:, : model.dimension]
            return np.asarray(density(points) + likelihood(agreed.model.at_coordinates(own_points)))

        found, diagnostics = sample(log_density, parts, DRAWS, seed)
        return found.reshape(-1, found.shape[2]), diagnostics.converged

    nobody = Evidence.none(model.dimension)
    prior = Normal.prior(model.dimension)
    alike = np.full((1, evidence.dimension - model.dimension), NOT_AT_ALL)
    fits = {
        OWN: fit(nobody.log_density, nobody.parts),
        EXACT: fit(problem.log_posterior, (Normal.of(mode.centre, mode.root @ mode.root.T), prior)),
        ALIKE: fit(
            lambda points: evidence.log_density(np.column_stack([points, np.repeat(alike, len(points), axis=0)])),
            (Normal.of(mode.centre, mode.root @ mode.root.T), prior),
        ),
        HOME: fit(evidence.log_density, evidence.parts),
    }
    scores, losses, covered = {}, {}, {}
    for name, (points, _) in fits.items():
        coordinates = points[:, : model.dimension]
        scores[name] = float(stats.multivariate_normal(coordinates.mean(axis=0), np.cov(coordinates.T)).logpdf(truth))
        draws = agreed.model.at_coordinates(coordinates)
        losses[name] = _loss(draws, *new)
        ranks = np.mean(draws["weights"] < model.parameters(truth[None]).weights[0], axis=0)
        covered[name] = float(np.mean((ranks > 0.05) & (ranks < 0.95)))
    heterogeneity = float(np.quantile(deviation_at(fits[HOME][0][:, -1]), 0.05))
    return Outcome(scores, losses, covered, heterogeneity, all(converged for _, converged in fits.values()))


def _loss(draws: Draws, features: Floats, target: Floats) -> float:
    """Mean negative log probability of rows."""
    eta = features @ draws["weights"].T
    if "variance" not in draws:
        return float(-np.log(np.mean(1 / (1 + np.exp(-target[:, None] * eta)), axis=1)).mean())
    variance = draws["variance"]
    density = np.exp(-0.5 * (target[:, None] - eta) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
    return float(-np.log(density.mean(axis=1)).mean())


def summarise(setting: Setting, outcomes: list[Outcome]) -> str:
    """Write a row of the table."""
    score = {name: np.array([one.scores[name] - one.scores[EXACT] for one in outcomes]) for name in (ALIKE, HOME)}
    gain = {name: np.array([one.losses[OWN] - one.losses[name] for one in outcomes]) for name in (EXACT, ALIKE, HOME)}
    covered = " / ".join(f"{np.mean([one.covered[name] for one in outcomes]):.2f}" for name in (EXACT, ALIKE, HOME))
    scores = " / ".join(f"{each.mean():.2f} ± {each.std() / np.sqrt(len(each)):.2f}" for each in score.values())
    gains = " / ".join(f"{each.mean():.4f} ± {each.std() / np.sqrt(len(each)):.4f}" for each in gain.values())
    told = np.mean([one.heterogeneity > CLEARLY_DIFFERENT for one in outcomes])
    others = " + ".join(f"{number:,}" for number in setting.others)
    return (
        f"| {setting.kind} | {setting.columns} | {setting.own:,} and {others} | {setting.epsilon:g} | {setting.tau:g} "
        f"| {setting.law} | {len(outcomes)} | {scores} | {score[ALIKE].min():.2f} | {covered} | {gains} "
        f"| {gain[HOME].min():.4f} | {told:.2f} | {np.mean([one.converged for one in outcomes]):.2f} |"
    )


def _play_on_one_core(setting: Setting, seed: int) -> Outcome:
    with one_core_each():
        return play(setting, seed)


def main() -> None:
    """Print a row of a table for every setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=["linear", "logistic"], default=["linear", "logistic"])
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=["numbers"])
    parser.add_argument("--own", type=int, nargs="+", default=[300])
    parser.add_argument("--others", type=int, nargs="+", default=[1_000, 1_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--tau", type=float, nargs="+", default=[0.0])
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=usable_cores())
    asked = parser.parse_args()
    print(
        "| model | columns | own rows and others' | ε | τ | others | rounds | score − exact, taken as alike / at home "
        "| worst of the first | covered, exact / taken as alike / at home | gain over own rows, exact / taken as "
        "alike / at home | worst of the last | said to differ | converged |"
    )
    print(f"|{14 * '---|'}")
    with ProcessPoolExecutor(asked.processes) as pool:
        for kind, columns, own, epsilon, tau, law in itertools.product(
            asked.kinds, asked.sets, asked.own, asked.epsilon, asked.tau, asked.laws
        ):
            setting = Setting(kind, columns, own, tuple(asked.others), epsilon, tau, law)
            found = list(pool.map(partial(_play_on_one_core, setting), range(asked.rounds)))
            print(summarise(setting, found), flush=True)


if __name__ == "__main__":
    main()
