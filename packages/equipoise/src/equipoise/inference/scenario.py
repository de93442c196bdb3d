"""A request for inference: a scenario and a method. Rewards and settings carry it too, so it needs no sampler.

A scenario says which parties are in, how far their joint likelihood is tempered (κ), and how much noise is added to
each party's statistic (τ). Two tempering rules (paper App. E.3, and `docs/inference.md`):

* `power`: q ∝ p(θ, ω) · p(o | θ, ω)^κ. κ = 0 is exactly the prior, and the value of q never falls as κ grows.
* `scaled`: statistic, row count and noise are multiplied by κ, as the paper does within Gibbs sampling.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from equipoise.errors import InferenceError

if TYPE_CHECKING:
    from equipoise.models.base import Model

Method = Literal["auto", "moments", "gibbs", "naive", "prior"]
Rule = Literal["power", "scaled"]
# Which noise τ scales: a number that anybody may know, or a secret in hexadecimal digits: 32 for one draw, times √τ;
# 64 for a Brownian path of each release, at time τ (`equipoise.inference.brownian`).
UnitNoise = int | str
PATH_DIGITS = 64


DRAWS = 4_000  # default draws of a posterior


@dataclass(frozen=True)
class Scenario:
    """A coalition, its tempering and its added noise, to be inferred from by `infer_batch`.

    Parameters
    ----------
    coalition : sequence of str, optional
        The parties to learn from; None for all that submitted.
    kappa : float
        Tempering factor of their joint likelihood, from 0 (the prior) to 1.
    tau : mapping of str to float
        Noise added to parties' statistics, 0 or more: 1/ε′ − 1/ε makes a release at ε one at ε′.

    Raises
    ------
    InferenceError
        The coalition is empty or no list, or a number is out of range.

    Examples
    --------
    >>> eq.Scenario(["north", "south"], kappa=0.5, tau={"south": 1.0}).coalition
    ('north', 'south')
    """

    coalition: Sequence[str] | None = None
    kappa: float = 1.0
    tau: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.coalition, str):
            raise InferenceError(
                f"a coalition is a list of party names, not {self.coalition!r}; write [{self.coalition!r}]"
            )
        if self.coalition is not None:
            object.__setattr__(self, "coalition", tuple(self.coalition))
            if not self.coalition:
                raise InferenceError(
                    "the coalition is empty; name at least one party (nobody's posterior is the prior)"
                )
        if not is_number(self.kappa) or not 0 <= self.kappa <= 1:
            raise InferenceError(
                f"kappa = {self.kappa!r} is not a tempering factor; it must lie between 0 (the prior) and 1"
            )
        for party, tau in self.tau.items():
            if not is_number(tau) or not 0 <= tau < math.inf:
                raise InferenceError(f"tau = {tau!r} for {party!r} is not an amount of noise; it must be 0 or more")

    def resolved(self, present: Sequence[str]) -> "Scenario":
        """Return the same scenario with its coalition by name, if everybody who submitted was meant."""
        return Scenario(self.coalition or present, self.kappa, self.tau)


def check_method(method: str, model: "Model") -> str:
    """Return the sampler that a method means; refuse an unknown one, and one that cannot sample this model."""
    if method not in get_args(Method):
        raise InferenceError(f"there is no method {method!r}; choose one of {', '.join(get_args(Method))}")
    if method == "auto":
        return model.samplers[0]
    if method not in model.samplers:
        raise InferenceError(model.gibbs_refusal)
    return method


def check_rule(rule: str | None, method: str, scenarios: Sequence[Scenario] = ()) -> Rule:
    """Return the tempering rule, by default that of the method (from `check_method`); refuse an invalid one."""
    usual: Rule = "scaled" if method == "gibbs" else "power"
    if rule is None:
        return usual
    if rule not in get_args(Rule):
        raise InferenceError(f"there is no tempering rule {rule!r}; choose one of {', '.join(get_args(Rule))}")
    if method == "gibbs" and rule != "scaled":
        raise InferenceError('Gibbs sampling tempers by the "scaled" rule; use another method for "power"')
    if method != "gibbs" and rule == "scaled" and any(scenario.kappa == 0 for scenario in scenarios):
        raise InferenceError(
            'kappa = 0 has no meaning under the "scaled" rule where statistics are integrated out, since posteriors do '
            'not tend to the prior; use the "power" rule, or method "gibbs"'
        )
    return "scaled" if rule == "scaled" else "power"


def is_whole(value: Any, least: int) -> bool:
    """Return whether a value is a whole number of at least `least`."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse a value that is no whole number, or too small."""
    if not is_whole(value, least):
        raise InferenceError(f"{name} = {value!r} must be a whole number, {least} or more")


def check_unit_noise(value: Any) -> None:
    """Refuse an invalid noise seed without repeating it: it may be a secret with a typing error."""
    if not (re.fullmatch("[0-9a-f]{32}|[0-9a-f]{64}", value) if isinstance(value, str) else is_whole(value, 0)):
        raise InferenceError("noise_seed must be a whole number, 0 or more, or a secret of 32 or 64 hexadecimal digits")


def is_number(value: Any) -> bool:
    """Return whether a value is a number, and not a truth value."""
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
