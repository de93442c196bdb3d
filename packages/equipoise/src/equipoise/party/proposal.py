"""Bounds proposed from noisy counts, with what the noise leaves open. Nothing here sees a row.

**Bins that are not empty.** Sums over 1, 2, 4 and 8 neighbouring bins are compared with the threshold that noise alone
exceeds, in any of all these sums, once in a hundred times. Wider sums detect tails that are thin in every single bin. A
sum counts only if it contains no smaller such sum, so that a wide sum does not stretch the range beyond what it
detected.

**Widening.** Bounds reach from the first such bin to the last and one bin further on each side. As long as more than 5
% of the rows may lie outside, they are widened by another bin, up to a doubling.

**What may lie outside.** The number of rows is public, so rows that are not counted inside lie outside or are missing:
their share is about max(0, 1 − S/n), with S the noisy count inside. S is a sum over m bins, with noise of σ√m, so the
share exceeds this by more than 1.645 σ√m/n only once in twenty times. `tests/party/test_proposal.py` measures how often
that holds for bounds that were chosen by the same noise. Above 10 % too little was spent to tell: nothing is filled in.

**Typical range.** It leaves out 2.5 % of the detected rows at each end, less what the noise may add there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.text import first_repeat
from equipoise.errors import TableError
from equipoise.party.bounds import BINS, EDGES, POSITIVE, BoundsRelease

_WIDTHS = (1, 2, 4, 8)  # widths of sums, in bins
_ODDS = 0.01  # probability that noise alone makes any sum of a column look full
_THRESHOLD = math.sqrt(2 * math.log(sum(BINS - width + 1 for width in _WIDTHS) / _ODDS))
_DEVIATIONS = 1.645  # one-sided 95 % quantile of the noise, in standard deviations
_DOUBLING = 4  # bins
_TAIL = 0.025  # share outside a typical range, on each side
FEW = 0.05  # bounds are widened while a larger share of the rows may lie outside
TOO_MANY = 0.1  # if a larger share of the rows may lie outside, the noise hides too much


@dataclass(frozen=True)
class Proposal:
    """Proposed bounds and typical range of a column; None if noise hides them.

    `outside` is the least and the largest share of the rows that may lie outside or be missing, `noise` the standard
    deviation of each count, in rows. `times_zcdp` is about how many times as much would have to be spent to tell.
    """

    bounds: tuple[float, float] | None
    typical: tuple[float, float] | None
    outside: tuple[float, float]
    noise: float
    times_zcdp: float

    @property
    def is_told(self) -> bool:
        """True if the noise leaves enough to rely on the bounds."""
        return self.bounds is not None and self.outside[1] <= TOO_MANY


def proposed(releases: Sequence[BoundsRelease]) -> dict[str, Proposal]:
    """Propose bounds of every column that some party released, from all parties' counts together."""
    if repeated := first_repeat([release.party for release in releases]):
        raise TableError(f"two of the files are of {repeated!r}; give one of each party")
    names = dict.fromkeys(name for release in releases for name in release.counts)
    proposals = {}
    for name in names:
        having = [release for release in releases if name in release.counts]
        counts = np.sum([release.counts[name] for release in having], axis=0)
        deviation = math.sqrt(sum(release.deviation**2 for release in having))
        proposals[name] = propose(counts, deviation, sum(release.count for release in having))
    return proposals


def propose(counts: Floats, deviation: float, rows: int) -> Proposal:
    """Propose bounds from the counts of `rows` rows, with noise of this standard deviation."""
    full = _surely_not_empty(counts, deviation)
    if not full.any():
        # Most columns fill about sixteen bins, each of which is seen if its rows exceed the threshold.
        return Proposal(None, None, (0.0, 1.0), deviation, max(2.0, (_THRESHOLD * deviation * 16 / rows) ** 2))
    first, last = int(np.flatnonzero(full)[0]), int(np.flatnonzero(full)[-1])
    for further in range(1, _DOUBLING + 1):
        low, high = max(first - further, 0), min(last + further, BINS - 1)
        outside = max(0.0, 1 - float(np.sum(counts[low : high + 1])) / rows)
        error = _DEVIATIONS * deviation * math.sqrt(high - low + 1) / rows
        if outside + error <= FEW:
            break
    bounds = _rounded(_edge(low - 1), down=True), _rounded(_edge(high), down=False)
    share = max(0.0, outside - error), min(1.0, outside + error)
    typical = None
    if share[1] <= TOO_MANY:
        ends = _typical(np.where(full, counts, 0.0), deviation * math.sqrt(np.count_nonzero(full)))
        within = max(ends[0], bounds[0]), min(ends[1], bounds[1])
        typical = within if within[0] < within[1] else None
    # Twice as much as would bring the error down to `FEW`, because less noise also finds longer tails.
    return Proposal(bounds, typical, share, deviation, 2 * (error / FEW) ** 2)


def _surely_not_empty(counts: Floats, deviation: float) -> NDArray[np.bool_]:
    """Return a mask of the bins in a sum that is larger than noise alone makes any."""
    before = np.concatenate([[0.0], np.cumsum(counts)])
    full = np.zeros(BINS, bool)
    for width in _WIDTHS:
        sums = before[width:] - before[:-width]
        starts = np.flatnonzero(sums > _THRESHOLD * deviation * math.sqrt(width))
        fresh = [start for start in starts if not full[start : start + width].any()]
        for start in fresh:
            full[start : start + width] = True
    return full


def _typical(counts: Floats, deviation: float) -> tuple[float, float]:
    """Return the range of all detected rows but the tails; tails are smaller by what noise may add to them."""
    total = float(counts.sum())
    tail = max(0.0, _TAIL - _DEVIATIONS * deviation / total)
    present = np.flatnonzero(counts)
    share = np.cumsum(counts) / total
    low = int(np.searchsorted(share, tail, side="right")) if tail else int(present[0])
    high = int(np.searchsorted(share, 1 - tail)) if tail else int(present[-1])
    return _edge(low - 1), _edge(high)


def _edge(index: int) -> float:
    """Return an edge, the outermost for anything beyond. Between the two edges nearest to 0 lies 0 itself."""
    return float(EDGES[min(max(index, 0), len(EDGES) - 1)])


def _rounded(value: float, *, down: bool) -> float:
    """Round outwards to two significant digits; return 0 for a value that is nearly 0."""
    if abs(value) <= POSITIVE[0]:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return float(f"{(math.floor if down else math.ceil)(value / unit) * unit:.12g}")
