"""The arrays to sample from, made of an agreement and its parties' submissions.

Every mistake in a request is reported here, before anything is sampled.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference import brownian
from equipoise.inference.batch import Sampler
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.base import Family
from equipoise.inference.models.posterior import FamilySampler
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import RegressionSampler
from equipoise.inference.scenario import PATH_DIGITS, Scenario, UnitNoise, is_number
from equipoise.models import layout_of
from equipoise.models.base import Model
from equipoise.models.regression import Regression
from equipoise.protocol.submission import Submission, validate_submissions

_UNIT_NOISE_STREAM = 0x7A75  # keeps the noise that τ scales apart from the samplers' random numbers


def sampler_of(agreed: Model) -> Sampler:
    """Return the sampler for posteriors of an agreed model."""
    if isinstance(agreed, Regression):
        return RegressionSampler(RegressionModel.of(agreed))
    return FamilySampler(family_of(agreed))


def family_of(agreed: Model) -> Family:  # type: ignore[type-arg]
    """Return inference's half of a model without features."""
    half = conjugate_of(agreed)
    assert isinstance(half, Family)
    return half


def released_sums(agreement: Agreement, submissions: Sequence[Submission]) -> ReleasedSums:
    """Check and stack submissions, one row for every party of the agreement, in its order.

    Rows of parties that did not submit hold fixed numbers, so leaving a party out of a scenario and never having heard
    of it are the same computation.
    """
    names = agreement.party_names
    layout = layout_of(agreement)
    parties, entries = len(names), len(layout)
    statistic, count = np.zeros((parties, entries)), np.ones(parties)
    variance, added = np.ones((parties, entries)), np.zeros((parties, entries))
    for submission in validate_submissions(agreement, submissions):
        row = names.index(submission.party)
        statistic[row], count[row] = submission.values(agreement), submission.count
        guarantee = submission.stated
        variance[row] = np.square(layout.noise_deviations(guarantee))
        added[row] = np.sqrt(guarantee.epsilon * variance[row])  # ½ λ Δ² = ε · ½ (λ/ε) Δ²
    return ReleasedSums(statistic, count, variance, added)


def _unit_noise(seed: UnitNoise, shape: tuple[int, int]) -> Floats:
    """Draw standard normal numbers; of a secret every one of its 128 bits counts."""
    if isinstance(seed, str):
        return np.random.Generator(np.random.Philox(key=int(seed, 16))).standard_normal(shape)
    return np.random.default_rng([seed, _UNIT_NOISE_STREAM]).standard_normal(shape)


def noises_of(
    agreement: Agreement, submissions: Sequence[Submission], tau: Floats, seeds: Sequence[UnitNoise]
) -> Floats:
    """Draw the unit noise of every scenario [scenarios, parties, entries], for its τ [parties]; 0 if nothing is added.

    A path (64 digits) depends on the release's digest: everybody who settles the same release again adds the same
    noise.
    """
    shape = (len(agreement.party_names), len(layout_of(agreement)))
    noises = np.zeros((len(seeds), *shape))
    slots = {
        agreement.party_names.index(submission.party): sha256_hex(submission.to_json()) for submission in submissions
    }
    draws: dict[UnitNoise, Floats] = {}
    for index, seed in enumerate(seeds):
        if isinstance(seed, str) and len(seed) == PATH_DIGITS:
            for slot, digest in slots.items():
                if amount := float(tau[index, slot]):
                    if not brownian.EARLIEST <= amount < brownian.LATEST:
                        raise InferenceError(
                            f"tau = {amount:g} is no amount of noise that paths are known for; they are from "
                            f"{brownian.EARLIEST:.1g} to {brownian.LATEST:.1g}"
                        )
                    noises[index, slot] = brownian.position(seed, digest, amount, shape[1]) / math.sqrt(amount)
        elif tau[index].any():
            if seed not in draws:
                draws[seed] = _unit_noise(seed, shape)
            noises[index] = draws[seed]
    return noises


def exact_sums(agreement: Agreement, statistics: Mapping[str, tuple[int, Sequence[float]]]) -> ReleasedSums:
    """Stack exact statistics {party: (row count, entries)}; for baselines only, since nothing protects them."""
    if not statistics:
        raise InferenceError("there are no statistics; a posterior needs at least one party's")
    names = agreement.party_names
    layout = layout_of(agreement)
    parties, entries = len(names), len(layout)
    statistic, count = np.zeros((parties, entries)), np.ones(parties)
    for party, (rows, values) in statistics.items():
        agreement.party(party)
        if not is_number(rows) or not 0 < rows < math.inf or rows != int(rows):
            raise InferenceError(f"{party!r} has a row count of {rows!r}; it must be a positive whole number")
        numbers = np.asarray(values, dtype=float)
        if numbers.shape != (entries,):
            raise InferenceError(f"{party!r} has {numbers.size} statistics; this agreement needs {entries}")
        if not np.all(np.isfinite(numbers)):
            bad = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise InferenceError(
                f"{party!r} has {numbers[bad]!r} for {layout.entries[bad].name!r}; every statistic must be finite"
            )
        row = names.index(party)
        statistic[row], count[row] = numbers, rows
    return ReleasedSums(statistic, count, np.zeros((parties, entries)), np.zeros((parties, entries)))


class Members(NamedTuple):
    """The memberships of a batch of scenarios [scenarios, parties], 0 or 1, and τ of each party."""

    inside: Floats
    tau: Floats


def members_of(agreement: Agreement, present: Sequence[str], scenarios: Sequence[Scenario]) -> Members:
    """Arrange a batch of scenarios as arrays, in the order of the agreement's parties."""
    slots = {name: slot for slot, name in enumerate(agreement.party_names)}
    sent = set(present)
    member, tau = np.zeros((len(scenarios), len(slots))), np.zeros((len(scenarios), len(slots)))
    for index, scenario in enumerate(scenarios):
        for party in scenario.coalition if scenario.coalition is not None else present:
            if party not in slots:
                agreement.party(party)  # refuses it
            if party not in sent:
                raise InferenceError(f"{party!r} has not submitted; submissions came from {', '.join(present)}")
            member[index, slots[party]] = 1
        for party, amount in scenario.tau.items():
            if party not in slots:
                agreement.party(party)
            tau[index, slots[party]] = amount
    return Members(member, tau)
