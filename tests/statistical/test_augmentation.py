r"""Exact data augmentation against moments: rows themselves are sampled, and no sum is taken to be normal.

Two binary features, so that a table is the counts n of its eight kinds of rows. Given releases o, a Markov chain goes
over (n, θ, π): one row at a time may become one of another kind, by Metropolis' rule with the noise's own density, and
parameters move given n. It shares no code with the package: the prior and the coding are written out here again.
"""

import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import coded
import equipoise as eq
import rounds
from equipoise.models import layout_of

pytestmark = [pytest.mark.engine, pytest.mark.slow]

FEATURES = ", ".join(f'{{ name = "{name}", kind = "binary", labels = [0, 1] }}' for name in ("a", "b"))
KINDS = np.array([(a, b, y) for a in (0, 1) for b in (0, 1) for y in (-1, 1)], float)  # of rows
A, B, Y = KINDS.T
SUMS = np.stack([A, B, Y, A * B, A * Y, B * Y], axis=1)  # as an agreement's entries are in order
DEVIATION = math.sqrt((math.e**2 - 1) / 2)  # of sinh of a normal variable
CHAINS, SWEEPS, MOVES, WARM_UP = 400, 1_200, 40, 400  # quantiles within 0.03 deviations of those of 4,000 sweeps


def log_probabilities(position: np.ndarray) -> np.ndarray:
    """Of every kind of row [chains, 8], from coordinates in which the prior is N(0, I): a, b, bias; a, b, a × b."""
    weights = 1.25 * np.sinh(position[:, :2]) / DEVIATION / 0.4
    bias = 2.0 * position[:, 2] - weights.sum(axis=1) / 2
    cell = 2.0 * np.outer(position[:, 3], A) + 2.0 * np.outer(position[:, 4], B) + np.outer(position[:, 5], A * B)
    cell -= np.log(np.exp(cell[:, ::2]).sum(axis=1, keepdims=True))
    return cell - np.logaddexp(0, -Y * (weights @ np.stack([A, B]) + bias[:, None]))


def augmented(sums: np.ndarray, rows: int, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of the coordinates [draws, 6], after a warm-up."""
    position = 0.3 * rng.normal(size=(CHAINS, 6))
    counts = np.full((CHAINS, 8), rows // 8)
    counts[:, 0] += rows - counts[0].sum()
    everybody, kept = np.arange(CHAINS), []
    residual = counts @ SUMS - sums
    step = 0.15
    for sweep in range(SWEEPS):
        log_p = log_probabilities(position)
        for _ in range(MOVES):
            source, target = rng.integers(8, size=(2, CHAINS))
            change = SUMS[target] - SUMS[source]
            ratio = log_p[everybody, target] - log_p[everybody, source]
            have = counts[everybody, source]
            with np.errstate(divide="ignore"):
                ratio += np.log(have) - np.log(counts[everybody, target] + 1)
            ratio -= (((residual + change) ** 2 - residual**2) / (2 * noise**2)).sum(axis=1)
            take = (np.log(rng.uniform(size=CHAINS)) < ratio) & (source != target) & (have > 0)
            counts[everybody[take], source[take]] -= 1
            counts[everybody[take], target[take]] += 1
            residual[take] += change[take]
        for _ in range(3):
            moved = position + step * rng.normal(size=position.shape)
            ratio = (counts * (log_probabilities(moved) - log_probabilities(position))).sum(axis=1)
            ratio -= 0.5 * (moved**2 - position**2).sum(axis=1)
            take = np.log(rng.uniform(size=CHAINS)) < ratio
            position[take] = moved[take]
            if sweep < WARM_UP:
                step *= math.exp(0.02 * (take.mean() - 0.25))
        if sweep >= WARM_UP and sweep % 25 == 0:
            kept.append(position.copy())
    return np.concatenate(kept)


@pytest.mark.parametrize(("seed", "epsilon"), [(0, 1.0), pytest.param(1, 4.0, marks=pytest.mark.exhaustive)])
def test_augmented_rows_and_moments_lead_to_the_same_posterior(seed: int, epsilon: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    agreement = coded.agreement("logistic", FEATURES, parties=1)
    assert [entry.name for entry in agreement.model.layout.entries] == [
        "a=1", "b=1", "outcome", "a=1 × b=1", "a=1 × outcome", "b=1 × outcome",
    ]  # fmt: skip
    a, b = (rng.uniform(size=(2, 250)) < [[0.5], [0.3]]).astype(int)
    yes = rng.uniform(size=250) < 1 / (1 + np.exp(1.0 - 1.8 * a + 0.7 * b))
    table = {"a": a, "b": b, "outcome": np.where(yes, "yes", "no").tolist()}
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        sent = eq.release(agreement, table, party="p0", epsilon=epsilon, ledger=tmp_path / "ledger")
    posterior = eq.infer(agreement, [sent], draws=20_000)
    assert posterior.converged
    noise = np.array(layout_of(agreement).noise_deviations(sent.stated))
    oracle = augmented(np.array(sent.values(agreement)), sent.count, noise, rng)
    weights = 1.25 * np.sinh(oracle[:, :2]) / DEVIATION / 0.4
    found = posterior.draws["weights"][:, :2]
    for ours, theirs in zip(found.T, weights.T, strict=True):
        # Of 250 rows sums are not quite normal, and the covariance of a row is plugged in.
        assert abs(np.median(ours) - np.median(theirs)) < 0.25 * theirs.std()
        assert np.percentile(ours, 90) - np.percentile(ours, 10) == pytest.approx(
            np.percentile(theirs, 90) - np.percentile(theirs, 10), rel=0.12
        )
