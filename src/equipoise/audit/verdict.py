"""What an audit can say, and when two numbers are the same."""

import math
from typing import Literal

Verdict = Literal["holds", "fails", "cannot tell"]
Found = tuple[Verdict, str]  # with the reason, in words and numbers

SAME = 1e-9  # relative; for numbers that were computed from the same ones


def same(first: float, second: float) -> bool:
    """Whether two numbers differ by rounding at most."""
    return math.isclose(first, second, rel_tol=SAME, abs_tol=SAME)
