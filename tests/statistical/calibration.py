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

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import eval_legendre

from equipoise.inference.batch import Asked, sample_one
from equipoise.inference.models.base import Conjugate, Released
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.released import sampler_of
from equipoise_paper.gibbs import GibbsSettings, sample_by_gibbs

Floats = NDArray[np.float64]
Quantities = Callable[[dict[str, Any]], Floats]

REPLICATIONS = 120
COMPONENTS = 4
LEAST_PVALUE = 0.001

# Draws the truth is ranked among, which must be nearly independent: Gibbs sweeps are so much alike that only the last
# draw of each of many chains is used.
RANKED = {"moments": 99, "gibbs": 19, "naive": 99}


@dataclass(frozen=True)
class Replication:
    """One simulated problem, who takes part, and the true parameters by name."""

    model: Conjugate[Any]
    sums: ReleasedSums
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
    asked = Asked(one.member, 1.0, np.zeros(len(one.member)), None, number if method == "moments" else 1, seed)
    if method == "naive":
        inside = one.member > 0
        released = Released(one.sums.statistic[inside], one.sums.rows[inside], inside, 1.0, repair=True)
        return one.model.conjugate_draws(np.random.default_rng(seed), released, number)
    if method == "gibbs":
        settings = GibbsSettings(draws=1, chains=number, max_thinning=1)
        found = sample_by_gibbs(one.model, one.sums, asked, settings)  # type: ignore[arg-type]
        return {name: part[:, -1] for name, part in found.parameters.items()}
    agreed = one.model.agreed
    coordinates = sample_one(sampler_of(agreed), one.sums, asked, "power").coordinates
    draws: dict[str, Floats] = agreed.at_coordinates(coordinates[:number])
    return draws


def uniformity(found: Floats, method: str) -> Floats:
    """p-value of uniform ranks by Neyman's smooth test, for each quantity [replications, quantities]."""
    centred = 2 * (found + 0.5) / (RANKED[method] + 1) - 1
    scores = [
        np.sqrt(2 * degree + 1) * eval_legendre(degree, centred).sum(axis=0) / np.sqrt(len(found))
        for degree in range(1, COMPONENTS + 1)
    ]
    return np.asarray(stats.chi2.sf(np.sum(np.square(scores), axis=0), COMPONENTS))
