"""What of a posterior is handed to a party: the model's own parameters.

Regressions also have parameters of the features' distribution, for every party apart where the agreement says so
(`scope = "per-party"`). Inference needs them; who is told how the others' features are distributed learns more of their
tables than the model says, and neither prediction nor the value of a reward depends on it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference.posterior import Posterior


def own_part(agreement: Agreement, posterior: Posterior) -> Posterior:
    """A posterior with draws and diagnostics of the model's own parameters alone, and without its divergence.

    The divergence is an exact number of everybody's releases: who had them could work out more than draws tell.
    Draws can be no better than the chains they are from: the worst diagnostic of all other parameters stays, as one.
    """
    focus = len(agreement.model.coordinate_names())  # of the model's own parameters, which come first
    found = posterior.diagnostics
    return replace(
        posterior,
        draws={name: values for name, values in posterior.draws.items() if name in agreement.model.parameters},
        diagnostics=replace(
            found,
            rhat=_own(found.rhat, focus, np.max),
            ess_bulk=_own(found.ess_bulk, focus, np.min),
            ess_tail=_own(found.ess_tail, focus, np.min),
        ),
        divergence=None,
    )


def _own(values: Floats, focus: int, worst: Callable[[Floats], Any]) -> Floats:
    others = values[focus:]
    return np.append(values[:focus], worst(others)) if others.size else values
