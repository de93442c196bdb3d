"""The sum of the others' releases that a reward carries; what it says is in `equipoise.reward.others`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from equipoise._util.arrays import Floats

if TYPE_CHECKING:
    from equipoise.inference.pooling import Releases  # which a service that hands rewards on need not load


@dataclass(frozen=True)
class OthersSums:
    """One weighted sum of the others' statistics: entries in the statistic's order, with the variance of their noise.

    It is distributed as the release of so many `rows`, which need not be a whole number.
    """

    rows: float
    statistic: Floats
    variance: Floats

    @classmethod
    def of(cls, releases: "Releases") -> Self:
        """Take releases that were added up to one."""
        return cls(float(releases.rows[0]), releases.statistic[0], releases.scale[0] * releases.shape)
