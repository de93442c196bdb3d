"""From an agreement and what its parties sent to the arrays the engine works on.

Everything that can be wrong with a request is found here, before anything is compiled.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import InferenceError
from equipoise.inference import brownian
from equipoise.inference.engine import Problem
from equipoise.inference.models import build
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision
from equipoise.inference.scenario import PATH_DIGITS, Scenario, UnitNoise, is_number
from equipoise.models import layout_of
from equipoise.protocol.submission import Submission, validate_submissions

MODELS_KEPT = 16  # since tables of a prior's quantiles take a while
_MODELS_LOCK = threading.Lock()
_models: dict[tuple[type, str], tuple[Any, Any]] = {}
_UNIT_NOISE_STREAM = 0x7A75  # keeps the noise that τ scales apart from the samplers' random numbers


def observations_of(
    agreement: Agreement, submissions: Sequence[Submission], *, seed: int | None = None
) -> Observations:
    """Check and stack submissions, one slot for every party of the agreement, in its order.

    With a seed they come with unit noise, for scenarios that add some and have none of their own (`noises_of`).

    Slots of parties that did not submit hold fixed numbers, so leaving a party out of a scenario and never having
    heard of it are the same computation (up to rounding, where equal releases share a slot).
    """
    names = agreement.party_names
    layout = layout_of(agreement)
    slots, entries = len(names), len(layout)
    statistic, count = np.zeros((slots, entries)), np.ones(slots)
    variance, added = np.ones((slots, entries)), np.zeros((slots, entries))
    for submission in validate_submissions(agreement, submissions):
        slot = names.index(submission.party)
        statistic[slot], count[slot] = submission.values(agreement), submission.count
        guarantee = submission.stated
        variance[slot] = np.square(layout.noise_deviations(guarantee))
        added[slot] = np.sqrt(guarantee.epsilon * variance[slot])  # ½ λ Δ² = ε · ½ (λ/ε) Δ²
    unit_noise: Any = np.zeros((slots, entries)) if seed is None else _unit_noise(seed, (slots, entries))
    arrays: tuple[Any, ...] = (statistic, count, variance, added, unit_noise)
    return Observations(*arrays)


def _unit_noise(seed: UnitNoise, shape: tuple[int, int]) -> jax.Array:
    """Standard normal numbers; of a secret every one of its 128 bits counts, where JAX's keys have 64."""
    if isinstance(seed, str):
        return jnp.asarray(np.random.Generator(np.random.Philox(key=int(seed, 16))).standard_normal(shape))
    return jax.random.normal(jax.random.fold_in(jax.random.key(seed), _UNIT_NOISE_STREAM), shape)


def noises_of(
    agreement: Agreement, submissions: Sequence[Submission], tau: jax.Array | np.ndarray, seeds: Sequence[UnitNoise]
) -> Any:
    """The unit noise of every scenario [scenarios, slots, entries], for its τ [slots]; 0 where nothing is added.

    A path (64 digits) is of the release, by its digest: whoever settles the same release again adds the same noise.
    """
    shape = (len(agreement.party_names), len(layout_of(agreement)))
    amounts = np.asarray(tau)
    noises = np.zeros((len(seeds), *shape))
    slots = {agreement.party_names.index(one.party): sha256_hex(one.to_json()) for one in submissions}
    draws: dict[UnitNoise, np.ndarray] = {}
    for place, seed in enumerate(seeds):
        if isinstance(seed, str) and len(seed) == PATH_DIGITS:
            for slot, digest in slots.items():
                if amount := float(amounts[place, slot]):
                    if not brownian.EARLIEST <= amount < brownian.LATEST:
                        raise InferenceError(
                            f"tau = {amount:g} is no amount of noise that paths are known for; they are from "
                            f"{brownian.EARLIEST:.1g} to {brownian.LATEST:.1g}"
                        )
                    noises[place, slot] = brownian.position(seed, digest, amount, shape[1]) / math.sqrt(amount)
        elif amounts[place].any():
            if seed not in draws:
                draws[seed] = np.asarray(_unit_noise(seed, shape))
            noises[place] = draws[seed]
    return noises


def exact_observations(agreement: Agreement, statistics: Mapping[str, tuple[int, Sequence[float]]]) -> Observations:
    """Stack exact statistics {party: (row count, entries)}; for baselines only, since nothing protects them."""
    if not statistics:
        raise InferenceError("there are no statistics; a posterior needs at least one party's")
    names = agreement.party_names
    layout = layout_of(agreement)
    slots, entries = len(names), len(layout)
    statistic, count = np.zeros((slots, entries)), np.ones(slots)
    for party, (rows, values) in statistics.items():
        agreement.party(party)
        if not is_number(rows) or not 0 < rows < math.inf or rows != int(rows):
            raise InferenceError(f"{party!r} has a row count of {rows!r}; it must be a positive whole number")
        numbers = np.asarray(values, dtype=float)
        if numbers.shape != (entries,):
            raise InferenceError(f"{party!r} has {numbers.size} statistics; this agreement needs {entries}")
        if not np.all(np.isfinite(numbers)):
            place = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise InferenceError(
                f"{party!r} has {numbers[place]!r} for {layout.entries[place].name!r}; every statistic must be finite"
            )
        slot = names.index(party)
        statistic[slot], count[slot] = numbers, rows
    arrays: tuple[Any, ...] = (statistic, count, *(np.zeros((slots, entries)) for _ in range(3)))
    return Observations(*arrays)


def scenario_arrays(agreement: Agreement, present: Sequence[str], scenarios: Sequence[Scenario]) -> Scenarios:
    """A batch of scenarios as arrays, in the order of the agreement's parties."""
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
    kappa = np.array([scenario.kappa for scenario in scenarios], dtype=float)
    arrays: tuple[Any, ...] = (member, kappa, tau)
    return Scenarios(*arrays)


def problem_of(agreement: Agreement, observations: Observations) -> Problem:
    """The agreed model and prior, with observations."""
    return Problem(*model_of(agreement), observations)


def model_of(agreement: Agreement) -> tuple[Any, Any]:
    """The agreed model and prior."""
    known = type(agreement.model), agreement.identity_digest
    found = _models.get(known)
    if found is None:
        found = _build(agreement)
        with _MODELS_LOCK:
            while len(_models) >= MODELS_KEPT:
                _models.pop(next(iter(_models)))
            _models[known] = found
    return found


@double_precision
def _build(agreement: Agreement) -> tuple[Any, Any]:
    return build(agreement.model, len(agreement.parties))
