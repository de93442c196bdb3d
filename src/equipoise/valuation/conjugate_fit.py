"""KL(posterior ‖ prior) of the member of the prior's own family that fits the draws best (paper App. C.3).

Closed form, and right when noise is small, for then the posterior is nearly conjugate. Where it is not (two modes,
heavy tails) the estimate is biased, and its standard error does not know: that covers only the randomness of the draws,
by leaving out one chain at a time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from equipoise.estimate import Estimate
from equipoise.inference import families
from equipoise.inference.linear import LinearRegression
from equipoise.valuation.divergence import Floats, divergence

ByChain = dict[str, NDArray[np.float64]]  # parameters [chains, draws, …]


def conjugate_fit(model: Any, prior: Any, draws: ByChain, coordinates: Floats) -> Estimate:
    """Fit and compare with the prior. Models without a conjugate prior (logistic) get a normal fit of coordinates."""
    fits: dict[type, Callable[[Any, ByChain], float]] = {
        LinearRegression: _linear,
        families.Gaussian: _gaussian,
        families.Bernoulli: _bernoulli,
        families.Categorical: _categorical,
        families.Poisson: _rate,
        families.Exponential: _rate,
    }
    fit = fits.get(type(model))
    if fit is None:
        return divergence(coordinates, "gaussian-fit")
    chains = len(next(iter(draws.values())))
    whole = fit(prior, _flat(draws))
    left_out = np.array([fit(prior, _flat(draws, without=chain)) for chain in range(chains)])
    variance = (chains - 1) / chains * np.sum((left_out - left_out.mean()) ** 2)
    return Estimate(whole, float(np.sqrt(variance)))


def _flat(draws: ByChain, without: int | None = None) -> ByChain:
    chosen = {name: part if without is None else np.delete(part, without, axis=0) for name, part in draws.items()}
    return {name: part.reshape(-1, *part.shape[2:]) for name, part in chosen.items()}


def _linear(prior: Any, draws: ByChain) -> float:
    return _normal_gamma(
        draws["weights"],
        draws["variance"],
        np.asarray(prior.weight_mean),
        np.asarray(prior.weight_precision),
        float(prior.shape),
        float(prior.scale),
    )


def _gaussian(prior: Any, draws: ByChain) -> float:
    mean, strength = np.array([float(prior.mean)]), np.array([[float(prior.mean_strength)]])
    return _normal_gamma(
        draws["mean"][:, None], draws["variance"], mean, strength, float(prior.shape), float(prior.scale)
    )


def _bernoulli(prior: Any, draws: ByChain) -> float:
    both = np.stack([draws["probability"], 1 - draws["probability"]], axis=1)
    return dirichlet_divergence(fit_dirichlet(both), np.array([float(prior.positive), float(prior.negative)]))


def _categorical(prior: Any, draws: ByChain) -> float:
    return dirichlet_divergence(fit_dirichlet(draws["probabilities"]), np.asarray(prior.concentrations))


def _rate(prior: Any, draws: ByChain) -> float:
    return gamma_divergence(*fit_gamma(draws["rate"]), float(prior.shape), float(prior.rate))


def _normal_gamma(
    values: Floats, variance: Floats, mean0: Floats, precision0: Floats, shape0: float, scale0: float
) -> float:
    """Fit σ² ~ InvGamma(a, b), values | σ² ~ N(m, σ² V), and its divergence from the prior with V₀⁻¹ = `precision0`.

    KL = ½(tr(V₀⁻¹V) − d + log|V₀|/|V| + (a/b)(m − m₀)ᵀV₀⁻¹(m − m₀)) + KL of the gamma distributions of 1/σ².
    """
    weight = 1 / variance
    mean = weight @ values / weight.sum()
    centred = values - mean
    spread = (centred * weight[:, None]).T @ centred / len(values)
    shape, scale = fit_gamma(weight)
    shift = mean - mean0
    log_ratio = -np.linalg.slogdet(precision0)[1] - np.linalg.slogdet(spread)[1]
    quadratic = shape / scale * (shift @ precision0 @ shift)
    normal = 0.5 * (np.trace(precision0 @ spread) - len(mean) + log_ratio + quadratic)
    return float(normal + gamma_divergence(shape, scale, shape0, scale0))


def fit_gamma(values: Floats) -> tuple[float, float]:
    """Shape and rate of the gamma distribution that fits best: log a − ψ(a) = log mean − mean log, by Newton in 1/a."""
    gap = float(np.log(values.mean()) - np.log(values).mean())
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(20):
        change = (np.log(shape) - special.digamma(shape) - gap) / (shape**2 * (1 / shape - special.polygamma(1, shape)))
        shape = 1 / (1 / shape + change)
        if abs(change) * shape < 1e-12:
            break
    return float(shape), float(shape / values.mean())


def gamma_divergence(shape: float, rate: float, shape0: float, rate0: float) -> float:
    """KL of Gamma(shape, rate) from Gamma(shape0, rate0)."""
    return float(
        (shape - shape0) * special.digamma(shape)
        - special.gammaln(shape)
        + special.gammaln(shape0)
        + shape0 * (np.log(rate) - np.log(rate0))
        + shape * (rate0 - rate) / rate
    )


def fit_dirichlet(probabilities: Floats) -> Floats:
    """Concentrations that fit best: ψ(aₖ) − ψ(Σa) = mean log pₖ, by Newton's method (Minka 2000)."""
    logs = np.log(np.maximum(probabilities, 1e-300)).mean(axis=0)
    mean, square = probabilities.mean(axis=0), (probabilities**2).mean(axis=0)
    first = np.argmax(mean)
    total = (mean[first] - square[first]) / max(square[first] - mean[first] ** 2, 1e-300)
    concentrations = np.maximum(mean * total, 1e-3)
    for _ in range(200):
        gradient = special.digamma(concentrations.sum()) - special.digamma(concentrations) + logs
        diagonal = -special.polygamma(1, concentrations)
        common = special.polygamma(1, concentrations.sum())
        shift = np.sum(gradient / diagonal) / (1 / common + np.sum(1 / diagonal))
        step = (gradient - shift) / diagonal
        longest = 1.0
        while np.any(concentrations - longest * step <= 0):
            longest /= 2
        concentrations = concentrations - longest * step
        if np.max(np.abs(step) / concentrations) < 1e-10:
            break
    return np.asarray(concentrations)


def dirichlet_divergence(concentrations: Floats, others: Floats) -> float:
    """KL of Dirichlet(concentrations) from Dirichlet(others)."""
    total = concentrations.sum()
    return float(
        special.gammaln(total)
        - special.gammaln(concentrations).sum()
        - special.gammaln(others.sum())
        + special.gammaln(others).sum()
        + (concentrations - others) @ (special.digamma(concentrations) - special.digamma(total))
    )
