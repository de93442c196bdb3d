"""A party's privacy guarantee, its three equivalent readings, and what it means.

Equipoise always adds (discrete) Gaussian noise, for which one number says everything: the zero-concentrated
parameter ρ = Δ²/(2σ²). The paper's (λ, ε)-Rényi guarantee of a Gaussian mechanism is ε = λρ, for *every* order at
once, and ρ adds up over releases that protect the same unit (`party/units.py`). The third reading, (ε, δ), comes from
the exact Gaussian profile

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),   μ = Δ/σ = √(2ρ)                       (Balle & Wang 2018, Theorem 8)

which is far tighter than reading a single order off Mironov's conversion.

**Why the continuous profile may be used for discrete noise.** Rounding a continuous Gaussian to the integers is
post-processing, so the rounded mechanism has the profile above. The discrete Gaussian we sample differs from it, in
each coordinate, by a total variation of at most

    ½ Σ_k |φ_σ(k) − ∫_{k−½}^{k+½} φ_σ| + ½|Z − 1| ≤ ½ · ⅛ ∫|φ_σ″| + … < 0.07/σ²

(midpoint rule with its Peano kernel ≤ ⅛, and ∫|φ_σ″| = 4/(σ²√(2πe))). With sensitivity at least 2³² grid steps,
σ² ≥ 2⁶⁴/(2ρ), and with at most 2¹⁵ coordinates the whole vectors differ by less than ρ · 2.5e-16. The hockey-stick
divergence then grows by at most (1 + e^ε) times that, which `delta_of` adds. The sum is linear in ρ, so it also
covers any number of composed releases.

**What it means.** Somebody who knows every other row, and holds two values of the last one for equally likely, is told
the release and guesses. Whatever the rule, it is right with probability at most ½(1 + V), where V = δ(0) is the total
variation between the two distributions of the release: with P and Q these and A the outputs on which the rule says P,
it is right with ½P(A) + ½(1 − Q(A)) = ½ + ½(P(A) − Q(A)), and V is the largest such difference. For continuous noise
the two are normal with means at most Δ apart; only the coordinate along that shift tells them apart, and in it
A = {closer to P} is best, so

    ½(1 + V) = ½(1 + Φ(μ/2) − Φ(−μ/2)) = Φ(μ/2)

and rounding can only lower V. The lattice gap is added to both distributions, as above: V ≤ δ(0) + 2 gap.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import scipy  # its `special` is loaded when it is first used

from equipoise._util.text import short
from equipoise.errors import GuaranteeError

MIN_SENSITIVITY_STEPS = 2**32
MAX_STATISTIC_LENGTH = 2**15
LATTICE_GAP = 0.07 * MAX_STATISTIC_LENGTH * 2 / MIN_SENSITIVITY_STEPS**2
DEFAULT_DELTA = 1e-6
LARGEST_EPSILON = 1e6  # far beyond anything private; keeps the search finite


@dataclass(frozen=True)
class Guarantee:
    """(λ, ε)-Rényi differential privacy under replacing one row, or the rows of one individual, by Gaussian noise.

    Parameters
    ----------
    order : float
        Rényi order λ, above 1.
    epsilon : float
        ε at that order, above 0; smaller is more private.

    Raises
    ------
    GuaranteeError
        A number is out of range, or none.

    Examples
    --------
    >>> guarantee = eq.Guarantee(order=2, epsilon=0.1)
    >>> guarantee.zcdp
    0.05
    >>> round(guarantee.epsilon_at(1e-6), 2)
    1.37
    """

    order: float
    epsilon: float

    def __post_init__(self) -> None:
        # One type whatever was given (1, 1.0, a NumPy number), so that equal guarantees have equal bytes.
        object.__setattr__(self, "order", _number("the Rényi order", self.order))
        object.__setattr__(self, "epsilon", _number("epsilon", self.epsilon))
        if not (math.isfinite(self.order) and self.order > 1):
            raise GuaranteeError(f"the Rényi order must be a number above 1, not {self.order!r}")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise GuaranteeError(
                f"epsilon must be a positive number, not {self.epsilon!r}; "
                "smaller is more private, and 0 would release nothing"
            )

    @classmethod
    def from_zcdp(cls, zcdp: float, *, order: float) -> Self:
        """State a ρ-zCDP guarantee at a Rényi order: ε = λρ.

        Parameters
        ----------
        zcdp : float
            The zero-concentrated parameter ρ, above 0.
        order : float
            Rényi order λ, an agreement's `privacy.order`.

        Returns
        -------
        Guarantee
            With a `zcdp` that rounding has not raised above the one given.
        """
        zcdp = _number("zCDP rho", zcdp)
        if not (math.isfinite(zcdp) and zcdp > 0):
            raise GuaranteeError(f"zCDP rho must be a positive number, not {zcdp!r}")
        guarantee = cls(order=order, epsilon=order * zcdp)
        # Rounding must not give away more privacy than the caller asked for.
        while guarantee.zcdp > zcdp:
            guarantee = cls(order=order, epsilon=math.nextafter(guarantee.epsilon, 0.0))
        return guarantee

    @classmethod
    def from_approx(cls, epsilon: float, delta: float, *, order: float) -> Self:
        """State an (ε, δ) guarantee at a Rényi order, with no more noise than it needs.

        Parameters
        ----------
        epsilon, delta : float
            The guarantee, with ε above 0 and δ between 0 and 1.
        order : float
            Rényi order λ, an agreement's `privacy.order`.

        Returns
        -------
        Guarantee
            The weakest that is certified to be (ε, δ)-differentially private.

        Raises
        ------
        GuaranteeError
            A number is out of range, or δ is below what can be certified.

        Examples
        --------
        >>> round(eq.Guarantee.from_approx(1.37, 1e-6, order=2).epsilon, 3)
        0.1
        """
        return cls.from_zcdp(zcdp_of(epsilon, delta), order=order)

    @property
    def zcdp(self) -> float:
        """The zero-concentrated parameter ρ = ε/λ, which adds up over releases."""
        return self.epsilon / self.order

    def epsilon_at(self, delta: float = DEFAULT_DELTA) -> float:
        """Return the smallest ε for which (ε, δ)-differential privacy is certified.

        Parameters
        ----------
        delta : float
            δ, between 0 and 1.

        Returns
        -------
        float
            By the exact profile of Gaussian noise.
        """
        return epsilon_of(self.zcdp, delta)

    @property
    def guess(self) -> float:
        """The probability that somebody who knows all other rows tells two equally likely values of a row apart.

        It ranges from 0.5, a coin's, to 1, no privacy at all.
        """
        return guess_of(self.zcdp)


def guess_of(zcdp: float) -> float:
    """Return the largest probability of a right guess between neighbouring tables after spending ρ in total.

    It is ½ beforehand.
    """
    return 0.5 if zcdp == 0 else min(1.0, 0.5 + delta_of(0.0, zcdp) / 2)


def delta_of(epsilon: float, zcdp: float) -> float:
    """Return the certified δ at ε of ρ-zCDP Gaussian noise: exact profile plus lattice gap (module docstring)."""
    return _profile(epsilon, zcdp) + LATTICE_GAP * zcdp * (1 + math.exp(min(epsilon, 700.0)))


def epsilon_of(zcdp: float, delta: float = DEFAULT_DELTA) -> float:
    """Return the smallest ε certified at δ for a total zCDP spend; 0 if nothing has been spent."""
    _check_delta(delta)
    if zcdp == 0 or delta_of(0.0, zcdp) <= delta:
        return 0.0
    ceiling = _epsilon_by_zcdp(zcdp, delta)
    safe = _epsilon_of_least_delta(zcdp)
    if delta_of(safe, zcdp) > delta:
        # So little privacy is left that the gap exceeds δ; the general bound still holds.
        return ceiling
    return min(ceiling, _bisect(lambda epsilon: delta_of(epsilon, zcdp) <= delta, safe, 0.0))


def zcdp_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose Gaussian noise is certified (ε, δ)-differentially private."""
    epsilon = _number("epsilon", epsilon)
    if not 0 < epsilon <= LARGEST_EPSILON:
        raise GuaranteeError(f"epsilon must be a positive number up to {LARGEST_EPSILON:g}, not {epsilon!r}")
    _check_delta(delta)

    def certified(zcdp: float) -> bool:
        return epsilon_of(zcdp, delta) <= epsilon

    generous = epsilon + 1.0
    while certified(generous):
        generous *= 2
    strict = generous
    while not certified(strict):
        strict /= 4
        if strict < 1e-30:
            raise GuaranteeError(
                f"delta = {delta!r} is below what can be certified at epsilon = {epsilon!r}; use a larger delta"
            )
    # A shade below, so that rounding cannot bring back what is just not certified: where the gap is about δ, ε jumps.
    return _bisect(certified, strict, generous) * (1 - 1e-9)


def _profile(epsilon: float, zcdp: float) -> float:
    """Return δ(ε) of the continuous Gaussian mechanism (module docstring)."""
    mu = math.sqrt(2 * zcdp)
    upper, lower = (float(scipy.special.log_ndtr(sign * mu / 2 - epsilon / mu)) for sign in (1, -1))
    # Φ(a) − e^ε Φ(b) = Φ(a)(1 − e^{ε + log Φ(b) − log Φ(a)}), which does not cancel.
    return -math.exp(upper) * math.expm1(min(0.0, epsilon + lower - upper))


def _epsilon_of_least_delta(zcdp: float) -> float:
    """Return the ε at which `delta_of` stops falling: d/dε is e^ε (gap·ρ − Φ(−μ/2 − ε/μ)), which changes sign once."""
    mu = math.sqrt(2 * zcdp)
    return max(0.0, -mu * (float(scipy.special.ndtri(min(LATTICE_GAP * zcdp, 0.5))) + mu / 2))


def _epsilon_by_zcdp(zcdp: float, delta: float) -> float:
    """Return the bound from zCDP alone: ε = ρα + log(1/δ)/(α−1) + log(1−1/α) − log(α)/(α−1), any order α > 1."""

    # `excess` is α − 1, so that orders close to 1 do not round to 1.
    def at(excess: float) -> float:
        rest = math.log(excess) - math.log1p(excess) - math.log1p(excess) / excess
        # Canonne, Kamath & Steinke 2020, Proposition 12.
        return zcdp * (1 + excess) - math.log(delta) / excess + rest

    near_best = math.sqrt(-math.log(delta) / zcdp)
    return max(0.0, min(at(near_best * 1.05**step) for step in range(-40, 41)))


def _bisect(holds: Callable[[float], bool], safe: float, unsafe: float) -> float:
    """Move `safe` towards `unsafe` as far as `holds` allows; the answer is always on the safe side."""
    for _ in range(200):
        middle = (safe + unsafe) / 2
        if middle in (safe, unsafe):
            break
        if holds(middle):
            safe = middle
        else:
            unsafe = middle
    return safe


def _number(what: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise GuaranteeError(f"{what} must be a number, not {value!r}") from error


def _check_delta(delta: float) -> None:
    if not 0 < _number("delta", delta) < 1:
        raise GuaranteeError(f"delta must lie strictly between 0 and 1, not {delta!r}; try {DEFAULT_DELTA:g}")


def approx_dp(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> str:
    """Return the (ε, δ) reading of a guarantee, which laws and guidelines use."""
    return f"({guarantee.epsilon_at(delta):.3g}, {short(delta)})-DP"


def in_full(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> str:
    """Return all three readings of a guarantee, in one sentence."""
    return (
        f"{approx_dp(guarantee, delta)}, that is Rényi epsilon {guarantee.epsilon:g} at order {guarantee.order:g}, "
        f"that is zCDP {guarantee.zcdp:g}"
    )


def guess_percent(zcdp: float) -> str:
    """Return the best guess's probability, rounded up: 50 % is a coin's, 100 % is no privacy at all."""
    right = math.ceil(1000 * guess_of(zcdp) - 1e-6) / 10
    return f"{right:.1f} %"


def guessing(zcdp: float, *, released: str = "your release", individual: str | None = None) -> str:
    """Explain what a guarantee, or the sum of several, means for somebody who tries to learn about one row.

    If all rows of one individual are protected, `individual` is the column that names them.
    """
    known, asked, hidden = "all your other rows", "which of two values the last one has", "single rows"
    if individual is not None:
        known, asked = "all rows of everybody else", f"which of two sets of rows one {individual} has"
        hidden = f"one {individual}"
    if guess_of(zcdp) > 0.999:
        return (
            f"Somebody who knows {known}, and only has to tell {asked}, can be right nearly always: {released} hides "
            f"{hidden} badly from such an opponent."
        )
    return (
        f"Suppose somebody knows {known}, and only has to tell {asked}. By tossing a coin they are right 50 % of the "
        f"time; with {released}, at most {guess_percent(zcdp)} of the time."
    )
