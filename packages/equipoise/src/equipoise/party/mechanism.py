"""The Gaussian mechanism on integers, by OpenDP.

**Precondition.** `statistic` is the exact weighted integer statistic of a table, and `sensitivity` bounds the ℓ₂ norm
of its change when one row is replaced (proved in `models/`).

**Postcondition.** The output is ρ-zCDP, hence (λ, λρ)-Rényi differentially private for every λ > 1.

**Argument.** OpenDP adds to each integer an independent draw of the discrete Gaussian N_ℤ(0, σ²), sampled exactly with
rational arithmetic from the operating system's randomness. For a shift v ∈ ℤᵈ the Rényi divergence of order α between
N_ℤ(0, σ²)ᵈ and its shift is at most α|v|²/(2σ²) (Canonne, Kamath & Steinke 2020, Theorem 14, with Proposition 5 for
each coordinate), so |v| ≤ Δ and σ ≥ Δ/√(2ρ) give ρ-zCDP. σ is found by OpenDP's search on its own privacy map, whose
arithmetic is rounded against us; the closed form fails that check by its last bit.

**Assumptions.** OpenDP's sampler and map are correct; the operating system's randomness is good. Sums that would leave
int64 are saturated by OpenDP, which is post-processing.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import binary_search, enable_features

from equipoise.errors import GuaranteeError

enable_features("contrib")  # constructors whose proofs OpenDP is still vetting


def perturb(statistic: Sequence[int], *, sensitivity: int, zcdp: float) -> list[int]:
    """Add discrete Gaussian noise of the least scale that is ρ-zCDP at this sensitivity. There is no seed."""
    if not all(type(value) is int and abs(value) <= 2**62 for value in statistic):
        # OpenDP itself would not notice.
        raise ValueError("the statistic must consist of integers within ±2^62")
    scale = noise_scale(sensitivity, zcdp)
    noisy = _gaussian(scale)(list(statistic))
    if len(noisy) != len(statistic):
        raise GuaranteeError(f"OpenDP returned {len(noisy)} numbers for {len(statistic)}; nothing was released")
    return [int(value) for value in noisy]


@lru_cache(maxsize=64)
def noise_scale(sensitivity: int, zcdp: float) -> float:
    """Return the smallest scale that OpenDP's privacy map certifies as ρ-zCDP at this sensitivity."""
    distance = float(sensitivity)
    assert distance == sensitivity, "sensitivities are whole numbers far below 2^53"
    guess = distance / math.sqrt(2 * zcdp)
    scale: float = binary_search(
        lambda scale: bool(_gaussian(scale).map(distance) <= zcdp), bounds=(guess * 0.999, guess * 1.001)
    )
    return scale


def _gaussian(scale: float) -> Any:
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, scale=scale)
