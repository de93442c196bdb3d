"""The experiments with as little sampling as shows something, and posteriors from exact statistics."""

import numpy as np

from equipoise.inference.infer import infer_exact
from equipoise.inference.posterior import Posterior
from equipoise.models import layout_of
from equipoise_paper.effort import Effort
from equipoise_paper.releases import statistics_of
from equipoise_paper.settings import PARTIES, Setting

LITTLE = 640  # draws: enough to tell two nats from three
TINY = Effort("quick", 1, LITTLE, LITTLE)


def exact_posterior(setting: Setting, draws: int) -> Posterior:
    """Everybody's, from exact statistics in scaled units."""
    agreement = setting.agreement(PARTIES)
    steps = np.array(layout_of(agreement).steps_per_unit, float)
    statistics = {
        party: (one.count, (np.array(one.values, float) / steps).tolist())
        for party, one in statistics_of(setting).items()
    }
    return infer_exact(agreement, statistics, draws=draws, progress=False)
