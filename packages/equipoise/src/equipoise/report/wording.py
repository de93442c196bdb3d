"""Numbers and lists as the report writes them."""

from collections.abc import Sequence

from equipoise._util.text import short
from equipoise.estimate import Estimate

NBSP = "\u00a0"
MINUS = "\u2212"


def number(value: float, digits: int = 3) -> str:
    """Plain, with a true minus sign and no more figures than anybody reads."""
    text = short(float(f"{value:.{digits}g}"))
    return text if "e" in text else text.replace("-", MINUS)


def nats(value: float) -> str:
    """Two decimals, which is what errors leave of a value."""
    return f"{value + 0.0:.2f}".replace("-", MINUS)


def estimate(one: Estimate) -> str:
    """Value ± standard error on one line."""
    return str(one).replace("-", MINUS).replace(" ", NBSP)


def listed(words: Sequence[str]) -> str:
    """A, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def absence(parties: Sequence[str]) -> str:
    """Who is missing, where a round was settled without some parties of its agreement."""
    verb = "is a party" if len(parties) == 1 else "are parties"
    return f"{listed(parties)} {verb} of the agreement and took no part; the round was settled without."


def seconds(time: float) -> str:
    """A duration, as coarse as it is interesting."""
    return f"{time:.1f}{NBSP}s" if time < 120 else f"{time / 60:.1f}{NBSP}min"


def compared(gain: float) -> str:
    """What a party gains over going alone, in words."""
    if abs(gain) < 0.005:
        return "is as well off as alone"
    return f"gains {nats(gain)} nats over going alone" if gain > 0 else f"is {nats(-gain)} nats worse off than alone"
