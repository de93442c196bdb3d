"""An auditor who runs releases end to end on two neighbouring tables and tries to prove that privacy is broken.

The auditor knows the agreement and both tables, trusts no code of the releaser, and has four ways to object:

- **noise scale**: the residuals against the exact statistic, in units of the σ that (λ, ε) promises, are not χ²;
- **privacy loss**: some test tells the tables apart better than the promised μ = √(2ρ) allows. The likelihood ratio
  in the known direction, and one in a direction learnt from half of the outputs, are thresholded; error rates with
  Clopper–Pearson limits give a lower bound on μ that holds with confidence 1 − 10⁻⁷;
- **row count**: the count, sent in the clear, is not the table's, so it tells something about the rows;
- **repeats**: noise occurs twice, across releases or within one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from builders import reference_statistic
from equipoise.agreement import Agreement
from equipoise.models import layout_of
from equipoise.protocol.submission import Submission

Floats = npt.NDArray[np.float64]
Releaser = Callable[[Path, Path], Submission]
SIGNIFICANCE = 1e-7


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one row, chosen to move the statistic as far as the agreement allows."""

    agreed: Agreement
    table: dict[str, list[Any]]
    neighbour: dict[str, list[Any]]
    sensitivity: float  # in units of an entry of weight one, written down independently of the code


def audit(pair: Pair, epsilon: float, releaser: Releaser, times: int, folder: Path) -> set[str]:
    """Names of the objections that stand after so many releases of each table."""
    outputs, exact, counts = [], [], set()
    for side, table in enumerate((pair.table, pair.neighbour)):
        released, seen = _run(table, releaser, times, folder / str(side), pair.agreed)
        outputs.append(released)
        counts |= seen
        exact.append(exact_of(pair.agreed, table))
    found = objections(pair, epsilon, outputs, exact)
    if counts != {len(next(iter(pair.table.values())))}:
        found.add("row count")
    return found


def objections(pair: Pair, epsilon: float, outputs: list[Floats], exact: list[Floats]) -> set[str]:
    """What outputs [releases, entries] of the two tables, whose exact statistics are known, give away."""
    sigma = promised_sigma(pair, epsilon)
    residuals = np.concatenate([(o - s) / sigma for o, s in zip(outputs, exact, strict=True)])
    found = set()
    if _p_value_of_scale(residuals) < SIGNIFICANCE:
        found.add("noise scale")
    known = (exact[1] - exact[0]) / sigma
    if _mu_lower_bound([o / sigma for o in outputs], known) > math.sqrt(2 * epsilon / pair.agreed.privacy.order):
        found.add("privacy loss")
    if _repeats(residuals):
        found.add("repeats")
    return found


def promised_sigma(pair: Pair, epsilon: float) -> Floats:
    """Noise of every entry under the guarantee."""
    weights = np.array([entry.weight for entry in layout_of(pair.agreed).entries], dtype=float)
    return pair.sensitivity * math.sqrt(pair.agreed.privacy.order / (2 * epsilon)) * weights.min() / weights


def exact_of(agreed: Agreement, table: dict[str, list[Any]]) -> Floats:
    """The statistic without noise, by the slow reference."""
    return np.array([float(value) for value in reference_statistic(agreed, table)])


def _run(
    table: dict[str, list[Any]], releaser: Releaser, times: int, folder: Path, agreed: Agreement
) -> tuple[Floats, set[int]]:
    folder.mkdir(parents=True)
    source = folder / "table.csv"
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    source.write_text("\n".join(lines) + "\n")
    submissions = [releaser(source, folder / f"{k}.ledger") for k in range(times)]
    return np.array([submission.values(agreed) for submission in submissions]), {s.count for s in submissions}


def _p_value_of_scale(residuals: Floats) -> float:
    """Two-sided χ² test of each entry and of all entries together; the worst, corrected for their number."""
    groups = [residuals, *residuals.T]
    tails = []
    for group in groups:
        total = float(np.sum(group**2))
        tails.append(2 * min(stats.chi2.cdf(total, group.size), stats.chi2.sf(total, group.size)))
    return float(min(tails)) * len(groups)


def _mu_lower_bound(standard: list[Floats], known: Floats) -> float:
    half = len(standard[0]) // 2
    learnt = standard[1][:half].mean(axis=0) - standard[0][:half].mean(axis=0)
    held_out = [side[half:] for side in standard]
    return max(_mu_in_direction(standard, known), _mu_in_direction(held_out, learnt))


def _mu_in_direction(standard: list[Floats], direction: Floats) -> float:
    """Lower confidence bound on μ: a test with power β at level α shows μ ≥ Φ⁻¹(β) − Φ⁻¹(α)."""
    scores = [side @ direction for side in standard]
    threshold = (np.median(scores[0]) + np.median(scores[1])) / 2
    hits = [int(np.sum(side > threshold)) for side in scores]
    n = len(scores[0])
    power = stats.beta.ppf(SIGNIFICANCE, hits[1], n - hits[1] + 1) if hits[1] else 0.0
    level = stats.beta.ppf(1 - SIGNIFICANCE, hits[0] + 1, n - hits[0]) if hits[0] < n else 1.0
    return float(stats.norm.ppf(power) - stats.norm.ppf(level))


def _repeats(residuals: Floats) -> bool:
    """A grid step is about 1e-11 standard deviations: closer than 1e-12 means equal, which is rarely chance."""
    cells = np.sort(residuals.ravel())
    return bool(np.sum(np.diff(cells) < 1e-12) > 2)
