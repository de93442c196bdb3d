"""Predictions of a party from its own rows, and from own rows and reward together, to see if joining pays.

A party has its own rows without noise, so a reward is worth what it adds to them (`equipoise party combine`). No row
is read here either: a table of the party's size is simulated from each round's truth. Both posteriors are taken to be
normal in coordinates where the prior is N(0, I). The posterior of own rows is the normal with the same mode and
curvature there. The others' evidence is approximated as in the rest of this package and held back as in the reward.
The two are multiplied.
"""

from collections.abc import Sequence

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.mediation.advice.expected import Pull, Task
from equipoise.mediation.advice.quality import DRAWS, width
from equipoise.reward.evidence import Normal
from equipoise.reward.scoring import loss_on
from equipoise.reward.slice_sampling import touching

# Rows to simulate at most. If a party has more, each simulated row counts for several.
MOST_ROWS = 4_000
_STREAM = 0x40E


def predictions(
    tasks: Sequence[Task], evidence: Sequence[Sequence[Pull | None]], rows: int, seed: int
) -> tuple[Floats, Floats]:
    """Return losses and widths of prediction intervals, both [rounds, choices, (own rows, own rows and reward)]."""
    shape = (len(tasks), len(evidence[0]), 2)
    losses, widths = np.empty(shape), np.empty(shape)
    for place, task in enumerate(tasks):
        rng = np.random.default_rng([_STREAM, seed, place])
        own = _own_rows(task, rows, rng)
        noise = rng.normal(size=(DRAWS, len(own.mean)))
        for k, others in enumerate(evidence[place]):
            both = own
            if others is not None:
                both = _product(own, Normal.narrowed(*others.posterior()))
            for column, normal in enumerate((own, both)):
                draws = task.engine.model.at_coordinates(normal.mean + noise @ normal.root.T)
                losses[place, k, column] = loss_on(task.one.new_rows, draws).value
                widths[place, k, column] = width(task.one.new_rows, draws)
    return losses, widths


def _own_rows(task: Task, rows: int, rng: np.random.Generator) -> Normal:
    """Approximate the posterior of a table of exact rows, simulated from the round's truth."""
    model = task.engine.model
    number = min(rows, MOST_ROWS)
    likelihood = model.likelihood_of(task.one.truth.draw_rows(number, rng))
    prior = Normal.prior(task.engine.dimension)

    def log_density(points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = prior.log_density(points) + rows / number * likelihood(model.at_coordinates(points))
        return np.where(np.isfinite(found), found, -np.inf)

    return touching(log_density, prior)


def _product(own: Normal, others: Normal) -> Normal:
    """Combine two posteriors of one prior N(0, I): their precisions add, and that of the prior counts once."""
    first, second = (np.linalg.inv(one.covariance) for one in (own, others))
    inverse = np.linalg.inv(first + second - np.eye(len(own.mean)))
    covariance = np.asarray((inverse + inverse.T) / 2, float)
    return Normal.of(covariance @ (first @ own.mean + second @ others.mean), covariance)
