"""Requests to value a coalition and their answers: keys and results of a journal.

A request holds everything that its answer depends on besides the inputs of the run, including its seed. Nothing here
samples, so programs that read or check a settlement do not need a sampler.
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

    `recipient` names a member whose own statistic gets no noise; `extra` names members whose statistics get more of it.
    Requests are stored where others may read them. If noise comes from the round's path, they say `PATH` instead of its
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
        """Return the request as plain values: the key of its answer in a journal."""
        document = asdict(self) | {"coalition": list(self.coalition), "extra": [list(pair) for pair in self.extra]}
        # Versions up to 0.11 did not write a recipient; without one, keys stay the same.
        if self.recipient is None:
            del document["recipient"]
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        if unknown := sorted(set(document) - {field.name for field in fields(cls)}):
            raise ValueError(f"the request has {unknown[0]!r}, as later versions may; use a newer one")
        # As JSON, 1 and 1.0 would be two keys.
        numbers = {name: float(document[name]) for name in ("kappa", "tau")}
        extra = tuple((party, float(tau)) for party, tau in document["extra"])
        return cls(**document | numbers | {"coalition": tuple(document["coalition"]), "extra": extra})

    @property
    def scenario(self) -> Scenario:
        """The scenario that the engine is asked to sample."""
        tau = {party: self.tau for party in self.coalition if party != self.recipient} if self.tau else {}
        return Scenario(self.coalition, self.kappa, tau | {party: self.tau + more for party, more in self.extra})


@dataclass(frozen=True)
class Evaluation:
    """A scenario's value, with its number of draws; `problems` say why these should not be relied on."""

    value: Estimate
    draws: int
    rhat: float
    ess: float
    problems: tuple[str, ...] = ()

    @property
    def hopeless(self) -> bool:
        """True if the sampler gave up, so that more draws would not help."""
        return any(problem.startswith(GAVE_UP) for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain numbers and strings."""
        return asdict(self) | {"problems": list(self.problems)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        value, error = (float(document["value"][name]) for name in ("value", "error"))
        draws, rhat, ess = int(document["draws"]), float(document["rhat"]), float(document["ess"])
        return cls(Estimate(value, error), draws, rhat, ess, tuple(map(str, document["problems"])))


@dataclass(frozen=True)
class Pooled:
    """A value from several sets of independent draws, weighted by their sizes."""

    parts: tuple[Evaluation, ...]

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

    def __add__(self, part: Evaluation) -> "Pooled":
        return Pooled((*self.parts, part))
