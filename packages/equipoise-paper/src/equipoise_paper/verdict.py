"""Verdicts on the paper's claims, each decided by a statistic that the reason states."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from equipoise.estimate import SURE, UNSURE, Estimate

Word = Literal["holds", "does not hold", "cannot tell"]
NEGATED: dict[Word, Word] = {"holds": "does not hold", "does not hold": "holds", "cannot tell": "cannot tell"}

# A claim that numbers generally fall needs this share of all pairs.
GENERALLY = 0.8


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with its reason."""

    claim: str
    word: Word
    reason: str


def rises(claim: str, values: Sequence[Estimate]) -> Verdict:
    """Decide if numbers rise at every step: no step falls beyond chance, and the last is beyond chance above the first.

    Chance is measured in standard errors, `SURE` and `UNSURE`.
    """
    steps = [after - before for before, after in itertools.pairwise(values)]
    worst = min(steps, key=lambda step: step.z_score)
    whole = values[-1] - values[0]
    reason = f"from {values[0]} to {values[-1]}; the least step is {_signed(worst)}"
    if worst.z_score < -SURE:
        return Verdict(claim, "does not hold", reason)
    if whole.z_score > SURE and worst.z_score > -UNSURE:
        return Verdict(claim, "holds", reason)
    return Verdict(claim, "cannot tell", reason)


def falls(claim: str, values: Sequence[Estimate]) -> Verdict:
    """Decide if numbers fall at every step: no step rises beyond chance, and the last is beyond chance below the first.

    This is `rises` with the signs reversed.
    """
    word = rises(claim, [Estimate(-value.value, value.error) for value in values]).word
    worst = max((after - before for before, after in itertools.pairwise(values)), key=lambda step: step.z_score)
    return Verdict(claim, word, f"from {values[0]} to {values[-1]}; the highest step is {_signed(worst)}")


def generally_falls(claim: str, values: Sequence[Estimate]) -> Verdict:
    """Decide if numbers fall from first to last beyond chance, and within at least four fifths of all pairs."""
    pairs = list(itertools.combinations(values, 2))
    falling = sum(after.value < before.value for before, after in pairs)
    whole = values[-1] - values[0]
    reason = f"from {values[0]} to {values[-1]}; of {len(pairs)} pairs, {falling} fall"
    if whole.z_score > SURE or falling < GENERALLY * len(pairs):
        return Verdict(claim, "does not hold", reason)
    return Verdict(claim, "holds" if whole.z_score < -SURE else "cannot tell", reason)


def below(claim: str, pairs: Sequence[tuple[Estimate, Estimate]]) -> Verdict:
    """Decide if the first of each pair is below the second: beyond chance in some pair, and above it in no pair."""
    gaps = [second - first for first, second in pairs]
    worst = min(gaps, key=lambda gap: gap.z_score)
    best = max(gaps, key=lambda gap: gap.z_score)
    reason = f"{len(gaps)} comparisons; the gap is between {_signed(worst)} and {_signed(best)}"
    if len(gaps) == 1:
        reason = f"{pairs[0][0]} against {pairs[0][1]}; the gap is {_signed(worst)}"
    if worst.z_score < -SURE:
        return Verdict(claim, "does not hold", reason)
    if worst.z_score > -UNSURE and best.z_score > SURE:
        return Verdict(claim, "holds", reason)
    return Verdict(claim, "cannot tell", reason)


def alike(claim: str, pairs: Sequence[tuple[Estimate, Estimate]]) -> Verdict:
    """Decide if the numbers of each pair, which should be equal, differ by no more than chance."""
    gaps = [second - first for first, second in pairs]
    worst = max(gaps, key=lambda gap: abs(gap.z_score))
    reason = f"{len(gaps)} comparisons; the largest difference is {_signed(worst)}"
    if abs(worst.z_score) > SURE:
        return Verdict(claim, "does not hold", reason)
    return Verdict(claim, "holds" if abs(worst.z_score) < UNSURE + 1 else "cannot tell", reason)


def fact(claim: str, truth: bool, reason: str) -> Verdict:
    """Decide a claim on numbers that are counted or compared without regard to chance."""
    return Verdict(claim, "holds" if truth else "does not hold", reason)


def negated(claim: str, verdict: Verdict) -> Verdict:
    """Decide the claim that another claim does not hold."""
    return Verdict(claim, NEGATED[verdict.word], verdict.reason)


def mean_of_runs(runs: Sequence[Sequence[Estimate | float]]) -> list[Estimate]:
    """Average each of several lists of runs [points][runs], with standard errors.

    The error of a point is derived from the largest of three variances: that between its runs, the average of those
    between the runs of all points (few runs may agree by luck), and the average that its runs state themselves.
    """
    means, spreads, stated = [], [], []
    for values in runs:
        numbers = [value.value if isinstance(value, Estimate) else float(value) for value in values]
        mean = math.fsum(numbers) / len(numbers)
        means.append(mean)
        spreads.append(math.fsum((number - mean) ** 2 for number in numbers) / max(1, len(numbers) - 1))
        errors = [value.error**2 for value in values if isinstance(value, Estimate)]
        stated.append(math.fsum(errors) / len(errors) if errors else 0.0)
    usual = math.fsum(spreads) / len(spreads)
    return [
        Estimate(mean, math.sqrt(max(spread, usual, own) / len(values)))
        for mean, spread, own, values in zip(means, spreads, stated, runs, strict=True)
    ]


def _signed(gap: Estimate) -> str:
    return f"{gap} ({gap.z_score:+.1f} standard errors)" if gap.error else f"{gap.value:+.4g}"
