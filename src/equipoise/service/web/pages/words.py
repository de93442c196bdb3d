"""An agreement and a guarantee in words. Explaining takes a moment, so explanations are kept."""

from functools import lru_cache

from equipoise import guarantee as saying
from equipoise._util.text import short
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import Explanation, explain
from equipoise.guarantee import DEFAULT_DELTA, Guarantee
from equipoise.report.wording import number

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
    """One guarantee in its equivalent readings, the one that guidelines use first."""
    guarantee = Guarantee(order=order, epsilon=epsilon)
    return (
        (f"ε at δ = {short(DEFAULT_DELTA)}", number(guarantee.epsilon_at(DEFAULT_DELTA))),
        (f"ε (Rényi, order λ = {number(order)})", number(epsilon, 4)),
        ("zCDP", number(guarantee.zcdp, 4)),
    )


@lru_cache(maxsize=1024)
def approx(epsilon: float, order: float) -> str:
    """A guarantee in the reading that guidelines use, for a cell of a table."""
    return number(Guarantee(order=order, epsilon=epsilon).epsilon_at(DEFAULT_DELTA))


def guessing(order: float, epsilon: float) -> str:
    """What the guarantee means to somebody who tries to learn about one row."""
    return saying.guessing(Guarantee(order=order, epsilon=epsilon).zcdp)
