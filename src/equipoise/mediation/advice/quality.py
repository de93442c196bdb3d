"""How well a model of a given value predicts, expected over imagined rounds.

The approximate posteriors of a round are tempered to the value in question, and predict new rows of the round's truth.
Quality is the share of what could be gained: 0 for the prior's loss, 1 for that of somebody who knows the truth.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from equipoise.inference import collapsed
from equipoise.inference.runtime import ONE_AT_A_TIME
from equipoise.mediation.advice.expected import Normal, Task, tempered, tempered_surprise
from equipoise.reward.scoring import loss_on

Floats = NDArray[np.float64]

DRAWS = 256


def losses(
    tasks: Sequence[Task],
    normals: Sequence[Sequence[tuple[Normal, Normal]]],
    shares: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Losses [rounds, choices, (prior, alone, reward, truth)].

    `shares` [choices, 2] are the values of the party alone and of its reward, as shares of what its own and everybody's
    approximate posterior is worth in expectation.
    """
    found = []
    for task, choices in zip(tasks, normals, strict=True):
        model, one = task.model, task.one
        noise = rng.normal(size=(DRAWS, model.dimension))  # the same for all choices, so that they can be compared
        positions = [noise]
        for pair, wanted in zip(choices, shares, strict=True):
            for normal, share in zip(pair, wanted, strict=True):
                mean, covariance = tempered(normal, _kappa(task, normal, share))
                positions.append(mean + noise @ np.linalg.cholesky(covariance).T)
        with ONE_AT_A_TIME:
            drawn = collapsed.parameters(model, task.prior, jnp.asarray(np.stack(positions)))
            draws = {name: np.asarray(values) for name, values in drawn.items()}
        each = [
            loss_on(one.new_rows, {name: values[place] for name, values in draws.items()}).value
            for place in range(len(positions))
        ]
        truth = loss_on(one.new_rows, one.truth).value
        found.append([[each[0], each[1 + 2 * k], each[2 + 2 * k], truth] for k in range(len(choices))])
    return np.array(found)


def _kappa(task: Task, normal: Normal, share: float) -> float:
    """The κ at which a normal is worth a share of what it is worth whole."""
    whole = tempered_surprise(task, normal, 1.0)
    if share >= 1 or whole <= 0:
        return 1.0
    if share <= 0:
        return 0.0
    return float(
        optimize.brentq(lambda kappa: tempered_surprise(task, normal, kappa) - share * whole, 0.0, 1.0, xtol=1e-4)
    )
