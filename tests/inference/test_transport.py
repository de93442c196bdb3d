"""Tabulated maps from a normal variable to a prior, against SciPy's quantile functions between the knots."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.quantile_maps import (
    beta_table,
    log_gamma_table,
    transport,
)
from scipy import stats

from equipoise._util.quantiles import LIMIT, STEP

pytestmark = pytest.mark.engine

many = jax.jit(jax.vmap(transport, in_axes=(None, 0)))
BETWEEN = np.arange(-5.0, 5.0, 0.1) + 0.37 * STEP


@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5, 5.0, 300.0])
def test_gamma(shape: float) -> None:
    mapped = many(log_gamma_table(shape), BETWEEN)
    lower = stats.gamma.ppf(stats.norm.cdf(BETWEEN), shape)
    upper = stats.gamma.isf(stats.norm.sf(BETWEEN), shape)
    np.testing.assert_allclose(mapped, np.log(np.where(BETWEEN < 0, lower, upper)), atol=2e-7)


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (2.0, 5.0), (0.5, 0.5), (80.0, 3.0)])
def test_beta(first: float, second: float) -> None:
    mapped = many(beta_table(first, second), BETWEEN)
    x = stats.beta.ppf(stats.norm.cdf(BETWEEN), first, second)
    rest = stats.beta.ppf(stats.norm.sf(BETWEEN), second, first)
    np.testing.assert_allclose(mapped, np.log(x) - np.log(rest), atol=1e-6)


def test_tiny_shapes_stay_finite_and_monotone() -> None:
    table = log_gamma_table(np.array([0.01, 0.05]))
    assert np.all(np.isfinite(table.values))
    assert np.all(np.diff(table.values, axis=-1) > 0)


def test_beyond_the_table_maps_go_on_linearly() -> None:
    table = log_gamma_table(3.0)
    for end, slope in ((LIMIT, table.slopes[-1]), (-LIMIT, table.slopes[0])):
        outside = transport(table, jnp.asarray(end + np.sign(end)))
        inside = transport(table, jnp.asarray(end))
        assert float(outside - inside) == pytest.approx(float(np.sign(end) * slope))
