"""Value of parties' releases: KL(posterior ‖ prior) of the model's own parameters, in nats (paper §3)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.estimate import Estimate
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.base import Conjugate
from equipoise.inference.posterior import Posterior
from equipoise.valuation import Estimator, check_estimator
from equipoise.valuation.divergence import Estimator as OfCoordinates
from equipoise.valuation.divergence import divergence, divergence_between

ByChain = dict[str, NDArray[np.float64]]  # parameters [chains, draws, …]

# Independent draws are cut into this number of parts, to be left out one at a time as chains are.
PARTS = 16


def surprise(
    agreement: Agreement,
    posterior: Posterior,
    *,
    estimator: Estimator = "knn-entropy",
    seed: int = 0,
    force: bool = False,
) -> Estimate:
    """Estimate the value of a posterior in nats: its KL divergence from the agreed prior (paper §3).

    Parameters
    ----------
    agreement : Agreement
        The agreement with the prior.
    posterior : Posterior
        A result of `infer`.
    estimator : {"knn-entropy", "knn-copula", "knn-mixture", "knn", "gaussian-fit", "conjugate-fit", "classifier"}
        See `docs/estimators.md`.
    seed : int
        For estimators that are random.
    force : bool
        Whether to use a posterior that has not converged.

    Returns
    -------
    Estimate
        Its standard error covers that of the Markov chains. Posteriors by method "moments" know their divergence from
        importance weights, which "knn-entropy" then returns; once saved and loaded, they do not, for files have draws
        alone.

    Raises
    ------
    ConvergenceError
        The posterior has not converged, and `force` is not set.
    InferenceError
        There is no such estimator, or draws of this method cannot be valued.

    Examples
    --------
    >>> posterior = eq.infer(agreement, submissions)  # doctest: +SKIP
    >>> print(eq.surprise(agreement, posterior))  # doctest: +SKIP
    """
    check_estimator(estimator)
    posterior.require_converged(force=force)
    if posterior.divergence is not None and estimator == "knn-entropy":
        return posterior.divergence
    coordinates = own_coordinates(agreement, posterior)
    if estimator == "conjugate-fit" and agreement.model.is_conjugate:
        draws = {name: _in_parts(_by_chain(posterior, values)) for name, values in posterior.draws.items()}
        return conjugate_fit(conjugate_of(agreement.model), draws)
    chosen: OfCoordinates = "gaussian-fit" if estimator == "conjugate-fit" else estimator
    return divergence(_in_parts(coordinates) if chosen == "classifier" else coordinates, chosen, seed=seed)


def conjugate_fit(model: Conjugate[Any], draws: ByChain) -> Estimate:
    """Compute KL(fit ‖ prior) for the member of the prior's family that fits the draws best (paper App. C.3).

    This is a closed form, and accurate when noise is small, because the posterior is then nearly conjugate. If it is
    not (two modes, heavy tails), the estimate is biased. Its standard error, by leaving out one chain at a time, covers
    only the randomness of the draws and not that bias.
    """
    chains = len(next(iter(draws.values())))
    whole = model.conjugate_divergence(_flat(draws))
    left_out = np.array([model.conjugate_divergence(_flat(draws, without=chain)) for chain in range(chains)])
    variance = (chains - 1) / chains * np.sum((left_out - left_out.mean()) ** 2)
    return Estimate(whole, float(np.sqrt(variance)))


def similarity(agreement: Agreement, reward: Posterior, grand: Posterior, *, force: bool = False) -> Estimate:
    """Estimate how close a reward is to the posterior of all parties, r′ = −KL(grand ‖ reward) in nats (paper P5).

    Parameters
    ----------
    agreement : Agreement
        The agreement under which both were made.
    reward : Posterior
        The reward's posterior.
    grand : Posterior
        The posterior of everybody together.
    force : bool
        Whether to use posteriors that have not converged.

    Returns
    -------
    Estimate
        At most 0, apart from errors; 0 for the grand posterior itself.

    Raises
    ------
    ConvergenceError
        A posterior has not converged, and `force` is not set.

    Examples
    --------
    >>> grand, tempered = eq.infer_batch(agreement, submissions, scenarios)  # doctest: +SKIP
    >>> print(eq.similarity(agreement, tempered, grand))  # doctest: +SKIP
    """
    if reward is grand:
        return Estimate(0.0, 0.0)
    grand, reward = (posterior.require_converged(force=force) for posterior in (grand, reward))
    found = divergence_between(own_coordinates(agreement, grand), own_coordinates(agreement, reward))
    return Estimate(-found.value, found.error)


def alternative_value(agreement: Agreement, coalition: Posterior, grand: Posterior, *, force: bool = False) -> Estimate:
    """Estimate v′ = KL(grand ‖ prior) − KL(grand ‖ coalition), a coalition's closeness to the grand coalition's model.

    In expectation it equals the surprise (paper App. C.2), and it is 0 for the empty coalition too. For single data
    sets it may be negative. The two terms share the grand coalition's draws; their errors are added as if independent.
    """
    whole = surprise(agreement, grand, force=force)
    rest = similarity(agreement, coalition, grand, force=force)
    return Estimate(whole.value + rest.value, float(np.hypot(whole.error, rest.error)))


def own_coordinates(agreement: Agreement, posterior: Posterior) -> Floats:
    """Return the model's own parameters in coordinates where the prior is N(0, I) [chains, draws, d].

    Draws of samplers that use other coordinates are mapped back.
    """
    if posterior.coordinates is not None:
        return _by_chain(posterior, posterior.coordinates)
    agreed = agreement.model
    found = conjugate_of(agreed).own_of_draws(posterior.draws) if agreed.is_conjugate else None
    if found is None:
        raise InferenceError(
            f'draws of method {posterior.method!r} cannot be valued for a {agreed.noun}; use method "moments"'
        )
    return _by_chain(posterior, found)


def _by_chain(posterior: Posterior, values: Floats) -> Floats:
    return values.reshape(posterior.chains, -1, *values.shape[1:])


def _in_parts(values: Floats) -> Floats:
    """Cut independent draws [1, draws, …] into parts of equal length; leave several chains as they are."""
    if len(values) > 1:
        return values
    parts = min(PARTS, values.shape[1])
    length = values.shape[1] // parts
    return values[0, : parts * length].reshape(parts, length, *values.shape[2:])


def _flat(draws: ByChain, without: int | None = None) -> ByChain:
    chosen = {name: part if without is None else np.delete(part, without, axis=0) for name, part in draws.items()}
    return {name: part.reshape(-1, *part.shape[2:]) for name, part in chosen.items()}
