"""The paper's three tables, by the paper's estimator and by ours, beside the numbers that the paper prints."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.inference.infer import infer_exact
from equipoise.inference.scenario import Scenario
from equipoise.mediation.seeds import derived_seed
from equipoise.models import layout_of
from equipoise.valuation.divergence import divergence, two_sample_terms
from equipoise.valuation.surprise import surprise
from equipoise_paper import gibbs
from equipoise_paper.effort import Effort, Tick
from equipoise_paper.gibbs import GibbsSettings
from equipoise_paper.outcome import Outcome
from equipoise_paper.posteriors import Asked, Drawn, find
from equipoise_paper.releases import plain_submissions, statistics_of
from equipoise_paper.settings import EPSILONS, NOISE_SEED, PARTIES, Setting
from equipoise_paper.verdict import Verdict, alike, fact, falls, mean_of_runs, rises

PERCENTILES = (25, 50, 75, 100)
COVERAGE_EPSILON = 1.0
# Surprise of exact and of perturbed statistics.
PAPER_COVERAGE: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Syn": ((12.030, 12.698, 13.322, 14.183), (6.007, 6.775, 7.410, 8.438)),
    "CaliH": ((21.261, 22.401, 26.578, 28.422), (9.282, 10.212, 12.121, 17.959)),
    "Diab": ((5.450, 6.279, 7.019, 7.258), (1.854, 2.712, 3.909, 5.394)),
}
PAPER_THINNING = {
    1: Estimate(14.849, 0.036),
    2: Estimate(12.839, 0.033),
    4: Estimate(11.626, 0.018),
    8: Estimate(11.038, 0.022),
    16: Estimate(10.834, 0.033),
    20: Estimate(10.790, 0.032),
    30: Estimate(10.793, 0.011),
}
PAPER_SAMPLES = {
    ("first", 1_000): Estimate(2.227, 0.051),
    ("thinned", 1_000): Estimate(2.211, 0.034),
    ("first", 2_000): Estimate(2.117, 0.049),
    ("thinned", 2_000): Estimate(2.117, 0.045),
    ("first", 5_000): Estimate(2.145, 0.037),
    ("thinned", 5_000): Estimate(2.119, 0.038),
    ("all", 10_000): Estimate(2.128, 0.030),
}
MAX_SAMPLES = 10_000
# Importance sampling repeats draws, so only every fourth draw is kept.
FEW_REPEATS = 4
# Sweeps.
BURN_IN = 10_000


def both(drawn: Drawn) -> tuple[float, Estimate]:
    """Estimate the surprise by the paper's estimator, with one sample of the prior as in the paper, and by ours."""
    points = drawn.coordinates.reshape(-1, drawn.coordinates.shape[2])
    return _theirs(points), drawn.value


def _theirs(points: Floats) -> float:
    # Each set of draws gets its own sample of the prior, and equal draws get the same sample.
    prior = np.random.default_rng(zlib.crc32(points.tobytes())).normal(size=points.shape)
    return float(np.mean(two_sample_terms(points, prior)))


def coverage(name: str, settings: Sequence[Setting], effort: Effort, *, tick: Tick = lambda _what: None) -> Outcome:
    """Check that covering more of the input space is worth more, by exact statistics and perturbed ones with ε = 1."""
    rows: list[dict[str, Any]] = []
    verdicts: list[Verdict] = []
    for setting in settings:
        first = np.concatenate([features[:, 0] for features, _ in setting.tables.values()])
        covered = []
        for percentile in PERCENTILES:
            tick(f"{setting.name}: rows up to the {percentile}th percentile of the first feature")
            kept = setting.up_to(float(np.percentile(first, percentile)))
            covered.append(_covered(kept, effort))
        exact = [part.exact for part in covered]
        ours, theirs = mean_of_runs([part.ours for part in covered]), mean_of_runs([part.theirs for part in covered])
        paper = PAPER_COVERAGE[setting.name]
        for index, percentile in enumerate(PERCENTILES):
            rows.append(
                {
                    "setting": setting.name,
                    "percentile": percentile,
                    "rows": covered[index].rows,
                    "exact": exact[index].value,
                    "exact_error": exact[index].error,
                    "exact_paper_estimator": covered[index].exact_theirs,
                    "paper_exact": paper[0][index],
                    "perturbed": ours[index].value,
                    "perturbed_error": ours[index].error,
                    "perturbed_paper_estimator": theirs[index].value,
                    "perturbed_paper_estimator_error": theirs[index].error,
                    "paper_perturbed": paper[1][index],
                }
            )
        verdicts += [
            rises(f"{setting.name}: the surprise of the exact statistics grows with coverage", exact),
            rises(f"{setting.name}: the surprise of the perturbed statistics grows with coverage", ours),
        ]
    return Outcome(name, rows, [], verdicts)


@dataclass(frozen=True)
class Covered:
    """The surprise of exact statistics, and of perturbed ones in every run, by our estimator and the paper's."""

    rows: int
    exact: Estimate
    exact_theirs: float
    ours: list[Estimate]
    theirs: list[float]


def _covered(setting: Setting, effort: Effort) -> Covered:
    agreement, sent = plain_submissions(setting, dict.fromkeys(PARTIES, COVERAGE_EPSILON), NOISE_SEED)
    steps = layout_of(agreement).steps_per_unit
    statistics = {
        party: (statistic.count, [value / step for value, step in zip(statistic.values, steps, strict=True)])
        for party, statistic in statistics_of(setting).items()
    }
    exact = infer_exact(agreement, statistics, draws=20_000, progress=False)
    asked = [Asked(Scenario(), derived_seed(0, "coverage", run)) for run in range(effort.runs)]
    pairs = find(agreement, sent, asked, effort.sampling(setting), both)
    known = [surprise(agreement, exact, estimator=name, force=True) for name in ("knn-entropy", "knn")]
    count = sum(submission.count for submission in sent)
    return Covered(count, known[0], known[1].value, [pair[1] for pair in pairs], [pair[0] for pair in pairs])


class Thinned:
    """A function that estimates the surprise from equally many draws of long chains, thinned by each factor."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __call__(self, drawn: Drawn) -> dict[int, tuple[float, float]]:
        kept = self.samples // len(drawn.coordinates)
        estimates = {}
        for factor in PAPER_THINNING:
            thinned = drawn.coordinates[:, ::factor][:, :kept]
            points = thinned.reshape(-1, thinned.shape[2])
            estimates[factor] = _theirs(points), divergence(thinned).value
        return estimates


def thinning(name: str, setting: Setting, effort: Effort, samples: int, *, tick: Tick = lambda _what: None) -> Outcome:
    """Thin Gibbs draws of all parties' posterior by factors t: successive draws look like a narrow posterior."""
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    settings = GibbsSettings(
        draws=samples * max(PAPER_THINNING), chains=16, sweeps=1, warm_up=BURN_IN // gibbs.ROUND, max_thinning=1
    )
    tick(f"{setting.name}: Gibbs sampling, {settings.draws // settings.chains:,} sweeps of {settings.chains} chains")
    asked = [Asked(Scenario(), derived_seed(0, "thinning", run)) for run in range(effort.runs)]
    runs = find(agreement, sent, asked, settings, Thinned(samples))
    theirs, ours = (
        mean_of_runs([[run[factor][index] for run in runs] for factor in PAPER_THINNING]) for index in (0, 1)
    )
    rows = [
        {
            "thin": factor,
            "samples": samples,
            "paper": PAPER_THINNING[factor].value,
            "paper_deviation": PAPER_THINNING[factor].error,
            "paper_estimator": theirs[index].value,
            "paper_estimator_error": theirs[index].error,
            "our_estimator": ours[index].value,
            "our_estimator_error": ours[index].error,
        }
        for index, factor in enumerate(PAPER_THINNING)
    ]
    first, last = (abs((theirs[index] - theirs[index + 1]).value) for index in (0, len(theirs) - 2))
    verdicts = [
        falls("the surprise falls as more is thinned, from equally many draws", theirs),
        fact(
            "it falls ever less",
            last < first / 4,
            f"from thinning by 1 to 2 it falls by {first:.3f}, from 20 to 30 by {last:.3f}",
        ),
    ]
    return Outcome(name, rows, [], verdicts)


def samples(name: str, setting: Setting, effort: Effort, *, tick: Tick = lambda _what: None) -> Outcome:
    """Compare subsets of 10,000 draws of all parties' posterior: the first m, or every 10,000/m-th."""
    agreement, sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
    tick(f"{setting.name}: {MAX_SAMPLES:,} draws, {effort.runs} times")
    asked = [Asked(Scenario(), derived_seed(0, "samples", run)) for run in range(effort.runs)]
    runs = find(agreement, sent, asked, FEW_REPEATS * MAX_SAMPLES, _subsets)
    theirs, ours = (mean_of_runs([[run[key][index] for run in runs] for key in PAPER_SAMPLES]) for index in (0, 1))
    rows: list[dict[str, Any]] = []
    for index, (how, number) in enumerate(PAPER_SAMPLES):
        numbers = [run[how, number][0] for run in runs]
        rows.append(
            {
                "how": how,
                "samples": number,
                "paper": PAPER_SAMPLES[how, number].value,
                "paper_deviation": PAPER_SAMPLES[how, number].error,
                "paper_estimator": theirs[index].value,
                "paper_estimator_error": theirs[index].error,
                "paper_estimator_deviation": float(np.std(numbers, ddof=1)),
                "our_estimator": ours[index].value,
                "our_estimator_error": ours[index].error,
            }
        )
    by_key = dict(zip(PAPER_SAMPLES, theirs, strict=True))
    pairs = [(by_key["first", number], by_key["thinned", number]) for number in (1_000, 2_000, 5_000)]
    few = float(np.mean([row["paper_estimator_deviation"] for row in rows[:2]]))
    many = float(rows[-1]["paper_estimator_deviation"])
    verdicts = [
        alike("it makes no difference whether the first or thinned draws are used", pairs),
        fact(
            "the standard deviation falls with the number of draws",
            many < few,
            f"{few:.3f} with 1,000 draws, {many:.3f} with {MAX_SAMPLES:,}",
        ),
    ]
    return Outcome(name, rows, [], verdicts)


def _subsets(drawn: Drawn) -> dict[tuple[str, int], tuple[float, float]]:
    # Take draws of all chains in turn, as if a single chain had made them.
    draws = np.swapaxes(drawn.coordinates[:, ::FEW_REPEATS], 0, 1).reshape(-1, drawn.coordinates.shape[2])[:MAX_SAMPLES]
    estimates = {}
    for how, number in PAPER_SAMPLES:
        chosen = draws[:number] if how == "first" else draws[:: MAX_SAMPLES // number]
        estimates[how, number] = _theirs(chosen), divergence(chosen[None]).value
    return estimates
