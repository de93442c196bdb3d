"""Sample a batch of scenarios from released moments, side by side in threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.cores import single_threaded_blas, usable_cores
from equipoise.inference.conjugate import repaired
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import Releases
from equipoise.inference.regression.posterior import Sample, sample_posterior
from equipoise.inference.regression.statistic import MomentMap
from equipoise.inference.scenario import Rule

if TYPE_CHECKING:
    from equipoise.inference.observations import Observations


SPECK = 1e-9  # of variance for each row
LEAST = 1e-4  # eigenvalue of repaired moments, as a share of the largest: no mode is found on sharper ridges


class ReleasedSums(NamedTuple):
    """Released sums of all parties [parties, entries] with the variance of their noise, and rows [parties].

    `added` is the standard deviation of the noise that τ = 1 adds.
    """

    statistic: Floats
    rows: Floats
    variance: Floats
    added: Floats

    @classmethod
    def of(cls, observations: "Observations", *, is_exact: bool = False) -> "ReleasedSums":
        """Take observations as NumPy's arrays; exact sums get a speck of noise, which keeps matrices regular."""
        statistic, rows, variance, added = (np.asarray(part) for part in observations[:4])
        if is_exact:
            variance, added = np.broadcast_to(SPECK * rows[:, None], statistic.shape), np.zeros_like(statistic)
        return cls(statistic, rows, variance, added)


class Asked(NamedTuple):
    """One scenario: members, κ, τ by party, the unit noise that τ scales, and how many draws to make by which seed."""

    member: Floats
    kappa: float
    tau: Floats
    noise: Floats | None
    draws: int
    seed: int


def releases_of(moments: MomentMap, sums: ReleasedSums, asked: Asked) -> Releases:
    """Take a scenario's releases, with the noise that it adds; its shape is the same for all parties."""
    inside = asked.member > 0
    tau = asked.tau[inside][:, None]
    statistic, added = sums.statistic[inside], sums.added[inside]
    if asked.noise is not None:
        statistic = statistic + np.sqrt(tau) * added * asked.noise[inside]
    variance = moments.ordered(sums.variance[inside] + tau * added**2)
    return Releases(moments.ordered(statistic), sums.rows[inside], variance[:, 0] / variance[0, 0], variance[0])


def repair_sums(moments: MomentMap, sums: ReleasedSums) -> ReleasedSums:
    """Replace sums, which noise may have made impossible, by such that some rows within [−1, 1] could have.

    Matrices of sums of products are made positive semi-definite, and scaled to no larger squares than the rows allow.
    """
    width = moments.width
    statistic = sums.statistic.copy()
    for party, (released, rows) in enumerate(zip(moments.ordered(sums.statistic), sums.rows, strict=True)):
        means = released / rows
        matrix = np.empty((width + 2, width + 2))
        matrix[:-1, :-1] = moments.second_moments(means[: moments.features])
        matrix[-1, :-1] = matrix[:-1, -1] = means[moments.features :][: width + 1]
        matrix[-1, -1] = means[-1] if moments.has_square else 1.0
        matrix = repaired(matrix, fixed=[width] if moments.has_square else [width, width + 1], least=LEAST)
        scale = 1 / np.sqrt(np.maximum(1.0, np.diag(matrix)))
        i, j = moments.pairs.T
        statistic[party, moments.order] = rows * (matrix * np.outer(scale, scale))[i, j]
    return sums._replace(statistic=statistic)


def sample_batch(
    model: RegressionModel,
    sums: ReleasedSums,
    batch: Sequence[Asked],
    rule: Rule,
    finished: Callable[[int, Sample], None],
    *,
    threads: int | None = None,
) -> None:
    """Sample every scenario of a batch, and hand each over in the batch's order."""

    def run(asked: Asked) -> Sample:
        scaled = rule == "scaled"
        return sample_posterior(
            model,
            releases_of(model.moments, sums, asked),
            np.random.default_rng(asked.seed),
            asked.draws,
            power=1.0 if scaled else asked.kappa,
            sampling=1 / asked.kappa if scaled else 1.0,
        )

    # Matrices are small: threads of BLAS would wait for each other, so each scenario keeps to one core.
    number = min(threads or usable_cores(), len(batch))
    with single_threaded_blas(), ThreadPoolExecutor(number) as pool:
        for place, sample in enumerate(pool.map(run, batch)):
            finished(place, sample)
