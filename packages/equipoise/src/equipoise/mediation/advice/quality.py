"""Expected quality of predictions by models of a given value, over simulated rounds.

The approximate posteriors of a round are held back to the value in question, and predict new rows of the round's truth.
They are tempered, or degraded as far as normal likelihoods allow; for the mechanism "noise" they are tempered, too.
Quality is the share of the possible gain that is achieved: 0 for the prior's loss, 1 for the loss of the truth itself.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import optimize, special

from equipoise._util.arrays import Floats
from equipoise.mediation.advice.expected import Known, Pull, Task, pull_of, worth
from equipoise.models.base import Rows
from equipoise.reward.scoring import loss_on

DRAWS = 256
# Share of new rows that a prediction interval should hold.
SHARE = 0.9


def predictions(
    tasks: Sequence[Task],
    normals: Sequence[Sequence[Known]],
    shares: Floats,
    rng: np.random.Generator,
    *,
    degrade: bool,
) -> tuple[Floats, Floats, list[list[Pull | None]]]:
    """Return losses and widths of prediction intervals, both [rounds, choices, (prior, alone, reward, truth)].

    The third result is the others' evidence in the reward, by round and choice; None if there are no others.

    `shares` [choices, 2] are the values of the party alone and of its reward, as shares of the expected values of its
    own and of everybody's approximate posterior.
    """
    found: list[list[list[float]]] = []
    widths: list[list[list[float]]] = []
    evidence: list[list[Pull | None]] = []
    for task, choices in zip(tasks, normals, strict=True):
        engine, one = task.engine, task.one
        noise = rng.normal(size=(DRAWS, engine.dimension))  # the same for all choices, so that they can be compared
        positions = [noise]
        path = rng.normal(size=engine.dimension) if degrade else None
        evidence.append([])
        for known, (of_own, of_all) in zip(choices, shares, strict=True):
            alone, everybody = pull_of(known.alone), pull_of(known.everybody)
            first = alone.tempered(_kappa(alone.tempered, of_own * worth(alone)))
            others = None if known.others is None else pull_of(known.others)
            reward, held_back = _reward(alone, everybody, others, of_all, path)
            evidence[-1].append(held_back)
            for pull in (first, reward):
                mean, covariance = pull.posterior()
                positions.append(mean + noise @ np.linalg.cholesky(covariance).T)
        each = [engine.model.at_coordinates(part) for part in positions]
        places = [(0, 1 + 2 * k, 2 + 2 * k, -1) for k in range(len(choices))]
        for table, measure in ((found, lambda rows, known: loss_on(rows, known).value), (widths, width)):
            measured = [measure(one.new_rows, draws_) for draws_ in (*each, one.truth.draws)]
            table.append([[measured[place] for place in four] for four in places])
    return np.array(found), np.array(widths), evidence


def width(rows: Rows, draws: Mapping[str, Floats]) -> float:
    """Return the width of the interval that should hold 90 % of new targets, in the target's unit; NaN for labels.

    The predictive distribution is taken to be normal, with its mean and variance, and the median row stands for all.
    """
    variance = rows.model.predictive_variance(dict(draws), rows.features)
    if variance is None:
        return float("nan")
    deviation = float(np.median(np.sqrt(variance)))
    return 2 * float(special.ndtri((1 + SHARE) / 2)) * deviation * rows.unit


def _reward(
    alone: Pull, everybody: Pull, others: Pull | None, share: float, path: Floats | None
) -> tuple[Pull, Pull | None]:
    """Return the likelihood of a reward worth a share of everybody's, and the part of it that is the others'."""
    target = share * worth(everybody)
    if others is None:
        return everybody, None
    if path is None:
        kappa = _kappa(everybody.tempered, target)
        return everybody.tempered(kappa), others.tempered(kappa)

    def held_back(kappa: float) -> Pull:
        return alone.and_(others.degraded(kappa, path))

    kappa = _kappa(held_back, target)
    return held_back(kappa), others.degraded(kappa, path)


def _kappa(held_back: Callable[[float], Pull], target: float) -> float:
    """Find κ in [0, 1] at which the held-back likelihood is worth the target; return the closest end if none is."""
    if worth(held_back(1.0)) <= target:
        return 1.0
    if worth(held_back(0.0)) >= target:
        return 0.0
    return float(optimize.brentq(lambda kappa: worth(held_back(kappa)) - target, 0.0, 1.0, xtol=1e-4))
