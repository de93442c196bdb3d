"""Independent roads to the same posterior of a linear regression: Gibbs sampling, and released moments."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.inference.diagnostics import ess_bulk
from equipoise.inference.infer import infer
from equipoise.inference.posterior import Posterior
from equipoise.valuation.surprise import surprise
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import PARTIES, Setting, syn

pytestmark = [pytest.mark.slow, pytest.mark.engine]

Draws = NDArray[np.float64]  # [draws, parameters]

QUANTILES = [0.1, 0.5, 0.9]
MANY_ROWS = (400, 600, 1_000)


def shared_syn() -> Setting:
    """Return Syn as if the features of all parties had one distribution."""
    setting = syn()
    return replace(setting, prior={**setting.prior, "scope": "shared"})


SETTINGS = {"Syn": syn, "Syn, shared": shared_syn}

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
def test_gibbs_and_moments_agree(setting: str, epsilon: float) -> None:
    """Means, standard deviations and quantiles of the weights and the logarithm of the variance.

    Both use the central limit theorem, in different places, and believe different things of the features, which leaves
    differences of some tenths of a standard deviation. Monte Carlo error, mostly of the slow Gibbs chains, comes on
    top.
    """
    agreement, sent = plain_submissions(SETTINGS[setting](), dict.fromkeys(PARTIES, epsilon), 1)
    ours = infer(agreement, sent, method="moments", draws=10_000)
    gibbs = infer(agreement, sent, method="gibbs", draws=5_000)
    assert ours.converged, ours.diagnostics
    mine, theirs, error = _parameters(ours, gibbs)
    scale = mine.std(axis=0)
    shift = np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) / scale
    apart = np.abs(np.quantile(mine, QUANTILES, axis=0) - np.quantile(theirs, QUANTILES, axis=0)) / scale
    assert np.all(shift < 0.2 + error), (shift, error)
    ratio = np.abs(np.log(theirs.std(axis=0) / scale))
    assert np.all(ratio < 0.08 + error), (ratio, error)
    assert np.all(apart < 0.25 + 2 * error), (apart, error)


def test_they_agree_more_closely_on_many_rows_with_little_noise() -> None:
    """Means, standard deviations and values, of 400 or more normal rows a party at ε = 2.

    What the two believe of the features hardly matters there. The covariance of a row, which "moments" holds fixed at
    the mode, is known well.
    """
    agreement, sent = plain_submissions(syn(rows=MANY_ROWS), dict.fromkeys(PARTIES, 2.0), 1)
    ours = infer(agreement, sent, method="moments", draws=10_000)
    gibbs = infer(agreement, sent, method="gibbs", draws=5_000)
    assert ours.converged, ours.diagnostics
    mine, theirs, error = _parameters(ours, gibbs)
    shift = np.abs(mine.mean(axis=0) - theirs.mean(axis=0)) / theirs.std(axis=0)
    assert np.all(shift < 0.1 + error), (shift, error)
    ratio = np.abs(np.log(mine.std(axis=0) / theirs.std(axis=0)))
    assert np.all(ratio < 0.05 + error), (ratio, error)
    values = [surprise(agreement, one, force=True) for one in (ours, gibbs)]
    within = 0.1 + 3 * np.hypot(values[0].error, values[1].error)
    assert abs(values[0].value - values[1].value) < within, values


def _parameters(ours: Posterior, gibbs: Posterior) -> tuple[Draws, Draws, Draws]:
    """Draws of the weights and the log variance of both, and four Monte Carlo errors in deviations, mostly of Gibbs."""
    mine, theirs = (np.column_stack([one.draws["weights"], np.log(one.draws["variance"])]) for one in (ours, gibbs))
    error = 4 / np.sqrt(ess_bulk(theirs.reshape(gibbs.chains, -1, theirs.shape[1])))
    return mine, theirs, error
