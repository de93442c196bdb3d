"""Observations and scenarios as the engine sees them: arrays.

The parties' observations are stacked once; a batch of scenarios is a few small arrays, so that thousands of them go
through one compiled function.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from equipoise.inference.scenario import Rule


class Observations(NamedTuple):
    """What all parties released, stacked: one slot per party, whether or not it submitted.

    `statistic` and `variance` [slots, entries] are the perturbed statistic and the variance of its noise; `rows`
    [slots] the row counts; `added` [slots, entries] is the standard deviation that τ = 1 adds and `unit_noise` the
    fixed draw that it scales.
    """

    statistic: Array
    rows: Array
    variance: Array
    added: Array
    unit_noise: Array


class Scenarios(NamedTuple):
    """A batch: `member` [scenarios, slots] of 0 and 1, `kappa` [scenarios], `tau` [scenarios, slots].

    `noise` [scenarios, slots, entries] is each scenario's own unit noise, where it is not the observations'.
    """

    member: Array
    kappa: Array
    tau: Array
    noise: Array | None = None


class Observed(NamedTuple):
    """One scenario's view of the observations, as the likelihood sees it.

    `weight` [slots] multiplies each party's log likelihood and is 0 for a party that is out; `sampling` [slots] is the
    factor of one row's covariance. Slots of parties that are out hold fixed numbers, whatever they held before.
    """

    statistic: Array
    rows: Array
    sampling: Array
    variance: Array
    weight: Array


def with_added_noise(observations: Observations, scenario: Scenarios) -> Observations:
    """Add noise of variance τ · added² (paper Sec. 5.1), and replace whatever parties outside the scenario sent."""
    member = scenario.member[:, None] > 0
    tau = scenario.tau[:, None]
    unit_noise = observations.unit_noise if scenario.noise is None else scenario.noise
    statistic = observations.statistic + jnp.sqrt(tau) * observations.added * unit_noise
    return observations._replace(
        statistic=jnp.where(member, statistic, 0.0),
        rows=jnp.where(scenario.member > 0, observations.rows, 1.0),
        variance=jnp.where(member, observations.variance + tau * observations.added**2, 1.0),
    )


def observe(observations: Observations, scenario: Scenarios, rule: Rule) -> Observed:
    """One scenario's view for a collapsed likelihood N(o; c·mean, sampling·covariance + noise)^weight.

    Under `scaled`, N(κo; κc·mean, κc·covariance + κ²·noise) is, up to a constant, the density above with
    sampling = c/κ and weight 1.
    """
    seen = with_added_noise(observations, scenario)
    sampling = seen.rows / scenario.kappa if rule == "scaled" else seen.rows
    weight = scenario.member * (1.0 if rule == "scaled" else scenario.kappa)
    return Observed(seen.statistic, seen.rows, sampling, seen.variance, weight)
