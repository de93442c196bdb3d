"""Diagnostics of draws: R̂, effective sample sizes, BFMI, divergences, acceptance.

R̂ and ESS are the rank-normalised ones of Vehtari et al. (2021), as in Stan and ArviZ (which the tests compare with),
computed for all coordinates at once: a posterior with a thousand coordinates is checked in a second.

Split-R̂ compares half chains, so that many short chains never pass it, however many draws they have together. They are
compared by *superchains*, whose chains began at the same point: nested R̂ (Margossian et al. 2024). What a superchain
still remembers of its start is common to its chains and does not average out, whereas their noise does. A drift that
all superchains share is noticed as split-R̂ notices it: the first halves of all chains are compared with the second
halves.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import usable_cores

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
# Of importance weights: below, their variance is finite. Estimates may be right up to 0.7 (Vehtari et al. 2024), but a
# narrow ridge that no component of the mixture covers can leave 0.6.
TAIL_SHAPE_LIMIT = 0.5
BFMI_LIMIT = 0.3  # chains below are dropped (paper App. H.1)
DIVERGENT_SHARE_LIMIT = 0.001
# A posterior of ordinary releases takes 3 to 60 gradients a draw. One that has not converged after so many, or of
# which most trajectories break however short the steps are, does not converge with more.
GRADIENTS_PER_DRAW = 160
FEWEST_DRAWS = 5_120
BROKEN_SHARE = 0.5
GAVE_UP = "the sampler gave up"
SUPERCHAINS = 8  # number of groups in which chains are compared
MANY = 4  # fewest chains in a superchain
AT_ONCE = 128  # coordinates to check at a time
SETTLED = 0.2  # largest share: of the variance between superchains, and of the deviation between rounds
LONG = 100  # draws within which a chain has moved if it can


def superchains_of(chains: int) -> int:
    """Return the number of groups of chains that begin at a common point; of few chains each is a group."""
    return SUPERCHAINS if chains % SUPERCHAINS == 0 and chains >= MANY * SUPERCHAINS else chains


@dataclass(frozen=True)
class Diagnostics:
    """Measures of agreement between the chains of a scenario.

    `rhat`, `ess_bulk` and `ess_tail` have one number per coordinate of the kept chains; `bfmi` one per chain, which is
    its superchain's, before any were dropped. Independent draws, as of the baselines, have no chains to compare.
    `tail_shape` is that of importance weights, if draws were made by them.
    """

    draws: int
    rhat: Floats
    ess_bulk: Floats
    ess_tail: Floats
    bfmi: Floats | None = None
    dropped_chains: tuple[int, ...] = ()
    divergences: int = 0
    acceptance: float = 1.0
    thin: int = 1
    gradients: int = 0
    tail_shape: float | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """The reasons against relying on the draws, in words; empty if there are none."""
        reasons = self._disagreements()
        if self.diverged:
            reasons.append(f"{self.divergences:,} of {self.transitions:,} transitions diverged")
        if reasons and self.hopeless:
            reasons.append(f"{GAVE_UP} after {self.gradients:,} gradients, since more draws would not help")
        return tuple(reasons)

    @property
    def hopeless(self) -> bool:
        """True if the budget of gradients is spent, or most trajectories broke: more draws are not expected to help.

        It says nothing about draws that have converged.
        """
        spent = self.gradients > GRADIENTS_PER_DRAW * max(self.draws, FEWEST_DRAWS)
        return spent or self.divergences > BROKEN_SHARE * self.transitions

    def _disagreements(self) -> list[str]:
        reasons = []
        if not np.all(np.isfinite(self.rhat)) or np.max(self.rhat) >= RHAT_LIMIT:
            reasons.append(f"R-hat is {np.max(self.rhat):.3f}, not below {RHAT_LIMIT}")
        ess = min(np.min(self.ess_bulk), np.min(self.ess_tail))
        if not ess >= ESS_LIMIT:
            reasons.append(f"the effective sample size is {ess:.0f}, below {ESS_LIMIT:.0f}")
        if self.tail_shape is not None and not self.tail_shape < TAIL_SHAPE_LIMIT:
            reasons.append(
                f"the tail of the importance weights has a shape of {self.tail_shape:.2f}, not below {TAIL_SHAPE_LIMIT}"
            )
        if self.bfmi is not None and len(self.dropped_chains) > len(self.bfmi) / 2:
            reasons.append(f"{len(self.dropped_chains)} of {len(self.bfmi)} chains have a BFMI below {BFMI_LIMIT}")
        return reasons

    @property
    def mixed(self) -> bool:
        """True if the chains agree, so that longer ones are not needed."""
        return not self._disagreements()

    @property
    def transitions(self) -> int:
        """The number of draws made, kept or not."""
        return self.draws * self.thin

    @property
    def diverged(self) -> bool:
        """True if more trajectories broke than bad luck explains."""
        return self.divergences > DIVERGENT_SHARE_LIMIT * self.transitions

    @property
    def converged(self) -> bool:
        """True if the draws can be relied on."""
        return not self.problems

    def __str__(self) -> str:
        ess = min(np.min(self.ess_bulk), np.min(self.ess_tail))
        text = f"{self.draws:,} draws, R-hat {np.max(self.rhat):.4f}, smallest effective sample size {ess:,.0f}"
        return text + (f"; NOT converged: {'; '.join(self.problems)}" if self.problems else "")


def settled(before: Floats, after: Floats, superchains: int) -> bool:
    """Return whether two rounds of warm-up [chains, draws, coordinates] are alike, and the later round's superchains.

    This only decides when the sampler begins to keep draws; `diagnose` judges the draws themselves.
    """
    if not (np.all(np.isfinite(before)) and np.all(np.isfinite(after))):
        return False
    coordinates = after.shape[2]
    variance = after.reshape(-1, coordinates).var(axis=0)
    means = after.reshape(superchains, -1, coordinates).mean(axis=1)
    drift = after.mean(axis=(0, 1)) - before.mean(axis=(0, 1))
    return bool(np.all(means.var(axis=0, ddof=1) <= SETTLED * variance) and np.all(drift**2 <= SETTLED**2 * variance))


def diagnose(
    coordinates: Floats,
    *,
    energy: Floats | None = None,
    divergent: Floats | None = None,
    acceptance: float = 1.0,
    thin: int = 1,
    gradients: int = 0,
    superchains: int | None = None,
) -> tuple[Diagnostics, NDArray[np.intp]]:
    """Diagnose draws [chains, draws, coordinates]; also return the indices of chains to keep.

    `energy` and `divergent` [chains, iterations] are of every transition, thinned or not. Chains are compared by
    `superchains` groups, which are kept or dropped as a whole; by default each chain is its own group.
    """
    groups = superchains or len(coordinates)
    size = len(coordinates) // groups
    fraction = np.repeat(bfmi(energy.reshape(groups, size, -1)), size) if energy is not None else None
    # A chain that never moved has no energy to speak of; one that is short may have had bad luck.
    stuck = (np.ptp(coordinates, axis=1).min(axis=1) == 0) & (coordinates.shape[1] >= LONG)
    bad = stuck if fraction is None else stuck | ~(fraction >= BFMI_LIMIT)
    bad = np.repeat(bad.reshape(groups, size).any(axis=1), size)
    # With no good chain there is nothing to fall back on: all are kept, and reported as dropped.
    keep = np.arange(len(bad)) if bad.all() else np.flatnonzero(~bad)
    dropped = np.flatnonzero(bad)
    kept = coordinates[keep]
    compared, bulk, tail = _agreement(kept, None if size == 1 else len(kept) // size)
    report = Diagnostics(
        draws=kept.shape[0] * kept.shape[1],
        rhat=compared,
        ess_bulk=bulk,
        ess_tail=tail,
        bfmi=fraction,
        dropped_chains=tuple(int(chain) for chain in dropped),
        divergences=int(divergent[keep].sum()) if divergent is not None else 0,
        acceptance=acceptance,
        thin=thin,
        gradients=gradients,
    )
    return report, keep


def independent(draws: int, coordinates: int) -> Diagnostics:
    """Return the diagnostics of independent draws."""
    ones = np.ones(coordinates)
    return Diagnostics(draws=draws, rhat=ones, ess_bulk=draws * ones, ess_tail=draws * ones)


def bfmi(energy: Floats) -> Floats:
    """Estimate the Bayesian fraction of missing information, from energies [superchains, chains, draws]."""
    steps = np.mean(np.diff(energy, axis=2) ** 2, axis=(1, 2))
    spread = np.var(energy, axis=(1, 2))
    return np.where(spread > 0, steps / np.where(spread > 0, spread, 1.0), 0.0)


def rhat(draws: Floats) -> Floats:
    """Return rank-normalised split-R̂ [coordinates]: the larger of the one for location and the one for scale."""
    return _split_rhat(_ranked(draws))


def nested_rhat(draws: Floats, superchains: int) -> Floats:
    """Return rank-normalised nested R̂ [coordinates], between superchains and halves, of location and of scale."""
    return _nested_rhat(_ranked(draws), superchains)


def ess_mean(draws: Floats) -> Floats:
    """Return the effective sample size for the mean itself [coordinates]."""
    return _ess(_split(_by_coordinate(draws)))


def ess_bulk(draws: Floats) -> Floats:
    """Return the effective sample size in the middle of the distribution [coordinates]."""
    return _ess_bulk(_ranked(draws))


def ess_tail(draws: Floats) -> Floats:
    """Return the effective sample size of the 5 % and 95 % quantiles, the smaller of the two [coordinates]."""
    return _ess_tail(_ranked(draws))


def _agreement(draws: Floats, superchains: int | None) -> tuple[Floats, Floats, Floats]:
    """Return R̂ and both effective sample sizes of draws [chains, draws, coordinates].

    Threads check some coordinates at a time: sorting thousands of them takes longer than drawing them did.
    """

    def check(first: int) -> tuple[Floats, Floats, Floats]:
        part = _ranked(draws[:, :, first : first + AT_ONCE])
        compared = _split_rhat(part) if superchains is None else _nested_rhat(part, superchains)
        # Values that are not finite would get ranks like others.
        finite = np.isfinite(draws[:, :, first : first + AT_ONCE]).all(axis=(0, 1))
        compared = np.where(finite, compared, np.nan)
        return compared, _ess_bulk(part), _ess_tail(part)

    places = range(0, draws.shape[2], AT_ONCE)
    if len(places) == 1:
        return check(0)
    with ThreadPoolExecutor(usable_cores()) as pool:
        results = list(pool.map(check, places))
    rhats, bulk, tail = (np.concatenate(parts) for parts in zip(*results, strict=True))
    return rhats, bulk, tail


def _by_coordinate(draws: Floats) -> Floats:
    """Rearrange draws [chains, draws, coordinates] as contiguous [coordinates, chains, draws]."""
    return np.ascontiguousarray(np.moveaxis(draws, 2, 0))


def _split(draws: Floats) -> Floats:
    """Split each chain into two half chains."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[..., :half], draws[..., draws.shape[2] - half :]], axis=1)


class _Ranked(NamedTuple):
    """Normal scores of draws and of distances from the median, and tail masks; all [coordinates, chains, draws]."""

    normal: Floats  # normal scores of ranks
    folded: Floats  # normal scores of the ranks of distances from the median
    low: NDArray[np.bool_]  # True in the lowest twentieth
    not_high: NDArray[np.bool_]  # True in the lowest nineteen twentieths


def _ranked(draws: Floats) -> _Ranked:
    """Rank draws [chains, draws, coordinates]. Ties, which only rejected steps make, are broken by order.

    A single sort suffices: sorted draws are two runs by their distance from the median, which a stable sort merges.
    """
    by_coordinate = _by_coordinate(draws)
    flat = by_coordinate.reshape(len(by_coordinate), -1)
    number = flat.shape[1]
    scores = scipy.special.ndtri((np.arange(1, number + 1) - 0.375) / (number + 0.25))
    order = np.argsort(flat, axis=1, kind="stable")
    ordered = np.take_along_axis(flat, order, axis=1)
    distance = np.abs(ordered - 0.5 * (ordered[:, [(number - 1) // 2]] + ordered[:, [number // 2]]))
    by_distance = np.take_along_axis(order, np.argsort(distance, axis=1, kind="stable"), axis=1)
    normal, folded = np.empty_like(flat), np.empty_like(flat)
    np.put_along_axis(normal, order, scores[None], axis=1)
    np.put_along_axis(folded, by_distance, scores[None], axis=1)
    low, high = (_quantile(ordered, share)[:, None, None] for share in (0.05, 0.95))
    return _Ranked(
        normal.reshape(by_coordinate.shape),
        folded.reshape(by_coordinate.shape),
        by_coordinate <= low,
        by_coordinate <= high,
    )


def _quantile(ordered: Floats, share: float) -> Floats:
    """Return a quantile of each row of sorted numbers."""
    position = share * (ordered.shape[1] - 1)
    below = int(position)
    return np.asarray(ordered[:, below] + (position - below) * (ordered[:, below + 1] - ordered[:, below]))


def _split_rhat(draws: _Ranked) -> Floats:
    return np.maximum(*(_plain_rhat(_split(scores)) for scores in (draws.normal, draws.folded)))


def _plain_rhat(draws: Floats) -> Floats:
    length = draws.shape[2]
    within = np.mean(np.var(draws, axis=2, ddof=1), axis=1)
    between = np.var(np.mean(draws, axis=2), axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((length - 1) / length + between / within))


def _nested_rhat(draws: _Ranked, superchains: int) -> Floats:
    return np.maximum(*(_plain_nested_rhat(scores, superchains) for scores in (draws.normal, draws.folded)))


def _plain_nested_rhat(draws: Floats, superchains: int) -> Floats:
    coordinates, _, length = draws.shape
    # If all other superchains were dropped, there is nothing to compare.
    if superchains == 1:
        return np.full(coordinates, np.nan)
    half = length // 2
    halves = np.stack([draws[..., :half].mean(axis=(1, 2)), draws[..., length - half :].mean(axis=(1, 2))])
    means = draws.mean(axis=2).reshape(coordinates, superchains, -1)
    within = np.mean(np.var(draws, axis=2, ddof=1), axis=1) + np.mean(np.var(means, axis=2, ddof=1), axis=1)
    between = np.maximum(np.var(means.mean(axis=2), axis=1, ddof=1), np.var(halves, axis=0, ddof=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(1 + between / within))


def _ess_bulk(draws: _Ranked) -> Floats:
    return _ess(_split(draws.normal))


def _ess_tail(draws: _Ranked) -> Floats:
    return np.minimum(*(_ess(_split(tail.astype(float))) for tail in (draws.low, draws.not_high)))


def _ess(draws: Floats) -> Floats:
    """Return the effective sample size by Geyer's initial monotone sequence over all chains."""
    _, chains, length = draws.shape
    covariance = _autocovariance(draws)  # [coordinates, lags], biased, the mean of all chains
    within = covariance[:, 0] * length / (length - 1)
    total = within * (length - 1) / length
    if chains > 1:
        total = total + np.var(np.mean(draws, axis=2), axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within[:, None] - covariance * length / (length - 1)) / total[:, None]
    correlation[:, 0] = 1.0
    even = correlation[:, : 2 * (length // 2)]
    pairs = even[:, 0::2] + even[:, 1::2]
    positive = np.cumprod(pairs > 0, axis=1, dtype=bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=1)
    time = -1 + 2 * np.sum(monotone, axis=1)
    size = chains * length
    # The estimate is limited for very antithetic chains.
    time = np.maximum(time, 1 / np.log10(size))
    constant = np.ptp(draws, axis=(1, 2)) == 0
    return np.where(constant, float(size), size / time)


def _autocovariance(draws: Floats) -> Floats:
    """Return the chains' mean autocovariance [coordinates, lags], from the mean of their spectra."""
    length = draws.shape[2]
    padded = scipy.fft.next_fast_len(2 * length, real=True)
    spectrum = scipy.fft.rfft(draws - draws.mean(axis=2, keepdims=True), padded, axis=2)
    power = np.mean(spectrum.real**2 + spectrum.imag**2, axis=1)
    return np.asarray(scipy.fft.irfft(power, padded, axis=1)[:, :length] / length)
