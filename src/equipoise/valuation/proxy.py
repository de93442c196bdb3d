"""A cheap stand-in for coalition values, in closed form (docs/maths.md §6).

Near the mode x̂ of everybody's posterior, party i's log likelihood is about gᵢ·(x − x̂) − ½ (x − x̂)ᵀ Iᵢ (x − x̂). With the
prior N(0, I), a coalition's posterior is then N(m, P⁻¹), P = I + Σ Iᵢ, P m = Σ (Iᵢ x̂ + gᵢ), and the divergence of its
part that belongs to the model's own parameters is known. Microseconds a coalition, where sampling takes seconds.
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
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, use_compilation_cache
from equipoise.protocol.submission import Submission

NUMBERS_AT_ONCE = 20_000_000  # of double precision, in one batch of matrices


def normal_surprise(model: Any, prior: Any, mean: Floats, covariance: Floats) -> Floats:
    """KL divergence from the prior of the model's own parameters, positions being N(mean [..., d], cov [..., d, d]).

    Where own coordinates are no linear functions of positions this is to first order, less what it is for the prior.
    """
    if model.plain:
        focus = model.focus
        return _from_standard(mean[..., :focus], covariance[..., :focus, :focus])
    dimension = mean.shape[-1]
    all_means, all_covariances = mean.reshape(-1, dimension), covariance.reshape(-1, dimension, dimension)
    pairs = [(np.zeros(dimension), np.eye(dimension)), *zip(all_means, all_covariances, strict=True)]
    own = [collapsed.own_normal(model, prior, *pair) for pair in pairs]
    found = _from_standard(np.array([one for one, _ in own]), np.array([one for _, one in own]))
    return np.asarray((found[1:] - found[0]).reshape(mean.shape[:-1]))


def _from_standard(mean: Floats, covariance: Floats) -> Floats:
    trace = np.trace(covariance, axis1=-2, axis2=-1)
    size = np.sum(mean**2, axis=-1) - mean.shape[-1]
    return np.asarray(0.5 * (trace + size - np.linalg.slogdet(covariance)[1]))


@double_precision
def normal_proxy(agreement: Agreement, submissions: Sequence[Submission]) -> Callable[[NDArray[np.bool_]], Floats]:
    """A function from memberships [coalitions, submissions] to approximate values in nats."""
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
        return normal_surprise(problem.model, problem.prior, means, covariance)

    return values
