"""The sum of the others' releases that a reward carries; `equipoise.reward.others` turns it into a likelihood."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from equipoise._util.arrays import Floats

if TYPE_CHECKING:
    # A service that only hands rewards on should not have to load the pooling code.
    from equipoise.inference.pooling import Releases


@dataclass(frozen=True)
class OthersSums:
    """One weighted sum of the others' statistics: entries in the statistic's order, with the variance of their noise.

    It is distributed like one release of a table with `rows` rows, which need not be a whole number.
    """

    rows: float
    statistic: Floats
    variance: Floats

    @classmethod
    def of(cls, releases: "Releases") -> Self:
        """Return the sums in releases that were already added up to a single one."""
        return cls(float(releases.rows[0]), releases.statistic[0], releases.scale[0] * releases.shape)
