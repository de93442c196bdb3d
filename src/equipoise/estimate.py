"""A number with its standard error."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its standard error, which covers everything random in how it was computed."""

    value: float
    error: float

    def __post_init__(self) -> None:
        if not self.error >= 0:
            raise ValueError(f"a standard error of {self.error!r} must be 0 or more")

    def __str__(self) -> str:
        return f"{self.value:{self._digits()}} ± {self.error:{self._digits()}}"

    def _digits(self) -> str:
        """As many decimals as show two figures of the error, from 0 to 6."""
        if not (math.isfinite(self.error) and self.error > 0):
            return ".4g"
        return f".{min(6, max(0, 1 - math.floor(math.log10(self.error))))}f"

    def probability_above(self, other: "Estimate | float") -> float:
        """How probable it is that the true number is above another's, if their errors are independent and normal."""
        value, error = (other.value, other.error) if isinstance(other, Estimate) else (float(other), 0.0)
        spread = math.hypot(self.error, error)
        difference = self.value - value
        if spread == 0:
            return 0.5 if difference == 0 else float(difference > 0)
        return 0.5 * math.erfc(-difference / spread / math.sqrt(2))
