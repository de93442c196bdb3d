"""Rounds that might be: parameters from the agreed prior, then what the parties would release, and rows to predict.

Nothing here has seen a row. A statistic of n rows is drawn as inference believes it to be, normal with n times the mean
and covariance of one row, so what follows is an expectation under the very model that will value the real releases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference import collapsed
from equipoise.inference.collapsed import row_moments
from equipoise.inference.observations import Observations
from equipoise.inference.runtime import ONE_AT_A_TIME
from equipoise.models import layout_of
from equipoise.models.base import Rows
from equipoise.models.guarantee import Guarantee

NEW_ROWS = 200  # to predict, in each imagined round
TRIES = 100  # for truths that rows within the bounds can have


@dataclass(frozen=True)
class Assumed:
    """How many rows a party has, and the ε it releases with."""

    rows: int
    epsilon: float


@dataclass(frozen=True)
class ImaginedRound:
    """What all parties released, the truth behind it, and new rows of that truth."""

    observations: Observations
    truth: dict[str, Floats]
    new_rows: Rows


def imagine(
    agreement: Agreement, model: Any, prior: Any, parties: Sequence[Assumed], number: int, rng: np.random.Generator
) -> list[ImaginedRound]:
    """Independent rounds that the agreement, its prior and the parties' assumed sizes could lead to.

    A prior of means has tails beyond the bounds, where no row can be. Truths with such means are drawn anew; with
    thousands of rows, approximations there are wrong by hundreds of nats.
    """
    layout = layout_of(agreement)
    positions = rng.normal(size=(number, model.dimension))
    for attempt in range(TRIES):
        with ONE_AT_A_TIME:
            found = collapsed.parameters(model, prior, jnp.asarray(positions[None]))
            draws = {name: np.asarray(values)[0] for name, values in found.items()}
        moments = [row_moments(model, prior, draws, positions[:, : model.focus], slot) for slot in range(len(parties))]
        impossible = np.max([np.abs(mean).max(axis=1) for mean, _ in moments], axis=0) > 1  # in scaled units
        if not impossible.any() or attempt == TRIES - 1:
            break
        positions[impossible] = rng.normal(size=(int(impossible.sum()), model.dimension))
    deviations = np.array(
        [layout.noise_deviations(Guarantee(agreement.privacy.order, party.epsilon)) for party in parties]
    )
    rows = np.array([float(party.rows) for party in parties])
    epsilons = np.array([party.epsilon for party in parties])
    rounds = []
    for index in range(number):
        sums = np.stack(
            [
                rng.multivariate_normal(count * mean[index], count * covariance[index], method="eigh")
                for count, (mean, covariance) in zip(rows, moments, strict=True)
            ]
        )
        released = sums + deviations * rng.normal(size=sums.shape)
        added = np.sqrt(epsilons[:, None]) * deviations  # what τ = 1 adds: see `observations_of`
        arrays = (released, rows, deviations**2, added, rng.normal(size=sums.shape))
        truth = {name: values[index : index + 1] for name, values in draws.items()}
        observations = Observations(*(jnp.asarray(array) for array in arrays))
        rounds.append(ImaginedRound(observations, truth, agreement.model.imagine(truth, NEW_ROWS, rng)))
    return rounds
