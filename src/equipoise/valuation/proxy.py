"""A cheap stand-in for coalition values, in closed form (docs/maths.md §6).

Regressions have the normal approximation of every coalition's posterior, from pooled releases
(`inference/regression/approximation.py`); milliseconds a coalition, where sampling takes some hundred.

Other models have one expansion for all coalitions. Near the mode x̂ of everybody's posterior, party i's log likelihood
is about gᵢ·(x − x̂) − ½ (x − x̂)ᵀ Iᵢ (x − x̂). With the prior N(0, I), a coalition's posterior is then N(m, P⁻¹),
P = I + Σ Iᵢ, P m = Σ (Iᵢ x̂ + gᵢ), and the divergence of its part that belongs to the model's own parameters is known.
Microseconds a coalition, where sampling takes seconds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.inference import collapsed
from equipoise.inference.observations import Scenarios
from equipoise.inference.problem import observations_of, problem_of
from equipoise.inference.regression.approximation import approximate_divergences
from equipoise.inference.regression.batch import Asked, ReleasedSums, releases_of
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import Releases
from equipoise.inference.regression.statistic import MomentMap
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, use_compilation_cache
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission

Proxy = Callable[[NDArray[np.bool_]], Floats]

NUMBERS_AT_ONCE = 20_000_000  # of double precision, in one batch of matrices


def normal_surprise(model: Any, mean: Floats, covariance: Floats) -> Floats:
    """KL divergence from the prior of the model's own parameters, positions being N(mean [..., d], cov [..., d, d])."""
    focus = model.focus
    return _from_standard(mean[..., :focus], covariance[..., :focus, :focus])


def _from_standard(mean: Floats, covariance: Floats) -> Floats:
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    size = np.sum(mean**2, axis=-1) - mean.shape[-1]
    return np.asarray(0.5 * (trace + size - np.linalg.slogdet(covariance)[1]))


def normal_proxy(agreement: Agreement, submissions: Sequence[Submission]) -> Proxy:
    """Return a function from memberships [coalitions, submissions] to approximate values in nats."""
    if isinstance(agreement.model, Regression):
        model = RegressionModel.of(agreement.model)
        return approximate_divergences(model, _releases(agreement, submissions, model.moments))
    return _expanded(agreement, submissions)


def _releases(agreement: Agreement, submissions: Sequence[Submission], moments: MomentMap) -> Releases:
    """Take releases as they were submitted."""
    sums = ReleasedSums.of(observations_of(agreement, submissions))
    slots = [agreement.party_names.index(submission.party) for submission in submissions]
    taken = ReleasedSums(*(part[slots] for part in sums))
    everybody = np.ones(len(slots))
    return releases_of(moments, taken, Asked(everybody, 1.0, np.zeros(len(slots)), None, draws=0, seed=0))


@double_precision
def _expanded(agreement: Agreement, submissions: Sequence[Submission]) -> Proxy:
    """Expand every party's log likelihood at everybody's mode."""
    use_compilation_cache()
    problem = problem_of(agreement, observations_of(agreement, submissions))
    slots = [agreement.party_names.index(submission.party) for submission in submissions]
    member = np.zeros(problem.model.slots)
    member[slots] = 1
    everybody = Scenarios(jnp.asarray(member), jnp.asarray(1.0), jnp.zeros(len(member)))
    with ONE_AT_A_TIME:
        normals = jax.tree.map(
            np.asarray, collapsed.party_normals(problem.model, problem.prior, problem.observations, everybody)
        )
    informations = normals.informations[slots]
    pulls = informations @ normals.position + normals.slopes[slots]
    dimension = len(normals.position)

    def values(inside: NDArray[np.bool_]) -> Floats:
        size = max(1, NUMBERS_AT_ONCE // dimension**2)
        parts = [_divergences(part) for part in np.split(inside, range(size, len(inside), size))]
        return np.concatenate(parts)

    def _divergences(inside: NDArray[np.bool_]) -> Floats:
        weights = inside.astype(float)
        covariance = np.linalg.inv(np.eye(dimension) + np.einsum("cp,pij->cij", weights, informations, optimize=True))
        means = np.einsum("cij,cj->ci", covariance, weights @ pulls)
        return normal_surprise(problem.model, means, covariance)

    return values
