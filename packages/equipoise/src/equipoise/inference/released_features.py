"""Features of a regression as released sums describe them: how far they spread, and rows like a party's.

A posterior has the model's own parameters alone. What is asked here is about the releases themselves, and is worked out
from them: by the mediator, to look whether they are plausible, and to say what errors a party may expect.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.cores import one_core_each
from equipoise.agreement import Agreement
from equipoise.inference.batch import Asked, releases_of
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.observation import observe_targets
from equipoise.inference.regression.population import MOST_MOMENTS, simulate, weigh
from equipoise.inference.regression.problem import first_row_covariance, settle_row_covariances
from equipoise.inference.released import released_sums
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission


class Deviations(NamedTuple):
    """Standard deviations that number columns may have, two standard errors either way [numbers]."""

    least: Floats
    most: Floats


def deviations_of(agreement: Agreement, submissions: Sequence[Submission]) -> Deviations:
    """Return the range of the numbers' standard deviations, in scaled units, from what was released of them."""
    model, releases = _read(agreement, submissions)
    means, covariance = _moments(model, releases)
    squares = model.moments.places
    numbers = np.array(model.agreed.coding.numbers, np.intp)
    first, second = squares[numbers, -1], squares[numbers, numbers]
    variances = means[second] - means[first] ** 2
    slopes = np.zeros((len(numbers), len(means)))
    slopes[np.arange(len(numbers)), second] = 1.0
    slopes[np.arange(len(numbers)), first] = -2 * means[first]
    errors = np.sqrt(np.einsum("ni,ij,nj->n", slopes, covariance, slopes))
    least, most = (np.sqrt(np.maximum(variances + sign * 2 * errors, 0.0)) for sign in (-1, 1))
    return Deviations(least, most)


@one_core_each()
def row_covariance_of(agreement: Agreement, submissions: Sequence[Submission]) -> Floats:
    """Return the covariance of one row's contribution, in the statistic's order, at the mode of the posterior."""
    model, releases = _read(agreement, submissions)
    (covariance, *_) = settle_row_covariances(model, releases).covariances
    ordered = np.empty_like(covariance)
    ordered[np.ix_(model.moments.order, model.moments.order)] = covariance
    return ordered


@one_core_each()
def rows_like(agreement: Agreement, submission: Submission, number: int, rng: np.random.Generator) -> Floats:
    """Simulate rows of terms, with a last column of ones, that have about the feature moments of a release."""
    model, releases = _read(agreement, [submission])
    moments = model.moments
    means, covariance = _moments(model, releases)
    rows = simulate(moments, model.blocks, moments.second_moments(means))
    population = None if moments.features > MOST_MOMENTS else weigh(moments, rows, means, covariance)
    chosen = rng.choice(len(rows), size=number, p=None if population is None else population.weights)
    return np.asarray(rows[chosen])


def _read(agreement: Agreement, submissions: Sequence[Submission]) -> tuple[RegressionModel, Releases]:
    assert isinstance(agreement.model, Regression)
    model = RegressionModel.of(agreement.model)
    sums = released_sums(agreement, submissions)
    member = np.isin(agreement.party_names, [submission.party for submission in submissions]).astype(float)
    return model, releases_of(sums, Asked(member, 1.0, np.zeros(len(member)), None, 0, 0), model.moments.order)


def _moments(model: RegressionModel, releases: Releases) -> tuple[Floats, Floats]:
    """Return mean and covariance of what is known of the feature moments."""
    pooled = pool(releases, first_row_covariance(model.moments, releases))
    observation = observe_targets(model.moments, pooled, model.feature_prior)
    return observation.features, observation.feature_covariance
