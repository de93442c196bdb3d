"""Mixtures of normal distributions: how they are fitted, and the map under which they become N(0, I)."""

import numpy as np
import pytest
from scipy import stats

from equipoise._util.arrays import Floats
from equipoise.valuation.mixtures import Mixture, fit_mixture


def three_parts() -> Mixture:
    """Two overlapping components and a separate one in three coordinates."""
    rng = np.random.default_rng(0)
    roots = np.tril(0.3 * rng.normal(size=(3, 3, 3)), -1) + np.array([1.0, 0.5, 0.2])[:, None, None] * np.eye(3)
    return Mixture(np.array([0.5, 0.3, 0.2]), np.array([[0.0, 0, 0], [0.5, -0.5, 0], [3.0, 2, -4]]), roots)


def drawn(mixture: Mixture, number: int, seed: int) -> Floats:
    """Draw from a mixture."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(mixture.shares), number, p=mixture.shares)
    normal = rng.normal(size=(number, mixture.means.shape[1]))
    return np.asarray(mixture.means[chosen] + np.einsum("nij,nj->ni", mixture.roots[chosen], normal))


def test_the_density_is_that_of_its_parts() -> None:
    mixture = three_parts()
    points = drawn(mixture, 50, 1)
    parts = [
        share * stats.multivariate_normal(mean, root @ root.T).pdf(points)
        for share, mean, root in zip(mixture.shares, mixture.means, mixture.roots, strict=True)
    ]
    np.testing.assert_allclose(mixture.log_density(points), np.log(np.sum(parts, axis=0)), rtol=1e-9)


@pytest.mark.statistical
def test_draws_of_a_mixture_become_standard_normal_and_independent() -> None:
    z = three_parts().map_to_normal(drawn(three_parts(), 20_000, 2))
    for column in z.T:
        assert stats.kstest(column, "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(np.column_stack([z, z**2]).T) - np.eye(6)).max() < 0.03


def test_densities_change_by_the_determinant_of_the_map() -> None:
    """log p(x) = log φ(z) + log |dz/dx|, the latter by central differences."""
    mixture, step = three_parts(), 1e-5
    for point in drawn(mixture, 20, 3):
        ahead, behind = (mixture.map_to_normal(point + sign * step * np.eye(3)) for sign in (1, -1))
        slope = np.linalg.slogdet((ahead - behind) / (2 * step))[1]
        z = mixture.map_to_normal(point[None])
        assert mixture.log_density(point[None])[0] == pytest.approx(stats.norm.logpdf(z).sum() + slope, abs=1e-4)


@pytest.mark.parametrize("far", [8.5, 30.0, 1e3, 1e150])
def test_draws_far_in_the_tails_stay_finite(far: float) -> None:
    """From 8.3 standard deviations on, 1 − F is rounded to 0; from 37 on, F is."""
    z = three_parts().map_to_normal(np.array([[far, 0, 0], [-far, far, -far]]))
    assert np.all(np.isfinite(z))
    single = Mixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
    np.testing.assert_allclose(
        single.map_to_normal(np.array([[far], [-far]]))[:, 0], [min(far, 37), -min(far, 37)], 0.01
    )


def test_one_component_has_the_moments() -> None:
    points = np.random.default_rng(4).normal(size=(500, 3))
    mixture = fit_mixture(points, 1, np.random.default_rng(0))
    np.testing.assert_allclose(mixture.means[0], points.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(mixture.roots[0] @ mixture.roots[0].T, np.cov(points.T, bias=True), atol=1e-5)


def test_narrow_modes_are_found() -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(2_000, 3))
    points[:, 0] = 0.03 * points[:, 0] + rng.choice([-1.0, 1.0], 2_000)
    mixture = fit_mixture(points, 2, rng)
    np.testing.assert_allclose(np.sort(mixture.means[:, 0]), [-1, 1], atol=0.01)
    np.testing.assert_allclose(mixture.roots[:, 0, 0], 0.03, rtol=0.1)


def test_heavy_tails_are_two_scales_around_one_centre() -> None:
    rng = np.random.default_rng(6)
    points = rng.normal(size=(4_000, 8)) * np.where(rng.random(4_000) < 0.2, 2.0, 0.7)[:, None]
    mixture = fit_mixture(points, 2, rng)
    deviations = np.sqrt(np.sum(mixture.roots**2, axis=2)).mean(axis=1)
    np.testing.assert_allclose(np.sort(deviations), [0.7, 2.0], rtol=0.05)
    np.testing.assert_allclose(mixture.means, 0, atol=0.3)


def test_a_component_on_one_repeated_point_keeps_a_covariance() -> None:
    rng = np.random.default_rng(7)
    points = rng.normal(size=(300, 2))
    points[:100] = [3.0, 3.0]
    mixture = fit_mixture(points, 3, rng)
    assert np.all(np.isfinite(mixture.log_density(points)))
    assert np.all(np.isfinite(mixture.map_to_normal(points)))
