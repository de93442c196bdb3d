"""A cheap stand-in for coalition values, in closed form (docs/maths.md §6).

It is the normal approximation of every coalition's posterior, from pooled releases (`inference/approximation.py`):
milliseconds a coalition, where sampling takes some hundred.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference.approximation import approximate_divergences
from equipoise.inference.batch import Asked, releases_of
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.released import released_sums, sampler_of
from equipoise.protocol.submission import Submission

Proxy = Callable[[NDArray[np.bool_]], Floats]


def normal_proxy(agreement: Agreement, submissions: Sequence[Submission]) -> Proxy:
    """Return a function from memberships [coalitions, submissions] to approximate values in nats."""
    sampler = sampler_of(agreement.model)
    sums = released_sums(agreement, submissions)
    places = [agreement.party_names.index(submission.party) for submission in submissions]
    taken = ReleasedSums(*(part[places] for part in sums))  # as they were submitted
    everybody = Asked(np.ones(len(places)), 1.0, np.zeros(len(places)), None, draws=0, seed=0)
    return approximate_divergences(sampler.expand(releases_of(taken, everybody, sampler.order)))
