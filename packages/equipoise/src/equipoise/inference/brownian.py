"""The noise of degraded rewards: Brownian paths derived from a secret, the same at any τ for every caller at any time.

Each release has a path W of its own, and its copy with noise τ is o + W(τ). Copies with other amounts of noise are of
the same path: the noisier one is the less noisy one plus noise that is independent of both o and all less noisy copies.
A holder of several copies, or several recipients who put theirs together, therefore know no more of the release than
the least noisy copy tells (a degraded broadcast channel). That needs neither normal likelihoods nor large samples, but
amounts that do not depend on the path; those that a settlement searches for do a little (docs/attacks.md).

A path is known at powers of two by its increments, and between two of them by halving: given both ends, the middle of
an interval of length h is normal around their mean with variance h/4 (Lévy). Every normal number follows from SHAKE-256
of the secret, the path's name and the time: as hard to guess as the secret, and the same on every machine.
"""

import hashlib
import math

import numpy as np
from scipy.special import ndtri

from equipoise._util.arrays import Floats

FIRST, LAST = -80, 120  # exponents of the times between which a path is known
EARLIEST, LATEST = 2.0**FIRST, 2.0**LAST
BITS = 20  # significant bits of a time


def on_grid(time: float) -> float:
    """Return the last time of the grid up to the given one, closer than two millionths of it."""
    mantissa, exponent = math.frexp(time)
    return math.ldexp(math.floor(math.ldexp(mantissa, BITS)), exponent - BITS)


def position(secret: str, name: str, time: float, size: int) -> Floats:
    """Return W(time) in `size` dimensions, of the path with that name; W(0) = 0."""
    if time == 0:
        return np.zeros(size)
    if not EARLIEST <= time < LATEST:
        raise ValueError(f"a path is known from 2^{FIRST} to 2^{LAST}, not at {time!r}")
    time = on_grid(time)

    def normal(moment: float) -> Floats:
        content = f"equipoise-path-1 {secret} {len(name)} {name} {moment.hex()}".encode()
        words = np.frombuffer(hashlib.shake_256(content).digest(8 * size), dtype="<u8")
        return np.asarray(ndtri(((words >> np.uint64(11)) + 0.5) * 2.0**-53))

    low, high = EARLIEST, 2 * EARLIEST
    at_low = math.sqrt(low) * normal(low)
    at_high = at_low + math.sqrt(high - low) * normal(high)
    while high <= time:
        low, high, at_low = high, 2 * high, at_high
        at_high = at_low + math.sqrt(high - low) * normal(high)
    while low < time:
        middle = 0.5 * (low + high)
        at_middle = 0.5 * (at_low + at_high) + 0.5 * math.sqrt(high - low) * normal(middle)
        if middle <= time:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return at_low
