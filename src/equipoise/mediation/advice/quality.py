"""How well a model of a given value predicts, expected over imagined rounds.

The approximate posteriors of a round are tempered to the value in question, and predict new rows of the round's truth.
Quality is the share of what could be gained: 0 for the prior's loss, 1 for that of somebody who knows the truth.
"""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from scipy import optimize, special

from equipoise._util.arrays import Floats
from equipoise.inference import collapsed
from equipoise.inference.runtime import ONE_AT_A_TIME
from equipoise.mediation.advice.expected import Known, Normal, Task, tempered, tempered_surprise
from equipoise.models.base import Rows
from equipoise.reward.scoring import loss_on

DRAWS = 256
SHARE = 0.9  # of new rows, that an interval is to hold


def predictions(
    tasks: Sequence[Task],
    normals: Sequence[Sequence[Known]],
    shares: Floats,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats]:
    """Losses, and widths of prediction intervals, both [rounds, choices, (prior, alone, reward, truth)].

    And by which κ everybody's posterior is tempered to the reward [rounds, choices].

    `shares` [choices, 2] are the values of the party alone and of its reward, as shares of what its own and everybody's
    approximate posterior is worth in expectation.
    """
    found: list[list[list[float]]] = []
    widths: list[list[list[float]]] = []
    kappas = np.empty((len(tasks), len(shares)))
    for round_, (task, choices) in enumerate(zip(tasks, normals, strict=True)):
        model, one = task.model, task.one
        noise = rng.normal(size=(DRAWS, model.dimension))  # the same for all choices, so that they can be compared
        positions = [noise]
        for k, (known, wanted) in enumerate(zip(choices, shares, strict=True)):
            for normal, share in zip((known.alone, known.everybody), wanted, strict=True):
                kappas[round_, k] = _kappa(task, normal, share)  # at last the reward's
                mean, covariance = tempered(normal, kappas[round_, k])
                positions.append(mean + noise @ np.linalg.cholesky(covariance).T)
        with ONE_AT_A_TIME:
            drawn = collapsed.parameters(model, task.prior, jnp.asarray(np.stack(positions)))
            draws = {name: np.asarray(values) for name, values in drawn.items()}
        each = [{name: values[place] for name, values in draws.items()} for place in range(len(positions))]
        places = [(0, 1 + 2 * k, 2 + 2 * k, -1) for k in range(len(choices))]
        for table, measure in ((found, lambda rows, known: loss_on(rows, known).value), (widths, width)):
            measured = [measure(one.new_rows, draws_) for draws_ in (*each, one.truth)]
            table.append([[measured[place] for place in four] for four in places])
    return np.array(found), np.array(widths), kappas


def width(rows: Rows, draws: Mapping[str, Floats]) -> float:
    """Width of the interval that should hold 90 % of new targets, in the target's unit; not a number for labels.

    The predictive distribution is taken to be normal, with its mean and variance, and the median row stands for all.
    """
    variance = rows.model.predictive_variance(dict(draws), rows.features)
    if variance is None:
        return float("nan")
    deviation = float(np.median(np.sqrt(variance)))
    return 2 * float(special.ndtri((1 + SHARE) / 2)) * deviation * rows.unit


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
