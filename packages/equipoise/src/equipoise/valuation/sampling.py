"""Shapley values of many parties from the values of some coalitions.

With s = |C|, a party's Shapley value is a sum over sizes of means over all coalitions of a size,

    φ_i = Σ_s mean_{|C| = s} v(C) u_i(C),   u_i(C) = 1/s if i is in C, −1/(n − s) if not,

so that a coalition's value tells something about *every* party, which marginal contributions along permutations do not
use (Kolpaczki et al. 2024, "SVARM"). Here:

* coalitions of sizes 0, 1, n − 1 and n are all evaluated. Those of other sizes are drawn without replacement, each
  together with its complement, in numbers in proportion to 1/√(s (n − s)), the best for remainders that are alike.
* Of a pair only the difference d = v(C) − v(N∖C) counts, as d/s for members of C and −d/(n − s) for the others. A cheap
  proxy of the values is a control variate, and so are the additive game Σ_{i∈C} bᵢ and functions of the size: their own
  Shapley values are known, and only what they leave of the differences is estimated. Coefficients are fitted; the
  additive ones are shrunk by as much as predicts left-out pairs best (PRESS).
* Variances are those within sizes, of *leave-one-out* remainders, which a fit to few pairs does not make too small.

`Sample` grows, so that coalitions can be added until errors are small enough. None is evaluated twice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.valuation.shapley import ShapleyValues, weights

Coalition = frozenset[int]
Mask = NDArray[np.bool_]
Evaluate = Callable[[Sequence[Coalition]], Sequence[Estimate]]
Proxy = Callable[[Mask], Floats]  # membership [coalitions, parties] to values

# Errors can be estimated from this number of pairs.
FEWEST_PAIRS = 24
# Pairs of each size that are drawn first.
LEAST_OF_A_SIZE = 2
# Parties up to which the proxy is evaluated on all coalitions. For more, it is evaluated on a sample of the first
# number of coalitions, or of the second for each party, if that is more.
ENUMERATED = 14
PROXY_COALITIONS = 4_000
PROXY_COALITIONS_EACH = 16
# Candidates for the shrinkage, relative to the mean squared singular value.
SHRINKAGE = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, np.inf)
# The variance of all pairs has the weight of this number of pairs in the variance of one size.
PRIOR_PAIRS = 4
# Smallest share of a pair's remainder that is not due to its own fit, and the smallest mean of that share: a fit with
# hardly more pairs than coefficients has no information about its errors.
LEAST_FREE = 0.02
LEAST_FREE_OF_ALL = 0.1


class Sample:
    """Coalitions of a game in order: the empty one, all parties, each party alone, all but each party, then pairs.

    `inside` [coalitions, parties] is the membership matrix. A pair has two consecutive rows, the smaller first.
    """

    def __init__(self, parties: int, *, seed: int) -> None:
        if parties < 4:
            raise ValueError(f"{parties} parties have few coalitions; evaluate them all")
        self.parties, self._rng = parties, np.random.default_rng(seed)
        alone = np.eye(parties, dtype=bool)
        self._blocks: list[Mask] = [np.array([[False] * parties, [True] * parties]), alone, ~alone]
        self.fixed = 2 + 2 * parties
        self._seen: dict[int, set[bytes]] = {size: set() for size in range(2, parties // 2 + 1)}
        self._number = self.fixed
        self._order = [(-math.inf, size) for size in self._seen]
        heapify(self._order)

    def __len__(self) -> int:
        """Return the number of coalitions, without the empty one."""
        return self._number - 1

    @property
    def inside(self) -> Mask:
        """Membership matrix [coalitions, parties], the empty coalition first."""
        self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]

    @property
    def complete(self) -> bool:
        """True if the sample has all coalitions."""
        return not self._order

    def grow(self, budget: int) -> None:
        """Add pairs while there are more, and while coalitions (without the empty one) stay within the budget."""
        rows = []
        while self._order and len(self) + 2 <= budget:
            size = self._order[0][1]
            row = self._fresh(size)
            rows += [row, ~row]
            self._number += 2
            there = len(self._seen[size])
            if there == self.possible(size):
                heappop(self._order)
                continue
            # As many pairs of each size as their shares, always the one that lags most (Jefferson's method).
            share = (0.5 if 2 * size == self.parties else 1.0) / math.sqrt(size * (self.parties - size))
            lag = -math.inf if there < LEAST_OF_A_SIZE else -share / (there + 1)
            heapreplace(self._order, (lag, size))
        if rows:
            self._blocks.append(np.array(rows))

    def possible(self, size: int) -> int:
        """Return the number of pairs of a size and its complement; a pair of the middle size has two of that size."""
        return math.comb(self.parties, size) // (2 if 2 * size == self.parties else 1)

    def _fresh(self, size: int) -> Mask:
        while True:
            row = np.zeros(self.parties, dtype=bool)
            row[self._rng.permutation(self.parties)[:size]] = True
            if 2 * size == self.parties and not row[0]:  # a pair is named by the half with party 0
                row = ~row
            if (name := np.packbits(row).tobytes()) not in self._seen[size]:
                self._seen[size].add(name)
                return row


@dataclass(frozen=True)
class SampledShapley:
    """Shapley values of a sampled game, and the sources of their errors.

    `fixed` [parties, fixed coalitions] are the weights of coalitions that were not drawn. `drawn` is the part of the
    covariance that comes from the pairs: from the choice of pairs and from the errors of their values.
    """

    shapley: ShapleyValues
    evaluations: int
    proxy_slope: float  # β, 0 without a proxy
    fixed: Floats
    drawn: Floats


def smallest_budget(parties: int) -> int:
    """Return the fewest evaluations for a useful estimate: sizes 1, n − 1 and n, and n pairs (at least 24) between."""
    return int(min(2**parties - 1, 2 * parties + 1 + 2 * max(FEWEST_PAIRS, parties)))


def sampled_shapley(
    parties: int, evaluate: Evaluate, budget: int, *, proxy: Proxy | None = None, seed: int = 0
) -> SampledShapley:
    """Estimate Shapley values from `budget` coalition values; `evaluate` is given many coalitions at once."""
    sample = Sample(parties, seed=seed)
    if budget < (least := smallest_budget(parties)):
        raise ValueError(f"a budget of {budget} evaluations is too small for {parties} parties; give {least} or more")
    sample.grow(budget)
    values = evaluate([frozenset(np.flatnonzero(row).tolist()) for row in sample.inside[1:]])
    return estimate(sample, values, ProxyGame(parties, proxy, seed=seed))


class ProxyGame:
    """A proxy with its own Shapley values and the variances of their errors, 0 if it is evaluated on all coalitions.

    Without a proxy, all values are 0.
    """

    def __init__(self, parties: int, proxy: Proxy | None, *, seed: int) -> None:
        self._proxy = proxy
        self.shapley, self.variances = np.zeros(parties), np.zeros(parties)
        if proxy is None:
            return
        if parties <= ENUMERATED:
            every = (np.arange(2**parties)[:, None] >> np.arange(parties) & 1).astype(bool)
            self.shapley = weights(parties) @ np.asarray(proxy(every), float)
            return
        sample = Sample(parties, seed=seed + 1)
        sample.grow(max(PROXY_COALITIONS, PROXY_COALITIONS_EACH * parties))
        values = np.asarray(proxy(sample.inside), float)[1:]
        exact = [Estimate(value, 0.0) for value in values.tolist()]
        estimated = estimate(sample, exact, ProxyGame(parties, None, seed=0))
        self.shapley, self.variances = estimated.shapley.values, estimated.shapley.errors**2

    def __call__(self, inside: Mask) -> Floats:
        return np.zeros(len(inside)) if self._proxy is None else np.asarray(self._proxy(inside), float)


def estimate(sample: Sample, estimates: Sequence[Estimate], proxy: ProxyGame) -> SampledShapley:
    """Estimate Shapley values from the values of a sample's coalitions, without that of the empty coalition."""
    parties, inside, fixed = sample.parties, sample.inside, sample.fixed
    values = np.array([0.0, *(each.value for each in estimates)])
    errors = np.array([0.0, *(each.error for each in estimates)])
    cheap = proxy(inside)
    matrix = _shares(inside[:fixed]) / np.array([1.0, 1.0, *[parties] * (2 * parties)])

    smaller = inside[fixed::2]
    sizes = smaller.sum(axis=1)
    difference, cheap_difference = (series[fixed::2] - series[fixed + 1 :: 2] for series in (values, cheap))
    noise = errors[fixed::2] ** 2 + errors[fixed + 1 :: 2] ** 2
    fit = _fit(smaller, sizes, cheap_difference, difference)

    # What the control variates count, but for coalitions that are all there.
    known = fit.slope * (proxy.shapley - matrix @ cheap[:fixed]) + fit.additive
    known -= matrix @ (inside[:fixed] @ fit.additive)
    phi = matrix @ values[:fixed] + known
    drawn = np.zeros((parties, parties))
    if len(smaller):
        shares = _shares(smaller)  # [parties, pairs], of d
        each, counts, share = _strata(sample, sizes)
        phi += shares @ (each * fit.remainder)
        drawn = _covariance(shares, sizes, each, counts, share, fit.left_out, noise)
    covariance = drawn + fit.slope**2 * np.diag(proxy.variances) + (matrix * errors[:fixed] ** 2) @ matrix.T
    shapley = ShapleyValues(
        phi, covariance, Estimate(float(values[1]), float(errors[1])), matrix[:, 1] * errors[1] ** 2
    )
    return SampledShapley(shapley, len(inside) - 1, fit.slope, matrix, drawn)


def _shares(inside: Mask) -> Floats:
    """Return u_i(C) [parties, coalitions]: 1/s for members, −1/(n − s) for the others."""
    parties, sizes = inside.shape[1], inside.sum(axis=1)
    shares: Floats = np.where(inside.T, 1 / np.maximum(sizes, 1), -1 / np.maximum(parties - sizes, 1))
    return shares


def _strata(sample: Sample, sizes: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    """Return, for every pair, its weight in φ, the number of pairs of its size, and their share of possible ones."""
    counts = np.bincount(sizes, minlength=sample.parties)[sizes].astype(float)
    possible = np.array([float(sample.possible(size)) for size in range(2, sample.parties // 2 + 1)])[sizes - 2]
    return np.where(2 * sizes == sample.parties, 0.5, 1.0) / counts, counts, counts / possible


def _covariance(
    shares: Floats,
    sizes: NDArray[np.intp],
    each: Floats,
    counts: Floats,
    share: Floats,
    left_out: Floats,
    noise: Floats,
) -> Floats:
    """Return the covariance due to the choice of pairs, from leave-one-out remainders, and to errors of their values.

    For the share of a size that was drawn, only errors of values are random. Few pairs of a size may have no variance
    by chance, so their variance is averaged with that of all pairs.
    """
    pooled = PRIOR_PAIRS / (counts - 1 + PRIOR_PAIRS)
    # Σ (y − ȳ)² / (k (k − 1)): the variance of a mean of k.
    within = shares * left_out
    within -= _means(within, sizes)
    within *= each * np.sqrt((1 - pooled) * (1 - share) * counts / np.maximum(counts - 1, 1))
    alike = shares * (each * np.sqrt(pooled * (1 - share) * np.mean(left_out**2)))
    errors = shares * (each * np.sqrt(share * noise))
    return np.asarray(within @ within.T + alike @ alike.T + errors @ errors.T)


def _means(columns: Floats, sizes: NDArray[np.intp]) -> Floats:
    """Return means over the columns of the same size [rows, columns]."""
    order = np.argsort(sizes, kind="stable")
    distinct, starts, counts = np.unique(sizes[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(columns[:, order], starts, axis=1) / counts
    return np.asarray(sums[:, np.searchsorted(distinct, sizes)])


class _Fit(NamedTuple):
    """Fitted control variates, the remainders of the differences, and the leave-one-out remainders."""

    slope: float
    additive: Floats
    remainder: Floats
    left_out: Floats


def _fit(smaller: Mask, sizes: NDArray[np.intp], cheap: Floats, difference: Floats) -> _Fit:
    """Fit β, b and functions of the size to pairs' differences by least squares, b shrunk by the best factor."""
    pairs, parties = smaller.shape
    nothing = _Fit(0.0, np.zeros(parties), difference, difference)
    if not pairs:
        return nothing
    excess = 1 - 2 * sizes / parties
    free = np.column_stack([cheap, excess, excess**3, np.log((parties - sizes) / sizes)])
    free_basis, free_scale, free_right = np.linalg.svd(free, full_matrices=False)
    kept = free_scale > 1e-9 * max(free_scale[0], 1e-300)
    free_basis, free_scale, free_right = free_basis[:, kept], free_scale[kept], free_right[kept]
    members = 2.0 * smaller - 1.0
    projected = free_basis.T @ members
    basis, scale, right = np.linalg.svd(members - free_basis @ projected, full_matrices=False)
    kept = scale > 1e-9 * scale[0]
    basis, scale, right = basis[:, kept], scale[kept], right[kept]
    plain = difference - free_basis @ (free_basis.T @ difference)
    along, own, squares = basis.T @ plain, np.sum(free_basis**2, axis=1), basis**2
    best: tuple[float, _Fit] = (math.inf, nothing)
    for shrinkage in SHRINKAGE:
        kept_share = scale**2 / (scale**2 + shrinkage * np.mean(scale**2))
        free_share = 1 - own - squares @ kept_share
        if np.mean(free_share) < LEAST_FREE_OF_ALL and shrinkage < np.inf:
            continue
        remainder = plain - basis @ (kept_share * along)
        left_out = remainder / np.maximum(free_share, LEAST_FREE)
        press = float(np.sum(left_out**2))
        if press < best[0]:
            additive = right.T @ (kept_share * along / scale)
            slope = free_right.T @ ((free_basis.T @ difference - projected @ additive) / free_scale)
            best = press, _Fit(float(slope[0]), additive, remainder, left_out)
    return best[1]
