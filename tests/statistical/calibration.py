"""Simulation-based calibration: draw parameters from the prior, data from the model, rank the truth in the posterior.

If prior, simulator, likelihood and sampler all speak of the same model, ranks are uniform (Talts et al. 2018). Data are
real rows with real noise, so the central limit theorem inside the likelihood is tested too.

Ranks are tested by Neyman's smooth test with four components, which looks for what goes wrong with posteriors: a shift,
a wrong width, lopsidedness. At the level used here, 120 replications notice a posterior that is 0.7 times as wide as it
should be with probability 0.91 and one shifted by half its width with 0.93; a χ² test of 20 bins needs 200 for 0.88 and
0.94 (`test_the_power_of_the_test_itself`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.observations import Scenarios
from numpy.typing import NDArray
from scipy import stats
from scipy.special import eval_legendre

from equipoise.inference import baselines, engine

Floats = NDArray[np.float64]
Quantities = Callable[[dict[str, Any]], Floats]

REPLICATIONS = 120
COMPONENTS = 4
LEAST_PVALUE = 0.001

# Draws the truth is ranked among, which must be nearly independent: Gibbs sweeps are so much alike that only the last
# draw of each of many chains is used.
RANKED = {"collapsed": 99, "gibbs": 19, "naive": 99}


@dataclass(frozen=True)
class Replication:
    """One simulated problem, who takes part, and the true parameters by name."""

    problem: Problem
    member: Floats
    truth: dict[str, Any]


def ranks(replicate: Callable[[int], Replication], quantities: Quantities, method: str) -> Floats:
    """Rank of the true value of every quantity among thinned posterior draws [replications, quantities]."""
    results = []
    for number in range(REPLICATIONS):
        one = replicate(number)
        drawn = draws_of(one, method, number)
        values = np.stack([quantities({name: part[k] for name, part in drawn.items()}) for k in range(RANKED[method])])
        results.append((values < quantities(one.truth)).sum(axis=0))
    return np.stack(results)


def draws_of(one: Replication, method: str, seed: int) -> dict[str, Floats]:
    """Nearly independent posterior draws of all parameters."""
    number = RANKED[method]
    if method == "naive":
        rng = np.random.default_rng(seed)
        return baselines.conjugate_draws(rng, one.problem, one.member, 1.0, number, repair=True)
    gibbs = method == "gibbs"
    settings = (
        Settings(draws=1, chains=number, sampler="gibbs", rule="scaled", max_thinning=1)
        if gibbs
        else Settings(draws=1_280, max_thinning=4)
    )
    scenario = Scenarios(jnp.asarray(one.member)[None], jnp.ones(1), jnp.zeros((1, len(one.member))))
    sampled = engine.run(jax.random.split(jax.random.key(seed), 1), one.problem, scenario, settings)[0]
    if gibbs:
        return {name: part[:, -1] for name, part in sampled.parameters.items()}
    flat = {name: part.reshape(-1, *part.shape[2:]) for name, part in sampled.parameters.items()}
    places = np.linspace(0, len(next(iter(flat.values()))) - 1, number).astype(int)
    return {name: part[places] for name, part in flat.items()}


def uniformity(found: Floats, method: str) -> Floats:
    """p-value of uniform ranks by Neyman's smooth test, for each quantity [replications, quantities]."""
    centred = 2 * (found + 0.5) / (RANKED[method] + 1) - 1
    scores = [
        np.sqrt(2 * degree + 1) * eval_legendre(degree, centred).sum(axis=0) / np.sqrt(len(found))
        for degree in range(1, COMPONENTS + 1)
    ]
    return np.asarray(stats.chi2.sf(np.sum(np.square(scores), axis=0), COMPONENTS))
