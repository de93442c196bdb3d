"""What one would have without noise, or by ignoring it: independent draws from conjugate posteriors.

* exact: the statistics are taken as they are; right when they are exact.
* naive: the same, from *perturbed* statistics. They need not be the statistic of any rows (negative sums of squares),
  so they are first **repaired**: second-moment matrices are projected on the positive semi-definite ones and scaled
  back to the public row count; counts and sums are clipped to their possible range. Its posterior ignores the noise
  and is overconfident; it is here to be compared with.

Tempering by κ multiplies statistics and row counts, for which both rules agree. Clipping is ignored, as the conjugate
updates of the paper do. Logistic regression has no conjugate posterior, nor has linear regression with a standardised
prior: their baselines are posteriors with the noise variance set to almost nothing (`regression/batch.py`).
"""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.engine import Problem
from equipoise.inference.models.base import Released


def conjugate_draws(
    rng: np.random.Generator, problem: Problem, member: Floats, kappa: float, draws: int, *, repair: bool
) -> dict[str, Floats]:
    """Independent draws of every parameter from the conjugate posterior of a coalition's statistics."""
    inside = member > 0
    statistic = np.asarray(problem.observations.statistic)[inside]
    released = Released(statistic, np.asarray(problem.observations.rows)[inside], inside, kappa, repair)
    found: dict[str, Floats] = problem.model.conjugate_draws(rng, problem.prior, released, draws)
    return found
