"""What the posterior must tend to: the conjugate one without noise, the prior with endless noise or κ = 0."""

import numpy as np
import pytest
from scipy import stats

from equipoise.inference.batch import sample_one
from equipoise.inference.models.base import Released
from equipoise.inference.released import sampler_of
from equipoise.inference.sampling import Sample
from equipoise.inference.scenario import Rule
from equipoise_paper.gibbs import GibbsSettings, sample_by_gibbs
from problems import WITHIN_BOUNDS, Simulated, agree, asked, simulate_linear

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def sample(simulated: Simulated, *, kappa: float = 1.0, rule: Rule = "power", draws: int = 4_000) -> Sample:
    wanted = asked(simulated, kappa=kappa, draws=draws)
    return sample_one(sampler_of(simulated.model.agreed), simulated.sums, wanted, rule)


def assert_prior(coordinates: np.ndarray) -> None:
    """Moments, and a test of each coordinate against N(0, 1)."""
    np.testing.assert_allclose(coordinates.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(coordinates.std(axis=0), 1, atol=0.06)
    pvalues = [stats.kstest(column, "norm").pvalue for column in coordinates.T]
    assert min(pvalues) * len(pvalues) > 1e-3


@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_linear_regression_is_conjugate(shared: bool) -> None:
    simulated = simulate_linear(11, counts=[20_000, 30_000, 40_000], epsilons=[1e9] * 3, shared=shared)
    sampled = sample(simulated, draws=8_000)
    found = simulated.model.agreed.at_coordinates(sampled.coordinates)
    exact = Released(simulated.exact, simulated.sums.rows, np.ones(3, bool), 1.0, repair=False)
    conjugate = simulated.model.conjugate_draws(np.random.default_rng(0), exact, 40_000)
    for name, draws in found.items():
        values = conjugate[name]
        shift = (draws.mean(axis=0) - values.mean(axis=0)) / values.std(axis=0)
        np.testing.assert_allclose(shift, 0, atol=0.12, err_msg=name)
        np.testing.assert_allclose(draws.std(axis=0) / values.std(axis=0), 1, atol=0.06, err_msg=name)


def test_with_endless_noise_or_no_weight_everything_is_the_prior() -> None:
    assert_prior(sample(simulate_linear(12, epsilons=[1e-12] * 3)).coordinates)
    assert_prior(sample(simulate_linear(12, epsilons=[1.0] * 3), kappa=0.0).coordinates)


def test_gibbs_at_kappa_zero_is_the_prior() -> None:
    simulated = simulate_linear(14)
    found = sample_by_gibbs(simulated.model, simulated.sums, asked(simulated, kappa=0.0), GibbsSettings())
    variance = found.parameters["variance"].reshape(-1)
    assert stats.kstest(variance, stats.invgamma(5, scale=0.1).cdf).pvalue > 1e-3
    scaled = found.parameters["weights"].reshape(-1, 3) / np.sqrt(variance)[:, None] * np.sqrt(0.025)
    assert min(stats.kstest(scaled[:, k], "norm").pvalue for k in range(3)) > 1e-3


def test_value_grows_with_kappa_and_vanishes_with_it() -> None:
    simulated = simulate_linear(15, agreement=agree(3, prior=WITHIN_BOUNDS), epsilons=[1.0] * 3)
    for rule in ("power", "scaled"):
        found = [sample(simulated, kappa=kappa, rule=rule).divergence for kappa in (1e-6, 3e-3, 0.1, 1.0)]
        values = [one.value for one in found if one is not None]
        assert len(values) == 4
        assert values == sorted(values)
        assert values[0] < 0.1
        assert values[3] > 2
