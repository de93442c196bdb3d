"""Independent roads to the same posterior: Gibbs and collapsed; our sampler and NUTS; statistics and raw rows."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from numpy.typing import NDArray

from equipoise.inference import collapsed, engine
from equipoise.inference.diagnostics import ess_bulk
from equipoise.inference.engine import Sampled, Settings
from equipoise.inference.observations import observe
from problems import Simulated, everyone, simulate_housing, simulate_linear, simulate_logistic

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from numpyro.infer import MCMC, NUTS

pytestmark = [pytest.mark.slow, pytest.mark.engine]

Floats = NDArray[np.float64]
QUANTILES = [0.1, 0.5, 0.9]


def sample(simulated: Simulated, sampler: Any, draws: int, *, max_thinning: int = 8) -> Sampled:
    settings = Settings(
        draws=draws, sampler=sampler, rule="scaled" if sampler == "gibbs" else "power", max_thinning=max_thinning
    )
    keys = jax.random.split(jax.random.key(0), 1)
    return engine.run(keys, simulated.problem, everyone(simulated.problem), settings)[0]


def flat(values: Floats) -> Floats:
    """Draws of one parameter [chains, draws, coordinates]."""
    return values.reshape(*values.shape[:2], -1)


SETTINGS = {
    "Syn": lambda epsilon: simulate_linear(1, epsilons=[epsilon] * 3),
    "Syn, shared": lambda epsilon: simulate_linear(2, epsilons=[epsilon] * 3, shared=True),
    "housing": lambda epsilon: simulate_housing(3, epsilons=[epsilon] * 3),
}


# One setting at a middle level of noise; the other combinations before a release.
PAIRS = [
    pytest.param(
        setting,
        epsilon,
        marks=() if (setting, epsilon) == ("Syn, shared", 0.2) else pytest.mark.exhaustive,
        id=f"{setting}-{epsilon}",
    )
    for setting in SETTINGS
    for epsilon in (0.004, 0.2, 12.5)
]


@pytest.mark.parametrize(("setting", "epsilon"), PAIRS)
def test_gibbs_and_collapsed_agree(setting: str, epsilon: float) -> None:
    """Means, standard deviations and quantiles of every parameter.

    Both use the central limit theorem, in different places: the conditional of θ given s is conjugate in one and normal
    in the other, which leaves differences of up to 0.2 standard deviations with a hundred rows. Monte Carlo error,
    mostly of the slow Gibbs chains, comes on top.
    """
    simulated = SETTINGS[setting](epsilon)
    ours, gibbs = sample(simulated, "collapsed", 10_000), sample(simulated, "gibbs", 5_000)
    assert ours.diagnostics.converged, ours.diagnostics
    for name, values in ours.parameters.items():
        mine, theirs = flat(values), flat(gibbs.parameters[name])
        scale = mine.std(axis=(0, 1))
        error = 4 / np.sqrt(np.minimum(ess_bulk(theirs), ess_bulk(mine)))
        shift = np.abs(mine.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) / scale
        assert np.all(shift < 0.2 + error), (name, shift, error)
        ratio = np.abs(np.log(theirs.std(axis=(0, 1)) / scale))
        assert np.all(ratio < 0.08 + error), (name, ratio, error)
        apart = np.abs(np.quantile(mine, QUANTILES, axis=(0, 1)) - np.quantile(theirs, QUANTILES, axis=(0, 1))) / scale
        assert np.all(apart < 0.25 + 2 * error), (name, apart, error)


def nuts(potential: Any, dimension: int, *, samples: int = 1_500, warm_up: int = 500) -> Floats:
    """Reference draws [chains, draws, dimension] by NumPyro's NUTS."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = NUTS(potential_fn=potential, dense_mass=True)
        options = {"num_chains": 4, "chain_method": "vectorized", "progress_bar": False}
        mcmc = MCMC(kernel, num_warmup=warm_up, num_samples=samples, **options)
        mcmc.run(jax.random.key(1), init_params=0.1 * jax.random.normal(jax.random.key(2), (4, dimension)))
        return np.asarray(mcmc.get_samples(group_by_chain=True))


@pytest.mark.parametrize("epsilon", [pytest.param(0.2, marks=pytest.mark.exhaustive), 12.5])
def test_diabetes_posterior_equals_nuts_on_the_same_density(epsilon: float) -> None:
    """Within four errors, which are a tenth of a standard deviation if draws are independent."""
    simulated = simulate_logistic(4, epsilons=[epsilon] * 3)
    problem = simulated.problem
    sampled = sample(simulated, "collapsed", 5_000)
    assert sampled.positions is not None
    scenario = jax.tree.map(lambda part: part[0], everyone(problem))
    evidence = problem.model.prepare(observe(problem.observations, scenario, "power"))

    def potential(position: Array) -> Array:
        return -collapsed.log_density(problem.model, problem.prior, evidence, position)

    reference = nuts(potential, problem.model.dimension, samples=750, warm_up=300)
    compare(sampled.positions, reference, tolerance=0.0)


@pytest.mark.exhaustive
def test_without_noise_logistic_regression_equals_nuts_on_the_rows() -> None:
    """Approximate statistics without noise against the likelihood of the rows themselves, Gaussian features.

    Sums of y x know a little less than the rows do: an efficiency of 90 % moves the mean by a third of a standard
    deviation at random, whatever the number of rows. Hence the wide tolerance.
    """
    simulated = simulate_logistic(5, counts=[3_000], epsilons=[1e9])
    problem = simulated.problem
    model, prior = problem.model, problem.prior
    sampled = sample(simulated, "collapsed", 10_000)
    assert sampled.positions is not None
    table = jnp.asarray(simulated.rows[0])
    x, y = table[:, :-1], table[:, -1]

    def potential(position: Array) -> Array:
        weights = model.coefficients(prior, position)
        mean, covariance = model.features(prior, position)
        t = x @ weights[:-1] + weights[-1]
        rows = jnp.sum(jax.nn.log_sigmoid(y * t))
        rows += jnp.sum(jax.scipy.stats.multivariate_normal.logpdf(x, mean[0], covariance[0]))
        return 0.5 * position @ position - rows

    compare(sampled.positions, nuts(potential, model.dimension), tolerance=0.5)


def compare(mine: Floats, theirs: Floats, *, tolerance: float) -> None:
    scale = theirs.std(axis=(0, 1))
    error = 4 * np.sqrt(1 / ess_bulk(mine) + 1 / ess_bulk(theirs))
    shift = np.abs(mine.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) / scale
    assert np.all(shift < tolerance + error), (shift, error)
    ratio = np.abs(np.log(mine.std(axis=(0, 1)) / scale))
    assert np.all(ratio < 0.5 * tolerance + error), (ratio, error)
