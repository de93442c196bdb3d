"""Beliefs about feature moments: mean and deviation of each, against features drawn from the priors as agreed."""

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

import equipoise as eq
from equipoise.inference.regression.model import SMALLEST_DEVIATION, RegressionModel

Floats = NDArray[np.float64]

DRAWS = 200_000
NUMBERS = 3


def believed(kind: str, data_prior: str) -> tuple[Floats, Floats, NDArray[np.intp]]:
    """Mean and deviation of each feature moment, and which pair of (x0, x1, x2, 1) it belongs to."""
    target = "bounds = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    names = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1] }}' for k in range(NUMBERS))
    agreement = eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\ntarget = {{ name = "y", {target} }}\nfeatures = [{names}]\n'
        f'[model.prior]\nkind = "conjugate"\n[model.data_prior]\n{data_prior}\n'
        '[privacy]\nmax_epsilon = 10\n[[parties]]\nname = "a"\n[[parties]]\nname = "b"\n'
    )
    model = RegressionModel.of(agreement.model)  # type: ignore[arg-type]
    prior = model.feature_prior
    return prior.mean, np.sqrt(prior.variance), model.moments.feature_pairs


def simulated(means: Floats, covariances: Floats, pairs: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Mean and deviation of the moments of features with such means [draws, w] and covariances [draws, w, w]."""
    with_one = np.column_stack([means, np.ones(len(means))])
    second = with_one[:, :, None] * with_one[:, None, :]
    second[:, :NUMBERS, :NUMBERS] += covariances
    moments = second[:, pairs[:, 0], pairs[:, 1]]
    return moments.mean(axis=0), moments.std(axis=0)


def draw_correlations(concentration: float, rng: np.random.Generator) -> Floats:
    """Draw three correlations by rejection: uniform in the cube, kept with probability det^(concentration − 1)."""
    kept: list[Floats] = []
    while sum(map(len, kept)) < DRAWS:
        a, b, c = rng.uniform(-1, 1, (3, DRAWS))
        determinant = 1 + 2 * a * b * c - a**2 - b**2 - c**2
        inside = (determinant > 0) & (rng.uniform(size=DRAWS) < np.maximum(determinant, 0) ** (concentration - 1))
        ones = np.ones(inside.sum())
        a, b, c = a[inside], b[inside], c[inside]
        kept.append(np.stack([ones, a, b, a, ones, c, b, c, ones], axis=-1).reshape(-1, 3, 3))
    return np.concatenate(kept)[:DRAWS]


@pytest.mark.parametrize(("mean_spread", "concentration"), [(0.0, 2.0), (0.2, 1.0)])
def test_logistic_beliefs_are_those_of_scaled_correlations(mean_spread: float, concentration: float) -> None:
    mean, deviation, pairs = believed(
        "logistic",
        f"mean_spread = {mean_spread}\nconcentration = {concentration}\nsd_mean = 0.3\nsd_spread = 0.2\nsd_max = 0.6",
    )
    rng = np.random.default_rng(1)
    scales = scipy.stats.truncnorm.rvs(-1.5, 1.5, loc=0.3, scale=0.2, size=(DRAWS, NUMBERS), random_state=rng)
    covariances = scales[:, :, None] * draw_correlations(concentration, rng) * scales[:, None, :]
    means = mean_spread * rng.normal(size=(DRAWS, NUMBERS))
    expected_mean, expected_deviation = simulated(means, covariances, pairs)
    assert np.allclose(mean, expected_mean, atol=2e-3)
    assert np.allclose(deviation, np.maximum(expected_deviation, SMALLEST_DEVIATION), rtol=0.02)


def test_linear_beliefs_are_those_of_an_inverse_wishart_matrix() -> None:
    expected = np.array([[0.30, 0.1, 0.0], [0.1, 0.25, -0.05], [0.0, -0.05, 0.4]])
    centre, strength, degrees = np.array([0.2, -0.1, 0.0]), 4.0, 16.0
    mean, deviation, pairs = believed(
        "linear",
        f"mean = {centre.tolist()}\nmean_strength = {strength}\ncovariance = {expected.tolist()}\n"
        f"degrees_of_freedom = {degrees}",
    )
    rng = np.random.default_rng(2)
    scale = expected * (degrees - NUMBERS - 1)
    covariances = np.asarray(scipy.stats.invwishart.rvs(degrees, scale, DRAWS, random_state=rng))
    roots = np.linalg.cholesky(covariances / strength)
    means = centre + np.einsum("nij,nj->ni", roots, rng.normal(size=(DRAWS, NUMBERS)))
    expected_mean, expected_deviation = simulated(means, covariances, pairs)
    assert np.allclose(mean, expected_mean, atol=2e-3)
    assert np.allclose(deviation, np.maximum(expected_deviation, SMALLEST_DEVIATION), rtol=0.03)
    assert np.sum(expected_deviation > SMALLEST_DEVIATION) >= 4


def test_beliefs_that_say_nothing_stay_within_the_bounds() -> None:
    """Five degrees of freedom of three features have no variance, and such means could be anywhere."""
    mean, deviation, pairs = believed("linear", "mean_strength = 0.001\ndegrees_of_freedom = 5")
    assert np.all(np.isfinite(mean))
    assert np.all(np.abs(mean) <= 1.5)
    is_square = pairs[:, 0] == pairs[:, 1]
    assert np.allclose(deviation[is_square], 1.0)
    assert np.all(deviation <= 1.0)
