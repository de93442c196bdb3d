"""The mediator's choices for a round, checked before anything is sampled."""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from equipoise.durable import write_new_file
from equipoise.errors import MediationError
from equipoise.inference.infer import Method
from equipoise.inference.question import is_whole
from equipoise.inference.scenario import Rule
from equipoise.reward.making import Mechanism
from equipoise.settlement import ordered
from equipoise.valuation.sampling import smallest_budget
from equipoise.valuation.surprise import Estimator

EXACT_UP_TO = 12  # parties
SECRET = "noise.secret"  # noqa: S105  (a name of a file)


@dataclass(frozen=True)
class Choices:
    """Everything a settlement depends on besides agreement and submissions."""

    seed: int
    rho: float | Literal["max"]
    mechanism: Mechanism
    teams: tuple[tuple[str, ...], ...]
    estimator: Estimator
    method: Method
    rule: Rule | None
    draws: int
    chains: int | None
    precision: float
    tolerance: float
    budget: int | None
    noise_secret: str | None

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**self.__dict__, "teams": [list(team) for team in self.teams]}


def all_are_valued(parties: int) -> bool:
    """Whether every coalition of so many parties is valued, not a sample of them."""
    return parties <= EXACT_UP_TO


def default_budget(parties: int) -> int:
    """Coalitions to value when nobody says: enough for an error of a few per cent, in our experience."""
    return smallest_budget(parties) + 12 * parties


def check_rho(rho: object) -> float | Literal["max"]:
    """A fairness exponent."""
    if rho == "max":
        return "max"
    if isinstance(rho, bool) or not isinstance(rho, int | float) or not 0 < rho <= 1:
        raise MediationError(f'rho = {rho!r} is not a fairness exponent; give a number above 0 and up to 1, or "max"')
    return float(rho)


def check_mechanism(mechanism: str) -> Mechanism:
    """A way to make rewards."""
    if mechanism not in get_args(Mechanism):
        raise MediationError(
            f"there is no reward mechanism {mechanism!r}; choose one of {', '.join(get_args(Mechanism))}"
        )
    return "noise" if mechanism == "noise" else "tempering"


def check_positive(name: str, value: Any) -> float:
    """A number of nats."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < np.inf:
        raise MediationError(f"{name} = {value!r} is not a number of nats above 0")
    return float(value)


def check_budget(parties: int, budget: Any) -> int | None:
    """A number of coalitions to value."""
    if budget is None:
        return None
    if all_are_valued(parties):
        raise MediationError(
            f"a budget is for more than {EXACT_UP_TO} parties; of {parties} all coalitions are valued, so leave it out"
        )
    least = smallest_budget(parties)
    if not is_whole(budget, least):
        raise MediationError(f"budget = {budget!r} coalitions is too small for {parties} parties; give {least} or more")
    return int(budget)


def check_teams(parties: tuple[str, ...], teams: Sequence[Sequence[str]] | None) -> tuple[tuple[str, ...], ...]:
    """A partition of the parties."""
    if teams is None:
        return (parties,)
    named = [name for team in teams for name in team]
    if any(isinstance(team, str) for team in teams):
        raise MediationError(f"teams are lists of party names, not {list(teams)!r}")
    if strangers := [name for name in named if name not in parties]:
        raise MediationError(f"{strangers[0]!r} is in a team but has not submitted; parties are {', '.join(parties)}")
    if len(named) != len(set(named)) or set(named) != set(parties) or not all(teams):
        raise MediationError(
            f"teams {[list(team) for team in teams]} must name each of {', '.join(parties)} exactly once"
        )
    return tuple(ordered(team, parties) for team in teams)


def noise_secret_of(mechanism: Mechanism, given: str | None, folder: Path | None) -> str | None:
    """What the noise of rewards is drawn from: as given, as an earlier run in the folder left it, or new.

    Whoever knows the noise that was added to a reward can take it away again. So it comes from the operating system,
    not from the seed, and neither rewards nor the settlement say which it is. The folder keeps it for a run that is
    killed, and for whoever repeats one, readable by its owner alone.
    """
    if mechanism != "noise":
        if given is not None:
            raise MediationError("a noise secret is for rewards made by noise; leave it out")
        return None
    if given is not None:
        if not re.fullmatch("[0-9a-f]{32}", given):
            raise MediationError(
                "the noise secret must be 32 hexadecimal digits, 0 to 9 and a to f; leave it out for a new one"
            )
        return given
    if folder is None:
        return secrets.token_hex(16)
    path = folder / SECRET
    try:
        if not path.exists():
            write_new_file(path, secrets.token_hex(16).encode(), mode=0o600)
        return noise_secret_of(mechanism, path.read_text(encoding="ascii").strip(), None)
    except (OSError, ValueError) as error:
        raise MediationError(
            f"cannot use {str(path)!r} ({error}); choose another folder, or delete the file"
        ) from error
