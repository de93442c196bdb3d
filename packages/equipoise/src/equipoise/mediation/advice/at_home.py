"""What a party would predict with its own rows, and with rows and reward together: whether joining pays.

A party has its rows at home without noise; a reward is worth what it adds to them (`equipoise party combine`). No row
is read here either: a table of the party's size is imagined of each round's truth. Both posteriors are taken to be
normal where the prior is N(0, I): own rows by the normal that touches their posterior at its mode, and the others'
evidence as it is approximated for everything else, held back as in the reward. The two are multiplied.
"""

from collections.abc import Sequence

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.mediation.advice.expected import Pull, Task
from equipoise.mediation.advice.quality import DRAWS, width
from equipoise.reward.evidence import Normal
from equipoise.reward.scoring import loss_on
from equipoise.reward.slice_sampling import touching

MOST_ROWS = 4_000  # that are imagined; of more, each counts for several
_STREAM = 0x40E


def predictions(
    tasks: Sequence[Task], evidence: Sequence[Sequence[Pull | None]], rows: int, seed: int
) -> tuple[Floats, Floats]:
    """Losses, and widths of prediction intervals, both [rounds, choices, (own rows, own rows and reward)]."""
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
    """Find the posterior of exact rows of the round's truth."""
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
    """Two posteriors of one prior N(0, I) together: their precisions add, and the prior's counts once."""
    first, second = (np.linalg.inv(one.covariance) for one in (own, others))
    inverse = np.linalg.inv(first + second - np.eye(len(own.mean)))
    covariance = np.asarray((inverse + inverse.T) / 2, float)
    return Normal.of(covariance @ (first @ own.mean + second @ others.mean), covariance)
