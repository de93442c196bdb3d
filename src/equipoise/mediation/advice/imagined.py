"""Rounds that might be: parameters from the agreed prior, then what the parties would release, and rows to predict.

Nothing here has seen a row. A statistic of n rows is drawn as inference believes it to be, normal with n times the mean
and covariance of one row, so what follows is an expectation under the very model that will value the real releases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.guarantee import Guarantee
from equipoise.inference import collapsed
from equipoise.inference.observations import Observations
from equipoise.inference.predictive import row_moments
from equipoise.inference.runtime import ONE_AT_A_TIME
from equipoise.models import ScaledColumn, layout_of
from equipoise.reward.scoring import Rows

Floats = NDArray[np.float64]

NEW_ROWS = 200  # to predict, in each imagined round


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
    """So many independent rounds."""
    layout = layout_of(agreement)
    positions = rng.normal(size=(number, model.dimension))
    with ONE_AT_A_TIME:
        found = collapsed.parameters(model, prior, jnp.asarray(positions[None]))
        draws = {name: np.asarray(values)[0] for name, values in found.items()}
    moments = [row_moments(model, prior, draws, positions[:, : model.focus], slot) for slot in range(len(parties))]
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
        rounds.append(
            ImaginedRound(
                Observations(*(jnp.asarray(array) for array in arrays)), truth, _new_rows(agreement, truth, rng)
            )
        )
    return rounds


def _new_rows(agreement: Agreement, truth: Mapping[str, Floats], rng: np.random.Generator) -> Rows:
    """Rows of one truth, in the units of `Rows`."""
    kind = agreement.model.kind
    one = {name: values[0] for name, values in truth.items()}
    if kind in ("linear", "logistic"):
        mean, covariance = one["feature_mean"], one["feature_covariance"]
        if mean.ndim == 2:  # every party has its own distribution of features
            mean, covariance = mean[0], covariance[0]
        features = rng.multivariate_normal(mean, covariance, NEW_ROWS, method="cholesky")
        features = np.column_stack([features, np.ones(NEW_ROWS)])
        predicted = features @ one["weights"]
        if kind == "logistic":
            positive = rng.uniform(size=NEW_ROWS) < 1 / (1 + np.exp(-predicted))
            return Rows(features, np.where(positive, 1.0, -1.0), 1.0, kind)
        noise = np.sqrt(one["variance"]) * rng.normal(size=NEW_ROWS)
        return Rows(features, predicted + noise, _half_width(agreement), kind)
    if kind == "gaussian":
        target = one["mean"] + np.sqrt(one["variance"]) * rng.normal(size=NEW_ROWS)
        return Rows(None, target, _half_width(agreement), kind)
    if kind == "bernoulli":
        target = np.asarray(rng.uniform(size=NEW_ROWS) < one["probability"], float)
    elif kind == "categorical":
        below = np.cumsum(one["probabilities"])[:-1]  # the last category gets what is left
        target = np.sum(rng.uniform(size=(NEW_ROWS, 1)) >= below, axis=1).astype(float)
    elif kind == "poisson":
        target = rng.poisson(one["rate"], NEW_ROWS).astype(float)
    else:
        target = rng.exponential(1 / one["rate"], NEW_ROWS)
    return Rows(None, target, 1.0, kind)


def _half_width(agreement: Agreement) -> float:
    column = layout_of(agreement).columns[-1]
    assert isinstance(column, ScaledColumn)
    return column.half_width
