"""A number with its standard error."""

import math
from dataclasses import dataclass

# Thresholds in standard errors. A difference below UNSURE may be chance. One above SURE is not, however many are
# compared. A number counts as positive above ABOVE_ZERO: of a thousand numbers that are truly 0, about one does.
UNSURE, ABOVE_ZERO, SURE = 2.0, 3.0, 4.0


@dataclass(frozen=True)
class Estimate:
    """An estimated number and its standard error, which covers everything random in how it was computed.

    `float(estimate)` is the number. The difference of two estimates takes their errors to be independent.

    Parameters
    ----------
    value : float
        The number.
    error : float
        Its standard error, 0 or more.

    Raises
    ------
    ValueError
        The standard error is negative, or not a number.

    Examples
    --------
    >>> print(eq.Estimate(2.314, 0.041) - eq.Estimate(2.0, 0.03))
    0.314 ± 0.051
    """

    value: float
    error: float

    def __post_init__(self) -> None:
        if not self.error >= 0:
            raise ValueError(f"a standard error of {self.error!r} must be 0 or more")

    def __str__(self) -> str:
        return f"{self.value:{self._digits()}} ± {self.error:{self._digits()}}"

    def __float__(self) -> float:
        return self.value

    def _digits(self) -> str:
        """Return a format with enough decimals, 0 to 6, to show two significant digits of the error."""
        if not (math.isfinite(self.error) and self.error > 0):
            return ".4g"
        return f".{min(6, max(0, 1 - math.floor(math.log10(self.error))))}f"

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Subtract an estimate with an independent error."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def z_score(self) -> float:
        """The value divided by its standard error; if the error is 0, infinite, or 0 for a value of 0."""
        if self.error == 0:
            return math.copysign(math.inf, self.value) if self.value else 0.0
        return self.value / self.error

    def probability_above(self, other: "Estimate | float") -> float:
        """Return the probability that the true number is above another, if errors are independent and normal.

        Parameters
        ----------
        other : Estimate or float
            What to compare with; a plain number has no error.

        Returns
        -------
        float
            From 0 to 1.

        Examples
        --------
        >>> round(eq.Estimate(2.3, 0.1).probability_above(2.1), 3)
        0.977
        """
        difference = self - (other if isinstance(other, Estimate) else Estimate(float(other), 0.0))
        return 0.5 * math.erfc(-difference.z_score / math.sqrt(2))
