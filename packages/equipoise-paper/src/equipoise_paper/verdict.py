"""Does a claim of the paper hold? Decided by a statistic that is stated."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from equipoise.estimate import SURE, UNSURE, Estimate

Word = Literal["holds", "does not hold", "cannot tell"]
NEGATED: dict[Word, Word] = {"holds": "does not hold", "does not hold": "holds", "cannot tell": "cannot tell"}

GENERALLY = 0.8  # of all pairs


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and why."""

    claim: str
    word: Word
    reason: str


def rises(claim: str, values: Sequence[Estimate]) -> Verdict:
    """Whether numbers rise from each to the next: no fall beyond chance, and a rise from first to last beyond it."""
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
    """Whether numbers fall from each to the next: no rise beyond chance, and a fall from first to last beyond it."""
    word = rises(claim, [Estimate(-one.value, one.error) for one in values]).word
    worst = max((after - before for before, after in itertools.pairwise(values)), key=lambda step: step.z_score)
    return Verdict(claim, word, f"from {values[0]} to {values[-1]}; the highest step is {_signed(worst)}")


def generally_falls(claim: str, values: Sequence[Estimate]) -> Verdict:
    """Whether numbers fall from first to last beyond chance, and between four of five pairs of places at least."""
    pairs = list(itertools.combinations(values, 2))
    falling = sum(after.value < before.value for before, after in pairs)
    whole = values[-1] - values[0]
    reason = f"from {values[0]} to {values[-1]}; of {len(pairs)} pairs, {falling} fall"
    if whole.z_score > SURE or falling < GENERALLY * len(pairs):
        return Verdict(claim, "does not hold", reason)
    return Verdict(claim, "holds" if whole.z_score < -SURE else "cannot tell", reason)


def below(claim: str, pairs: Sequence[tuple[Estimate, Estimate]]) -> Verdict:
    """Whether the first is below the second: nowhere above it beyond chance, and somewhere below it beyond chance."""
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
    """Whether numbers that should be equal differ by no more than chance."""
    gaps = [second - first for first, second in pairs]
    worst = max(gaps, key=lambda gap: abs(gap.z_score))
    reason = f"{len(gaps)} comparisons; the largest difference is {_signed(worst)}"
    if abs(worst.z_score) > SURE:
        return Verdict(claim, "does not hold", reason)
    return Verdict(claim, "holds" if abs(worst.z_score) < UNSURE + 1 else "cannot tell", reason)


def fact(claim: str, truth: bool, reason: str) -> Verdict:
    """Something counted, that no chance enters."""
    return Verdict(claim, "holds" if truth else "does not hold", reason)


def negated(claim: str, verdict: Verdict) -> Verdict:
    """That a claim does not hold, as a claim of its own."""
    return Verdict(claim, NEGATED[verdict.word], verdict.reason)


def mean_of_runs(runs: Sequence[Sequence[Estimate | float]]) -> list[Estimate]:
    """Means over runs at several places [places][runs], with standard errors.

    The error is the largest of three: what the runs of that place differ by, what the runs of all places differ by on
    the average (few runs may agree by luck), and what each run says of its own.
    """
    means, spreads, stated = [], [], []
    for values in runs:
        numbers = [one.value if isinstance(one, Estimate) else float(one) for one in values]
        mean = math.fsum(numbers) / len(numbers)
        means.append(mean)
        spreads.append(math.fsum((number - mean) ** 2 for number in numbers) / max(1, len(numbers) - 1))
        errors = [one.error**2 for one in values if isinstance(one, Estimate)]
        stated.append(math.fsum(errors) / len(errors) if errors else 0.0)
    usual = math.fsum(spreads) / len(spreads)
    return [
        Estimate(mean, math.sqrt(max(spread, usual, own) / len(values)))
        for mean, spread, own, values in zip(means, spreads, stated, runs, strict=True)
    ]


def _signed(gap: Estimate) -> str:
    return f"{gap} ({gap.z_score:+.1f} standard errors)" if gap.error else f"{gap.value:+.4g}"
