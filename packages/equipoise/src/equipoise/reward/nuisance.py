"""The part of a posterior that a party receives: the model's own parameters.

Regressions also have parameters of the features' distribution, separate for each party if the agreement says so
(`scope = "per-party"`). Inference needs them, but a reward leaves them out: the distribution of the others' features
would tell a recipient more of their tables than the model says, and neither prediction nor the reward's value needs it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference.posterior import Posterior


def own_part(agreement: Agreement, posterior: Posterior) -> Posterior:
    """Return a posterior with draws and diagnostics of the model's own parameters only, and without its divergence.

    The divergence is dropped because it is an exact function of everybody's releases, which tells more than draws do.
    Draws can be no better than the chains they come from, so the worst diagnostic of all other parameters is kept as a
    single number.
    """
    # The model's own parameters come first among the coordinates.
    dimension = len(agreement.model.coordinate_names())
    diagnostics = posterior.diagnostics
    return replace(
        posterior,
        draws={name: values for name, values in posterior.draws.items() if name in agreement.model.parameters},
        diagnostics=replace(
            diagnostics,
            rhat=_own(diagnostics.rhat, dimension, np.max),
            ess_bulk=_own(diagnostics.ess_bulk, dimension, np.min),
            ess_tail=_own(diagnostics.ess_tail, dimension, np.min),
        ),
        divergence=None,
    )


def _own(values: Floats, dimension: int, worst: Callable[[Floats], Any]) -> Floats:
    others = values[dimension:]
    return np.append(values[:dimension], worst(others)) if others.size else values
