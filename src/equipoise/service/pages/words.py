"""An agreement and a guarantee in words. Explaining takes a moment, so explanations are kept."""

import math
from functools import lru_cache

from equipoise.agreement import Agreement
from equipoise.explain import Explanation, explain
from equipoise.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.report.wording import number
from equipoise.words import short

_MOST = 64
_explanations: dict[str, Explanation] = {}


def explained(agreement: Agreement) -> Explanation:
    """What was agreed, in sentences and columns."""
    known = _explanations.get(agreement.identity)
    if known is None:
        known = explain(agreement)
        while len(_explanations) >= _MOST:
            _explanations.pop(next(iter(_explanations)), None)
        _explanations[agreement.identity] = known
    return known


@lru_cache(maxsize=1024)
def readings(order: float, epsilon: float) -> tuple[tuple[str, str], ...]:
    """One guarantee in its equivalent readings."""
    guarantee = Guarantee(order=order, epsilon=epsilon)
    return (
        (f"ε (Rényi, order λ = {number(order)})", number(epsilon, 4)),
        ("zCDP", number(guarantee.zcdp, 4)),
        (f"ε at δ = {short(DEFAULT_DELTA)}", number(guarantee.epsilon_at(DEFAULT_DELTA))),
    )


def guessing(order: float, epsilon: float) -> str:
    """What the guarantee means to somebody who tries to learn about one row.

    Replacing a row moves the sums by at most their sensitivity Δ, and the noise has deviation σ, with μ = Δ/σ = √(2ρ)
    (`equipoise.guarantee`). The best test between two such normal distributions, when both are equally likely, is right
    with probability Φ(μ/2); the discrete noise changes that by less than 10⁻⁹.
    """
    mu = math.sqrt(2 * Guarantee(order=order, epsilon=epsilon).zcdp)
    right = 0.5 * (1 + math.erf(mu / 2 / math.sqrt(2)))
    percent = 50 + math.ceil((right - 0.5) * 1000) / 10
    if percent > 99.9:
        return (
            "Somebody who knows all your other rows, and only has to tell which of two values the last one has, can be "
            "right nearly always: this ε hides single rows badly from such an opponent."
        )
    return (
        "Suppose somebody knows all your other rows, and only has to tell which of two values the last one has. By "
        f"tossing a coin they are right 50 % of the time; with your release, at most {percent:.1f} % of the time."
    )
