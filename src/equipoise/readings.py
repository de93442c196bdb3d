"""A guarantee as people read it: (ε, δ) and what it means come first, the agreement's Rényi ε and zCDP after that."""

import math

from equipoise.guarantee import DEFAULT_DELTA, Guarantee, guess_of
from equipoise.words import short


def approx(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> str:
    """The reading that laws and guidelines use."""
    return f"({guarantee.epsilon_at(delta):.3g}, {short(delta)})-DP"


def in_full(guarantee: Guarantee, delta: float = DEFAULT_DELTA) -> str:
    """All three readings."""
    return (
        f"{approx(guarantee, delta)}, that is Rényi epsilon {guarantee.epsilon:g} at order {guarantee.order:g}, "
        f"that is zCDP {guarantee.zcdp:g}"
    )


def percent(zcdp: float) -> str:
    """How often the best guess about one row can be right, rounded up: 50 % is a coin's, 100 % is no privacy at all."""
    right = math.ceil(1000 * guess_of(zcdp) - 1e-6) / 10
    return f"{right:.1f} %"


def guessing(zcdp: float, *, released: str = "your release") -> str:
    """What a guarantee, or the sum of several, means to somebody who tries to learn about one row."""
    if guess_of(zcdp) > 0.999:
        return (
            "Somebody who knows all your other rows, and only has to tell which of two values the last one has, can be "
            f"right nearly always: {released} hides single rows badly from such an opponent."
        )
    return (
        "Suppose somebody knows all your other rows, and only has to tell which of two values the last one has. By "
        f"tossing a coin they are right 50 % of the time; with {released}, at most {percent(zcdp)} of the time."
    )
