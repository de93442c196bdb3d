"""Can these draws be relied on? Split-R̂, effective sample sizes, BFMI, divergences, acceptance.

R̂ and ESS are the rank-normalised ones of Vehtari et al. (2021), as in Stan and ArviZ (which the tests compare with),
computed for all coordinates at once: a posterior with a thousand coordinates is checked in a second.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0
BFMI_LIMIT = 0.3  # chains below are dropped (paper App. H.1)
DIVERGENT_SHARE_LIMIT = 0.001


@dataclass(frozen=True)
class Diagnostics:
    """How well the chains of one scenario agree.

    `rhat`, `ess_bulk` and `ess_tail` have one number per coordinate of the kept chains; `bfmi` one per chain, before
    any were dropped. Independent draws, as of the baselines, have no chains to compare.
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

    @property
    def problems(self) -> tuple[str, ...]:
        """What speaks against relying on the draws, in words; empty if nothing does."""
        found = self._disagreements()
        if self.diverged:
            found.append(f"{self.divergences:,} of {self.transitions:,} transitions diverged")
        return tuple(found)

    def _disagreements(self) -> list[str]:
        found = []
        if not np.all(np.isfinite(self.rhat)) or np.max(self.rhat) >= RHAT_LIMIT:
            found.append(f"split R-hat is {np.max(self.rhat):.3f}, not below {RHAT_LIMIT}")
        ess = min(np.min(self.ess_bulk), np.min(self.ess_tail))
        if not ess >= ESS_LIMIT:
            found.append(f"the effective sample size is {ess:.0f}, below {ESS_LIMIT:.0f}")
        if self.bfmi is not None and len(self.dropped_chains) > len(self.bfmi) / 2:
            found.append(f"{len(self.dropped_chains)} of {len(self.bfmi)} chains have a BFMI below {BFMI_LIMIT}")
        return found

    @property
    def mixed(self) -> bool:
        """Whether the chains agree; longer ones would not be better."""
        return not self._disagreements()

    @property
    def transitions(self) -> int:
        """Draws made, kept or not."""
        return self.draws * self.thin

    @property
    def diverged(self) -> bool:
        """Whether more trajectories broke than can be put down to bad luck."""
        return self.divergences > DIVERGENT_SHARE_LIMIT * self.transitions

    @property
    def converged(self) -> bool:
        """Whether the draws can be relied on."""
        return not self.problems

    def __str__(self) -> str:
        ess = min(np.min(self.ess_bulk), np.min(self.ess_tail))
        text = f"{self.draws:,} draws, R-hat {np.max(self.rhat):.4f}, smallest effective sample size {ess:,.0f}"
        return text + (f"; NOT converged: {'; '.join(self.problems)}" if self.problems else "")


def diagnose(
    coordinates: Floats,
    *,
    energy: Floats | None = None,
    divergent: Floats | None = None,
    acceptance: float = 1.0,
    thin: int = 1,
    gradients: int = 0,
) -> tuple[Diagnostics, NDArray[np.intp]]:
    """Diagnose draws [chains, draws, coordinates]; also return which chains to keep.

    `energy` and `divergent` [chains, iterations] are of every transition, thinned or not.
    """
    fraction = bfmi(energy) if energy is not None else None
    stuck = np.ptp(coordinates, axis=1).min(axis=1) == 0  # a chain that never moved has no energy to speak of
    bad = stuck if fraction is None else stuck | ~(fraction >= BFMI_LIMIT)
    # With no good chain there is nothing to fall back on: all are kept, and reported as dropped.
    keep = np.arange(len(bad)) if bad.all() else np.flatnonzero(~bad)
    dropped = np.flatnonzero(bad)
    kept = coordinates[keep]
    report = Diagnostics(
        draws=kept.shape[0] * kept.shape[1],
        rhat=rhat(kept),
        ess_bulk=ess_bulk(kept),
        ess_tail=ess_tail(kept),
        bfmi=fraction,
        dropped_chains=tuple(int(chain) for chain in dropped),
        divergences=int(divergent[keep].sum()) if divergent is not None else 0,
        acceptance=acceptance,
        thin=thin,
        gradients=gradients,
    )
    return report, keep


def independent(draws: int, coordinates: int) -> Diagnostics:
    """Diagnostics of independent draws."""
    ones = np.ones(coordinates)
    return Diagnostics(draws=draws, rhat=ones, ess_bulk=draws * ones, ess_tail=draws * ones)


def bfmi(energy: Floats) -> Floats:
    """Estimated Bayesian fraction of missing information of each chain."""
    steps = np.mean(np.diff(energy, axis=1) ** 2, axis=1)
    spread = np.var(energy, axis=1)
    return np.where(spread > 0, steps / np.where(spread > 0, spread, 1.0), 0.0)


def rhat(draws: Floats) -> Floats:
    """Rank-normalised split-R̂ [coordinates]: the larger of the one for location and the one for scale."""
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_plain_rhat(_rank_normal(halves)), _plain_rhat(_rank_normal(folded)))


def ess_mean(draws: Floats) -> Floats:
    """Effective sample size for the mean itself [coordinates]."""
    return _ess(_split(draws))


def ess_bulk(draws: Floats) -> Floats:
    """Effective sample size in the middle of the distribution [coordinates]."""
    return _ess(_rank_normal(_split(draws)))


def ess_tail(draws: Floats) -> Floats:
    """Effective sample size of the 5 % and 95 % quantiles, the smaller of the two [coordinates]."""
    halves = _split(draws)
    low, high = np.quantile(draws, [0.05, 0.95], axis=(0, 1))
    return np.minimum(_ess((halves <= low).astype(float)), _ess((halves <= high).astype(float)))


def _split(draws: Floats) -> Floats:
    """Each chain as two half chains."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _rank_normal(draws: Floats) -> Floats:
    """Normal scores of the ranks. Ties, which only rejected steps make, are broken by order: sorting once is enough."""
    flat = draws.reshape(-1, draws.shape[2])
    number = len(flat)
    scores = scipy.special.ndtri((np.arange(1, number + 1) - 0.375) / (number + 0.25))
    normal = np.empty_like(flat)
    np.put_along_axis(normal, np.argsort(flat, axis=0, kind="stable"), scores[:, None], axis=0)
    return normal.reshape(draws.shape)


def _plain_rhat(draws: Floats) -> Floats:
    length = draws.shape[1]
    within = np.mean(np.var(draws, axis=1, ddof=1), axis=0)
    between = np.var(np.mean(draws, axis=1), axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((length - 1) / length + between / within))


def _ess(draws: Floats) -> Floats:
    """Effective sample size by Geyer's initial monotone sequence over all chains."""
    chains, length = draws.shape[:2]
    covariance = _autocovariance(draws)  # [chains, lags, coordinates], biased
    within = np.mean(covariance[:, 0], axis=0) * length / (length - 1)
    total = within * (length - 1) / length
    if chains > 1:
        total = total + np.var(np.mean(draws, axis=1), axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - np.mean(covariance, axis=0) * length / (length - 1)) / total
    correlation[0] = 1.0
    even = correlation[: 2 * (length // 2)]
    pairs = even[0::2] + even[1::2]
    positive = np.cumprod(pairs > 0, axis=0, dtype=bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = -1 + 2 * np.sum(monotone, axis=0)
    size = chains * length
    time = np.maximum(time, 1 / np.log10(size))  # very antithetic chains are not believed further
    constant = np.ptp(draws, axis=(0, 1)) == 0
    return np.where(constant, float(size), size / time)


def _autocovariance(draws: Floats) -> Floats:
    length = draws.shape[1]
    padded = 2 ** int(np.ceil(np.log2(2 * length)))
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), padded, axis=1)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, padded, axis=1)[:, :length] / length)
