"""What is asked to value a coalition, and what is answered: keys and results of a journal.

A request says everything its answer depends on besides the inputs of the run, its seed included. Nothing here samples,
so that whoever reads or checks a settlement needs no sampler.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np

from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import GAVE_UP
from equipoise.inference.scenario import Scenario, UnitNoise

PATH = "path"


@dataclass(frozen=True)
class Request:
    """A scenario to be valued; `tau` is added to every member's statistic, as noise `noise_seed` (`UnitNoise`).

    `recipient` names a member whose own statistic stays as it is; `extra` members to whose statistics more is added.
    Requests are written down, and may be read: where noise comes from the round's path, they say `PATH`, not its
    secret.
    """

    coalition: tuple[str, ...]
    draws: int
    seed: int
    kappa: float = 1.0
    tau: float = 0.0
    noise_seed: UnitNoise = 0
    extra: tuple[tuple[str, float], ...] = ()
    recipient: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The request as plain values: the key of its answer in a journal."""
        found = asdict(self) | {"coalition": list(self.coalition), "extra": [list(one) for one in self.extra]}
        if self.recipient is None:
            del found["recipient"]  # as versions up to 0.11 wrote, and read
        return found

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        if unknown := sorted(set(document) - {one.name for one in fields(cls)}):
            raise ValueError(f"the request has {unknown[0]!r}, as later versions may; use a newer one")
        numbers = {name: float(document[name]) for name in ("kappa", "tau")}  # 1 and 1.0 would be two keys
        extra = tuple((party, float(tau)) for party, tau in document["extra"])
        return cls(**document | numbers | {"coalition": tuple(document["coalition"]), "extra": extra})

    @property
    def scenario(self) -> Scenario:
        """The scenario that the engine is asked to sample."""
        tau = {party: self.tau for party in self.coalition if party != self.recipient} if self.tau else {}
        return Scenario(self.coalition, self.kappa, tau | {party: self.tau + more for party, more in self.extra})


@dataclass(frozen=True)
class Appraisal:
    """A scenario's value, from so many draws; `problems` say why they should not be relied on."""

    value: Estimate
    draws: int
    rhat: float
    ess: float
    problems: tuple[str, ...] = ()

    @property
    def hopeless(self) -> bool:
        """Whether the sampler gave up, so that more draws would not help."""
        return any(problem.startswith(GAVE_UP) for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """The answer as plain numbers and strings."""
        return asdict(self) | {"problems": list(self.problems)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        value, error = (float(document["value"][name]) for name in ("value", "error"))
        draws, rhat, ess = int(document["draws"]), float(document["rhat"]), float(document["ess"])
        return cls(Estimate(value, error), draws, rhat, ess, tuple(map(str, document["problems"])))


@dataclass(frozen=True)
class Pooled:
    """A value from several sets of independent draws, each counted by its size."""

    parts: tuple[Appraisal, ...]

    @property
    def draws(self) -> int:
        """The number of draws of all parts."""
        return sum(part.draws for part in self.parts)

    @property
    def value(self) -> Estimate:
        """The mean of the parts' values, weighted by their draws."""
        shares = np.array([part.draws for part in self.parts]) / self.draws
        values = np.array([part.value.value for part in self.parts])
        errors = np.array([part.value.error for part in self.parts])
        return Estimate(float(shares @ values), float(np.sqrt(np.sum((shares * errors) ** 2))))

    def __add__(self, part: Appraisal) -> "Pooled":
        return Pooled((*self.parts, part))
