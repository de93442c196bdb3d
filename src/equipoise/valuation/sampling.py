"""Shapley values of many parties from a budget of coalition values.

A party's Shapley value is an average over sizes of (mean value of coalitions of that size with the party) minus (mean
value of coalitions one smaller without it). A coalition's value therefore tells something about *every* party, which
marginal contributions along permutations do not use (Kolpaczki et al. 2024, "SVARM"). Here:

* coalitions of sizes 0, 1, n − 1 and n are all evaluated; other sizes are sampled, each together with its complement;
* a cheap proxy of the values is a control variate, and so is the additive game Σ_{i∈C} bᵢ: their own Shapley values are
  known, and only those of the difference v − β · proxy − additive are estimated from strata. β and b are fitted.

A budget counts *distinct* coalitions; none is evaluated twice.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.valuation.shapley import ShapleyValues, weights

Coalition = frozenset[int]
Evaluate = Callable[[Sequence[Coalition]], Sequence[Estimate]]
Proxy = Callable[[NDArray[np.bool_]], Floats]  # membership [coalitions, parties] to values

ENUMERATED = 14  # parties, up to which the proxy is evaluated on all coalitions
PROXY_COALITIONS = 100_000  # over the number of parties, for more; and at least …
PROXY_COALITIONS_EACH = 20  # … so many times their number
PROXY_GROUPS = 4  # independent ones, whose differences tell the error


@dataclass(frozen=True)
class SampledShapley:
    """Shapley values, and how they were come by."""

    shapley: ShapleyValues
    evaluations: int
    proxy_slope: float  # β, 0 without a proxy


def smallest_budget(parties: int) -> int:
    """Evaluations below which there is no estimate worth its error: sizes 1, n − 1 and n, and four times n between.

    The control variates have n + 1 coefficients, which must be fitted with something to spare.
    """
    return min(int(2**parties) - 1, 6 * parties + 1)


def sampled_shapley(
    parties: int, evaluate: Evaluate, budget: int, *, proxy: Proxy | None = None, seed: int = 0
) -> SampledShapley:
    """Estimate Shapley values from `budget` coalition values; `evaluate` is given many coalitions at once."""
    if parties < 4:
        raise ValueError(f"{parties} parties have few coalitions; evaluate them all")
    if budget < (least := smallest_budget(parties)):
        raise ValueError(f"a budget of {budget} evaluations is too small for {parties} parties; give {least} or more")
    rng = np.random.default_rng(seed)
    fixed = _fixed_coalitions(parties)
    sampled = _sampled_coalitions(rng, parties, min(budget, 2**parties - 1) - (len(fixed) - 1))
    inside = np.concatenate([fixed, sampled])
    found = evaluate([frozenset(np.flatnonzero(row).tolist()) for row in inside[1:]])
    values = np.array([0.0, *(one.value for one in found)])
    errors = np.array([0.0, *(one.error for one in found)])

    cheap = np.zeros(len(inside)) if proxy is None else np.asarray(proxy(inside), float)
    slope, additive, spare = _fit(inside, cheap, values)
    remainder = values - slope * cheap - inside @ additive
    baseline, baseline_variance = np.zeros(parties), np.zeros(parties)
    if proxy is not None:
        baseline, baseline_variance = _proxy_shapley(rng, parties, proxy)

    matrix = _weights(inside)
    phi = slope * baseline + additive + matrix @ remainder
    covariance = slope**2 * np.diag(baseline_variance) + _sampling_covariance(
        inside, remainder, errors, len(fixed), spare
    )
    exact = np.arange(len(inside)) < len(fixed)
    covariance += (matrix[:, exact] * errors[exact] ** 2) @ matrix[:, exact].T
    everybody = int(np.flatnonzero(inside.all(axis=1))[0])
    shapley = ShapleyValues(
        phi,
        covariance,
        Estimate(float(values[everybody]), float(errors[everybody])),
        matrix[:, everybody] * errors[everybody] ** 2,
    )
    return SampledShapley(shapley, len(inside) - 1, slope)


def _fixed_coalitions(parties: int) -> NDArray[np.bool_]:
    """Nobody, everybody, everyone alone, everyone missing."""
    one = np.eye(parties, dtype=bool)
    ends = np.array([[False] * parties, [True] * parties])
    return np.concatenate([ends, one, ~one])


def _sampled_coalitions(rng: np.random.Generator, parties: int, number: int) -> NDArray[np.bool_]:
    """Distinct coalitions of sizes 2 to n − 2, each next to its complement; all sizes alike, while there are any."""
    sizes = range(2, parties // 2 + 1)
    seen: dict[int, set[tuple[int, ...]]] = {size: set() for size in sizes}
    rows: list[NDArray[np.bool_]] = []
    while len(rows) + 1 < number:
        # A pair of the middle size is two of that size.
        open_sizes = [
            size for size in sizes if len(seen[size]) < math.comb(parties, size) // (2 if 2 * size == parties else 1)
        ]
        if not open_sizes:
            break
        size = min(open_sizes, key=lambda size: len(seen[size]) * (2 if 2 * size == parties else 1))
        while True:
            chosen = np.sort(rng.permutation(parties)[:size])
            if 2 * size == parties and chosen[0] != 0:  # a pair is named by the half with party 0
                chosen = np.setdiff1d(np.arange(parties), chosen)
            if (name := tuple(chosen.tolist())) not in seen[size]:
                break
        seen[size].add(name)
        row = np.zeros(parties, dtype=bool)
        row[chosen] = True
        rows += [row, ~row]
    return np.array(rows).reshape(-1, parties)


def _weights(inside: NDArray[np.bool_]) -> Floats:
    """What each evaluated coalition counts in each party's value [parties, coalitions].

    φ_i = (1/n) Σ_s (mean over coalitions of size s with i) − (mean over coalitions of size s − 1 without i); a mean
    over a size that lacks one of the two kinds is taken over the whole size.
    """
    parties = inside.shape[1]
    sizes = inside.sum(axis=1)
    of_size = np.bincount(sizes, minlength=parties + 1)
    with_party = np.stack([np.bincount(sizes[column], minlength=parties + 1) for column in inside.T])
    without = of_size - with_party
    matrix = np.where(inside.T, _share(with_party)[:, sizes], -_share(without)[:, sizes])
    # Sizes that a party is never in, or never out of: the whole size stands in for the mean that is missing.
    possible = np.arange(parties + 1)
    never_in = (with_party == 0) & (of_size > 0) & (possible > 0)
    never_out = (without == 0) & (of_size > 0) & (possible < parties)
    matrix += ((never_in.astype(float) - never_out) * _share(of_size))[:, sizes]
    averaged: Floats = matrix / parties
    return averaged


def _share(count: NDArray[np.intp]) -> Floats:
    return np.asarray(1 / np.maximum(count, 1), float)


def _fit(inside: NDArray[np.bool_], cheap: Floats, values: Floats) -> tuple[float, Floats, float]:
    """β and b: least squares of values on the proxy and on membership within sizes, where differences cost accuracy.

    Also by how much the fit makes variances of what remains too small: observations over degrees of freedom.
    """
    sizes = inside.sum(axis=1)
    columns = np.column_stack([cheap, inside, values]).astype(float)
    for size in np.unique(sizes):
        columns[sizes == size] -= columns[sizes == size].mean(axis=0)
    solution, _, rank, _ = np.linalg.lstsq(columns[:, :-1], columns[:, -1], rcond=1e-9)
    observations = len(inside) - len(np.unique(sizes))
    spare = observations / max(observations - int(rank), 1)
    return float(solution[0]), np.asarray(solution[1:]), spare


def _proxy_shapley(rng: np.random.Generator, parties: int, proxy: Proxy) -> tuple[Floats, Floats]:
    """Shapley values of the proxy and the variances of their errors, which are 0 where it can be enumerated."""
    if parties <= ENUMERATED:
        every = (np.arange(2**parties)[:, None] >> np.arange(parties) & 1).astype(bool)
        return weights(parties) @ np.asarray(proxy(every), float), np.zeros(parties)
    fixed = _fixed_coalitions(parties)
    number = max(PROXY_COALITIONS // parties, PROXY_COALITIONS_EACH * parties) // PROXY_GROUPS
    groups = []
    for _ in range(PROXY_GROUPS):
        inside = np.concatenate([fixed, _sampled_coalitions(rng, parties, number)])
        values = np.asarray(proxy(inside), float)
        _, additive, _ = _fit(inside, np.zeros(len(inside)), values)
        groups.append(additive + _weights(inside) @ (values - inside @ additive))
    return np.mean(groups, axis=0), np.var(groups, axis=0, ddof=1) / PROXY_GROUPS


def _sampling_covariance(inside: NDArray[np.bool_], values: Floats, errors: Floats, fixed: int, spare: float) -> Floats:
    """Covariance that comes of sampling coalitions and of errors in their values.

    A jackknife over pairs, size by size, covers both, but for the part of a size that was sampled: there the choice of
    coalitions is not random, and only their errors are. `spare` makes up for what was fitted to the values.
    """
    parties = inside.shape[1]
    sizes = inside[fixed::2].sum(axis=1)
    matrix = _weights(inside)
    whole = matrix @ values
    covariance = np.zeros((parties, parties))
    for size in np.unique(sizes):
        pairs = np.flatnonzero(sizes == size)
        places = fixed + 2 * pairs[:, None] + np.arange(2)
        share = len(pairs) * (2 if 2 * size == parties else 1) / math.comb(parties, int(size))
        noise = matrix[:, places.ravel()] * errors[places.ravel()]
        covariance += share * noise @ noise.T
        if share < 1:
            changes = np.stack([_without(inside, values, pair) - whole for pair in places])
            changes -= changes.mean(axis=0)
            covariance += spare * (1 - share) * (len(pairs) - 1) / len(pairs) * changes.T @ changes
    return covariance


def _without(inside: NDArray[np.bool_], values: Floats, places: NDArray[np.intp]) -> Floats:
    """The estimate when some coalitions are left out."""
    keep = np.ones(len(inside), dtype=bool)
    keep[places] = False
    estimate: Floats = _weights(inside[keep]) @ values[keep]
    return estimate
