"""Formats of numbers, lists and common sentences in reports."""

from collections.abc import Sequence

from equipoise._util.text import short
from equipoise.estimate import Estimate

NBSP = "\u00a0"
MINUS = "\u2212"


def number(value: float, digits: int = 3) -> str:
    """Format a number with a true minus sign and three significant digits, unless given otherwise."""
    text = short(float(f"{value:.{digits}g}"))
    return text if "e" in text else text.replace("-", MINUS)


def nats(value: float) -> str:
    """Format a value in nats with two decimals, as many as its error warrants."""
    return f"{value + 0.0:.2f}".replace("-", MINUS)


def estimate(value: Estimate) -> str:
    """Format an estimate as value ± standard error, without line breaks."""
    return str(value).replace("-", MINUS).replace(" ", NBSP)


def listed(words: Sequence[str]) -> str:
    """Join words as in "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def absence(parties: Sequence[str]) -> str:
    """Name the parties of the agreement without which the round was settled."""
    verb = "is a party" if len(parties) == 1 else "are parties"
    return f"{listed(parties)} {verb} of the agreement and took no part; the round was settled without."


def seconds(time: float) -> str:
    """Format a duration in seconds or, from two minutes on, in minutes."""
    return f"{time:.1f}{NBSP}s" if time < 120 else f"{time / 60:.1f}{NBSP}min"


def compared(gain: float) -> str:
    """Say in words what a party gains over going alone."""
    if abs(gain) < 0.005:
        return "is as well off as alone"
    return f"gains {nats(gain)} nats over going alone" if gain > 0 else f"is {nats(-gain)} nats worse off than alone"
