"""Tools of conjugate priors: repairing statistics, fitting gamma and Dirichlet distributions, their divergences."""

import numpy as np
from scipy import special

from equipoise._util.arrays import Floats
from equipoise.errors import InferenceError


def repaired(matrix: Floats, *, fixed: list[int], least: float = 1e-9) -> Floats:
    """Remove negative eigenvalues of a second-moment matrix, keeping the public diagonal entries as they were.

    Removing negative eigenvalues only adds to the diagonal, so scaling rows and columns down restores the public
    entries and keeps the matrix positive semi-definite. Before that, no eigenvalue is below a share `least` of the
    largest.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = least * np.max(np.abs(values))
    clipped = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = np.ones(len(matrix))
    scale[fixed] = np.sqrt(np.diag(matrix)[fixed] / np.diag(clipped)[fixed])
    return np.asarray(scale[:, None] * clipped * scale)


def check_possible(remainder: float, total: float, what: str) -> None:
    """Refuse statistics that no rows have: the rest of a sum of squares beyond the means would be negative."""
    if not remainder >= -1e-9 * abs(total):
        raise InferenceError(
            f"these cannot be the exact statistics of any rows: the {what} are smaller than the sums of the same rows "
            "allow. Check that they are exact (a perturbed statistic is not), in scaled units and in the order of the "
            "agreement"
        )


def normal_gamma_divergence(
    values: Floats, variance: Floats, mean0: Floats, precision0: Floats, shape0: float, scale0: float
) -> float:
    """Fit σ² ~ InvGamma(a, b), values | σ² ~ N(m, σ² V); return its divergence from a prior of that family.

    With V₀⁻¹ = `precision0` of the prior, KL = ½(tr(V₀⁻¹V) − d + log|V₀|/|V| + (a/b)(m − m₀)ᵀV₀⁻¹(m − m₀)) + KL of the
    gamma distributions of 1/σ².
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
    """Return shape and rate of the best-fitting gamma: log a − ψ(a) = log mean − mean log, by Newton in 1/a."""
    gap = float(np.log(values.mean()) - np.log(values).mean())
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(20):
        change = (np.log(shape) - special.digamma(shape) - gap) / (shape**2 * (1 / shape - special.polygamma(1, shape)))
        shape = 1 / (1 / shape + change)
        if abs(change) * shape < 1e-12:
            break
    return float(shape), float(shape / values.mean())


def gamma_divergence(shape: float, rate: float, shape0: float, rate0: float) -> float:
    """Return KL of Gamma(shape, rate) from Gamma(shape0, rate0)."""
    return float(
        (shape - shape0) * special.digamma(shape)
        - special.gammaln(shape)
        + special.gammaln(shape0)
        + shape0 * (np.log(rate) - np.log(rate0))
        + shape * (rate0 - rate) / rate
    )


def fit_dirichlet(probabilities: Floats) -> Floats:
    """Return the best-fitting concentrations: ψ(aₖ) − ψ(Σa) = mean log pₖ, by Newton's method (Minka 2000)."""
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
    """Return KL of Dirichlet(concentrations) from Dirichlet(others)."""
    total = concentrations.sum()
    return float(
        special.gammaln(total)
        - special.gammaln(concentrations).sum()
        - special.gammaln(others.sum())
        + special.gammaln(others).sum()
        + (concentrations - others) @ (special.digamma(concentrations) - special.digamma(total))
    )
