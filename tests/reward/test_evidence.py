"""The description of the others' evidence, and the divergence it leaves."""

import math

import numpy as np
import pytest
from scipy import stats

from equipoise.reward.evidence import Evidence

CHAINS, LENGTH = 16, 256


@pytest.mark.statistical
def test_heavy_tails_leave_the_misfit_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A t distribution in twelve coordinates, described by one normal distribution with its mean and covariance."""
    monkeypatch.setattr("equipoise.reward.evidence.MOST_COMPONENTS", 1)
    dimension, freedom, scale = 12, 5, 0.2
    rng = np.random.default_rng(1)
    spread = scale * np.sqrt(freedom / rng.chisquare(freedom, size=(CHAINS, LENGTH, 1)))
    found = Evidence.fitted(spread * rng.normal(size=(CHAINS, LENGTH, dimension)))
    t = stats.multivariate_t(shape=scale**2 * np.eye(dimension), df=freedom)
    variance = scale**2 * freedom / (freedom - 2)
    truth = 0.5 * dimension * np.log(2 * math.pi * math.e * variance) - float(t.entropy())
    assert found.misfit is not None
    assert abs(found.misfit.value - truth) < 3 * found.misfit.error + 0.02
    assert not found.fits


@pytest.mark.statistical
def test_a_normal_distribution_leaves_none() -> None:
    found = Evidence.fitted(0.2 * np.random.default_rng(2).normal(size=(CHAINS, LENGTH, 12)) + 0.3)
    assert found.misfit is not None
    assert abs(found.misfit.value) < 3 * found.misfit.error
    assert len(found.parts) == 1
